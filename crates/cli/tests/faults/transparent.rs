//! Connections of programs that know of no proxy (`proxy connect --transparent`).

use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

use crate::ends::{Ends, Flow, eventually, write};
use crate::inside::inside;
use crate::network::{Link, SERVER, SERVER_V6, TARGET, add_target, lay, run, within, within_server};
use crate::scenes::carries;

/// Option that lets clients reach the target.
const ALLOWED: [&str; 2] = ["--allow", TARGET];
/// Maximum time of a connection attempt that is expected to fail.
const BRIEF: Duration = Duration::from_secs(10);
/// Network namespace of a host behind the client.
const BEHIND: &str = "behind";

/// Starts a target that sends the pattern, and returns its address and those of its clients.
fn target(address: &'static str) -> (SocketAddr, Receiver<IpAddr>) {
    let listener = within_server(move || TcpListener::bind((address, 0)).unwrap());
    let address = listener.local_addr().unwrap();
    let (tell, seen) = channel();
    thread::spawn(move || {
        while let Ok((stream, peer)) = listener.accept() {
            let _ = tell.send(peer.ip());
            thread::spawn(move || write(stream));
        }
    });
    (address, seen)
}

/// Leads packets to the target over a link, so that it could be reached without the tunnel.
fn route(link: Link) {
    let via = format!("10.{}.0.254", link.0);
    run("ip", &["route", "add", TARGET, "via", &via, "dev", &link.name()]);
}

fn connect(target: SocketAddr) -> TcpStream {
    TcpStream::connect_timeout(&target, BRIEF).unwrap()
}

/// Connects, reads, and returns the error.
fn failure(target: SocketAddr) -> ErrorKind {
    let connected = TcpStream::connect_timeout(&target, BRIEF);
    connected.and_then(|mut stream| stream.read(&mut [0])).unwrap_err().kind()
}

/// Returns the rules of nftables.
fn rules() -> String {
    let output = Command::new("nft").args(["list", "ruleset"]).output().unwrap();
    String::from_utf8(output.stdout).unwrap()
}

/// Waits until there are no rules.
fn no_rules() {
    eventually("removed rules", || rules().is_empty().then_some(()));
}

#[test]
fn programs_without_a_proxy() {
    inside(module_path!(), "programs_without_a_proxy", &["nft"], || {
        let [first, second]: [Link; 2] = lay(2, false).try_into().unwrap();
        add_target();
        route(first);
        let mut ends = Ends::prepare(SERVER, &ALLOWED);
        ends.start_proxy();
        let (target, seen) = target(TARGET);
        let start = |ends: &Ends| {
            let mut command = ends.by_way(&["proxy", "connect"]);
            command.args(["--no-status", "--transparent", "127.0.0.1:1081", "--capture", TARGET]);
            let mut client = ends.run(command, "client.log");
            let port: SocketAddr = client.said("listening transparent ").parse().unwrap();
            (client, port)
        };
        // A connection that is older than the rules goes on as it was.
        let quiet = within_server(|| TcpListener::bind((TARGET, 0)).unwrap());
        let mut older = connect(quiet.local_addr().unwrap());
        let mut its_end = quiet.accept().unwrap().0;
        let (client, port) = start(&ends);
        older.write_all(b"older").unwrap();
        its_end.set_read_timeout(Some(BRIEF)).unwrap();
        its_end.read_exact(&mut [0; 5]).unwrap();
        let flow = Flow::read(connect(target));
        carries(first);
        carries(second);
        // A proxy and its target are on one host.
        assert_eq!(seen.recv().unwrap().to_string(), TARGET);
        first.pull();
        flow.advances(2_000_000);
        first.plug();
        // A connection that was not led to the port has no target.
        assert_eq!(failure(port), ErrorKind::ConnectionReset);
        // One that the target refuses is reset.
        let closed = SocketAddr::new(target.ip(), 9);
        assert_eq!(failure(closed), ErrorKind::ConnectionReset);
        // A second client cannot have the port, and leaves the rules of the first one alone.
        let mut second = ends.by_way(&["proxy", "connect"]);
        second.args(["--no-status", "--transparent", "127.0.0.1:1081"]);
        second.current_dir(ends.file(""));
        assert_eq!(second.output().unwrap().status.code(), Some(9));
        // Nor can it have rules that another process has.
        let mut holder = Command::new("nft");
        holder.arg("--interactive").stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut holder = holder.spawn().unwrap();
        holder.stdin.as_mut().unwrap().write_all(b"table ip anabranch_1083 { flags owner; }\n").unwrap();
        eventually("a table of another process", || rules().contains("anabranch_1083").then_some(()));
        let mut late = ends.by_way(&["proxy", "connect"]);
        late.args(["--no-status", "--transparent", "127.0.0.1:1083"]).current_dir(ends.file(""));
        let output = late.output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.code() == Some(9) && said.contains("another process has the rules"), "{said}");
        holder.kill().unwrap();
        holder.wait().unwrap();
        // One that may not change rules says so, and another port could be had.
        let mut third = Command::new("setpriv");
        third.args(["--bounding-set", "-net_admin", "--inh-caps", "-net_admin"]);
        third.arg(env!("CARGO_BIN_EXE_anabranch")).args([
            "proxy",
            "connect",
            &format!("https://{SERVER}:4433"),
        ]);
        third.args(["--token-file", "token", "--ca", "cert.pem", "--no-status", "--transparent", "1082"]);
        let output = third.current_dir(ends.file("")).output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.code() == Some(14) && said.contains("CAP_NET_ADMIN"), "{said}");
        flow.advances(100_000);
        assert!(rules().contains("anabranch_1081") && !rules().contains("anabranch_1082"));
        // SIGKILL: the kernel removes the rules.
        drop(client);
        flow.breaks();
        no_rules();
        drop(connect(target));
        assert_ne!(seen.recv().unwrap().to_string(), TARGET, "there is no tunnel");
        let (mut client, _) = start(&ends);
        drop(connect(target));
        assert_eq!(seen.recv().unwrap().to_string(), TARGET);
        // SIGTERM
        client.ends();
        assert_eq!(rules(), "");
    });
}

