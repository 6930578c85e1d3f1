//! Client with two interfaces. Each has a separate link to the server.

use std::process::Command;

/// IPv4 address of the server, reachable over both links.
pub(super) const SERVER: &str = "10.9.9.9";
/// IPv6 address of the server, reachable over both links.
pub(super) const SERVER_V6: &str = "fd09::9";
/// Host name that resolves to both addresses of the server.
pub(super) const NAME: &str = "server.test";
/// Name of the server's namespace. The client runs in the namespace of this process.
const SERVER_SIDE: &str = "server";
/// Arguments of `tc` for the rate of each link and for its queue in bytes.
const RATE: [&str; 7] = ["tbf", "rate", "24mbit", "burst", "10k", "limit", "200k"];

/// One of the client's interfaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Link(pub(super) u8);

/// Creates both links. The namespaces must be new and empty.
pub(super) fn lay() -> Result<(), String> {
    // Names of network namespaces are stored in /run, which needs a private mount.
    run("mount", &["-t", "tmpfs", "tmpfs", "/run"])?;
    run("mkdir", &["-p", "/run/netns"])?;
    run("ip", &["netns", "add", SERVER_SIDE])?;
    run("ip", &["link", "set", "lo", "up"])?;
    run("ip", &["-netns", SERVER_SIDE, "link", "set", "lo", "up"])?;
    run("ip", &["-netns", SERVER_SIDE, "address", "add", SERVER, "dev", "lo"])?;
    run("ip", &["-netns", SERVER_SIDE, "address", "add", SERVER_V6, "dev", "lo", "nodad"])?;
    for link in [Link(1), Link(2)] {
        let (ours, theirs) = (link.name(), link.peer());
        run("ip", &["link", "add", &ours, "type", "veth", "peer", "name", &theirs, "netns", SERVER_SIDE])?;
        run("ip", &["-netns", SERVER_SIDE, "address", "add", &link.address(254, true), "dev", &theirs])?;
        let v6 = format!("{}/64", link.v6(254));
        run("ip", &["-netns", SERVER_SIDE, "address", "add", &v6, "dev", &theirs, "nodad"])?;
        run("ip", &["-netns", SERVER_SIDE, "link", "set", &theirs, "up"])?;
        let mut words = vec!["--net=/run/netns/server", "tc", "qdisc", "add", "dev", &theirs, "root"];
        words.extend(RATE);
        run("nsenter", &words)?;
        run("ip", &["address", "add", &link.address(1, true), "dev", &ours])?;
        link.up()?;
    }
    Ok(())
}

/// Creates a command that runs in the server's namespace.
pub(super) fn at_the_server(program: &std::path::Path) -> Command {
    let mut command = Command::new("nsenter");
    command.arg(format!("--net=/run/netns/{SERVER_SIDE}")).arg(program);
    command
}

/// Drops all packets that the server sends to `address`.
pub(super) fn black_hole(address: &str) -> Result<(), String> {
    run("ip", &["-netns", SERVER_SIDE, "route", "add", "blackhole", address])
}

/// Makes `address` reachable for the server again.
pub(super) fn fill_hole(address: &str) -> Result<(), String> {
    run("ip", &["-netns", SERVER_SIDE, "route", "delete", "blackhole", address])
}

impl Link {
    pub(super) fn name(self) -> String {
        format!("eth{}", self.0)
    }

    fn peer(self) -> String {
        format!("peer{}", self.0)
    }

    /// Returns an address on this link.
    pub(super) fn address(self, host: u8, with_prefix: bool) -> String {
        format!("10.{}.0.{host}{}", self.0, if with_prefix { "/24" } else { "" })
    }

    /// Returns an IPv6 address on this link.
    pub(super) fn v6(self, host: u16) -> String {
        format!("fd0{}::{host}", self.0)
    }

    pub(super) fn down(self) -> Result<(), String> {
        run("ip", &["link", "set", &self.name(), "down"])
    }

    /// Takes the interface up and restores its routes, which were lost when it went down.
    pub(super) fn up(self) -> Result<(), String> {
        run("ip", &["link", "set", &self.name(), "up"])?;
        self.route()
    }

    /// Replaces the client's address with another one.
    pub(super) fn readdress(self, from: u8, to: u8) -> Result<(), String> {
        run("ip", &["address", "delete", &self.address(from, true), "dev", &self.name()])?;
        run("ip", &["address", "add", &self.address(to, true), "dev", &self.name()])?;
        self.route()
    }

    /// Makes the link lose all packets in both directions, without an error at either host: the frames get a
    /// hardware address that does not exist.
    pub(super) fn silence(self) -> Result<(), String> {
        const NOBODY: &str = "02:00:00:00:00:99";
        let (name, gateway) = (self.name(), self.address(254, false));
        run("ip", &["neighbour", "replace", &gateway, "lladdr", NOBODY, "dev", &name, "nud", "permanent"])?;
        let (name, client) = (self.peer(), self.address(1, false));
        let words = ["neighbour", "replace", &client, "lladdr", NOBODY, "dev", &name, "nud", "permanent"];
        run("ip", &[&["-netns", SERVER_SIDE][..], &words].concat())
    }

    /// Makes the link deliver packets again.
    pub(super) fn speak(self) -> Result<(), String> {
        let (ours, theirs) = (self.name(), self.peer());
        run("ip", &["neighbour", "flush", "dev", &ours, "nud", "all"])?;
        run("ip", &["-netns", SERVER_SIDE, "neighbour", "flush", "dev", &theirs, "nud", "all"])
    }

    fn route(self) -> Result<(), String> {
        let (gateway, metric) = (self.address(254, false), self.0.to_string());
        run("ip", &["route", "replace", SERVER, "via", &gateway, "dev", &self.name(), "metric", &metric])
    }

    /// Returns the number of bytes received on the interface, according to the counters of this process's
    /// namespace.
    pub(super) fn received(self) -> Result<u64, String> {
        let counts = std::fs::read_to_string("/proc/self/net/dev").map_err(|error| error.to_string())?;
        let of = |line: &str| {
            let (name, counts) = line.split_once(':')?;
            (name.trim() == self.name()).then(|| counts.split_whitespace().next()?.parse().ok())?
        };
        counts.lines().find_map(of).ok_or_else(|| format!("there is no {}", self.name()))
    }
}

/// Uses this file as /etc/hosts.
pub(super) fn hosts(file: &std::path::Path) -> Result<(), String> {
    let file = file.to_str().ok_or("a path that is no text")?;
    run("mount", &["--bind", file, "/etc/hosts"])
}

pub(super) fn run(program: &str, words: &[&str]) -> Result<(), String> {
    let output = Command::new(program).args(words).output();
    let output = output.map_err(|error| format!("{program}: {error}"))?;
    let said = String::from_utf8_lossy(&output.stderr);
    let done = output.status.success().then_some(());
    done.ok_or_else(|| format!("{program} {}: {}", words.join(" "), said.trim()))
}
