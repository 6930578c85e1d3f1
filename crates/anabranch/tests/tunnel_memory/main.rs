//! Memory that the proxy has allocated for each tunnel.
#![cfg(all(target_os = "linux", feature = "proxy"))]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

#[path = "../../../transport/tests/memory/counting.rs"]
mod counting;
mod site;

use std::net::SocketAddr;
use std::time::Duration;

use anabranch_testkit::endpoints::within;
use tokio::net::{TcpListener, UdpSocket};

use self::site::Site;

#[global_allocator]
static ALLOCATOR: counting::Counting = counting::Counting;

/// Number of idle tunnels.
const MANY: usize = 1_000;
/// Number of tunnels whose targets do not answer.
const HALF_OPEN: usize = 10_000;
/// Number of tunnels on each connection.
const EACH: usize = 2_500;

/// Maximum memory of an idle TCP connection and of an idle UDP flow at the proxy, in bytes.
const TCP: isize = 16 * 1024;
const UDP: isize = 4 * 1024;

#[tokio::test]
async fn an_idle_tcp_connection_is_small() {
    let site = Site::start();
    let connection = site.connect().await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let target = listener.local_addr().unwrap();
    let mut kept = Vec::new();
    let mut before = 0;
    for n in 0..=MANY {
        let (mut tunnel, accepted) =
            within(async { tokio::join!(site::tcp(&connection, target), listener.accept()) }).await;
        let accepted = accepted.unwrap().0;
        // Each tunnel has carried bytes in both directions.
        tunnel.0.write("question".into()).await.unwrap();
        accepted.writable().await.unwrap();
        accepted.try_write(b"answer").unwrap();
        assert_eq!(within(tunnel.1.read_chunk(100)).await.unwrap().unwrap(), "answer");
        kept.push((tunnel, accepted));
        if n == 0 {
            before = site.settled().await;
        }
    }
    let each = (site.settled().await - before) / MANY as isize;
    println!("{each} bytes for each idle TCP connection");
    assert!(each <= TCP, "{each}");
    drop(kept);
}

#[tokio::test]
async fn an_idle_udp_flow_is_small() {
    let site = Site::start();
    let connection = site.connect().await;
    let echo = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let target = echo.local_addr().unwrap();
    tokio::spawn(async move {
        let mut buffer = [0; 100];
        while let Ok((len, from)) = echo.recv_from(&mut buffer).await {
            let _ = echo.send_to(&buffer[..len], from).await;
        }
    });
    let mut kept = Vec::new();
    let mut before = 0;
    for n in 0..=MANY {
        let tunnel = within(site::udp(&connection, target)).await;
        let datagrams = tunnel.1.datagrams();
        datagrams.send(b"\0ping").unwrap();
        assert_eq!(within(datagrams.recv()).await.unwrap(), "\0ping");
        kept.push(tunnel);
        if n == 0 {
            before = site.settled().await;
        }
    }
    let each = (site.settled().await - before) / MANY as isize;
    println!("{each} bytes for each idle UDP flow");
    assert!(each <= UDP, "{each}");
    drop(kept);
}

#[tokio::test]
async fn half_open_tunnels_are_small_and_leave_nothing() {
    let site = Site::start();
    let silent = silent();
    let mut connections = Vec::new();
    let mut kept = Vec::new();
    let before = site.settled().await;
    while kept.len() < HALF_OPEN {
        if kept.len() % EACH == 0 {
            connections.push(site.connect().await);
        }
        kept.push(site::ask(connections.last().unwrap(), silent.1).await);
    }
    while site.flows() < HALF_OPEN {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let each = (site.settled().await - before) / HALF_OPEN as isize;
    println!("{each} bytes for each of {HALF_OPEN} half-open tunnels");
    assert!(each <= TCP, "{each}");
    drop(kept);
    while site.flows() > 0 {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    drop(connections);
    let left = (site.settled().await - before) / HALF_OPEN as isize;
    assert!(left < 256, "{left} bytes of each are left");
}

/// Returns a socket that drops attempts to connect, like a host that does not answer, and its address.
fn silent() -> (Vec<socket2::Socket>, SocketAddr) {
    let full = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    full.bind(&SocketAddr::from(([127, 0, 0, 5], 0)).into()).unwrap();
    full.listen(0).unwrap();
    let address = full.local_addr().unwrap();
    let fill = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    fill.connect(&address).unwrap();
    (vec![full, fill], address.as_socket().unwrap())
}
