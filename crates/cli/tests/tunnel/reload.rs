//! Configuration files that processes read again on SIGHUP.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};

use anabranch_testkit::pattern;

use super::process::{Field, Process, eventually, stderr};
use super::{socks, targets};

/// Length of the download, in bytes.
const LEN: usize = 8_000_000;

/// Returns a port that is free now.
fn free() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

/// Writes a client's configuration with the proxy's port and the lines in `more`.
fn write(field: &Field, name: &str, port: u16, more: &str) {
    let text = format!(
        "proxy = \"https://localhost:{port}\"\ntoken_file = \"token\"\nca = \"cert.pem\"\npath = \"lo\"\n{more}\n"
    );
    std::fs::write(field.path(name), text).unwrap();
}

/// Sends SIGHUP to a process, waits until its log contains `wanted`, and returns the new part of the log.
fn reload(process: &Process, wanted: &str) -> String {
    let before = process.log().len();
    process.signal("-HUP");
    eventually(wanted, || {
        let log = process.log()[before..].to_owned();
        log.contains(wanted).then_some(log)
    })
}

/// Returns whether an echoing target sends a byte back through a SOCKS5 port.
fn echoes(port: SocketAddr, target: SocketAddr) -> bool {
    let Ok(mut stream) = socks::connect(port, "127.0.0.1", target.port()) else { return false };
    stream.write_all(b"x").unwrap();
    let mut received = [0];
    stream.read_exact(&mut received).is_ok() && received == *b"x"
}

#[test]
fn a_download_goes_on_while_the_configuration_changes() {
    let (field, web, echo) = (Field::new(), targets::web(LEN), targets::echo());
    let (_proxy, address) = field.proxy("127.0.0.1:0", &[]);
    let mut link = field.start("link.log", &["relay", "40mbit/10ms", &address.to_string()]);
    let slow: SocketAddr = link.said("listening ").parse().unwrap();
    let [first, second, third] = [free(), free(), free()];
    write(&field, "c.toml", slow.port(), &format!("socks = \"{first}\"\nhttp = \"{third}\"\nmax_paths = 2"));
    let mut client = field.start("client.log", &["proxy", "connect", "--config", "c.toml"]);
    assert_eq!(client.said("listening socks "), first.to_string());
    client.said("listening http ");

    let mut stream = socks::connect(first, "127.0.0.1", web.port()).unwrap();
    stream.write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    let (mut received, mut piece) = (Vec::new(), vec![0; 65_536]);
    let mut is_changed = false;
    loop {
        let len = stream.read(&mut piece).unwrap();
        if len == 0 {
            break;
        }
        received.extend_from_slice(&piece[..len]);
        if !is_changed && received.len() > LEN / 4 {
            is_changed = true;
            // The new configuration needs another connection to the proxy. It opens one port and closes two, one of which the
            // download uses.
            let changed = format!("socks = \"{second}\"\nmax_paths = 3\nmetrics = \"127.0.0.1:0\"");
            write(&field, "c.toml", slow.port(), &changed);
            let log = reload(&client, "read again");
            assert!(log.contains("new tunnels use a new connection; ports: 1 opened, 2 closed"), "{log}");
            assert!(log.contains("a new value of metrics has no effect before a restart"), "{log}");
            assert!(echoes(second, echo), "{}", client.log());
            assert!(TcpStream::connect(first).is_err() && TcpStream::connect(third).is_err());
        }
    }
    let body = received.windows(4).position(|four| four == b"\r\n\r\n").unwrap() + 4;
    assert!(is_changed && received[body..] == pattern(LEN), "{} bytes", received.len());

    // An invalid configuration changes nothing.
    write(&field, "c.toml", slow.port(), &format!("socks = \"{first}\"\nmax_path = 3"));
    let log = reload(&client, "everything stays as it was");
    assert!(log.contains("c.toml:6: unknown key `max_path`; did you mean `max_paths`?"), "{log}");
    // Neither does the configuration of a proxy that does not respond.
    write(&field, "c.toml", free().port(), &format!("socks = \"{first}\"\ntimeout = 1"));
    reload(&client, "everything stays as it was");
    assert!(echoes(second, echo) && TcpStream::connect(first).is_err());
    assert!(client.terminate().success());
}

