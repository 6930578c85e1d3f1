use super::*;

/// A valid hash with cheap parameters.
const HASH: &str = "$argon2id$v=19$m=8,t=1,p=1$c2FsdHNhbHRzYWx0$eSdTyYzsBgXpSqGVxl/nnTnqvzqC4kIXtFiOqMpd1rE";

/// Returns the lines of all problems in a file.
fn problems(text: &str, users: bool) -> Vec<String> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("f.toml");
    std::fs::write(&path, text).unwrap();
    let document = Document::read(&path).unwrap();
    let problems = if users { users::parse(&document).err() } else { Config::of(&document).err() };
    let line = |problem: &Problem| document.line(problem).split_once("f.toml:").unwrap().1.to_owned();
    problems.unwrap_or_default().iter().map(line).collect()
}

#[test]
fn whole_files_are_read() {
    let text = r#"
        listen = ["[::]:443", ":8443"]
        cert = "c.pem"
        key = "/k.pem"
        users = "users.toml"
        metrics = "127.0.0.1:9100"
        announce = ["192.0.2.1", "[2001:db8::1]:8443"]
        log = "json"
        drain = 30
        workers = 2
        tcp = false
        vpn_pool = ["10.9.0.0/16", "fd09::/64"]
        vpn_route = ["10.0.0.0/8", "2001:db8::1"]
        [access]
        allow = ["10.0.0.0/8:5432"]
        deny = ["*:25"]
        [limits]
        flows = 10
        connect_timeout = 2.5
        udp_idle = 300
    "#;
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("proxy.toml");
    std::fs::write(&path, text).unwrap();
    let config = Config::read(&path).unwrap();
    assert_eq!(config.listen, ["[::]:443", ":8443"]);
    assert_eq!(config.cert, Some(dir.path().join("c.pem")));
    assert_eq!(config.key, Some("/k.pem".into()));
    assert_eq!((config.drain, config.workers, config.tcp), (Some(30), Some(2), Some(false)));
    assert_eq!(
        config.announce.iter().map(ToString::to_string).collect::<Vec<_>>(),
        ["192.0.2.1:4433", "[2001:db8::1]:8443"]
    );
    assert_eq!(config.log, Some(LogFormat::Json));
    assert_eq!(
        config.vpn.pools.iter().map(ToString::to_string).collect::<Vec<_>>(),
        ["10.9.0.0/16", "fd09::/64"]
    );
    assert_eq!(
        config.vpn.routes.iter().map(ToString::to_string).collect::<Vec<_>>(),
        ["10.0.0.0/8", "2001:db8::1/128"]
    );
    assert_eq!(
        config.fixed_differences(&Config { options: config.options.clone(), ..Config::default() }),
        [
            "listen",
            "announce",
            "cert",
            "key",
            "metrics",
            "log",
            "drain",
            "workers",
            "tcp",
            "vpn_pool",
            "vpn_route"
        ]
    );
    assert_eq!(config.access.deny()[0].to_string(), "*:25");
    assert_eq!(config.options.max_flows(), 10);
    assert_eq!(config.options.connect_timeout(), Duration::from_millis(2_500));
    assert_eq!(config.options.udp_idle(), Duration::from_secs(300));
}

#[test]
fn problems_have_lines() {
    assert_eq!(problems("", false), Vec::<String>::new());
    let typo = problems("listen = []\nlisten_on = 1\n", false);
    assert!(typo[0].starts_with("2: unknown field `listen_on`"), "{typo:?}");
    let syntax = problems("\n\nlisten = [\n", false);
    assert_eq!(syntax.len(), 1);
    let two =
        problems("listen = [\":x\"]\n[access]\nallow = [\n  \"10.0.0.0/8\",\n  \"10.0.0.1/8\",\n]\n", false);
    assert!(
        two[0].starts_with("1: `:x` is not HOST:PORT") && two[1].starts_with("5: '10.0.0.1/8' is no rule"),
        "{two:?}"
    );
    let time = problems("[limits]\nudp_idle = -1.0\n", false);
    assert_eq!(time, ["2: a time is a number of seconds above 0"]);
    assert_eq!(problems("workers = 33\n", false), ["1: workers must be 1 to 32"]);
    assert_eq!(problems("cert = \"c\"\n", false).len(), 1);
    let network = problems(
        "announce = [\"proxy.example\"]\nlog = \"xml\"\nvpn_pool = [\"10.9.0.0/31\",\n\"10.9.0.1/16\", \"x\"]\n",
        false,
    );
    assert_eq!(
        network,
        [
            "1: `proxy.example` is no IP address with or without a port",
            "2: `xml` is not text, json or none",
            "3: 10.9.0.0/31 cannot be a pool of addresses: it has no addresses for clients",
            "4: 10.9.0.1/16 cannot be a pool of addresses: it has bits beyond its prefix",
            "4: `x` is no network",
        ]
    );
}

#[test]
fn problems_of_users_have_lines() {
    let user = |name: &str, secret: &str| format!("[[user]]\nname = \"{name}\"\nsecret = \"{secret}\"\n");
    assert_eq!(problems(&user("alice", HASH), true), Vec::<String>::new());
    let bad = problems(
        &[user("a.b", HASH), user("alice", HASH), user("bob", "tea"), user("alice", HASH)].concat(),
        true,
    );
    assert_eq!(bad.len(), 3, "{bad:?}");
    assert!(bad[0].starts_with("2: a user's name has"), "{bad:?}");
    assert!(bad[1].starts_with("9: the secret of 'bob' is not an argon2 hash"), "{bad:?}");
    assert!(bad[2].contains("two users 'alice'"), "{bad:?}");
    let rate = problems(&format!("{}rate = \"fast\"\nflows = 3\n", user("alice", HASH)), true);
    assert!(rate[0].starts_with("4: a rate is"), "{rate:?}");
    let missing = problems("[[user]]\nname = \"alice\"\n", true);
    assert_eq!(missing, ["1: 'alice' has neither a secret nor a certificate"]);
    let known = |certificate: &str| format!("[[user]]\nname = \"bob\"\ncertificate = \"{certificate}\"\n");
    assert_eq!(problems(&known("CN=laptop"), true), Vec::<String>::new());
    let wrong = problems(&known("laptop"), true);
    assert!(wrong[0].starts_with("3: 'laptop' is no certificate"), "{wrong:?}");
    assert_eq!(problems("", true).len(), 1);
}
