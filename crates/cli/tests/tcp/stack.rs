//! Both ends of a connection: the one in the VPN, and another one in the place of the program's host.

#[path = "../../src/vpn/stack/end.rs"]
#[allow(dead_code, reason = "the command uses the rest")]
mod end;
#[path = "../../src/vpn/stack/interface.rs"]
mod interface;
#[path = "../../src/vpn/stack/link.rs"]
mod link;
#[path = "../../src/vpn/stack/numbers.rs"]
mod numbers;

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use smoltcp::iface::{SocketHandle, SocketSet};
use smoltcp::socket::tcp::{Socket, SocketBuffer, State};

use self::end::End;
use self::interface::Host;
use crate::counting::live;

const MTU: usize = 1_500;
/// Maximum time of a transfer.
const PATIENCE: Duration = Duration::from_secs(60);
/// Number of packets that the program's host sends at a time.
const BURST: usize = 16;
/// Number of idle connections.
const MANY: usize = 500;
/// Maximum memory of an idle connection, in bytes: two buffers of 16 KiB, the socket, and its interface.
const IDLE: isize = 40 * 1024;
/// Maximum memory of a connection whose buffers have grown, in bytes.
const BUSY: isize = 220 * 1024;

/// Bytes that no two places have in common for long.
fn pattern(len: usize) -> Vec<u8> {
    (0..len as u64).map(|n| (n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8).collect()
}

/// A program and its host.
struct Program {
    host: Host,
    sockets: SocketSet<'static>,
    handle: SocketHandle,
}

impl Program {
    fn socket(&mut self) -> &mut Socket<'static> {
        self.sockets.get_mut(self.handle)
    }
}

/// A connection, and the packets between its ends.
struct Connection {
    program: Program,
    end: End,
    /// Number of packets that have passed.
    passed: usize,
    /// Interval of lost packets: one of so many is lost.
    lost: usize,
    /// Number of times that the buffers have grown.
    grown: usize,
}

impl Connection {
    /// Begins a connection by IPv4 or IPv6, of which one of `lost` packets is lost.
    fn begin(is_ipv4: bool, lost: usize) -> Self {
        let (from, to) = if is_ipv4 { ("10.9.0.2", "192.0.2.1") } else { ("fd09::2", "2001:db8::1") };
        let (source, destination) = (place(from, 40_000), place(to, 443));
        let mut host = Host::new(MTU);
        let buffer = || SocketBuffer::new(vec![0; 256 * 1024]);
        let mut socket = Socket::new(buffer(), buffer());
        socket.connect(host.interface.context(), destination, source).unwrap();
        let mut sockets = SocketSet::new(Vec::new());
        let handle = sockets.add(socket);
        host.poll(&mut sockets);
        let syn = host.link.outgoing.pop_front().unwrap();
        let end = End::new(destination, MTU, syn).unwrap();
        let mut begun = Self { program: Program { host, sockets, handle }, end, passed: 0, lost, grown: 0 };
        while begun.end.state() != State::Established {
            begun.exchange();
        }
        begun
    }

    /// Lets packets pass in both directions, and the end grow.
    fn exchange(&mut self) {
        self.end.poll();
        self.pass();
        self.grown += usize::from(self.end.grow());
        self.program.host.poll(&mut self.program.sockets);
        self.pass();
    }

    fn pass(&mut self) {
        let mut is_lost = || {
            self.passed += 1;
            self.passed.is_multiple_of(self.lost)
        };
        for packet in std::mem::take(self.end.outgoing()) {
            if !is_lost() {
                self.program.host.link.incoming.push_back(packet);
            }
        }
        for packet in std::mem::take(&mut self.program.host.link.outgoing) {
            if !is_lost() {
                self.end.incoming().push_back(packet);
            }
        }
    }

