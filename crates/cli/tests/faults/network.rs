//! A client with several interfaces, each with a link of its own to the server.

use std::net::{IpAddr, TcpListener};
use std::os::fd::AsFd;
use std::process::Command;
use std::thread;

use nix::sched::{CloneFlags, setns};

/// IPv4 address of the server and, below, its IPv6 address. They can be reached over all links.
pub(crate) const SERVER: &str = "10.9.9.9";
pub(crate) const SERVER_V6: &str = "fd09::9";
/// Network namespace of the server. The client is in that of this process.
const SIDE: &str = "server";
/// Arguments of `tc` for the rate and the queue of each link.
const RATE: [&str; 7] = ["tbf", "rate", "24mbit", "burst", "20k", "limit", "200k"];

/// One of the client's interfaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Link(pub(crate) u8);

/// Creates the server's namespace and `count` links.
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

/// Returns a listener in the server's namespace.
pub(crate) fn listen_at_server() -> TcpListener {
    // A thread has a network namespace of its own, and a socket keeps that of its thread.
    let listening = thread::spawn(|| {
        let namespace = std::fs::File::open(format!("/run/netns/{SIDE}")).unwrap();
        setns(namespace.as_fd(), CloneFlags::CLONE_NEWNET).unwrap();
        TcpListener::bind("127.0.0.1:0").unwrap()
    });
    listening.join().unwrap()
}

fn at_server(words: &[&str]) {
    run("ip", &[&["-netns", SIDE][..], words].concat());
}

impl Link {
    pub(crate) fn name(self) -> String {
        format!("eth{}", self.0)
    }

    fn peer(self) -> String {
        format!("peer{}", self.0)
    }

    fn address(self, host: u8) -> String {
        format!("10.{}.0.{host}/24", self.0)
    }

    /// Creates the link, for instance after it was deleted.
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
        let via = format!("10.{}.0.254", self.0);
        let (name, metric) = (self.name(), self.metric());
        run("ip", &["route", "replace", SERVER, "via", &via, "dev", &name, "metric", &metric]);
    }

    pub(crate) fn delete(self) {
        run("ip", &["link", "delete", &self.name()]);
    }

    pub(crate) fn down(self) {
        run("ip", &["link", "set", &self.name(), "down"]);
    }

    /// Takes the interface up, and adds its route, which the kernel removed when it went down.
    pub(crate) fn up(self) {
        run("ip", &["link", "set", &self.name(), "up"]);
        self.route();
    }

    /// Removes the carrier, as if a cable were pulled.
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

    /// Drops all packets to the client on this link, or none. Neither host gets an error.
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

/// Returns the routes of this namespace, the rules and the addresses, as `ip` prints them.
pub(crate) fn state() -> String {
    let shown = [&["-4", "route"][..], &["-6", "route"], &["rule"], &["-brief", "address"]];
    let show = |words: &&[&str]| Command::new("ip").args(*words).output().unwrap().stdout;
    shown.iter().map(|words| String::from_utf8(show(words)).unwrap()).collect()
}

/// Formats an address and a port.
pub(crate) fn place(address: &str, port: u16) -> String {
    std::net::SocketAddr::new(address.parse::<IpAddr>().unwrap(), port).to_string()
}

fn run(program: &str, words: &[&str]) {
    let output = Command::new(program).args(words).output().unwrap();
    assert!(
        output.status.success(),
        "{program} {}: {}",
        words.join(" "),
        String::from_utf8_lossy(&output.stderr).trim()
    );
}
