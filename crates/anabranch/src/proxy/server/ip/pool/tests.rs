use super::*;

fn pool(network: &str) -> Pool {
    Pool::new(network.parse().unwrap()).unwrap()
}

fn holder(tunnel: u64, user: &str) -> Holder {
    Holder { tunnel, user: Some(user.to_owned()) }
}

fn assign(pool: &mut Pool, wanted: IpAddr, holder: &Holder) -> Option<IpAddr> {
    if pool.assign_wanted(wanted, holder) { Some(wanted) } else { pool.assign_any(holder) }
}

fn any(pool: &Pool) -> IpAddr {
    if pool.network.addr().is_ipv4() { [0, 0, 0, 0].into() } else { [0_u16; 8].into() }
}

#[test]
fn each_address_is_assigned_once() {
    let mut pool = pool("10.9.0.0/29");
    assert_eq!(pool.gateway().to_string(), "10.9.0.1");
    let wanted = any(&pool);
    let mut assigned: Vec<_> =
        std::iter::from_fn(|| assign(&mut pool, wanted, &holder(1, "a")).map(|one| one.to_string()))
            .collect();
    assert_eq!(assigned, ["10.9.0.2", "10.9.0.3", "10.9.0.4", "10.9.0.5", "10.9.0.6"]);
    // Only the tunnel that has an address can free it.
    pool.release("10.9.0.4".parse().unwrap(), 2);
    assert_eq!(assign(&mut pool, wanted, &holder(2, "b")), None);
    pool.release("10.9.0.4".parse().unwrap(), 1);
    assigned = assign(&mut pool, wanted, &holder(2, "b")).iter().map(ToString::to_string).collect();
    assert_eq!(assigned, ["10.9.0.4"]);
}

#[test]
fn a_user_gets_an_address_back_and_others_do_not() {
    let mut pool = pool("fd00:9::/64");
    let first = pool.assign_any(&holder(1, "alice")).unwrap();
    assert_eq!(first.to_string(), "fd00:9::2");
    assert_ne!(assign(&mut pool, first, &holder(2, "bob")).unwrap(), first);
    assert_eq!(assign(&mut pool, first, &holder(3, "alice")), Some(first));
    // The first tunnel no longer has the address, so it cannot free it.
    pool.release(first, 1);
    assert_ne!(assign(&mut pool, first, &holder(4, "bob")), Some(first));
    for foreign in ["fd00:9::", "fd00:9::1", "fd00:a::5", "10.0.0.1"] {
        let foreign = foreign.parse().unwrap();
        assert_ne!(assign(&mut pool, foreign, &holder(5, "carol")), Some(foreign));
    }
}

#[test]
fn clients_without_credentials_take_no_address_from_each_other() {
    let mut pool = pool("10.9.0.0/24");
    let nobody = |tunnel| Holder { tunnel, user: None };
    let first = pool.assign_any(&nobody(1)).unwrap();
    assert_ne!(assign(&mut pool, first, &nobody(2)), Some(first));
    assert_ne!(assign(&mut pool, first, &holder(3, "alice")), Some(first));
    assert_eq!(assign(&mut pool, first, &nobody(1)), Some(first), "the tunnel's own address");
}

#[test]
fn a_pool_has_at_most_max_assigned_addresses() {
    let mut pool = pool("fd00:9::/64");
    let wanted = any(&pool);
    for _ in 0..MAX_ASSIGNED {
        assert!(assign(&mut pool, wanted, &holder(1, "a")).is_some());
    }
    assert_eq!(assign(&mut pool, wanted, &holder(1, "a")), None);
    assert_eq!(assign(&mut pool, "fd00:9::ffff:1".parse().unwrap(), &holder(1, "a")), None, "a free one");
}

#[test]
fn some_networks_are_no_pools() {
    for bad in ["10.0.0.0/31", "10.0.0.1/24", "fd00::/127", "10.0.0.1/32"] {
        assert!(Pool::new(bad.parse().unwrap()).is_err(), "{bad}");
    }
    assert_eq!(pool("10.0.0.0/8").last(), (1 << 24) - 2);
    assert_eq!(pool("::/0").last(), u128::MAX);
}
