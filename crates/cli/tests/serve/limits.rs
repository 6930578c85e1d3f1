//! What clients cannot do: hold everything, say nothing, ask for too much; and that large files cost little memory.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use http_body_util::BodyExt;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::client::{self, ALL, Over, PATIENCE, Server, eventually, runtime};

/// `MAX_CONNECTIONS` of the listener.
const MAX_CONNECTIONS: usize = 512;
/// Most memory that a server may have used, in kB.
const MAX_MEMORY: u64 = 100_000;

/// Those beyond the bound wait, and have their turn when others leave.
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

/// Who says nothing, before TLS or after, or never comes to the end of a header, is hung up on.
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
    // Who goes on sending may lose the answer, but not make the server read it all.
    runtime().block_on(async {
        let mut stream = client::tls(server.address, &server.field.path("cert.pem"), "http/1.1").await;
        let endless = format!("GET / HTTP/1.1\r\nhost: x\r\nx: {}", long.repeat(1_000));
        let cut_off = stream.write_all(endless.as_bytes()).await.is_err();
        let mut heard = Vec::new();
        let _ = tokio::time::timeout(PATIENCE, stream.read_to_end(&mut heard)).await.unwrap();
        assert!(cut_off || heard.starts_with(b"HTTP/1.1 431"), "{}", String::from_utf8_lossy(&heard));
    });
}

/// Plain HTTP is not TLS, and does no harm.
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

/// A gigabyte costs no more memory than a few pieces of it, however fast or slow it is taken.
#[test]
fn large_files_cost_little_memory() {
    const LEN: u64 = 1 << 30;
    let server = Server::start(&[]);
    std::fs::File::create(server.field.path("root/huge")).unwrap().set_len(LEN).unwrap();
    for over in ALL {
        let received = runtime().block_on(async {
            let (address, ca) = (server.address, server.field.path("cert.pem"));
            let url = format!("https://localhost:{}/huge", address.port());
            if over == Over::Http3 {
                let mut body = client::client(address, &ca).get(&url).await.unwrap().into_body();
                let mut received = 0;
                while let Some(len) = body.read_with(<[u8]>::len).await.unwrap() {
                    received += len as u64;
                }
                return received;
            }
            let uri = if over == Over::Http1 { "/huge" } else { url.as_str() };
            let request = http::Request::get(uri).header("host", "localhost");
            let request = request.body(http_body_util::Empty::new()).unwrap();
            let mut body = client::send(address, &ca, over, request).await.into_body();
            let mut received = 0;
            while let Some(frame) = body.frame().await {
                received += frame.unwrap().into_data().map_or(0, |data| data.len() as u64);
            }
            received
        });
        assert_eq!(received, LEN, "{over:?}");
        let peak = peak_memory(server.child.id());
        assert!(peak < MAX_MEMORY, "{over:?}: {peak} kB");
    }
    eventually("the log", || (server.log().lines().count() == ALL.len()).then_some(()));
}

/// Most memory that a process has had, in kB.
fn peak_memory(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}
