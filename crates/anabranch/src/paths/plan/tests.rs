use super::*;
use anabranch_wire::VarInt;

const SECOND: Duration = Duration::from_secs(1);

fn at(seconds: u64) -> Time {
    Time::ZERO + SECOND * seconds as u32
}

fn interface(name: &str, addresses: &[&str]) -> Interface {
    let addresses = addresses.iter().map(|address| address.parse().unwrap()).collect();
    Interface { name: name.into(), addresses, idle_addresses: Vec::new(), is_up: true }
}

fn server() -> SocketAddr {
    "203.0.113.1:443".parse().unwrap()
}

fn eth() -> Interface {
    interface("eth0", &["192.0.2.1", "2001:db8:1::1", "2001:db8:1::2"])
}

fn wlan() -> Interface {
    interface("wlan0", &["198.51.100.1", "fe80::1"])
}

/// Creates the plan of a connection that began on eth0.
fn plan(policy: PathPolicy, interfaces: Vec<Interface>) -> Plan {
    let mut plan = Plan::new(policy);
    plan.adopt(at(0), PathId(0), "192.0.2.1".parse().unwrap(), server());
    assert_eq!(plan.on_interfaces(at(0), interfaces), []);
    plan
}

/// Returns the slot, the interface, and the local and remote address of each path that is opened.
fn opened(plan: &mut Plan, now: Time) -> Vec<(u64, String, String, String)> {
    let due = plan.due(now).into_iter().map(|command| match command {
        Command::Open { slot, local, remote, .. } => {
            (slot, local.interface.unwrap(), local.ip.to_string(), remote.to_string())
        }
        Command::Abandon(id) => panic!("{id:?} is not to be abandoned"),
    });
    due.collect()
}

fn only(plan: &mut Plan, now: Time) -> u64 {
    let mut opened = opened(plan, now);
    assert_eq!(opened.len(), 1, "{opened:?}");
    opened.remove(0).0
}

#[test]
fn every_interface_but_the_first_one_gets_a_path() {
    let mut plan = plan(PathPolicy::default(), vec![eth(), wlan(), interface("docker0", &["172.17.0.1"])]);
    let opened = opened(&mut plan, at(0));
    assert_eq!(opened.len(), 1, "{opened:?}");
    assert_eq!((opened[0].1.as_str(), opened[0].2.as_str()), ("wlan0", "198.51.100.1"));
    assert_eq!((plan.due(at(9)), plan.next()), (vec![], None), "once");
}

/// Creates the plan of a connection from a loopback address to a server on this host, which announces a second address before
/// the interfaces are known.
fn plan_on_this_host(policy: PathPolicy) -> Plan {
    let mut plan = Plan::new(policy);
    plan.adopt(at(0), PathId(0), "127.0.0.1".parse().unwrap(), "127.0.0.1:25001".parse().unwrap());
    plan.set_alternatives(at(0), &["127.0.0.1:25002".parse().unwrap()]);
    assert_eq!(plan.next(), None, "the interfaces are not known");
    plan.on_interfaces(at(0), vec![interface("lo", &["127.0.0.1"]), eth(), wlan()]);
    plan
}

#[test]
fn announced_addresses_wait_for_the_interfaces() {
    let mut plan = Plan::new(PathPolicy::default());
    plan.adopt(at(0), PathId(0), "192.0.2.1".parse().unwrap(), server());
    plan.set_alternatives(at(0), &["203.0.113.2:443".parse().unwrap()]);
    assert_eq!(plan.next(), None, "the interfaces are not known");
    plan.on_interfaces(at(0), vec![eth(), wlan()]);
    let opened: Vec<_> =
        opened(&mut plan, at(0)).into_iter().map(|(_, name, _, remote)| (name, remote)).collect();
    assert_eq!(opened, [("wlan0".to_owned(), "203.0.113.2:443".to_owned())]);
}

#[test]
fn a_server_on_this_host_is_reached_from_the_loopback_interface_alone() {
    let mut plan = plan_on_this_host(PathPolicy::default());
    let only = [("lo".to_owned(), "127.0.0.1".to_owned(), "127.0.0.1:25002".to_owned())];
    let opened: Vec<_> =
        opened(&mut plan, at(0)).into_iter().map(|(_, name, local, remote)| (name, local, remote)).collect();
    assert_eq!(opened, only);
    assert_eq!((plan.due(at(9)), plan.next()), (vec![], None), "no other interface reaches it");
}

#[test]
fn a_policy_with_rules_for_interfaces_opens_no_path_on_the_first_one() {
    for policy in [
        PathPolicy::default().allowing(["wlan0".parse().unwrap()]),
        PathPolicy::default().denying(["lo".parse().unwrap()]),
    ] {
        let mut plan = plan_on_this_host(policy);
        assert_eq!((opened(&mut plan, at(0)), plan.next()), (vec![], None));
    }
}

