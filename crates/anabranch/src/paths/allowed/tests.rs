use super::*;

const V4: &str = "203.0.113.1:443";
const OTHER_V4: &str = "203.0.113.2:443";
const V6: &str = "[2001:db8::1]:443";

fn interface(name: &str, addresses: &[&str]) -> Interface {
    let addresses = addresses.iter().map(|address| address.parse().unwrap()).collect();
    Interface { name: name.into(), addresses, idle_addresses: Vec::new(), is_up: true }
}

fn host() -> Vec<Interface> {
    vec![
        interface("lo", &["127.0.0.1"]),
        interface("eth0", &["192.0.2.1", "2001:db8:1::1"]),
        interface("wlan0", &["198.51.100.1"]),
        interface("docker0", &["10.99.0.2"]),
    ]
}

/// Returns the interface and the remote address of each candidate. The system would choose `source`.
fn candidates(policy: &PathPolicy, source: &str, remotes: &[&str]) -> Vec<(String, String)> {
    let source = source.parse().ok();
    let remotes: Vec<_> = remotes.iter().map(|remote| (remote.parse().unwrap(), source)).collect();
    let candidates = policy.candidates_from(&host(), &remotes).into_iter().map(|candidate| {
        let interface = candidate.local.and_then(|local| local.interface);
        (interface.unwrap_or("-".into()), candidate.remote.to_string())
    });
    candidates.collect()
}

fn allowing(rules: &[&str]) -> PathPolicy {
    PathPolicy { allow: rules.iter().map(|rule| rule.parse().unwrap()).collect(), ..Default::default() }
}

fn are(candidates: &[(String, String)], expected: &[(&str, &str)]) {
    let candidates: Vec<_> = candidates.iter().map(|(from, to)| (from.as_str(), to.as_str())).collect();
    assert_eq!(candidates, expected);
}

#[test]
fn named_interfaces_are_tried_in_their_order_and_backups_last() {
    are(&candidates(&allowing(&["wlan0", "eth0"]), "192.0.2.1", &[V4]), &[("wlan0", V4), ("eth0", V4)]);
    are(&candidates(&allowing(&["wlan0,backup", "eth0"]), "", &[V4]), &[("eth0", V4), ("wlan0", V4)]);
}

#[test]
fn the_second_way_shares_nothing_with_the_first_one() {
    let both = allowing(&["eth0", "wlan0"]);
    are(
        &candidates(&both, "", &[V4, OTHER_V4]),
        &[("eth0", V4), ("wlan0", OTHER_V4), ("eth0", OTHER_V4), ("wlan0", V4)],
    );
    are(&candidates(&both, "", &[V6, V4]), &[("eth0", V6), ("wlan0", V4), ("eth0", V4)]);
}

#[test]
fn without_names_the_system_comes_first_and_then_what_it_would_not_take() {
    let any = PathPolicy::default();
    are(&candidates(&any, "192.0.2.1", &[V4]), &[("-", V4), ("wlan0", V4)]);
    are(&candidates(&any, "198.51.100.1", &[V4]), &[("-", V4), ("eth0", V4)]);
    // The system would choose a tunnel, which the policy excludes, or it has no route.
    for elsewhere in ["10.99.0.2", ""] {
        are(&candidates(&any, elsewhere, &[V4]), &[("-", V4), ("eth0", V4), ("wlan0", V4)]);
    }
}

#[test]
fn nothing_but_what_is_named_is_used() {
    are(&candidates(&allowing(&["usb0"]), "192.0.2.1", &[V4]), &[]);
    are(&candidates(&allowing(&["wlan0"]), "192.0.2.1", &[V6]), &[]);
    let loopback = "127.0.0.1:4433";
    are(&candidates(&allowing(&["eth0"]), "127.0.0.1", &[loopback]), &[]);
    are(&candidates(&allowing(&["lo"]), "127.0.0.1", &[loopback]), &[("lo", loopback)]);
    are(&candidates(&allowing(&["lo", "eth0"]), "", &[V4]), &[("eth0", V4)]);
}

#[tokio::test]
async fn this_host_has_a_way_to_itself() {
    let remote = "127.0.0.1:443".parse().unwrap();
    assert_eq!(source_for(remote), Some([127, 0, 0, 1].into()));
    assert_eq!(PathPolicy::default().candidates(&[remote]).await[0], Candidate::from(remote));
    let named = allowing(&["127.0.0.2", "127.0.0.0/8"]).candidates(&[remote]).await;
    let locals: Vec<_> =
        named.into_iter().filter_map(|candidate| candidate.local).map(|local| local.ip).collect();
    assert_eq!(locals, [IpAddr::from([127, 0, 0, 2]), [127, 0, 0, 1].into()]);
}
