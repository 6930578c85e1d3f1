use super::*;

const WIFI: [u8; 4] = [192, 0, 2, 7];
const LTE: [u8; 4] = [198, 51, 100, 7];

fn situation(is_usable: bool, route: Option<[u8; 4]>, is_silent: bool) -> Situation {
    let remote = "203.0.113.1:443".parse().unwrap();
    Situation {
        local: WIFI.into(),
        remote,
        is_usable,
        route: route.map(IpAddr::from),
        is_silent,
        is_managed: false,
    }
}

/// A path manager opens paths on the other interfaces. If the last path moved there, two paths would share an
/// interface.
#[test]
fn the_last_path_of_several_stays_where_it_can() {
    let step =
        |usable, route, silent| Situation { is_managed: true, ..situation(usable, route, silent) }.step();
    assert_eq!(step(true, Some(LTE), false), Step::Stay);
    assert_eq!(step(true, Some(LTE), true), Step::Stay);
    assert_eq!(step(true, None, true), Step::Stay);
    assert_eq!(step(false, Some(LTE), false), Step::Relocate(LTE.into()));
}

#[test]
fn the_routing_table_decides() {
    let step = |usable, route, silent| situation(usable, route, silent).step();
    assert_eq!(step(true, Some(WIFI), false), Step::Stay);
    assert_eq!(step(true, Some(LTE), false), Step::Prefer(LTE.into()));
    assert_eq!(step(true, Some(LTE), true), Step::Ask);
    assert_eq!(step(false, Some(LTE), false), Step::Relocate(LTE.into()));
    assert_eq!(step(true, Some(WIFI), true), Step::Ask);
    assert_eq!(step(true, None, false), Step::Ask);
}

#[test]
fn other_families_and_interfaces_are_asked() {
    let interface = |name: &str, addresses: &[&str]| Interface {
        name: name.into(),
        addresses: addresses.iter().map(|one| one.parse().unwrap()).collect(),
        idle_addresses: Vec::new(),
        is_up: true,
    };
    let interfaces = [
        interface("lo", &["127.0.0.1", "::1"]),
        interface("wlan0", &["192.0.2.7", "2001:db8:1::7"]),
        interface("wwan0", &["198.51.100.7"]),
    ];
    let v6: SocketAddr = "[2001:db8::1]:443".parse().unwrap();
    let remotes = ["203.0.113.1:443".parse().unwrap(), v6];
    let source = |remote: SocketAddr| remote.is_ipv6().then(|| "2001:db8:1::7".parse().unwrap());
    let found = others(&situation(true, Some(WIFI), true), &interfaces, &remotes, source);
    let found: Vec<_> = found
        .into_iter()
        .map(|(local, remote)| (local.ip.to_string(), local.interface, remote.is_ipv6()))
        .collect();
    let wwan = ("198.51.100.7".to_owned(), Some("wwan0".to_owned()), false);
    assert_eq!(found, [("2001:db8:1::7".to_owned(), None, true), wwan]);
}
