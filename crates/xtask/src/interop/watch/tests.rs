use super::*;

/// Builds a packet with a long header of version 1 and empty connection IDs; `kind` is its type.
fn long(kind: u8, token: &[u8], body: usize) -> Vec<u8> {
    let mut packet = vec![0xc0 | kind << 4, 0, 0, 0, 1, 0, 0];
    if kind == 0 {
        packet.push(token.len() as u8);
        packet.extend_from_slice(token);
    }
    packet.extend_from_slice(&(0x4000 | body as u16).to_be_bytes());
    packet.extend(vec![0; body]);
    packet
}

fn client(port: u16) -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], port))
}

fn saw(watch: &mut PacketFilter, way: Direction, datagram: &[u8]) -> bool {
    watch.see(way, client(1), datagram, Instant::now())
}

#[test]
fn packets_are_counted_by_kind_also_inside_a_datagram() {
    let mut watch = PacketFilter::default();
    saw(
        &mut watch,
        Direction::ToServer,
        &[long(0, b"token", 100), long(1, b"", 50), vec![0x40; 30]].concat(),
    );
    saw(&mut watch, Direction::ToServer, &long(0, b"", 100));
    saw(&mut watch, Direction::ToClient, &[long(0, b"", 40), long(2, b"", 40)].concat());
    assert_eq!((watch.seen.tokens, watch.seen.zero_rtt, watch.seen.retries), (1, 1, 0));
    assert_eq!(watch.seen.versions, BTreeSet::from([Version::V1]));
    saw(&mut watch, Direction::ToClient, &[0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
    assert_eq!(watch.seen.negotiations, 1);
    let retry = [&[0xf0, 0, 0, 0, 1, 0, 0][..], &[7; 40]].concat();
    saw(&mut watch, Direction::ToClient, &retry);
    assert_eq!(watch.seen.retries, 1);
}

#[test]
fn the_amplification_limit_holds_until_a_handshake_packet() {
    let mut watch = PacketFilter::default();
    saw(&mut watch, Direction::ToServer, &long(0, b"", 991));
    assert_eq!(watch.parties[0].sent, [1, 1001]);
    let flight = long(0, b"", 991);
    (0..3).for_each(|_| assert!(saw(&mut watch, Direction::ToClient, &flight)));
    assert_eq!((watch.seen.excess, watch.seen.unvalidated), (0, 3003));
    saw(&mut watch, Direction::ToClient, &flight[..20]);
    assert_eq!(watch.seen.excess, 20);
    saw(&mut watch, Direction::ToServer, &long(2, b"", 50));
    (0..9).for_each(|_| assert!(saw(&mut watch, Direction::ToClient, &flight)));
    assert_eq!((watch.seen.excess, watch.seen.unvalidated), (20, 3023));
}

#[test]
fn version_negotiation_is_dropped_on_request() {
    let packet = [0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1];
    for (refuse, passes) in [(false, true), (true, false)] {
        let mut watch = PacketFilter::dropping(None, refuse);
        assert_eq!(saw(&mut watch, Direction::ToClient, &packet), passes);
        assert!(saw(&mut watch, Direction::ToClient, &long(0, b"", 40)));
        assert_eq!(watch.seen.negotiations, 1);
    }
}

#[test]
fn chosen_datagrams_of_the_client_do_not_pass_and_do_not_count() {
    let mut watch = PacketFilter::dropping(Some(2..=3), false);
    let passed: Vec<bool> = (0..4).map(|_| saw(&mut watch, Direction::ToServer, &[0x40; 10])).collect();
    assert_eq!(passed, [true, false, false, true]);
    assert_eq!(watch.parties[0].sent, [2, 20]);
    assert!(saw(&mut watch, Direction::ToClient, &[0x40; 10]));
    watch.see(Direction::ToServer, client(2), &[0x40; 10], Instant::now());
    assert_eq!((watch.parties.len(), watch.seen().addresses_served), (2, 1));
}
