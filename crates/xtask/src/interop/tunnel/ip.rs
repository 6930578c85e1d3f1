//! IP packets between a client and a proxy in network namespaces: the client, the proxy on the router, and behind it a host that
//! echoes.

use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::AsRawFd;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use nix::sys::socket::{
    AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType, SockaddrStorage, recv, sendto, setsockopt,
    socket, sockopt,
};
use nix::sys::time::TimeVal;

use super::super::field::Field;
use super::super::judge::Outcome;
use super::super::netns::network::{Host, Network, ROUTER_CLIENT_SIDE, SERVER, obstacle, sweep_orphans};
use super::super::program::{OURS, Program};
use super::case::Ip;
use super::ends::{Files, PATIENCE, Running, TOKEN, report};
use super::target::{Echo, LINK_MTU, answered, echoed, headers};

/// URL of the proxy at the client, whose /etc/hosts has the name.
const URL: &str = "https://server:4433";
const PORT: u16 = 4433;
/// Path of the default template (RFC 9484 §3) for all targets and all protocols.
const TEMPLATE: &str = "/.well-known/masque/ip/*/*/";
/// Port of the echo.
const ECHO: u16 = 7;
/// Addresses that the client is assigned.
const ASSIGNED: [&str; 2] = ["10.9.0.2", "fd09::2"];
/// Pools of our proxy.
const POOLS: [&str; 2] = ["10.9.0.0/24", "fd09::/64"];
/// Length of a packet that fits into every tunnel, in bytes (RFC 9484 §8).
const MIN_MTU: usize = 1_280;
/// Number of the first network of these cases, in the names of its namespaces.
const FIRST: usize = 1_000;

/// Lock of the case that has a network.
static TURN: Mutex<()> = Mutex::new(());

/// Programs, files and namespaces of a case.
struct Stage<'a> {
    work: Ip,
    client: &'a Program,
    field: &'a Field,
    files: Files,
    network: Network,
    targets: [SocketAddr; 2],
}

/// Runs a case.
pub(super) fn play(work: Ip, client: &Program, server: &Program, field: &Field) -> Result<Outcome, String> {
    static NEXT: AtomicUsize = AtomicUsize::new(FIRST);
    if let Some(why) =
        obstacle().or_else(|| (!std::path::Path::new("/dev/net/tun").exists()).then_some("no TUN device"))
    {
        return Ok(Outcome::Skipped(why.to_owned()));
    }
    if work == Ip::TooBigBack && server.name != OURS {
        return Ok(Outcome::Unsupported("server: the peer's program has no host behind it".to_owned()));
    }
    // Networks are removed together with folders that others are about to use.
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    sweep_orphans();
    let network = Network::lay(NEXT.fetch_add(1, Ordering::Relaxed), ROUTER_CLIENT_SIDE)?;
    let targets = SERVER.map(|address| SocketAddr::new(address, ECHO));
    let _echoes = network
        .within(Host::Server, || targets.iter().map(|at| Echo::start(*at)).collect::<Result<Vec<_>, _>>())?;
    let stage = Stage { work, client, field, files: Files::write(field)?, network, targets };
    let (proxy, _) =
        Running::saying(stage.proxy(server), "listening ").map_err(|why| format!("server: {why}"))?;
    let note = if client.name == OURS { stage.vpn()? } else { stage.peer()? };
    proxy.end().map_err(|why| format!("server {why}"))?;
    Ok(Outcome::Pass(note))
}