#[test]
fn attempts_that_fail_are_repeated_ever_more_rarely() {
    let mut plan = plan(PathPolicy::default(), vec![eth(), wlan()]);
    let mut now = at(0);
    let mut waits = Vec::new();
    for round in 0..9 {
        let slot = only(&mut plan, now);
        // Even rounds fail before the path is begun; in odd rounds the server does not respond.
        if round % 2 == 0 {
            plan.on_failed(now, slot, String::new());
        } else {
            plan.on_begun(slot, PathId(round));
            plan.on_abandoned(now, PathId(round), VarInt::from_u32(0x3e76));
        }
        let next = plan.next().unwrap();
        waits.push((next - now).as_secs());
        assert_eq!(opened(&mut plan, next - Duration::from_millis(1)), []);
        now = next;
    }
    assert_eq!(waits, [1, 2, 4, 8, 16, 32, 64, 64, 64]);
    // A path that has been open for `STABLE` resets the backoff.
    let slot = only(&mut plan, now);
    plan.on_begun(slot, PathId(20));
    plan.on_opened(now, PathId(20));
    let died = now + STABLE;
    plan.on_abandoned(died, PathId(20), VarInt::from_u32(0x3e76));
    assert_eq!(plan.next(), Some(died + FIRST_BACKOFF));
}

#[test]
fn what_an_application_abandons_stays_away() {
    let mut plan = plan(PathPolicy::default(), vec![eth(), wlan()]);
    let slot = only(&mut plan, at(0));
    plan.on_begun(slot, PathId(1));
    plan.on_abandoned(at(1), PathId(1), VarInt::from_u32(0x3e));
    assert_eq!(plan.next(), None);
    plan.on_interfaces(at(2), vec![eth(), wlan()]);
    assert_eq!(plan.due(at(1000)), []);
    // The path is opened again once the interface has disappeared and returned.
    plan.on_interfaces(at(3), vec![eth()]);
    plan.on_interfaces(at(4), vec![eth(), wlan()]);
    only(&mut plan, at(4));
}

#[test]
fn a_server_that_has_no_resources_is_left_alone_for_long() {
    let mut plan = plan(PathPolicy::default(), vec![eth(), wlan()]);
    let slot = only(&mut plan, at(0));
    plan.on_begun(slot, PathId(1));
    plan.on_abandoned(at(0), PathId(1), VarInt::from_u32(0x3e75));
    assert_eq!(plan.next(), Some(at(0) + MAX_BACKOFF));
}

#[test]
fn paths_follow_their_interfaces() {
    let mut plan = plan(PathPolicy::default(), vec![eth(), wlan()]);
    let slot = only(&mut plan, at(0));
    plan.on_begun(slot, PathId(1));
    plan.on_opened(at(0), PathId(1));
    assert_eq!(plan.on_interfaces(at(5), vec![eth()]), [Command::Abandon(PathId(1))]);
    plan.on_abandoned(at(5), PathId(1), VarInt::from_u32(0x3e76));
    assert_eq!((plan.due(at(100)), plan.next()), (vec![], None), "nothing is tried while it is gone");
    assert_eq!(plan.on_interfaces(at(101), vec![eth(), wlan()]), []);
    only(&mut plan, at(101));
    // The same holds for the first path: it is abandoned and opened again.
    let commands = plan.on_interfaces(at(102), vec![wlan()]);
    assert_eq!(commands, [Command::Abandon(PathId(0))]);
    plan.on_interfaces(at(103), vec![eth(), wlan()]);
    assert_eq!(opened(&mut plan, at(103))[0].1, "eth0");
}

#[test]
fn an_address_that_no_interface_shows_is_left_alone() {
    let mut plan = Plan::new(PathPolicy::default());
    plan.adopt(at(0), PathId(0), "0.0.0.0".parse().unwrap(), server());
    assert_eq!(plan.on_interfaces(at(0), vec![eth()]), []);
    // The address turns out to be that of eth0. The path that was begun in the meantime is superfluous, but
    // harmless.
    plan.adopt(at(1), PathId(0), "192.0.2.1".parse().unwrap(), server());
    assert_eq!(plan.on_interfaces(at(1), vec![eth()]), []);
}

