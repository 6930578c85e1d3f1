//! Programs that use the SOCKS5 and HTTP ports, and forwarded ports.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream, UdpSocket};
use std::process::Command;
use std::thread;
use std::time::Duration;

use anabranch_testkit::pattern;

use super::process::{Field, PATIENCE, eventually};
use super::socks::{self, Association};
use super::targets;

/// Runs curl with these arguments, and returns the content that it fetched; `None` if curl is not installed.
fn curl(args: &[&str]) -> Option<Vec<u8>> {
    let output = Command::new("curl").args(["-sS", "--max-time", "60"]).args(args).output();
    let Ok(output) = output else {
        eprintln!("skipped: curl is not installed");
        return None;
    };
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    Some(output.stdout)
}

#[test]
fn curl_fetches_through_socks_and_http() {
    let (field, web) = (Field::new(), targets::web(3_000_000));
    let (_proxy, address) = field.proxy("127.0.0.1:0", &[]);
    let client = field.connect(address, &[]);
    let (socks, http) = (format!("socks5h://{}", client.socks), format!("http://{}", client.http));
    // The proxy resolves the name.
    for host in ["127.0.0.1", "localhost"] {
        let url = format!("http://{host}:{}/", web.port());
        for args in [&["--proxy", &socks, &url][..], &["--proxy", &http, "--proxytunnel", &url]] {
            let Some(fetched) = curl(args) else { return };
            assert!(fetched == pattern(3_000_000), "{args:?}: {} bytes", fetched.len());
        }
    }
}

#[test]
fn many_programs_share_the_tunnel() {
    let (field, echo) = (Field::new(), targets::echo());
    let (_proxy, address) = field.proxy("127.0.0.1:0", &[]);
    let client = field.connect(address, &["--scheduler", "min-rtt", "--not-path", "eth9"]);
    let socks = client.socks;
    let programs: Vec<_> = (0..16)
        .map(|n| {
            thread::spawn(move || {
                let mut stream = socks::connect(socks, "127.0.0.1", echo.port()).unwrap();
                let sent = pattern(500_000 + n);
                let mut writer = stream.try_clone().unwrap();
                let writing = thread::spawn({
                    let sent = sent.clone();
                    move || {
                        writer.write_all(&sent).unwrap();
                        writer.shutdown(Shutdown::Write).unwrap();
                    }
                });
                let mut received = Vec::new();
                stream.read_to_end(&mut received).unwrap();
                writing.join().unwrap();
                assert!(received == sent, "{n}: {} bytes", received.len());
            })
        })
        .collect();
    programs.into_iter().for_each(|program| program.join().unwrap());
}

#[test]
fn a_response_comes_after_the_end_of_its_request() {
    let (field, counter) = (Field::new(), targets::counter());
    let (_proxy, address) = field.proxy("127.0.0.1:0", &[]);
    let client = field.connect(address, &[]);
    let url = format!("https://localhost:{}", address.port());
    let route = format!("127.0.0.1:0={counter}/tcp");
    let mut forward = field.start("forward.log", &field.client(&["forward"], &url, &[&route]));
    let port = forward.said("forwarding ");
    let port: SocketAddr = port.split(' ').next().unwrap().parse().unwrap();
    let direct = TcpStream::connect(port).unwrap();
    let through_socks = socks::connect(client.socks, "127.0.0.1", counter.port()).unwrap();
    for mut stream in [through_socks, http_connect(client.http, counter), direct] {
        stream.write_all(&pattern(100_000)).unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        let mut response = String::new();
        stream.read_to_string(&mut response).unwrap();
        assert_eq!(response, "100000 bytes");
    }
    assert!(forward.terminate().success());
}

/// Opens a connection through the HTTP port.
fn http_connect(http: SocketAddr, target: SocketAddr) -> TcpStream {
    let mut stream = TcpStream::connect(http).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    write!(stream, "CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n\r\n").unwrap();
    assert_eq!(head(&mut stream).lines().next(), Some("HTTP/1.1 200 OK"));
    stream
}

/// Reads the header section of a response.
fn head(stream: &mut TcpStream) -> String {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).unwrap();
        head.push(byte[0]);
    }
    String::from_utf8(head).unwrap()
}

