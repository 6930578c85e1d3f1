//! Operation of a proxy: metrics, reload, shutdown, and targets that are denied by default.

use std::io::{Read, Write};
use std::time::{Duration, Instant};

use anabranch::TransportConfig;
use bytes::Bytes;
use tokio::io::AsyncReadExt;
use tokio::net::TcpListener;

use super::site::{Field, OPEN, Site, TOKEN, connect, within};

/// Returns the metrics at `url`.
fn scrape(url: &str) -> String {
    let address = url.strip_prefix("http://").unwrap().strip_suffix("/metrics").unwrap();
    let mut stream = std::net::TcpStream::connect(address).unwrap();
    stream.write_all(b"GET /metrics HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[tokio::test]
async fn metrics_are_by_user_and_path() {
    let mut site = Site::open(&["--metrics", "127.0.0.1:0"]);
    let url = site.said("metrics ");
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let target = listener.local_addr().unwrap().to_string();
    let connection = site.http3(TransportConfig::default()).await;
    let (mut send, _receive, _) = connect(&connection, &target, TOKEN).await;
    send.write(Bytes::from_static(&[7; 1_000])).await.unwrap();
    let (mut accepted, _) = within(listener.accept()).await.unwrap();
    within(accepted.read_exact(&mut [0; 1_000])).await.unwrap();
    assert_eq!(connect(&connection, "127.0.0.1:1", "Bearer alice.no").await.2, 407);
    let text = scrape(&url);
    for line in [
        "anabranch_proxy_user_tunnels_active{user=\"alice\"} 1",
        "anabranch_proxy_user_sent_bytes_total{user=\"alice\"} 1000",
        "anabranch_connections_active{transport=\"quic\"} 1",
        "outcome=\"unauthenticated\",refused=\"true\"} 1",
        "anabranch_quic_sent_bytes_total{path=\"0\"}",
    ] {
        assert!(text.contains(line), "{line} in {text}");
    }
    assert_eq!(text.matches("# EOF").count(), 1);
}

/// Checks that clients of all workers count as one user's.
#[tokio::test]
async fn workers_share_one_address_and_its_users() {
    const CLIENTS: usize = 8;
    let mut site = Site::open(&["--workers", "2", "--metrics", "127.0.0.1:0"]);
    let url = site.said("metrics ");
    #[cfg(target_os = "linux")]
    {
        let sockets = std::fs::read_to_string("/proc/net/udp").unwrap();
        let address = format!(" 0100007F:{:04X} ", site.address.port());
        assert_eq!(sockets.lines().filter(|line| line.contains(&address)).count(), 2);
    }
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let target = listener.local_addr().unwrap().to_string();
    let mut open = Vec::new();
    for _ in 0..CLIENTS {
        let connection = site.http3(TransportConfig::default()).await;
        let (mut send, receive, status) = connect(&connection, &target, TOKEN).await;
        assert_eq!(status, 200);
        send.write(Bytes::from_static(&[7; 1_000])).await.unwrap();
        let (mut accepted, _) = within(listener.accept()).await.unwrap();
        within(accepted.read_exact(&mut [0; 1_000])).await.unwrap();
        open.push((connection, send, receive, accepted));
    }
    let text = scrape(&url);
    for line in [
        "anabranch_proxy_user_tunnels_active{user=\"alice\"} 8",
        "anabranch_proxy_user_sent_bytes_total{user=\"alice\"} 8000",
        "anabranch_connections_active{transport=\"quic\"} 8",
    ] {
        assert!(text.contains(line), "{line} in {text}");
    }
}

#[tokio::test]
async fn users_are_read_again_without_a_dropped_tunnel() {
    let site = Site::open(&[]);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let target = listener.local_addr().unwrap().to_string();
    let connection = site.http3(TransportConfig::default()).await;
    let (mut send, _receive, status) = connect(&connection, &target, TOKEN).await;
    assert_eq!(status, 200);
    let (mut accepted, _) = within(listener.accept()).await.unwrap();
    // A file with a mistake changes nothing.
    std::fs::write(site.field.path("users.toml"), "[[user]]\nname = 1\n").unwrap();
    site.signal("-HUP");
    let log = site.log_with("stay as they were");
    assert!(log.contains("users.toml:2: "), "{log}");
    assert_eq!(connect(&connection, &target, TOKEN).await.2, 200);
    site.field.write_users(&[("bob", "milk")]);
    site.signal("-HUP");
    site.log_with("read again");
    assert_eq!(connect(&connection, &target, TOKEN).await.2, 407);
    assert_eq!(connect(&connection, &target, "Bearer bob.milk").await.2, 200);
    send.write(Bytes::from("on")).await.unwrap();
    let mut read = [0; 2];
    within(accepted.read_exact(&mut read)).await.unwrap();
    assert_eq!(&read, b"on");
}

#[tokio::test]
async fn open_tunnels_have_time_to_end() {
    let mut site = Site::open(&["--drain", "30"]);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let target = listener.local_addr().unwrap().to_string();
    let connection = site.http3(TransportConfig::default()).await;
    let (mut send, mut receive, _) = connect(&connection, &target, TOKEN).await;
    let (mut accepted, _) = within(listener.accept()).await.unwrap();
    site.signal("-TERM");
    within(connection.going_away()).await.unwrap();
    assert!(std::net::TcpStream::connect(site.address).is_err() || site.child.try_wait().unwrap().is_none());
    send.write(Bytes::from("last")).await.unwrap();
    send.finish().unwrap();
    let mut last = String::new();
    within(accepted.read_to_string(&mut last)).await.unwrap();
    assert_eq!(last, "last");
    drop(accepted);
    assert_eq!(within(receive.read_chunk(10)).await.unwrap(), None);
    let begin = Instant::now();
    let status = tokio::task::spawn_blocking(move || site.wait()).await.unwrap();
    assert!(status.success());
    assert!(begin.elapsed() < Duration::from_secs(20), "it does not wait for nothing");
}

#[tokio::test]
async fn tunnels_that_stay_are_aborted_when_time_is_up() {
    let mut site = Site::open(&["--drain", "1"]);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let target = listener.local_addr().unwrap().to_string();
    let connection = site.http3(TransportConfig::default()).await;
    let _open = connect(&connection, &target, TOKEN).await;
    let (mut accepted, _) = within(listener.accept()).await.unwrap();
    site.signal("-TERM");
    let error = within(accepted.read(&mut [0])).await.unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);
    let (status, log) =
        tokio::task::spawn_blocking(move || (site.wait(), site.log_with(" client"))).await.unwrap();
    assert!(status.success(), "{log}");
}

#[tokio::test]
async fn by_default_this_host_is_out_of_reach() {
    let args: Vec<_> = OPEN.iter().copied().filter(|arg| !["--allow", "127.0.0.0/8"].contains(arg)).collect();
    let site = Site::start(Field::new(), &args);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let connection = site.http3(TransportConfig::default()).await;
    for host in ["127.0.0.1", "localhost", "[::ffff:127.0.0.1]", "2130706433", "127.1"] {
        let (_, _, status) = connect(&connection, &format!("{host}:{port}"), TOKEN).await;
        assert_eq!(status, 502, "{host}");
    }
    assert!(tokio::time::timeout(Duration::from_millis(200), listener.accept()).await.is_err());
    site.log_with("refused destination_ip_prohibited");
}

#[tokio::test]
async fn everything_may_be_in_the_file() {
    let field = Field::new();
    let text = "listen = [\"127.0.0.1:0\"]\nusers = \"users.toml\"\ncert = \"cert.pem\"\nkey = \"key.pem\"\n\
                tcp = false\n[access]\nallow = [\"127.0.0.1\"]\n[limits]\nflows = 1\n";
    std::fs::write(field.path("proxy.toml"), text).unwrap();
    let site = Site::start(field, &["--config", "proxy.toml"]);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let target = listener.local_addr().unwrap().to_string();
    let connection = site.http3(TransportConfig::default()).await;
    let _open = connect(&connection, &target, TOKEN).await;
    assert_eq!(_open.2, 200);
    assert_eq!(connect(&connection, &target, TOKEN).await.2, 503, "one flow");
    assert!(std::net::TcpStream::connect(site.address).is_err(), "no TCP");
}