#[test]
fn there_are_never_more_paths_than_the_policy_allows() {
    let many: Vec<Interface> =
        (0..100).map(|i| interface(&format!("eth{i}"), &[&format!("192.0.2.{i}")])).collect();
    let mut plan = plan(PathPolicy { max_paths: 5, ..PathPolicy::default() }, many.clone());
    assert_eq!(plan.due(at(0)).len(), 4);
    plan.on_interfaces(at(1), many);
    assert_eq!(plan.due(at(1)), []);
    // The number of addresses that are considered is limited, too.
    let crowd: Vec<String> = (0..1000).map(|i| format!("10.0.{}.{}", i / 250, i % 250 + 1)).collect();
    let crowd: Vec<&str> = crowd.iter().map(String::as_str).collect();
    plan.on_interfaces(at(2), vec![interface("eth0", &crowd)]);
    assert_eq!(plan.interfaces[0].addresses.len(), MAX_ADDRESSES);
}

#[test]
fn an_interface_may_have_several_paths_and_a_backup() {
    let policy = PathPolicy {
        allow: vec!["eth*,count=3".parse().unwrap(), "wlan0,backup,weight=2".parse().unwrap()],
        ..PathPolicy::default()
    };
    let mut plan = plan(policy, vec![wlan(), eth()]);
    let due = plan.due(at(0));
    let found: Vec<_> = due
        .iter()
        .map(|command| match command {
            Command::Open { local, status, weight, .. } => {
                (local.interface.clone().unwrap(), *status, *weight)
            }
            Command::Abandon(_) => panic!(),
        })
        .collect();
    let eth = ("eth0".to_owned(), PathStatus::Available, 1);
    assert_eq!(found, [eth.clone(), eth, ("wlan0".to_owned(), PathStatus::Backup, 2)]);
}

#[test]
fn an_address_that_is_named_gets_paths_of_its_own() {
    let policy = |rules: &[&str]| PathPolicy {
        allow: rules.iter().map(|rule| rule.parse().unwrap()).collect(),
        ..PathPolicy::default()
    };
    let two = || interface("eth0", &["192.0.2.1", "192.0.2.2", "192.0.2.3"]);
    let locals = |plan: &mut Plan| -> Vec<_> {
        opened(plan, at(0)).into_iter().map(|(_, _, local, _)| local).collect()
    };
    let mut both = plan(policy(&["192.0.2.1", "192.0.2.2"]), vec![two()]);
    assert_eq!(locals(&mut both), ["192.0.2.2"], "the connection began on the other one");
    let mut another = plan(policy(&["192.0.2.2,count=2"]), vec![two()]);
    assert_eq!(locals(&mut another), ["192.0.2.2", "192.0.2.2"]);
    let mut and_the_rest = plan(policy(&["192.0.2.1", "eth0"]), vec![two()]);
    assert_eq!(locals(&mut and_the_rest), ["192.0.2.2"]);
    let mut interface_first = plan(policy(&["eth0", "192.0.2.2"]), vec![two()]);
    assert_eq!(locals(&mut interface_first), [""; 0], "it speaks of all of them");
}

#[test]
fn loopback_addresses_need_not_be_shown() {
    let allow = ["127.0.0.1", "127.0.0.2", "10.0.0.9"].map(|rule| rule.parse().unwrap()).into();
    let mut plan = Plan::new(PathPolicy { allow, ..PathPolicy::default() });
    plan.adopt(at(0), PathId(0), "127.0.0.1".parse().unwrap(), "127.0.0.1:443".parse().unwrap());
    assert_eq!(plan.on_interfaces(at(0), vec![interface("lo", &["127.0.0.1"])]), []);
    let found = opened(&mut plan, at(0));
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!((found[0].1.as_str(), found[0].2.as_str()), ("lo", "127.0.0.2"));
    plan.on_begun(found[0].0, PathId(1));
    assert_eq!(plan.on_interfaces(at(1), vec![interface("lo", &["127.0.0.1"])]), [], "and stays");
}

#[test]
fn every_address_of_the_server_is_used() {
    let mut plan = plan(PathPolicy::default(), vec![eth()]);
    assert_eq!(plan.due(at(0)), []);
    let v6: SocketAddr = "[2001:db8:9::1]:443".parse().unwrap();
    assert_eq!(plan.set_alternatives(at(1), &[v6]), []);
    let found = opened(&mut plan, at(1));
    assert_eq!((found[0].2.as_str(), found[0].3.as_str()), ("2001:db8:1::1", "[2001:db8:9::1]:443"));
    plan.on_begun(found[0].0, PathId(1));
    assert_eq!(plan.set_alternatives(at(2), &[]), [Command::Abandon(PathId(1))], "retired");
    // Two interfaces share the server's two addresses.
    let other: SocketAddr = "203.0.113.2:443".parse().unwrap();
    plan.set_alternatives(at(3), &[other]);
    plan.slots.retain(|slot| slot.path() == Some(PathId(0)));
    plan.on_interfaces(at(3), vec![eth(), wlan()]);
    let found = opened(&mut plan, at(3));
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!((found[0].1.as_str(), found[0].3.as_str()), ("wlan0", "203.0.113.2:443"));
}
