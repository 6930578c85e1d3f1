use core::time::Duration;

use super::*;

fn ip(last: u8) -> IpAddr {
    IpAddr::from([10, 0, 0, last])
}

fn tuple(from: u8, to: u8) -> (SocketAddr, SocketAddr) {
    (SocketAddr::new(ip(from), 1000), SocketAddr::new(ip(to), 443))
}

fn ms(millis: u64) -> Time {
    Time::from_millis(millis)
}

/// Creates two hosts with two parallel links of 10 and 20 ms delay.
fn parallel() -> (Network, HostId, HostId) {
    let mut network = Network::new(Seed(1));
    let [client, server] = [network.add_host(), network.add_host()];
    for (path, rtt) in [(1, 20), (2, 40)] {
        let spec = LinkSpec::unlimited(Duration::from_millis(rtt));
        network.add_link((client, ip(path)), (server, ip(10 + path)), &spec);
    }
    (network, client, server)
}

#[test]
fn addresses_choose_the_link_in_both_directions() {
    let (mut network, client, server) = parallel();
    network.send(ms(0), client, tuple(2, 12), None, b"second");
    network.send(ms(0), client, tuple(1, 11), None, b"first");
    network.send(ms(0), client, tuple(1, 12), None, b"no such link");
    network.send(ms(0), server, tuple(12, 2), None, b"answer");
    let seen: Vec<_> = std::iter::from_fn(|| network.next_event())
        .map(|(at, happening)| match happening {
            Happening::Arrival(host, packet) => (at, host, String::from_utf8(packet.payload).unwrap()),
            Happening::Wake(_) => unreachable!(),
        })
        .collect();
    let expected = [(ms(10), server, "first"), (ms(20), server, "second"), (ms(20), client, "answer")];
    assert_eq!(seen, expected.map(|(at, host, text)| (at, host, text.to_owned())));
}

#[test]
fn an_unspecified_source_is_filled_in() {
    let (mut network, client, _) = parallel();
    let source = SocketAddr::new(IpAddr::from([0, 0, 0, 0]), 7);
    network.send(ms(0), client, (source, tuple(1, 12).1), None, b"x");
    let Some((_, Happening::Arrival(_, packet))) = network.next_event() else { panic!("nothing arrived") };
    assert_eq!(packet.source, SocketAddr::new(ip(2), 7));
}

#[test]
fn only_the_earliest_wake_up_counts() {
    let (mut network, client, _) = parallel();
    network.wake(client, ms(5));
    network.wake(client, ms(9));
    network.wake(client, ms(3));
    assert_eq!(network.next_event(), Some((ms(3), Happening::Wake(client))));
    assert_eq!(network.next_event(), None);
    network.wake(client, ms(9));
    assert_eq!(network.next_event(), Some((ms(9), Happening::Wake(client))));
}

#[test]
fn a_wake_up_that_was_superseded_does_not_happen() {
    let (mut network, client, server) = parallel();
    network.wake(client, ms(50));
    network.wake(client, ms(10));
    network.wake(server, ms(90));
    assert_eq!(network.next_event(), Some((ms(10), Happening::Wake(client))));
    // The superseded wake-up at 50 ms is no event. So a caller that runs until 60 ms finds no event.
    assert_eq!(network.next_time(), Some(ms(90)));
    network.wake(client, ms(50));
    assert_eq!(network.next_event(), Some((ms(50), Happening::Wake(client))));
}

#[test]
fn a_link_that_is_blacked_out_lets_nothing_through() {
    let (mut network, client, server) = parallel();
    network.black_out(LinkId(0), [Blackout::new([ms(0)..ms(5)]), Blackout::default()]);
    network.send(ms(1), client, tuple(1, 11), None, b"lost");
    network.send(ms(1), server, tuple_back(11, 1), None, b"back");
    network.send(ms(5), client, tuple(1, 11), None, b"there");
    let arrived: Vec<_> = std::iter::from_fn(|| network.next_event())
        .map(|(_, happening)| match happening {
            Happening::Arrival(_, packet) => packet.payload,
            Happening::Wake(_) => Vec::new(),
        })
        .collect();
    assert_eq!(arrived, [b"back".to_vec(), b"there".to_vec()]);
}

fn tuple_back(from: u8, to: u8) -> (SocketAddr, SocketAddr) {
    (SocketAddr::new(ip(from), 443), SocketAddr::new(ip(to), 1000))
}