#[test]
fn credentials_are_read_again() {
    let (field, echo) = (Field::new(), targets::echo());
    let (_proxy, address) = field.proxy("127.0.0.1:0", &[]);
    let port = free();
    write(&field, "c.toml", address.port(), &format!("socks = \"{port}\""));
    let mut client = field.start("client.log", &["proxy", "connect", "--config", "c.toml"]);
    client.said("listening socks ");
    let log = reload(&client, "read again");
    assert!(log.contains("the connection stays; ports: 0 opened, 0 closed"), "{log}");
    std::fs::copy(field.path("wrong"), field.path("token")).unwrap();
    let log = reload(&client, "everything stays as it was");
    assert!(log.contains("the proxy does not accept the credentials"), "{log}");
    assert!(echoes(port, echo));
}

/// The proxy's answer takes longer than the start of a client waits for it.
#[test]
fn wrong_credentials_replace_nothing_over_a_long_link() {
    let (field, echo) = (Field::new(), targets::echo());
    let (_proxy, address) = field.proxy("127.0.0.1:0", &[]);
    let mut link = field.start("link.log", &["relay", "40mbit/1100ms", &address.to_string()]);
    let slow: SocketAddr = link.said("listening ").parse().unwrap();
    let port = free();
    write(&field, "c.toml", slow.port(), &format!("socks = \"{port}\""));
    let mut client = field.start("client.log", &["proxy", "connect", "--config", "c.toml"]);
    client.said("listening socks ");
    std::fs::copy(field.path("wrong"), field.path("token")).unwrap();
    let log = reload(&client, "everything stays as it was");
    assert!(log.contains("the proxy does not accept the credentials"), "{log}");
    assert!(echoes(port, echo));
}

#[test]
fn forwards_change_their_targets() {
    let (field, echo) = (Field::new(), targets::echo());
    let (_proxy, address) = field.proxy("127.0.0.1:0", &[]);
    let port = free();
    write(&field, "f.toml", address.port(), &format!("routes = [\"{port}=127.0.0.1:1\"]"));
    let mut forward = field.start("forward.log", &["forward", "--config", "f.toml"]);
    assert_eq!(forward.said("forwarding "), format!("{port} to 127.0.0.1:1/tcp"));
    assert_eq!(
        TcpStream::connect(port).unwrap().read(&mut [0]).unwrap_err().kind(),
        std::io::ErrorKind::ConnectionReset
    );
    write(&field, "f.toml", address.port(), &format!("routes = [\"{port}={echo}\"]"));
    reload(&forward, "read again: the connection stays; ports: 0 opened, 0 closed");
    let mut stream = TcpStream::connect(port).unwrap();
    stream.write_all(b"x").unwrap();
    stream.read_exact(&mut [0]).unwrap();
    assert!(forward.terminate().success());
}

#[test]
fn files_with_typos_are_refused_with_key_and_line() {
    let field = Field::new();
    write(&field, "c.toml", 1, "sosks = \"127.0.0.1:1080\"");
    let check = |file: &str| field.run(&["proxy", "check", file]);
    for output in [check("c.toml"), field.run(&["proxy", "connect", "--config", "c.toml"])] {
        assert_eq!(output.status.code(), Some(2));
        let said = stderr(&output);
        assert!(said.contains("c.toml:5: unknown key `sosks`; did you mean `socks`?"), "{said}");
        assert_eq!(said.lines().count(), 1, "{said}");
    }
    write(&field, "c.toml", 1, "socks = \"127.0.0.1:1080\"\nmax_paths = 99");
    assert!(stderr(&check("c.toml")).contains("c.toml:6: max_paths: invalid value '99'"));
    write(&field, "c.toml", 1, "socks = \"127.0.0.1:1080\"");
    let good = check("c.toml");
    assert!(good.status.success(), "{}", stderr(&good));
    assert!(String::from_utf8(good.stdout).unwrap().ends_with("good, for `anabranch proxy connect`\n"));
    write(&field, "f.toml", 1, "routes = [\"5353=1.1.1.1:53/udp\",\n\"80=x:1/sctp\"]");
    let said = stderr(&check("f.toml"));
    assert!(said.contains("f.toml:6: routes: ") && said.contains("neither tcp nor udp"), "{said}");
    write(&field, "f.toml", 1, "routes = \"5353=1.1.1.1:53/udp\"");
    assert!(check("f.toml").status.success());
    // Files that the configuration names are checked, too.
    std::fs::remove_file(field.path("token")).unwrap();
    assert!(stderr(&check("f.toml")).contains("token"));
}
