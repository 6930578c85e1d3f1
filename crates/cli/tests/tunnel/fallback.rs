//! A network that blocks UDP: tunnels over TCP, and the return to QUIC.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

use anabranch_testkit::pattern;
use serde_json::Value;

use super::process::{Field, PATIENCE, eventually, stderr};
use super::socks::Association;
use super::{socks, targets};

/// A network in front of the proxy that carries TCP, and UDP once it is allowed.
struct Network {
    address: SocketAddr,
    allows_udp: Arc<AtomicBool>,
}

impl Network {
    fn before(proxy: SocketAddr) -> Self {
        let (listener, socket) = free_port();
        let address = listener.local_addr().unwrap();
        thread::spawn(move || {
            for stream in listener.incoming() {
                carry_tcp(stream.unwrap(), proxy);
            }
        });
        let allows_udp = Arc::new(AtomicBool::new(false));
        carry_udp(socket, proxy, Arc::clone(&allows_udp));
        Self { address, allows_udp }
    }
}

/// Returns sockets of both protocols at the same port.
fn free_port() -> (TcpListener, UdpSocket) {
    loop {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        if let Ok(socket) = UdpSocket::bind(listener.local_addr().unwrap()) {
            return (listener, socket);
        }
    }
}

/// Carries a connection in both directions, in threads.
fn carry_tcp(client: TcpStream, proxy: SocketAddr) {
    let server = TcpStream::connect(proxy).unwrap();
    for (mut from, mut to) in [(client.try_clone().unwrap(), server.try_clone().unwrap()), (server, client)] {
        thread::spawn(move || {
            let _ = std::io::copy(&mut from, &mut to);
            let _ = to.shutdown(Shutdown::Write);
        });
    }
}

/// Carries the datagrams of one client, in threads.
fn carry_udp(socket: UdpSocket, proxy: SocketAddr, is_allowed: Arc<AtomicBool>) {
    let upstream = UdpSocket::bind("127.0.0.1:0").unwrap();
    upstream.connect(proxy).unwrap();
    let client = Arc::new(Mutex::new(None));
    let (back, downstream, known) =
        (upstream.try_clone().unwrap(), socket.try_clone().unwrap(), Arc::clone(&client));
    thread::spawn(move || {
        let mut datagram = vec![0; 65_535];
        while let Ok((len, from)) = socket.recv_from(&mut datagram) {
            if is_allowed.load(Ordering::Relaxed) {
                *client.lock().unwrap() = Some(from);
                let _ = upstream.send(&datagram[..len]);
            }
        }
    });
    thread::spawn(move || {
        let mut datagram = vec![0; 65_535];
        while let Ok(len) = back.recv(&mut datagram) {
            let to: Option<SocketAddr> = *known.lock().unwrap();
            let _ = to.map(|to| downstream.send_to(&datagram[..len], to));
        }
    });
}

/// Returns the published state of the client.
fn state(field: &Field) -> Value {
    let output = field.run(&["status", "--json"]);
    let text = String::from_utf8(output.stdout).unwrap();
    let mut states = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    states.find(|state| state["role"] == "connect").unwrap_or_else(|| panic!("no client: {text}"))
}

/// Checks that each byte returns.
fn converse(stream: &mut TcpStream) {
    stream.write_all(b"x").unwrap();
    let mut byte = [0];
    stream.read_exact(&mut byte).unwrap();
    assert_eq!(byte, *b"x");
}

