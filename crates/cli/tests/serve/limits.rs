//! Limits on clients: memory, silence and sizes of requests; and the small memory use of large files.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use http_body_util::BodyExt;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::client::{self, ALL, Over, PATIENCE, Server, eventually, runtime};

/// `MAX_CONNECTIONS` of the listener.
const MAX_CONNECTIONS: usize = 512;

/// Connections beyond the bound wait until others end.
#[test]
fn connections_over_tcp_are_bounded() {
    let server = Server::start(&["--metrics", "127.0.0.1:0"]);
    let mut held: Vec<_> =
        (0..MAX_CONNECTIONS).map(|_| TcpStream::connect(server.address).unwrap()).collect();
    let asking = std::thread::spawn({
        let (address, ca) = (server.address, server.field.path("cert.pem"));
        move || {
            runtime().block_on(async {
                let ready =
                    tokio::time::timeout(Duration::from_secs(2), client::tls(address, &ca, "h2")).await;
                ready.is_ok()
            })
        }
    });
    assert!(!asking.join().unwrap(), "nobody is served");
    held.truncate(MAX_CONNECTIONS / 2);
    assert_eq!(server.get(Over::Http2, "/small.txt").status, 200);
    drop(held);
}

/// QUIC connections beyond `--max-connections` are refused, until others end.
#[test]
fn connections_over_quic_are_bounded() {
    let server = Server::start(&["--max-connections", "1", "--drain", "0"]);
    let (address, ca) = (server.address, server.field.path("cert.pem"));
    let url = format!("https://localhost:{}/small.txt", address.port());
    runtime().block_on(async {
        let first = client::client(address, &ca);
        first.get(&url).await.unwrap();
        let refused = client::client(address, &ca).get(&url).await.map(drop).expect_err("there is room");
        assert!(refused.to_string().contains("CONNECTION_REFUSED"), "{refused}");
        drop(first);
        // The first connection has ended once its CONNECTION_CLOSE has arrived and the server has drained it.
        let begin = std::time::Instant::now();
        while client::client(address, &ca).get(&url).await.is_err() {
            assert!(begin.elapsed() < PATIENCE, "the place is still taken");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    });
}

/// A client that sends nothing before or after TLS, or never ends a header, is disconnected.
#[test]
fn silence_has_an_end() {
    let server = Server::start(&[]);
    let mut silent = TcpStream::connect(server.address).unwrap();
    silent.set_read_timeout(Some(PATIENCE)).unwrap();
    runtime().block_on(async {
        let ca = server.field.path("cert.pem");
        let mut unfinished = client::tls(server.address, &ca, "http/1.1").await;
        unfinished.write_all(b"GET / HTTP/1.1\r\nhost: x\r\n").await.unwrap();
        let mut mute = client::tls(server.address, &ca, "http/1.1").await;
        for stream in [&mut unfinished, &mut mute] {
            let mut heard = Vec::new();
            let ended = tokio::time::timeout(PATIENCE, stream.read_to_end(&mut heard)).await;
            assert!(ended.is_ok(), "it was not hung up on");
        }
    });
    let end = silent.read(&mut [0; 10]);
    assert!(matches!(&end, Ok(0)) || end.is_err_and(|error| error.kind() != ErrorKind::WouldBlock));
}

#[test]
fn headers_are_bounded() {
    let server = Server::start(&[]);
    let many: Vec<_> = (0..101).map(|n| format!("x-{n}")).collect();
    let fields: Vec<_> = many.iter().map(|name| (name.as_str(), "1")).collect();
    assert_eq!(server.ask(Over::Http1, "GET", "/", &fields).status, 431);
    let long = "x".repeat(40_000);
    assert_eq!(server.ask(Over::Http2, "GET", "/", &[("x", &long)]).status, 431);
    assert_eq!(server.ask(Over::Http2, "GET", "/", &[("x", &long[..10_000])]).status, 200);
    // A client that continues to send may lose the response, but the server does not read everything.
    runtime().block_on(async {
        let mut stream = client::tls(server.address, &server.field.path("cert.pem"), "http/1.1").await;
        let endless = format!("GET / HTTP/1.1\r\nhost: x\r\nx: {}", long.repeat(1_000));
        let cut_off = stream.write_all(endless.as_bytes()).await.is_err();
        let mut heard = Vec::new();
        let _ = tokio::time::timeout(PATIENCE, stream.read_to_end(&mut heard)).await.unwrap();
        assert!(cut_off || heard.starts_with(b"HTTP/1.1 431"), "{}", String::from_utf8_lossy(&heard));
    });
}

/// Plain HTTP is refused and does no harm.
#[test]
fn plain_http_is_hung_up_on() {
    let server = Server::start(&[]);
    let mut stream = TcpStream::connect(server.address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n").unwrap();
    let mut heard = Vec::new();
    let _ = stream.read_to_end(&mut heard);
    assert!(!heard.starts_with(b"HTTP"));
    assert_eq!(server.get(Over::Http1, "/small.txt").status, 200);
}

/// A client downloads a gigabyte, fast, slowly or with pauses. The server's memory never holds more of the file
/// than the send buffer and a few pieces. The test reads the server's own count of that memory, because the
/// allocator's overhead depends on the number of threads.
#[test]
fn large_files_cost_little_memory() {
    const LEN: u64 = 1 << 30;
    /// `send_buffer` of the transport.
    const SEND_BUFFER: u64 = 16 << 20;
    /// Four pieces of `MAX_PIECE` bytes: one is partly acknowledged, one waits to be sent, one was read
    /// ahead, and one is being read.
    const PIECES: u64 = 4 * 128 * 1024;
    let mut server = Server::start(&["--metrics", "127.0.0.1:0"]);
    let metrics = server.said("metrics http://");
    let metrics = metrics.trim_end_matches("/metrics");
    std::fs::File::create(server.field.path("root/huge")).unwrap().set_len(LEN).unwrap();
    // The client stays connected until the server has received its last acknowledgment.
    let freed = || {
        let metrics = metrics.to_owned();
        let none = move || (figure(&metrics, "anabranch_file_memory_bytes") == 0).then_some(());
        async { tokio::task::spawn_blocking(|| eventually("the memory to be free", none)).await.unwrap() }
    };
    for over in ALL {
        let received = runtime().block_on(async {
            let (address, ca) = (server.address, server.field.path("cert.pem"));
            let url = format!("https://localhost:{}/huge", address.port());
            if over == Over::Http3 {
                let client = client::client(address, &ca);
                let mut body = client.get(&url).await.unwrap().into_body();
                let mut received = 0;
                while let Some(len) = body.read_with(<[u8]>::len).await.unwrap() {
                    received += len as u64;
                    pause(received, len as u64).await;
                }
                freed().await;
                return received;
            }
            let uri = if over == Over::Http1 { "/huge" } else { url.as_str() };
            let request = http::Request::get(uri).header("host", "localhost");
            let request = request.body(http_body_util::Empty::new()).unwrap();
            let mut body = client::send(address, &ca, over, request).await.into_body();
            let mut received = 0;
            while let Some(frame) = body.frame().await {
                let len = frame.unwrap().into_data().map_or(0, |data| data.len() as u64);
                received += len;
                pause(received, len).await;
            }
            freed().await;
            received
        });
        assert_eq!(received, LEN, "{over:?}");
        let most = figure(metrics, "anabranch_file_memory_max_bytes");
        assert!(most > 0 && most <= SEND_BUFFER + PIECES, "{over:?}: {most} bytes");
    }
    eventually("the log", || (server.log().lines().count() == ALL.len()).then_some(()));
}

/// Pauses now and then, like a slow reader.
async fn pause(received: u64, len: u64) {
    const EVERY: u64 = 100 << 20;
    if received / EVERY > (received - len) / EVERY {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// Returns a value of the server's metrics.
pub(crate) fn figure(metrics: &str, name: &str) -> u64 {
    let mut stream = TcpStream::connect(metrics).unwrap();
    stream.write_all(b"GET /metrics HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.unwrap_or_else(|| panic!("no {name} in {text}")).trim().parse().unwrap()
}

/// The server aborts a response if the client reads nothing of it for `--stall-timeout`, and logs that.
#[test]
fn stalled_answers_are_given_up() {
    let server = Server::start(&["--stall-timeout", "1"]);
    std::fs::File::create(server.field.path("root/huge")).unwrap().set_len(1 << 30).unwrap();
    runtime().block_on(async {
        let (address, ca) = (server.address, server.field.path("cert.pem"));
        let url = format!("https://localhost:{}/huge", address.port());
        let mut body = client::client(address, &ca).get(&url).await.unwrap().into_body();
        tokio::time::sleep(Duration::from_secs(4)).await;
        let error = loop {
            match body.read_with(<[u8]>::len).await {
                Ok(Some(_)) => {}
                other => break other.expect_err("all of it was sent"),
            }
        };
        assert!(error.to_string().contains("H3_EXCESSIVE_LOAD"), "{error}");
    });
    let line = &server.log_of(1)[0];
    assert!(line.contains("\"GET /huge h3\" 200 ") && line.ends_with(" aborted"), "{line}");
}

/// A reader may pause longer than the server waits for requests.
#[test]
fn a_reader_may_pause() {
    let server = Server::start(&["--stall-timeout", "0"]);
    let content: Vec<u8> = (0..8_000_000_u32).map(|i| (i.wrapping_mul(0x9e37_79b1) >> 24) as u8).collect();
    std::fs::write(server.field.path("root/file"), &content).unwrap();
    let mut child = std::process::Command::new(env!("CARGO_BIN_EXE_anabranch"))
        .args(["get", "-o", "-", "--retry", "0", "--window", "200000", "--ca"])
        .arg(server.field.path("cert.pem"))
        .arg(format!("https://localhost:{}/file", server.address.port()))
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    // As with `get … | (sleep 45; wc -c)`. An earlier version aborted such a response after 20 s.
    std::thread::sleep(Duration::from_secs(25));
    let mut read = Vec::new();
    child.stdout.take().unwrap().read_to_end(&mut read).unwrap();
    assert!(child.wait().unwrap().success() && read == content, "{} bytes", read.len());
    assert!(!server.log_of(1)[0].ends_with("aborted"));
}
