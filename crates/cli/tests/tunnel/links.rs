//! A download over two links with a rate and a delay, one of which dies.

use std::io::{Read, Write};
use std::net::SocketAddr;

use anabranch_testkit::pattern;

use super::process::{Field, Process};
use super::{socks, targets};

/// Length of the download, in bytes.
const LEN: usize = 10_000_000;

/// Starts a link to the proxy.
fn link(field: &Field, name: &str, server: SocketAddr) -> (Process, String) {
    let mut relay = field.start(name, &["relay", "40mbit/25ms", &server.to_string()]);
    let address = relay.said("listening ");
    (relay, address)
}

#[test]
fn a_download_survives_the_death_of_a_link() {
    let (field, web) = (Field::new(), targets::web(LEN));
    // The links start first, because the proxy has to announce the address of the second one. Its port is
    // chosen here, and may be in use over TCP.
    let free = std::net::UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let everywhere = format!("0.0.0.0:{}", free.port());
    let (mut first, address) = link(&field, "first.log", free);
    let (_second, other) = link(&field, "second.log", free);
    let (_proxy, _) = field.proxy(&everywhere, &["--announce", &other, "--no-tcp"]);
    let client = field.connect(address.parse().unwrap(), &[]);
    let mut stream = socks::connect(client.socks, "127.0.0.1", web.port()).unwrap();
    stream.write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    let (mut received, mut piece) = (Vec::new(), vec![0; 65_536]);
    let mut has_died = false;
    loop {
        let len = stream.read(&mut piece).unwrap();
        if len == 0 {
            break;
        }
        received.extend_from_slice(&piece[..len]);
        if !has_died && received.len() > LEN / 3 {
            first.kill();
            has_died = true;
        }
    }
    let body = received.windows(4).position(|four| four == b"\r\n\r\n").unwrap() + 4;
    assert!(received[body..] == pattern(LEN), "{} bytes", received.len());
    assert!(client.process.log().is_empty(), "{}", client.process.log());
}