#[test]
fn the_http_port_says_what_it_does_not_do() {
    let (field, web) = (Field::new(), targets::web(10));
    let (_proxy, address) = field.proxy("127.0.0.1:0", &[]);
    std::fs::write(field.path("user"), "me:secret").unwrap();
    let client = field.connect(address, &["--local-user-file", "user"]);
    let ask = |request: String| {
        let mut stream = TcpStream::connect(client.http).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let mut response = String::new();
        stream.read_to_string(&mut response).unwrap();
        response
    };
    // The credentials are `me:secret` and `me:other`.
    let allowed = "Proxy-Authorization: Basic bWU6c2VjcmV0\r\nConnection: close\r\n\r\n";
    let refused = "Proxy-Authorization: Basic bWU6b3RoZXI=\r\nConnection: close\r\n\r\n";
    let plain = ask(format!("GET http://{web}/ HTTP/1.1\r\nHost: {web}\r\n{allowed}"));
    assert!(plain.starts_with("HTTP/1.1 405 ") && plain.contains("CONNECT only"), "{plain}");
    let connect = format!("CONNECT {web} HTTP/1.1\r\nHost: {web}\r\n");
    for wrong in [refused, "Connection: close\r\n\r\n"] {
        let answer = ask(format!("{connect}{wrong}"));
        assert!(answer.starts_with("HTTP/1.1 407 ") && answer.contains("proxy-authenticate"), "{answer}");
    }
    // No socket listens on port 1.
    let dead = ask(format!("CONNECT 127.0.0.1:1 HTTP/1.1\r\nHost: x\r\n{allowed}"));
    assert!(dead.starts_with("HTTP/1.1 502 ") && dead.contains("connection_refused"), "{dead}");

    // The SOCKS5 port requires the password, too.
    let mut stream = TcpStream::connect(client.socks).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(&[5, 1, 0]).unwrap();
    let mut chosen = [0; 2];
    stream.read_exact(&mut chosen).unwrap();
    assert_eq!(chosen, [5, 0xff]);
    let good = format!("socks5h://me:secret@{}", client.socks);
    if let Some(fetched) = curl(&["--proxy", &good, &format!("http://{web}/")]) {
        assert!(fetched == pattern(10));
    }
}

#[test]
fn datagrams_pass_through_socks_and_forwards() {
    let (field, echo) = (Field::new(), targets::udp_echo());
    let (_proxy, address) = field.proxy("127.0.0.1:0", &[]);
    let mut client = field.connect(address, &[]);
    let association = Association::new(client.socks).unwrap();
    let payload = pattern(1_000);
    // Two flows of one association, by address and by name. Fragments are dropped.
    association.send_fragment(1, "127.0.0.1", echo.port(), b"fragment");
    for host in ["127.0.0.1", "localhost"] {
        for _ in 0..10 {
            association.send(host, echo.port(), &payload);
            assert_eq!(association.receive(host, echo.port()), [b"echo", &payload[..]].concat());
        }
    }
    association.control.shutdown(Shutdown::Both).unwrap();
    eventually("the end of the association", || association.is_gone().then_some(()));

    let url = format!("https://localhost:{}", address.port());
    let route = format!("127.0.0.1:0={echo}/udp");
    let mut forward = field.start("forward.log", &field.client(&["forward"], &url, &[&route]));
    let port = forward.said("forwarding ").split(' ').next().unwrap().to_owned();
    let programs: Vec<_> = (0..4).map(|_| UdpSocket::bind("127.0.0.1:0").unwrap()).collect();
    for (n, program) in programs.iter().enumerate() {
        program.set_read_timeout(Some(PATIENCE)).unwrap();
        program.connect(&port).unwrap();
        program.send(&[n as u8]).unwrap();
    }
    for (n, program) in programs.iter().enumerate() {
        let mut received = [0; 100];
        let len = program.recv(&mut received).unwrap();
        assert_eq!(received[..len], [b"echo", &[n as u8][..]].concat());
    }
    assert!(forward.terminate().success() && client.process.terminate().success());
}

#[test]
fn flows_end_when_they_are_idle() {
    let (field, echo) = (Field::new(), targets::udp_echo());
    let (_proxy, address) = field.proxy("127.0.0.1:0", &[]);
    let client = field.connect(address, &["--udp-idle", "1", "-vv"]);
    let association = Association::new(client.socks).unwrap();
    association.send("127.0.0.1", echo.port(), b"1");
    assert_eq!(association.receive("127.0.0.1", echo.port()), b"echo1");
    thread::sleep(Duration::from_millis(2_500));
    association.send("127.0.0.1", echo.port(), b"2");
    assert_eq!(association.receive("127.0.0.1", echo.port()), b"echo2");
    let requests = client.process.log().matches("masque/udp").count();
    assert_eq!(requests, 2, "{}", client.process.log());
}
