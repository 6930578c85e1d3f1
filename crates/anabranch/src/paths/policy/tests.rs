use super::*;

fn used(policy: &PathPolicy, interface: &str, address: &str) -> bool {
    policy.usage(interface, address.parse().unwrap()).is_ok()
}

#[derive(Debug)]
struct MobileLast;

impl PathChooser for MobileLast {
    fn choose(&self, interface: &str, address: IpAddr) -> Option<PathUse> {
        let mobile = interface.starts_with("wwan");
        let status = if mobile { PathStatus::Backup } else { PathStatus::Available };
        address.is_ipv4().then(|| PathUse { count: 99, ..PathUse::new(mobile.into(), status) })
    }
}

#[test]
fn a_program_chooses_by_itself() {
    let policy = PathPolicy::default().denying(["eth*".parse().unwrap()]).choosing(Arc::new(MobileLast));
    let usage = |interface: &str, address: &str| policy.usage(interface, address.parse().unwrap());
    let mobile = usage("wwan0", "192.0.2.1").unwrap();
    assert_eq!((mobile.rank, mobile.status, mobile.count), (1, PathStatus::Backup, MAX_PATHS_PER_INTERFACE));
    assert_eq!(usage("docker0", "192.0.2.1").unwrap().rank, 0, "whatever the rules would say");
    assert_eq!(usage("wlan0", "2001:db8::1"), Err(Unused::NotNamed));
    assert_eq!(usage("eth0", "192.0.2.1"), Err(Unused::Denied));
    assert_eq!(policy, policy.clone());
    assert_ne!(policy, policy.clone().choosing(Arc::new(MobileLast)));
}

#[test]
fn by_default_only_real_networks_are_used() {
    let policy = PathPolicy::default();
    for (interface, address) in
        [("eth0", "192.0.2.1"), ("wlan0", "10.1.2.3"), ("enp3s0", "2001:db8::1"), ("wwan0", "100.64.1.1")]
            .into_iter()
            .chain([("ppp0", "10.64.64.1"), ("wg1", "10.9.0.2"), ("tun0", "10.8.0.2"), ("usb0", "10.1.1.2")])
    {
        assert!(used(&policy, interface, address), "{interface} {address}");
    }
    for interface in ["docker0", "br-1a2b", "veth12", "virbr0", "tap1", "vmnet8", "zt3", "tailscale0"] {
        assert!(!used(&policy, interface, "10.0.0.1"), "{interface}");
    }
    for address in ["127.0.0.1", "::1", "169.254.3.4", "fe80::1", "0.0.0.0", "224.0.0.1"] {
        assert!(!used(&policy, "eth0", address), "{address}");
    }
}

#[test]
fn rules_allow_prefer_and_deny() {
    let policy = PathPolicy {
        allow: vec!["wg0,backup,weight=3".parse().unwrap(), "10.0.0.0/8,count=2".parse().unwrap()],
        deny: vec!["10.9.0.0/16".parse().unwrap(), "eth1".parse().unwrap()],
        ..PathPolicy::default()
    };
    let usage = |interface: &str, address: &str| policy.usage(interface, address.parse().unwrap()).ok();
    let backup = Usage { status: PathStatus::Backup, weight: 3, ..Usage::default() };
    assert_eq!(usage("wg0", "192.0.2.1"), Some(backup), "allowed although it is a tunnel");
    assert_eq!(usage("wg0", "fe80::1"), None);
    assert_eq!(usage("eth0", "10.1.0.1").map(|usage| (usage.rank, usage.count)), Some((1, 2)));
    assert_eq!(usage("eth0", "10.1.0.1").map(|usage| usage.named), Some(false));
    assert_eq!(
        (usage("eth0", "192.0.2.1"), usage("eth0", "10.9.0.1"), usage("eth1", "10.1.0.1")),
        (None, None, None)
    );
}

#[test]
fn texts_that_are_no_rules() {
    for text in
        ["", ",backup", "eth0,spare", "eth0,weight=x", "eth0,count=0", "eth0,count=9", "a b", "10.0.0.0/33"]
    {
        let error = text.parse::<PathRule>().unwrap_err();
        assert!(error.to_string().contains("INTERFACE|ADDRESS"), "{text}");
    }
    for text in ["eth0", "en?", "wlan*,backup", "::1", "192.0.2.1,weight=0,count=8"] {
        assert!(text.parse::<PathRule>().is_ok(), "{text}");
    }
}
