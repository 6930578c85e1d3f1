use super::*;

fn address(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn rules(texts: &[&str]) -> Vec<Rule> {
    texts.iter().map(|text| text.parse().unwrap()).collect()
}

fn target(text: &str) -> Target {
    text.parse().unwrap()
}

/// First and last address of IPv4 networks that are not public, and the addresses just outside.
const EDGES: [(&str, &str, &str, &str); 12] = [
    ("0.0.0.0", "0.255.255.255", "", "1.0.0.0"),
    ("10.0.0.0", "10.255.255.255", "9.255.255.255", "11.0.0.0"),
    ("100.64.0.0", "100.127.255.255", "100.63.255.255", "100.128.0.0"),
    ("127.0.0.0", "127.255.255.255", "126.255.255.255", "128.0.0.0"),
    ("169.254.0.0", "169.254.255.255", "169.253.255.255", "169.255.0.0"),
    ("172.16.0.0", "172.31.255.255", "172.15.255.255", "172.32.0.0"),
    ("192.0.0.0", "192.0.0.255", "191.255.255.255", "192.0.1.0"),
    ("192.0.2.0", "192.0.2.255", "192.0.1.255", "192.0.3.0"),
    ("192.168.0.0", "192.168.255.255", "192.167.255.255", "192.169.0.0"),
    ("198.18.0.0", "198.19.255.255", "198.17.255.255", "198.20.0.0"),
    ("203.0.113.0", "203.0.113.255", "203.0.112.255", "203.0.114.0"),
    ("224.0.0.0", "255.255.255.255", "223.255.255.255", ""),
];

/// Returns an IPv6 address of each form that embeds this IPv4 address.
fn embedding(address: &str) -> Vec<IpAddr> {
    let v4: std::net::Ipv4Addr = address.parse().unwrap();
    let [a, b, c, d] = v4.octets();
    let hex = format!("{a:02x}{b:02x}:{c:02x}{d:02x}");
    [
        format!("::ffff:{v4}"),
        format!("64:ff9b::{v4}"),
        format!("2002:{hex}::1"),
        format!("2a00:1::200:5efe:{hex}"),
    ]
    .iter()
    .map(|text| text.parse().unwrap())
    .collect()
}

#[test]
fn networks_that_are_not_public_are_forbidden_in_every_form() {
    for (first, last, before, after) in EDGES {
        for inside in [first, last] {
            assert!(is_forbidden(address(inside)), "{inside}");
            for form in embedding(inside) {
                assert!(is_forbidden(form), "{form}");
            }
        }
        for outside in [before, after].into_iter().filter(|text| !text.is_empty()) {
            assert!(!is_forbidden(address(outside)), "{outside}");
            for form in embedding(outside) {
                assert!(!is_forbidden(form), "{form}");
            }
        }
    }
    for inside in [
        "::",
        "::1",
        "::127.0.0.1",
        "::8.8.8.8",
        "::ffff:0:8.8.8.8",
        "64:ff9b:1::1",
        "100::1",
        "2001::1",
        "2001:1ff::1",
        "2001:db8::1",
        "3fff::1",
        "5f00::1",
        "fc00::1",
        "fd00:ec2::254",
        "fe80::1",
        "fec0::1",
        "ff02::1",
        "4000::1",
    ] {
        assert!(is_forbidden(address(inside)), "{inside}");
    }
    for outside in ["2001:200::1", "2001:4860:4860::8888", "2606:4700::1111", "2a00::1", "2620:fe::fe"] {
        assert!(!is_forbidden(address(outside)), "{outside}");
    }
}

#[test]
fn networks_can_be_opened_but_not_by_name() {
    let access = Access::default().with_allow(rules(&["10.1.0.0/16:5432", ".internal"]));
    let allowed = |host: &str, ip: &str| access.allows(&target(host), address(ip));
    assert!(allowed("db.internal:5432", "10.1.2.3"));
    assert!(!allowed("db.internal:5433", "10.1.2.3"), "another port");
    assert!(!allowed("db.internal:5432", "10.2.2.3"), "another network");
    assert!(!allowed("db.internal:5432", "::ffff:10.1.2.3"), "another form");
    assert!(!allowed("db.internal:5432", "127.0.0.1"));
    assert!(allowed("example.org:1", "9.9.9.9"));
}

#[test]
fn denials_win() {
    let access = Access::default().with_deny(rules(&["9.9.9.0/24", "*:25", ".bad.example"]));
    let access = access.with_allow(rules(&["0.0.0.0/0", "::/0"]));
    for (host, ip) in
        [("a:80", "9.9.9.9"), ("a:25", "1.1.1.1"), ("a:80", "::ffff:9.9.9.9"), ("a:80", "2002:909:909::1")]
    {
        assert!(!access.allows(&target(host), address(ip)), "{host} {ip}");
    }
    assert!(access.allows(&target("a:80"), address("127.0.0.1")));
    for denied in ["a:25", "bad.example:80", "x.Bad.Example:80", "bad.example.:80"] {
        assert_eq!(access.check_target(&target(denied)).unwrap_err().cause(), Cause::Denied, "{denied}");
    }
    // A final dot in a rule has no meaning either.
    for (rule, denied) in [
        ("bad.example.", "bad.example:80"),
        (".bad.example.", "x.bad.example.:80"),
        ("1a.3com.", "1A.3Com:80"),
    ] {
        let access = Access::default().with_deny(rules(&[rule]));
        assert_eq!(access.check_target(&target(denied)).unwrap_err().cause(), Cause::Denied, "{denied}");
    }
    for fine in ["notbad.example:80", "example:80", "bad.example.org:80"] {
        assert!(access.check_target(&target(fine)).is_ok(), "{fine}");
    }
}

#[test]
fn a_list_of_what_is_allowed_excludes_the_rest() {
    let access = Access::default().with_only(rules(&["9.9.9.9:53", "[2a00::/16]", ".example:443"]));
    assert!(access.check_target(&target("a.example:443")).is_ok());
    assert!(access.allows(&target("a.example:443"), address("1.1.1.1")));
    assert!(!access.allows(&target("a.example:443"), address("10.0.0.1")), "private");
    assert!(access.check_target(&target("any:53")).is_ok(), "it may be 9.9.9.9");
    assert!(access.allows(&target("any:53"), address("9.9.9.9")));
    assert!(!access.allows(&target("any:53"), address("1.1.1.1")));
    let nowhere = Access::default().with_only(rules(&["9.9.9.9:53"]));
    assert!(nowhere.check_target(&target("any:80")).is_err());
}

#[test]
fn rules_are_written_as_they_are_read() {
    for text in ["10.0.0.0/8:5432", "[fd00::/8]:8000-8999", "db.example:443", ".example", "*:25", "*"] {
        assert_eq!(text.parse::<Rule>().unwrap().to_string(), text);
    }
    assert_eq!("fd00::/8".parse::<Rule>().unwrap().to_string(), "[fd00::/8]");
    assert_eq!("[::1]:5".parse::<Rule>().unwrap().to_string(), "[::1/128]:5");
    assert_eq!("192.0.2.1".parse::<Rule>().unwrap().to_string(), "192.0.2.1/32");
    for bad in [
        "",
        ":80",
        "a:0",
        "a:x",
        "a:9-8",
        "a:65536",
        "10.0.0.1/8",
        "10.0.0.0/33",
        "[::1",
        "[::1]80",
        "a b",
        ".",
        "..",
        "a..b",
        "a.example..",
        "..example",
        "10.0.0.300",
        "10.0.0",
        ".0.300.",
    ] {
        assert!(bad.parse::<Rule>().is_err(), "{bad}");
    }
}

#[test]
fn packets_are_covered_by_address_and_port() {
    let access = Access::default()
        .with_allow(rules(&["10.1.0.0/16", "10.2.0.0/16:53", ".internal"]))
        .with_deny(rules(&["*:25", "198.41.0.4"]));
    for (to, port, allowed) in [
        ("1.1.1.1", Some(53), true),
        ("1.1.1.1", None, true),
        ("1.1.1.1", Some(25), false),
        ("198.41.0.4", None, false),
        ("64:ff9b::c629:4", None, false),
        ("10.1.2.3", None, true),
        ("10.1.2.3", Some(0), true),
        ("10.2.0.1", Some(53), true),
        ("10.2.0.1", Some(54), false),
        ("10.2.0.1", None, false),
        ("10.3.0.1", Some(53), false),
        ("224.0.0.1", None, false),
        ("ff02::1", None, false),
    ] {
        assert_eq!(access.allows_packet(address(to), port), allowed, "{to} {port:?}");
    }
    let only = Access::default().with_only(rules(&["2.0.0.0/8", "a.example"]));
    assert!(only.allows_packet(address("2.2.2.2"), None));
    assert!(!only.allows_packet(address("3.3.3.3"), Some(80)));
}
