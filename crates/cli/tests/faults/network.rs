//! A client with several interfaces, each with a link of its own to the server.

use std::net::TcpListener;
use std::os::fd::AsFd;
use std::path::Path;
use std::process::Command;
use std::thread;

use nix::sched::{CloneFlags, setns};

/// Addresses of the server, which all links lead to.
pub(crate) const SERVER: &str = "10.9.9.9";
pub(crate) const SERVER_V6: &str = "fd09::9";
/// Another address of the server, to which it may move.
pub(crate) const ELSEWHERE: &str = "10.9.7.7";
/// Address of a host behind the proxy, which is reached through the tunnel only.
pub(crate) const TARGET: &str = "10.9.8.8";
/// Name of the server, if it has one.
pub(crate) const NAME: &str = "proxy.test";
/// Namespace of the server. The client is in that of this process.
const SIDE: &str = "server";
/// Rate of each link, and its queue in bytes.
pub(crate) const RATE: [&str; 7] = ["tbf", "rate", "24mbit", "burst", "20k", "limit", "200k"];

/// One of the client's interfaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Link(pub(crate) u8);

/// Makes the namespaces' common parts, and `count` links.
pub(crate) fn lay(count: u8, ipv6: bool) -> Vec<Link> {
    // Names of network namespaces are in /run, which must be this test's own.
    run("mount", &["-t", "tmpfs", "tmpfs", "/run"]);
    run("mkdir", &["-p", "/run/netns"]);
    run("ip", &["netns", "add", SIDE]);
    run("ip", &["link", "set", "lo", "up"]);
    at_server(&["link", "set", "lo", "up"]);
    at_server(&["address", "add", SERVER, "dev", "lo"]);
    at_server(&["address", "add", SERVER_V6, "dev", "lo", "nodad"]);
    let links: Vec<_> = (1..=count).map(Link).collect();
    links.iter().for_each(|link| link.make(ipv6));
    links
}

/// Returns a command that runs at the server.
pub(crate) fn program_at_server(program: &str) -> Command {
    let mut command = Command::new("nsenter");
    command.arg(format!("--net=/run/netns/{SIDE}")).arg(program);
    command
}

/// Listens at the server.
pub(crate) fn listen_at_server() -> TcpListener {
    within_server(|| TcpListener::bind("127.0.0.1:0").unwrap())
}

/// Runs `act` at the server.
pub(crate) fn within_server<R: Send + 'static>(act: impl FnOnce() -> R + Send + 'static) -> R {
    within(SIDE, act)
}

/// Runs `act` in a network namespace.
pub(crate) fn within<R: Send + 'static>(side: &str, act: impl FnOnce() -> R + Send + 'static) -> R {
    // A thread has a network namespace of its own, and a socket keeps that of its thread.
    let path = format!("/run/netns/{side}");
    let acting = thread::spawn(move || {
        let namespace = std::fs::File::open(path).unwrap();
        setns(namespace.as_fd(), CloneFlags::CLONE_NEWNET).unwrap();
        act()
    });
    acting.join().unwrap()
}

/// Moves the server from one of its addresses to another.
pub(crate) fn move_server(from: &str, to: &str, links: &[Link]) {
    at_server(&["address", "delete", &format!("{from}/32"), "dev", "lo"]);
    at_server(&["address", "add", to, "dev", "lo"]);
    links.iter().for_each(|link| link.route_to(to));
}

/// Gives the server a further address, which the client has no route to.
pub(crate) fn add_target() {
    at_server(&["address", "add", TARGET, "dev", "lo"]);
}

/// Has this host resolve [`NAME`] to an address, or not at all. Whoever asks the network gets no answer.
pub(crate) fn resolve(folder: &Path, address: Option<&str>) {
    let (hosts, resolver) = (folder.join("hosts"), folder.join("resolv.conf"));
    let is_new = !hosts.exists();
    let name = address.map(|address| format!("{address} {NAME}\n")).unwrap_or_default();
    std::fs::write(&hosts, format!("127.0.0.1 localhost\n{name}")).unwrap();
    if is_new {
        // Nobody has this address of the first link, and packets to it get lost.
        std::fs::write(&resolver, "nameserver 10.9.9.53\n").unwrap();
        run("mount", &["--bind", hosts.to_str().unwrap(), "/etc/hosts"]);
        run("mount", &["--bind", resolver.to_str().unwrap(), "/etc/resolv.conf"]);
        run("ip", &["route", "add", "10.9.9.53", "via", "10.1.0.254"]);
        at_server(&["route", "add", "blackhole", "10.9.9.53"]);
    }
}

fn at_server(words: &[&str]) {
    run("ip", &[&["-netns", SIDE][..], words].concat());
}

impl Link {
    pub(crate) fn name(self) -> String {
        format!("eth{}", self.0)
    }

    pub(crate) fn peer(self) -> String {
        format!("peer{}", self.0)
    }

    fn address(self, host: u8) -> String {
        format!("10.{}.0.{host}/24", self.0)
    }

