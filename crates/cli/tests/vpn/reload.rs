//! The configuration in a file, which is read again while connections are open, and the published state.

use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::thread;
use std::time::Duration;

use super::spaces::{Process, Spaces, TARGET, eventually};

/// Configuration of a VPN, without what changes.
const COMMON: &str = "proxy = \"https://10.71.1.1:4433\"\ntoken_file = \"token\"\nca = \"cert.pem\"\n\
                      path = [\"wifi0\", \"lte0\"]\n";

fn write(spaces: &Spaces, more: &str) {
    fs::write(spaces.path("vpn.toml"), format!("{COMMON}{more}\n")).unwrap();
}

/// Starts echoes of TCP and UDP on the target.
fn echo(spaces: &Spaces) {
    let listener = spaces.within("t", || TcpListener::bind((TARGET[0], 80)).unwrap());
    let socket = spaces.within("t", || UdpSocket::bind((TARGET[0], 7)).unwrap());
    thread::spawn(move || {
        for stream in listener.incoming() {
            thread::spawn(move || {
                let mut stream = stream.unwrap();
                let _ = std::io::copy(&mut stream.try_clone().unwrap(), &mut stream);
            });
        }
    });
    thread::spawn(move || {
        let mut buffer = [0; 100];
        while let Ok((len, from)) = socket.recv_from(&mut buffer) {
            let _ = socket.send_to(&buffer[..len], from);
        }
    });
}

fn connect(spaces: &Spaces) -> TcpStream {
    let stream = spaces.within("c", || TcpStream::connect((TARGET[0], 80)).unwrap());
    stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    assert_eq!(stream.local_addr().unwrap().ip().to_string(), "10.9.0.2");
    stream
}

fn echoes(stream: &mut TcpStream) -> bool {
    let mut received = [0];
    stream.write_all(b"x").is_ok() && stream.read_exact(&mut received).is_ok() && received == *b"x"
}

/// Returns whether a datagram comes back.
fn datagrams_echo(spaces: &Spaces) -> bool {
    let socket = spaces.within("c", || UdpSocket::bind("0.0.0.0:0").unwrap());
    socket.set_read_timeout(Some(Duration::from_secs(1))).unwrap();
    // Packets may be lost.
    (0..5).any(|_| {
        socket.send_to(b"x", (TARGET[0], 7)).unwrap();
        socket.recv(&mut [0; 10]).is_ok()
    })
}

/// Returns the resolvers, routes and rules once the process has read its configuration again.
fn changed(spaces: &Spaces, vpn: &Process, more: &str, wanted: &str) -> String {
    write(spaces, more);
    vpn.reload(wanted);
    spaces.situation()
}

#[test]
fn connections_survive_changes_of_the_configuration() {
    let Some(spaces) = Spaces::make("connections_survive_changes_of_the_configuration") else { return };
    let before = spaces.situation();
    echo(&spaces);
    let _proxy = spaces.proxy();
    write(&spaces, "kill_switch = true");
    let mut vpn = spaces.connect_as(&["vpn", "connect", "--config", "vpn.toml"]);
    let during = spaces.situation();
    assert!(!during.contains("suppress_prefixlength"), "{during}");
    let mut stream = connect(&spaces);
    assert!(echoes(&mut stream));

    let some = "exclude = \"192.0.2.0/24\"\ndns = \"10.70.0.2\"";
    let wanted = "read again: the connection stays; changed: exclude, dns, kill_switch\n";
    let seen = changed(&spaces, &vpn, some, wanted);
    for part in [
        "to 192.0.2.0/24 lookup main goto",
        "nameserver 10.70.0.2",
        "search before.example",
        "suppress_prefixlength",
    ] {
        assert!(seen.contains(part), "{part}: {seen}");
    }
    // The table of this VPN is 0xabab.
    let is_blocked = |line: &str| line.starts_with("unreachable") && line.contains("table 43947");
    assert!(during.lines().any(is_blocked) && !seen.lines().any(is_blocked), "{seen}");
    let wanted = "the connection stays; changed: route, exclude, dns\n";
    let seen = changed(&spaces, &vpn, "route = \"10.70.0.0/16\"\ndns = \"10.70.0.3\"", wanted);
    for part in ["nameserver 10.70.0.3", "10.70.0.0/16 dev anabranch0"] {
        assert!(seen.contains(part), "{part}: {seen}");
    }
    for part in ["192.0.2.0/24", "default dev anabranch0", "nameserver 10.70.0.2", "suppress_prefixlength"] {
        assert!(!seen.contains(part), "{part}: {seen}");
    }
    assert!(echoes(&mut stream) && datagrams_echo(&spaces));

    // An invalid file changes nothing, and neither does a proxy that does not respond.
    let wanted = "vpn.toml:5: unknown key `rout`";
    let after = changed(&spaces, &vpn, "rout = \"10.0.0.0/8\"", "everything stays as it was");
    assert!(vpn.log().contains(wanted) && after == seen, "{}", vpn.log());
    let check = spaces.run("c", &["proxy", "check", "vpn.toml"]);
    let said = String::from_utf8(check.stderr).unwrap();
    assert!(check.status.code() == Some(2) && said.contains(wanted), "{said}");
    let dead = COMMON.replace("4433", "4434");
    fs::write(spaces.path("vpn.toml"), format!("{dead}timeout = 1\nexclude = \"192.0.2.0/24\"\n")).unwrap();
    vpn.reload("everything stays as it was");
    assert_eq!(spaces.situation(), seen);
    assert!(echoes(&mut stream) && datagrams_echo(&spaces));

    // Another connection to the proxy: open connections stay on theirs, and this host keeps its addresses.
    write(&spaces, "max_paths = 3\ndevice = \"other\"");
    let log = vpn.reload("new tunnels use a new connection; changed: route, dns\n");
    assert!(log.contains("a new value of device has no effect before a restart"), "{log}");
    assert!(echoes(&mut stream) && echoes(&mut connect(&spaces)) && datagrams_echo(&spaces));
    assert!(vpn.terminate().success(), "{}", vpn.log());
    assert_eq!(spaces.situation(), before);
    assert!(!spaces.path("run").exists(), "no file is left");
}

