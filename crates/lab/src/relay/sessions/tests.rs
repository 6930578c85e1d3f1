use std::net::UdpSocket;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::sync_channel;

use super::*;

const CAPACITY: usize = 4;

fn sessions() -> Sessions {
    let (inbox, _) = sync_channel(1);
    let sockets = Sockets::start(inbox, Arc::new(AtomicBool::new(true))).unwrap();
    Sessions::new(sockets, [127, 0, 0, 1].into(), CAPACITY)
}

fn client(port: u16) -> SocketAddr {
    ([192, 0, 2, 1], port).into()
}

/// Sends a datagram of a client to `server` at a time in seconds, and returns the address that the server sees.
fn send(sessions: &mut Sessions, server: &UdpSocket, port: u16, seconds: u64) -> SocketAddr {
    let destination = server.local_addr().unwrap();
    let packet = Packet { source: client(port), destination, ecn: None, payload: vec![7; 40] };
    sessions.send(&packet, Time::from_millis(1_000 * seconds));
    sessions.flush();
    server.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    server.recv_from(&mut [0; 64]).unwrap().1
}

/// A client of hours ago takes no place, and a relay that has served thousands of clients serves the next one.
#[test]
fn the_client_that_was_silent_longest_makes_room() {
    let server = UdpSocket::bind("127.0.0.1:0").unwrap();
    let mut sessions = sessions();
    let first = send(&mut sessions, &server, 1, 0);
    for port in 2..20 {
        send(&mut sessions, &server, port, u64::from(port));
        assert_eq!(
            send(&mut sessions, &server, 1, u64::from(port)),
            first,
            "a client that is heard of keeps its address"
        );
        assert!(sessions.clients.len() <= CAPACITY);
        assert_eq!(sessions.sockets.count(), sessions.clients.len());
    }
    assert!(!sessions.clients.contains_key(&client(2)));
}

#[test]
fn clients_are_forgotten_after_max_idle() {
    let server = UdpSocket::bind("127.0.0.1:0").unwrap();
    let mut sessions = sessions();
    send(&mut sessions, &server, 1, 0);
    send(&mut sessions, &server, 2, 0);
    // A datagram of the server counts too.
    sessions.note(client(2), Time::from_millis(1_000));
    send(&mut sessions, &server, 3, MAX_IDLE.as_secs());
    assert_eq!(sessions.clients.keys().map(SocketAddr::port).collect::<Vec<_>>(), [2, 3]);
    assert_eq!(sessions.sockets.count(), 2);
}

#[test]
fn a_rebinding_leaves_one_socket_for_each_client() {
    let server = UdpSocket::bind("127.0.0.1:0").unwrap();
    let mut sessions = sessions();
    let before = [1, 2].map(|port| send(&mut sessions, &server, port, 0));
    sessions.rebind(None);
    let after = [1, 2].map(|port| send(&mut sessions, &server, port, 1));
    assert!(before.iter().all(|address| !after.contains(address)));
    assert_eq!(sessions.sockets.count(), 2);
}