    /// Carries these bytes in both directions, until they have arrived.
    fn carry(&mut self, up: &[u8], down: &[u8]) {
        let (mut sent, mut received) = ([0, 0], [Vec::new(), Vec::new()]);
        let begin = Instant::now();
        while received[0].len() < up.len() || received[1].len() < down.len() {
            let before = self.passed;
            self.end.poll();
            let _ = self.end.socket().recv(|bytes| (bytes.len(), received[0].extend_from_slice(bytes)));
            self.pass();
            self.grown += usize::from(self.end.grow());
            if !self.end.is_draining() {
                sent[1] += self.end.socket().send_slice(&down[sent[1]..]).unwrap();
                self.end.look();
            }
            sent[0] += self.program.socket().send_slice(&up[sent[0]..]).unwrap();
            // Each of these calls sends one packet.
            for _ in 0..BURST {
                self.program.host.poll(&mut self.program.sockets);
            }
            let _ = self.program.socket().recv(|bytes| (bytes.len(), received[1].extend_from_slice(bytes)));
            self.pass();
            if self.passed == before {
                std::thread::sleep(Duration::from_millis(1));
            }
            assert!(begin.elapsed() < PATIENCE, "{} and {} bytes", received[0].len(), received[1].len());
        }
        assert!(received[0] == up && received[1] == down);
    }
}

fn place(address: &str, port: u16) -> SocketAddr {
    SocketAddr::new(address.parse().unwrap(), port)
}

#[test]
fn bytes_are_the_same_across_growing_buffers() {
    for is_ipv4 in [true, false] {
        for (up, down) in [(2_000_000, 0), (0, 2_000_000), (2_000_000, 1_500_000)] {
            let mut connection = Connection::begin(is_ipv4, usize::MAX);
            connection.carry(&pattern(up), &pattern(down));
            assert_eq!(connection.grown, 1, "{up} {down}");
            let capacity = connection.end.socket().send_capacity();
            assert!(capacity > 100_000, "{capacity}");
            // Ends pass as well.
            connection.program.socket().close();
            while connection.end.state() != State::CloseWait {
                connection.exchange();
            }
            connection.end.socket().close();
            while connection.program.socket().state() != State::TimeWait {
                connection.exchange();
            }
        }
    }
}

#[test]
fn bytes_are_the_same_if_packets_are_lost() {
    for lost in [97, 31] {
        let mut connection = Connection::begin(true, lost);
        connection.carry(&pattern(300_000), &pattern(300_000));
        assert_eq!(connection.grown, 1);
    }
}

#[test]
fn connections_that_end_or_are_reset_do_not_grow() {
    let mut connection = Connection::begin(true, usize::MAX);
    connection.program.socket().close();
    let down = pattern(1_000_000);
    let (mut sent, mut received) = (0, 0);
    while received < down.len() {
        sent += connection.end.socket().send_slice(&down[sent..]).unwrap();
        connection.end.look();
        let _ = connection.program.socket().recv(|bytes| {
            assert_eq!(bytes, &down[received..received + bytes.len()]);
            (bytes.len(), received += bytes.len())
        });
        connection.exchange();
    }
    assert_eq!((connection.grown, connection.end.state()), (0, State::CloseWait));

    let mut connection = Connection::begin(true, usize::MAX);
    connection.carry(&pattern(100_000), &[]);
    assert_eq!(connection.grown, 1);
    // The other end understands a RST of the new socket.
    connection.end.socket().abort();
    while connection.program.socket().state() != State::Closed {
        connection.exchange();
    }
}

#[test]
fn an_idle_connection_is_small() {
    let mut kept = Vec::with_capacity(MANY);
    let mut held = 0;
    for _ in 0..MANY {
        let mut connection = Connection::begin(true, usize::MAX);
        // Each has carried something in both directions.
        connection.carry(b"question", b"answer");
        let Connection { end, .. } = connection;
        kept.push(end);
    }
    let before = live();
    let count = kept.len() as isize;
    kept.clear();
    held += before - live();
    let each = held / count;
    println!("{each} bytes for each idle connection");
    assert!(each <= IDLE, "{each}");
}

#[test]
fn a_busy_connection_gets_larger_buffers_once() {
    let mut connection = Connection::begin(true, usize::MAX);
    for _ in 0..3 {
        connection.carry(&pattern(200_000), &pattern(1_000_000));
    }
    assert_eq!(connection.grown, 1);
    let Connection { end, .. } = connection;
    let before = live();
    drop(end);
    let held = before - live();
    println!("{held} bytes for a busy connection");
    assert!(held <= BUSY, "{held}");
}