#[test]
fn ipv6_without_a_proxy() {
    inside(module_path!(), "ipv6_without_a_proxy", &["nft"], || {
        let [link]: [Link; 1] = lay(1, true).try_into().unwrap();
        let mut ends = Ends::prepare(SERVER_V6, &["--allow", SERVER_V6]);
        ends.start_proxy();
        let (target, seen) = target(SERVER_V6);
        let mut command = ends.by_way(&["proxy", "connect"]);
        command.args(["--no-status", "--transparent", "1081", "--capture", SERVER_V6]);
        let mut client = ends.run(command, "client.log");
        assert_eq!(client.said("listening transparent "), "127.0.0.1:1081");
        assert_eq!(client.said("listening transparent "), "[::1]:1081");
        let flow = Flow::read(connect(target));
        carries(link);
        assert_eq!(seen.recv().unwrap().to_string(), SERVER_V6);
        drop(flow);
        drop(client);
        no_rules();
    });
}

#[test]
fn hosts_behind_this_one() {
    inside(module_path!(), "hosts_behind_this_one", &["nft"], || {
        let [_first, _second]: [Link; 2] = lay(2, false).try_into().unwrap();
        add_target();
        let mut ends = Ends::prepare(SERVER, &ALLOWED);
        ends.start_proxy();
        let (target, seen) = target(TARGET);
        run("ip", &["netns", "add", BEHIND]);
        run("ip", &["link", "add", "lan", "type", "veth", "peer", "name", "eth0", "netns", BEHIND]);
        run("ip", &["address", "add", "10.50.0.1/24", "dev", "lan"]);
        run("ip", &["link", "set", "lan", "up"]);
        let behind = |words: &[&str]| run("ip", &[&["-netns", BEHIND][..], words].concat());
        behind(&["address", "add", "10.50.0.2/24", "dev", "eth0"]);
        behind(&["link", "set", "eth0", "up"]);
        behind(&["route", "add", "default", "via", "10.50.0.1"]);
        let mut command = ends.by_way(&["proxy", "connect"]);
        command.args([
            "--no-status",
            "--not-path",
            "lan",
            "--transparent",
            "0.0.0.0:1081",
            "--capture",
            TARGET,
        ]);
        let mut client = ends.run(command, "client.log");
        client.said("listening transparent ");
        let flow = Flow::read(within(BEHIND, move || connect(target)));
        flow.advances(2_000_000);
        assert_eq!(seen.recv().unwrap().to_string(), TARGET);
    });
}

#[test]
fn own_connections_are_not_captured() {
    inside(module_path!(), "own_connections_are_not_captured", &["nft"], || {
        let [first]: [Link; 1] = lay(1, false).try_into().unwrap();
        add_target();
        route(first);
        let mut ends = Ends::prepare(SERVER, &ALLOWED);
        ends.over_tcp = true;
        ends.start_proxy();
        let (target, seen) = target(TARGET);
        // No UDP gets through, so that the client connects over TCP.
        run(
            "nft",
            &[
                "table ip block { chain output { type filter hook output priority 0; meta l4proto udp drop; }; }",
            ],
        );
        let mut command = ends.by_way(&["proxy", "connect"]);
        // The proxy is among the captured.
        command.args(["--no-status", "--transparent", "127.0.0.1:1081", "--capture", "10.0.0.0/8"]);
        let mut client = ends.run(command, "client.log");
        client.said("listening transparent ");
        let flow = Flow::read(connect(target));
        flow.advances(1_000_000);
        assert_eq!(seen.recv().unwrap().to_string(), TARGET);
        // A new connection to the proxy is not captured either.
        drop(flow);
        ends.kill_proxy();
        ends.start_proxy();
        eventually("a tunnel over a new connection", || {
            let mut stream = TcpStream::connect_timeout(&target, BRIEF).ok()?;
            stream.set_read_timeout(Some(BRIEF)).ok()?;
            stream.read(&mut [0]).ok().filter(|len| *len == 1).map(drop)
        });
        drop(client);
        eventually("removed rules", || (!rules().contains("anabranch")).then_some(()));
    });
}