#[test]
fn a_vpn_shows_its_state() {
    let Some(spaces) = Spaces::make("a_vpn_shows_its_state") else { return };
    echo(&spaces);
    let _proxy = spaces.proxy();
    write(&spaces, "metrics = \"127.0.0.1:0\"");
    let check = spaces.run("c", &["proxy", "check", "vpn.toml"]);
    let said = String::from_utf8(check.stdout).unwrap();
    // Without keys of its own, a file could be for other clients.
    assert_eq!(said, "vpn.toml: good, for `anabranch proxy connect`\n");
    write(&spaces, "metrics = \"127.0.0.1:0\"\nexclude = \"192.0.2.0/24\"");
    let check = spaces.run("c", &["proxy", "check", "vpn.toml"]);
    assert_eq!(String::from_utf8(check.stdout).unwrap(), "vpn.toml: good, for `anabranch vpn connect`\n");

    let mut vpn = spaces.connect_as(&["vpn", "connect", "--config", "vpn.toml"]);
    let metrics = vpn.said("metrics http://");
    let mut stream = connect(&spaces);
    assert!(echoes(&mut stream) && datagrams_echo(&spaces));
    let state = eventually(|| {
        let output = spaces.run("c", &["status", "--json"]);
        let text = String::from_utf8(output.stdout).unwrap();
        let state: serde_json::Value =
            serde_json::from_str(text.trim()).map_err(|error| format!("{error}: {text}"))?;
        let open = |name: &str| {
            let mut paths = state["paths"].as_array().unwrap().iter();
            paths.any(|path| {
                path["interface"] == name && path["state"] == "open" && path["rtt_ms"].is_number()
            })
        };
        let is_whole = open("wifi0") && open("lte0") && state["flows"]["kinds"][2]["sent"]["bytes"] != 0;
        if is_whole { Ok(state.clone()) } else { Err(text) }
    });
    assert_eq!((&state["role"], &state["state"]), (&"vpn".into(), &"connected".into()));
    assert_eq!(state["addresses"], serde_json::json!(["10.9.0.2", "fd09::2"]));
    let kinds = &state["flows"]["kinds"];
    for (n, kind) in [(0, "tcp"), (2, "ip")] {
        let (seen, active) = (&kinds[n]["kind"], &kinds[n]["active"]);
        assert_eq!((seen, active), (&kind.into(), &1.into()), "{kinds}");
    }
    let table = String::from_utf8(spaces.run("c", &["status"]).stdout).unwrap();
    assert!(
        table.contains("connected, 1 connection; 10.9.0.2 fd09::2") && table.contains("10.70.0.2:80"),
        "{table}"
    );

    let mut scrape = spaces.within("c", || TcpStream::connect(metrics.trim_end_matches("/metrics")).unwrap());
    scrape.write_all(b"GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").unwrap();
    let mut text = String::new();
    scrape.read_to_string(&mut text).unwrap();
    for line in [
        "anabranch_proxy_address{address=\"10.9.0.2\"} 1",
        "anabranch_proxy_tunnels_active{carried=\"ip\"} 1",
        "anabranch_proxy_tunnels_active{carried=\"tcp\"} 1",
        "anabranch_quic_paths{state=\"open\"} 2",
    ] {
        assert!(text.lines().any(|found| found == line), "{line}: {text}");
    }
}