    /// Makes the link, for instance after it was deleted.
    pub(crate) fn make(self, ipv6: bool) {
        let (ours, theirs) = (self.name(), self.peer());
        run("ip", &["link", "add", &ours, "type", "veth", "peer", "name", &theirs, "netns", SIDE]);
        let v6 = |host: u8| format!("fd0{}::{host}/64", self.0);
        if ipv6 {
            at_server(&["address", "add", &v6(254), "dev", &theirs, "nodad"]);
        } else {
            at_server(&["address", "add", &self.address(254), "dev", &theirs]);
        }
        at_server(&["link", "set", &theirs, "up"]);
        let shape = [&["qdisc", "add", "dev", &theirs, "root"][..], &RATE].concat();
        let mut tc = program_at_server("tc");
        assert!(tc.args(shape).status().unwrap().success());
        run("ip", &["link", "set", &ours, "up"]);
        if ipv6 {
            run("ip", &["address", "add", &v6(1), "dev", &ours, "nodad"]);
            let via = format!("fd0{}::254", self.0);
            run(
                "ip",
                &["-6", "route", "add", SERVER_V6, "via", &via, "dev", &ours, "metric", &self.metric()],
            );
        } else {
            run("ip", &["address", "add", &self.address(1), "dev", &ours]);
            self.route();
        }
    }

    fn metric(self) -> String {
        (100 + u32::from(self.0)).to_string()
    }

    fn route(self) {
        self.route_to(SERVER);
    }

    fn route_to(self, address: &str) {
        let via = format!("10.{}.0.254", self.0);
        let (name, metric) = (self.name(), self.metric());
        run("ip", &["route", "replace", address, "via", &via, "dev", &name, "metric", &metric]);
    }

    pub(crate) fn delete(self) {
        run("ip", &["link", "delete", &self.name()]);
    }

    pub(crate) fn down(self) {
        run("ip", &["link", "set", &self.name(), "down"]);
    }

    /// Takes the interface up, with its route, which was lost when it went down.
    pub(crate) fn up(self) {
        run("ip", &["link", "set", &self.name(), "up"]);
        self.route();
    }

    /// Takes the carrier away, as if a cable were pulled.
    pub(crate) fn pull(self) {
        at_server(&["link", "set", &self.peer(), "down"]);
    }

    pub(crate) fn plug(self) {
        at_server(&["link", "set", &self.peer(), "up"]);
    }

    pub(crate) fn delete_address(self, host: u8) {
        run("ip", &["address", "delete", &self.address(host), "dev", &self.name()]);
    }

    pub(crate) fn add_address(self, host: u8) {
        run("ip", &["address", "add", &self.address(host), "dev", &self.name()]);
        self.route();
    }

    /// Loses all packets in both directions, or none. Neither host notices.
    pub(crate) fn silence(self, is_silent: bool) {
        let ours = format!("10.{}.0.1", self.0);
        let change = if is_silent { "add" } else { "delete" };
        at_server(&["route", change, "blackhole", &format!("{ours}/32")]);
    }

    /// Returns the number of bytes that the interface has received.
    pub(crate) fn received(self) -> u64 {
        let counts = std::fs::read_to_string("/proc/self/net/dev").unwrap();
        let of = |line: &str| {
            let (name, counts) = line.split_once(':')?;
            (name.trim() == self.name()).then(|| counts.split_whitespace().next()?.parse().ok())?
        };
        counts.lines().find_map(of).unwrap_or(0)
    }
}

/// Returns whether all addresses of IPv6 in this namespace are in use, one of each link among them. An address is tentative
/// for up to two seconds after its link came up (RFC 4862 §5.4); its flags are in hexadecimal, before the interface's name.
pub(crate) fn addresses_are_ready(links: &[Link]) -> bool {
    const TENTATIVE: u32 = 0x40;
    let Ok(addresses) = std::fs::read_to_string("/proc/self/net/if_inet6") else {
        return true;
    };
    let flags = |line: &str| u32::from_str_radix(line.split_whitespace().nth(4)?, 16).ok();
    let is_ready = |line: &str| flags(line).is_some_and(|flags| flags & TENTATIVE == 0);
    addresses.lines().all(is_ready) && links.iter().all(|link| addresses.contains(&link.name()))
}

/// Returns the routes of this namespace, the rules and the addresses, as `ip` prints them.
pub(crate) fn state() -> String {
    let shown = [&["-4", "route"][..], &["-6", "route"], &["rule"], &["-brief", "address"]];
    let show = |words: &&[&str]| Command::new("ip").args(*words).output().unwrap().stdout;
    shown.iter().map(|words| String::from_utf8(show(words)).unwrap()).collect()
}

pub(crate) fn run(program: &str, words: &[&str]) {
    let output = Command::new(program).args(words).output().unwrap();
    assert!(
        output.status.success(),
        "{program} {}: {}",
        words.join(" "),
        String::from_utf8_lossy(&output.stderr).trim()
    );
}