impl Stage<'_> {
    fn proxy(&self, program: &Program) -> Command {
        let mut command = self.network.command(Host::Router, program.path());
        if program.name == OURS {
            command
                .args(["proxy", "serve", "--no-tcp", "--no-status", "--users"])
                .arg(self.files.path("users.toml"));
            for target in SERVER {
                command.arg("--allow").arg(target.to_string());
            }
            POOLS.iter().for_each(|pool| _ = command.args(["--vpn-pool", pool]));
        } else {
            command.args(["server", "--name", "server"]);
            for (address, bits) in ASSIGNED.iter().zip([32, 128]) {
                command.arg("--assign").arg(format!("{address}/{bits}"));
            }
        }
        let listen = SocketAddr::new(ROUTER_CLIENT_SIDE[0], PORT).to_string();
        command.args(["--listen", &listen, "--cert"]).arg(&self.field.short.chain);
        command.arg("--key").arg(&self.field.short.key);
        command
    }

    /// Runs the peer's client, and checks its report.
    fn peer(&self) -> Result<String, String> {
        let mut command = self.network.command(Host::Client, self.client.path());
        command.args(["client", "--token", TOKEN, "--case", self.work.name(), "--template"]);
        command.arg(format!("{URL}{TEMPLATE}")).arg("--ca").arg(&self.field.short.ca);
        for target in self.targets {
            command.arg("--target").arg(target.to_string());
        }
        let report = report(command)?;
        let addresses = serde_json::json!([format!("{}/32", ASSIGNED[0]), format!("{}/128", ASSIGNED[1])]);
        let routes = report["routes"].as_array().map_or(0, Vec::len);
        if report["addresses"] != addresses || routes != 2 {
            return Err(format!("client has the addresses {} and {routes} routes", report["addresses"]));
        }
        let key = match self.work {
            Ip::Address => return Ok(ASSIGNED.join(", ")),
            Ip::Ping => "pinged",
            Ip::Udp => "echoed",
            Ip::TooBig => "mtus",
            Ip::TooBigBack => "fragments",
        };
        match report[key].as_array().map(Vec::len) {
            Some(2) => Ok(format!("{key} {}", report[key])),
            _ => Err(format!("client reports {key} = {}", report[key])),
        }
    }

    /// Runs `anabranch vpn connect`, and programs in its namespace.
    fn vpn(&self) -> Result<String, String> {
        let mut command = self.network.command(Host::Client, self.client.path());
        command.args(["vpn", "connect", URL, "--path", "eth0", "--ca"]).arg(&self.field.short.ca);
        command.arg("--token-file").arg(self.files.path("token"));
        command.env("RUNTIME_DIRECTORY", self.files.path("run"));
        let (vpn, said) = Running::saying(command, "connected ").map_err(|why| format!("client: {why}"))?;
        if said != format!("anabranch0 {}", ASSIGNED.join(" ")) {
            return Err(format!("client is connected as {said}"));
        }
        for target in self.targets {
            let act = || match self.work {
                Ip::Address => Ok(()),
                Ip::Ping => ping(target.ip()),
                Ip::Udp => echoed(&connected(target)?, 1_000),
                Ip::TooBig => learns(target),
                Ip::TooBigBack => {
                    let large = LINK_MTU - headers(target);
                    answered(&connected(target)?, b"large", |answer| answer.len() == large)
                }
            };
            self.network.within(Host::Client, act).map_err(|why| format!("{target}: {why}"))?;
        }
        vpn.end().map_err(|why| format!("client {why}"))?;
        Ok(said)
    }
}

/// Opens a socket to a target.
fn connected(target: SocketAddr) -> Result<UdpSocket, String> {
    let any = if target.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
    let socket = UdpSocket::bind(any).and_then(|socket| socket.connect(target).map(|()| socket));
    socket.map_err(|error| error.to_string())
}

/// Sends packets that do not fit, until the kernel has learned that from the VPN. Then one of the smallest MTU must be echoed.
fn learns(target: SocketAddr) -> Result<(), String> {
    let socket = connected(target)?;
    let large = vec![0; LINK_MTU - headers(target)];
    let begun = Instant::now();
    loop {
        let sent = socket.send(&large);
        if sent.is_err_and(|error| error.raw_os_error() == Some(nix::errno::Errno::EMSGSIZE as i32)) {
            break;
        }
        if begun.elapsed() > PATIENCE {
            return Err("the sender did not learn that its packets are too big".to_owned());
        }
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    echoed(&socket, MIN_MTU - headers(target))
}

/// Sends echo requests until a reply arrives.
fn ping(target: IpAddr) -> Result<(), String> {
    // Type, code, checksum (the kernel computes that of ICMPv6), identifier, sequence number.
    let (family, protocol, request, reply): (_, _, [u8; 8], u8) = match target.is_ipv4() {
        true => (AddressFamily::Inet, SockProtocol::Icmp, [8, 0, 0xe5, 0xfd, 0x12, 0x02, 0, 0], 0),
        false => (AddressFamily::Inet6, SockProtocol::IcmpV6, [128, 0, 0, 0, 0x12, 0x02, 0, 0], 129),
    };
    let failed = |error: nix::errno::Errno| format!("ping: {error}");
    let raw = socket(family, SockType::Raw, SockFlag::empty(), protocol).map_err(failed)?;
    setsockopt(&raw, sockopt::ReceiveTimeout, &TimeVal::new(1, 0)).map_err(failed)?;
    let (fd, to) = (raw.as_raw_fd(), SockaddrStorage::from(SocketAddr::new(target, 0)));
    let begun = Instant::now();
    while begun.elapsed() < PATIENCE {
        sendto(fd, &request, &to, MsgFlags::empty()).map_err(failed)?;
        let mut packet = [0; 200];
        while let Ok(len) = recv(fd, &mut packet, MsgFlags::empty()) {
            // The kernel leaves the header of IPv4 there.
            let message = &packet[if target.is_ipv4() { 20.min(len) } else { 0 }..len];
            if message.first() == Some(&reply) && message.get(4..6) == Some(&request[4..6]) {
                return Ok(());
            }
        }
    }
    Err("no reply to an echo request".to_owned())
}
