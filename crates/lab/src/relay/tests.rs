use std::collections::BTreeSet;
use std::net::UdpSocket;

use super::*;

/// Returns the real time, because these tests use real sockets.
#[expect(clippy::disallowed_methods, reason = "sockets are read in real time")]
fn real_time() -> Instant {
    Instant::now()
}

fn loopback() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 0))
}

fn socket() -> UdpSocket {
    let socket = UdpSocket::bind(loopback()).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    socket
}

/// Starts a server that echoes every datagram until no more arrive, and returns the source addresses of the
/// datagrams.
fn echo(server: UdpSocket) -> JoinHandle<BTreeSet<SocketAddr>> {
    thread::spawn(move || {
        let (mut seen, mut buffer) = (BTreeSet::new(), [0; 2048]);
        server.set_read_timeout(Some(Duration::from_millis(500))).unwrap();
        while let Ok((len, from)) = server.recv_from(&mut buffer) {
            seen.insert(from);
            server.send_to(&buffer[..len], from).unwrap();
        }
        seen
    })
}

#[test]
fn datagrams_travel_both_ways_with_the_links_delay() {
    let server = socket();
    let spec = "100mbit/40ms".parse().unwrap();
    let relay = Relay::start(loopback(), server.local_addr().unwrap(), &spec, Seed(1), real_time).unwrap();
    let server = echo(server);
    let clients = [socket(), socket()];
    let mut clock = Clock { read: real_time, started: None };
    let start = clock.now();
    for (client, text) in clients.iter().zip(["one", "two"]) {
        client.send_to(text.as_bytes(), relay.address()).unwrap();
    }
    for (client, text) in clients.iter().zip(["one", "two"]) {
        let mut buffer = [0; 16];
        let (len, from) = client.recv_from(&mut buffer).unwrap();
        assert_eq!((&buffer[..len], from), (text.as_bytes(), relay.address()));
    }
    assert!(clock.now() - start >= Duration::from_millis(40));
    assert_eq!(relay.counters().map(|counters| counters.delivered), [2, 2]);
    assert_eq!(server.join().unwrap().len(), 2);
}

#[test]
fn a_link_that_loses_everything_delivers_nothing() {
    let server = socket();
    let spec = "unlimited/0ms/100%".parse().unwrap();
    let relay = Relay::start(loopback(), server.local_addr().unwrap(), &spec, Seed(1), real_time).unwrap();
    let client = socket();
    (0..10).for_each(|_| assert_eq!(client.send_to(b"gone", relay.address()).unwrap(), 4));
    server.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
    assert!(server.recv_from(&mut [0; 16]).is_err());
    assert_eq!(relay.counters()[0].lost_in_all(), 10);
}

#[test]
fn rebinding_changes_the_address_that_the_server_sees() {
    let server = socket();
    let spec = LinkSpec::default().rebind(Time::from_millis(50), None, 1);
    let relay = Relay::start(loopback(), server.local_addr().unwrap(), &spec, Seed(1), real_time).unwrap();
    let server = echo(server);
    let client = socket();
    for _ in 0..2 {
        client.send_to(b"who am I", relay.address()).unwrap();
        assert_eq!(client.recv_from(&mut [0; 16]).unwrap().1, relay.address());
        thread::sleep(Duration::from_millis(100));
    }
    assert_eq!(server.join().unwrap().len(), 2);
}

#[test]
fn a_tap_sees_both_ways_and_drops_what_it_does_not_like() {
    let server = socket();
    let (tell, told) = std::sync::mpsc::channel();
    let tap: Tap = Box::new(move |way, client, datagram| {
        tell.send((way, client)).unwrap();
        datagram != b"bad"
    });
    let address = server.local_addr().unwrap();
    let relay = Relay::tapped(loopback(), address, &LinkSpec::default(), Seed(1), real_time, tap).unwrap();
    let server = echo(server);
    let client = socket();
    for text in [b"bad" as &[u8], b"good"] {
        client.send_to(text, relay.address()).unwrap();
    }
    let mut buffer = [0; 16];
    let len = client.recv(&mut buffer).unwrap();
    assert_eq!(&buffer[..len], b"good");
    let me = client.local_addr().unwrap();
    let seen: Vec<_> = told.try_iter().collect();
    assert_eq!(seen, [(Direction::ToServer, me), (Direction::ToServer, me), (Direction::ToClient, me)]);
    assert_eq!(server.join().unwrap().len(), 1);
}

#[test]
fn a_blackout_lets_nothing_through_while_it_lasts() {
    let server = socket();
    let relay =
        Relay::start(loopback(), server.local_addr().unwrap(), &LinkSpec::default(), Seed(1), real_time)
            .unwrap();
    let _server = echo(server);
    let client = socket();
    let reaches = || {
        client.send_to(b"anybody?", relay.address()).unwrap();
        client.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
        client.recv(&mut [0; 16]).is_ok()
    };
    assert!(reaches());
    relay.blackout(Duration::ZERO..Duration::from_millis(300));
    assert!(!reaches() && relay.counters()[0].lost(crate::link::Lost::Blackout) == 1);
    thread::sleep(Duration::from_millis(300));
    assert!(reaches());
}

/// The relay keeps a link's rate in real time, for bursts too. At 20 Mbit/s 500 packets of 1228 bytes on the
/// wire take 245 ms.
#[test]
fn a_rate_is_kept() {
    let server = socket();
    let spec = LinkSpec::new(20_000_000, Duration::from_millis(300));
    let relay = Relay::start(loopback(), server.local_addr().unwrap(), &spec, Seed(1), real_time).unwrap();
    let client = socket();
    let mut clock = Clock { read: real_time, started: None };
    let start = clock.now();
    // Sockets drop datagrams that do not fit into their buffers, and on a busy machine the relay reads late.
    // So the client waits for the relay after every few datagrams, and the server reads at the same time.
    let receiving = thread::spawn(move || {
        let mut buffer = [0; 2048];
        (0..500).for_each(|_| assert_eq!(server.recv(&mut buffer).unwrap(), 1200));
    });
    for sent in 1..=500 {
        client.send_to(&[7; 1200], relay.address()).unwrap();
        while sent % 20 == 0 && relay.counters()[0].entered < sent {
            assert!(clock.now() - start < Duration::from_secs(5), "{sent} datagrams were sent");
            thread::yield_now();
        }
    }
    receiving.join().unwrap();
    let took = clock.now() - start;
    assert!(took >= Duration::from_millis(395) && took < Duration::from_millis(1_500), "{took:?}");
}