#[test]
fn tunnels_go_over_tcp_where_udp_is_blocked_and_return_to_quic() {
    let (field, echo, web) = (Field::new(), targets::echo(), targets::web(3_000_000));
    let (_proxy, address) = field.proxy("127.0.0.1:0", &[]);
    let network = Network::before(address);
    let mut client = field.connect(network.address, &["--timeout", "4"]);
    let said = |what: &str, log: &str| log.lines().filter(|line| line.contains(what)).count();
    let over_tcp = "connected to the proxy over TCP: UDP is blocked; one path only";
    eventually("news", || (said(over_tcp, &client.process.log()) == 1).then_some(()));
    let fallback = state(&field);
    assert_eq!((&fallback["state"], &fallback["connections"]), (&"fallback".into(), &1.into()), "{fallback}");
    assert!(fallback["why"].as_str().unwrap().contains("did not answer"), "{fallback}");

    let mut old = socks::connect(client.socks, "127.0.0.1", echo.port()).unwrap();
    converse(&mut old);
    let mut stream = socks::connect(client.socks, "127.0.0.1", web.port()).unwrap();
    stream.write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    let mut response = Vec::new();
    stream.read_to_end(&mut response).unwrap();
    assert!(response.ends_with(&pattern(3_000_000)), "{} bytes", response.len());
    let datagrams = targets::udp_echo();
    let association = Association::new(client.socks).unwrap();
    association.send("127.0.0.1", datagrams.port(), b"1");
    assert_eq!(association.receive("127.0.0.1", datagrams.port()), b"echo1");

    network.allows_udp.store(true, Ordering::Relaxed);
    let back = "connected to the proxy by QUIC again";
    eventually("the return", || (said(back, &client.process.log()) == 1).then_some(()));
    let mut new = socks::connect(client.socks, "127.0.0.1", echo.port()).unwrap();
    converse(&mut new);
    converse(&mut old);
    eventually("both connections", || {
        let state = state(&field);
        (state["state"] == "connected" && state["connections"] == 2).then_some(())
    });
    // The connection over TCP ends with its last tunnel.
    drop((old, stream, association));
    eventually("one connection", || (state(&field)["connections"] == 1).then_some(()));
    converse(&mut new);
    assert_eq!(client.process.log().lines().count(), 2, "{}", client.process.log());
    assert!(client.process.terminate().success());
}

#[test]
fn ends_and_resets_pass_over_tcp_as_they_are() {
    let (field, counter, resetter) = (Field::new(), targets::counter(), targets::resetter());
    let (witness, ends) = targets::witness();
    let (_proxy, address) = field.proxy("127.0.0.1:0", &[]);
    let network = Network::before(address);
    let mut client = field.connect(network.address, &[]);
    let open = |target: SocketAddr| socks::connect(client.socks, "127.0.0.1", target.port()).unwrap();

    let mut stream = open(counter);
    stream.write_all(&pattern(100_000)).unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    let mut response = String::new();
    stream.read_to_string(&mut response).unwrap();
    assert_eq!(response, "100000 bytes");

    // By the target.
    let mut stream = open(resetter);
    stream.write_all(b"xy").unwrap();
    let error = stream.read_to_end(&mut Vec::new()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConnectionReset);

    // By the program: in order, and by a reset.
    for is_reset in [false, true] {
        let mut stream = open(witness);
        let mut ready = [0; 5];
        while stream.peek(&mut ready).unwrap() < ready.len() {}
        stream.write_all(b"bytes").unwrap();
        // The kernel resets a connection that is closed with bytes that nobody has read.
        if !is_reset {
            stream.read_exact(&mut ready).unwrap();
        }
        drop(stream);
        let end = ends.recv_timeout(PATIENCE).unwrap();
        assert_eq!(end, is_reset.then_some(ErrorKind::ConnectionReset));
    }
    assert_eq!(socks::connect(client.socks, "127.0.0.1", 1).map(drop), Err(5), "nothing listens there");
    assert!(client.process.terminate().success());
}

#[test]
fn the_fallback_can_be_switched_off() {
    let field = Field::new();
    let (_proxy, address) = field.proxy("127.0.0.1:0", &[]);
    let network = Network::before(address);
    let url = format!("https://localhost:{}", network.address.port());
    let more = ["--socks", "127.0.0.1:0", "--timeout", "1", "--no-fallback"];
    let output = field.run(&field.client(&["proxy", "connect"], &url, &more));
    assert_eq!(output.status.code(), Some(7), "{}", stderr(&output));
    assert!(stderr(&output).contains("did not answer on any path within 1 s"), "{}", stderr(&output));
}
