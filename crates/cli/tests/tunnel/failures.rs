//! Failures, and their messages, exit statuses and replies to programs.

use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::process::Output;
use std::thread;
use std::time::{Duration, Instant};

use super::process::{Field, PATIENCE, eventually, stderr};
use super::{socks, targets};

/// Checks that a command ended with this status and one line that contains `said`.
#[track_caller]
fn ended(output: &Output, status: i32, said: &str) {
    let line = stderr(output);
    assert_eq!(output.status.code(), Some(status), "{line}");
    assert!(line.contains(said) && line.lines().count() == 1, "{line}");
    assert_eq!(output.stdout, b"");
}

#[test]
fn a_proxy_that_is_killed_and_restarted_is_used_again() {
    let (field, echo) = (Field::new(), targets::echo());
    let (mut proxy, address) = field.proxy("127.0.0.1:0", &[]);
    let mut client = field.connect(address, &["--idle-ms", "3000"]);
    let mut lost = socks::connect(client.socks, "127.0.0.1", echo.port()).unwrap();
    lost.write_all(b"x").unwrap();
    lost.read_exact(&mut [0]).unwrap();
    proxy.kill();
    // The connection is reset, so that the program does not take the loss for the end of the data.
    let error = lost.read_to_end(&mut Vec::new()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConnectionReset);
    eventually("a note of the loss", || client.process.log().contains("is lost").then_some(()));

    // A new connection waits for the proxy.
    let socks = client.socks;
    let waiting = thread::spawn(move || socks::connect(socks, "127.0.0.1", echo.port()));
    thread::sleep(Duration::from_millis(500));
    assert!(!waiting.is_finished());
    let (_again, again) = field.proxy(&address.to_string(), &[]);
    assert_eq!(again, address);
    let mut stream = waiting.join().unwrap().unwrap();
    stream.write_all(b"y").unwrap();
    let mut received = [0];
    stream.read_exact(&mut received).unwrap();
    assert_eq!(received, *b"y");
    eventually("a note", || client.process.log().contains("connected to the proxy again").then_some(()));
    assert!(client.process.terminate().success());
}

#[test]
fn programs_learn_the_true_cause() {
    let (field, resetter) = (Field::new(), targets::resetter());
    let (_proxy, address) = field.proxy("127.0.0.1:0", &[]);
    let client = field.connect(address, &[]);
    let code = |host: &str, port| socks::connect(client.socks, host, port).map(drop);
    // No socket listens on the port (5: connection refused); the name does not exist or is invalid (4: host
    // unreachable).
    assert_eq!(code("127.0.0.1", 1), Err(5));
    assert_eq!(code("no-such-host.invalid", 80), Err(4));
    assert_eq!(code("not a name", 80), Err(4));
    // The proxy's rules do not allow the address (2: connection not allowed).
    assert_eq!(code("169.254.169.254", 80), Err(2));

    let mut stream = socks::connect(client.socks, "127.0.0.1", resetter.port()).unwrap();
    stream.write_all(b"xy").unwrap();
    let error = stream.read_to_end(&mut Vec::new()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConnectionReset);
}

#[test]
fn a_wrong_secret_ends_the_command_with_its_status() {
    let field = Field::new();
    let (_proxy, address) = field.proxy("127.0.0.1:0", &[]);
    let url = format!("https://localhost:{}", address.port());
    let run = |more: &[&str]| {
        let args = ["proxy", "connect", &url, "--ca", "cert.pem", "--path", "lo", "--socks", "127.0.0.1:0"];
        field.run(&[&args[..], more].concat())
    };
    ended(&run(&["--token-file", "wrong"]), 11, "the proxy does not accept the credentials (status 407)");
    ended(&run(&[]), 11, "the proxy wants to know its users (status 407); name --token-file or --user-file");
    ended(&run(&["--user-file", "wrong"]), 2, "wrong holds no NAME:PASSWORD");
    ended(&run(&["--token-file", "missing"]), 2, "cannot read missing");
}

#[test]
fn whatever_is_wrong_is_said_in_one_line() {
    let field = Field::new();
    let (_proxy, address) = field.proxy("127.0.0.1:0", &[]);
    let url = format!("https://localhost:{}", address.port());
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().to_string();
    let common = |url: &str, more: &[&str]| {
        field.run(&field.client(&["proxy", "connect"], url, &[&["--socks", "127.0.0.1:0"], more].concat()))
    };
    ended(&common(&url, &["--http", &port]), 9, &format!("{port} is in use"));
    ended(&common("http://localhost", &[]), 2, "write https://HOST:PORT");
    let told = common("https://me:tea@localhost", &[]);
    ended(&told, 2, "they belong into a file");
    assert!(!stderr(&told).contains("tea"));
    ended(&common(&url, &["--path", "no-such-if0"]), 13, "no interface or address no-such-if0");
    ended(&common("https://no-such-host.invalid", &[]), 3, "cannot resolve no-such-host.invalid");
    // A socket that never responds, and a port without a socket.
    let silent = UdpSocket::bind("127.0.0.1:0").unwrap();
    let url_of = |port: u16| format!("https://localhost:{port}");
    let slow = common(&url_of(silent.local_addr().unwrap().port()), &["--timeout", "1"]);
    ended(&slow, 7, "did not answer on any path within 1 s");
    let port = silent.local_addr().unwrap().port();
    drop(silent);
    ended(&common(&url_of(port), &["--timeout", "20"]), 8, "nothing listens there");

    let pin = format!("sha256:{}", "5a".repeat(32));
    let args = ["proxy", "connect", &url, "--socks", "127.0.0.1:0", "--path", "lo", "--pin", &pin];
    ended(&field.run(&args), 5, "key");
    let forward = |route: &str| field.run(&field.client(&["forward"], &url, &[route]));
    assert_eq!(forward("80").status.code(), Some(2));
    ended(&forward(&format!("{}=127.0.0.1:80", taken.local_addr().unwrap())), 9, "is in use");
}

#[test]
fn programs_that_say_nothing_or_too_much_are_dropped() {
    let field = Field::new();
    let (_proxy, address) = field.proxy("127.0.0.1:0", &[]);
    let client = field.connect(address, &[]);
    let open = |port| {
        let stream = TcpStream::connect(port).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream
    };
    // Beyond MAX_FIELDS and MAX_HEADER the program gets a response, or a reset instead, because the proxy
    // does not read the rest.
    for fields in ["a: b\r\n".repeat(200), format!("a: {}\r\n", "b".repeat(200_000))] {
        let mut stream = open(client.http);
        let _ = write!(stream, "CONNECT localhost:1 HTTP/1.1\r\nHost: x\r\n{fields}\r\n");
        let mut status = [0; 12];
        match stream.read_exact(&mut status) {
            Ok(()) => assert_eq!(&status, b"HTTP/1.1 431"),
            Err(error) => assert_eq!(error.kind(), ErrorKind::ConnectionReset),
        }
    }
    // After MAX_HELLO the proxy closes the connections.
    let begin = Instant::now();
    for mut stream in [open(client.socks), open(client.http)] {
        let _ = stream.write_all(&[5]);
        let mut ignored = Vec::new();
        let _ = stream.read_to_end(&mut ignored);
    }
    assert!(begin.elapsed() < Duration::from_secs(30), "{:?}", begin.elapsed());
}
