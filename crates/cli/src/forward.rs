//! `anabranch forward`: ports of this host that lead to targets behind a proxy.

use std::io;
use std::net::SocketAddr;
use std::str::FromStr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anabranch::proxy::client::{Proxy, Target};
use bytes::Bytes;
use clap::Args;
use tokio::net::{TcpStream, UdpSocket};
use tokio::task::JoinSet;

use crate::exit::{self, Exit, Failure, Result};
use crate::listen::HostPort;
use crate::options::cannot_listen;
use crate::proxy::connect::flows::{self, Flows, Terms};
use crate::proxy::connect::local::{self, Local};
use crate::proxy::connect::stream;
use crate::proxy::connect::way::{self, Way};
use crate::serve::{raise_descriptors, systemd};
use crate::signal::Stop;
use crate::verbose::Verbosity;

/// Maximum length of a UDP datagram, in bytes.
const MAX_DATAGRAM: usize = 65_535;

/// Lead ports of this host to targets behind a proxy, over all networks at once
///
/// The proxy resolves the names of targets. Example: 127.0.0.1:5432=db.internal:5432/tcp 5353=1.1.1.1:53/udp
#[derive(Args, Debug)]
#[command(after_help = exit::STATUSES)]
pub(crate) struct Forward {
    #[command(flatten)]
    way: Way,
    /// Local ports and their targets. Without a host the port is one of the loopback address, without a protocol it is
    /// TCP
    #[arg(value_name = "[HOST:]PORT=HOST:PORT[/tcp|/udp]", required = true)]
    routes: Vec<Route>,
    /// Seconds without a datagram after which a UDP flow ends
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = clap::value_parser!(u32).range(1..))]
    udp_idle: u32,
    #[command(flatten)]
    pub(crate) verbosity: Verbosity,
}

/// A local port and its target.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Route {
    from: HostPort,
    target: Target,
    is_udp: bool,
}

impl FromStr for Route {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        let (from, to) = text.split_once('=').ok_or("write [HOST:]PORT=HOST:PORT/tcp or /udp")?;
        let from: HostPort = from.parse()?;
        if !from.has_port {
            return Err(format!("`{from}` has no port"));
        }
        let (target, is_udp) = match to.rsplit_once('/') {
            None | Some((_, "tcp")) => (to.trim_end_matches("/tcp"), false),
            Some((target, "udp")) => (target, true),
            Some((_, other)) => return Err(format!("`{other}` is neither tcp nor udp")),
        };
        Ok(Self { from, target: target.parse().map_err(|error| format!("{error}"))?, is_udp })
    }
}

/// A bound local port.
enum Port {
    Tcp(Local),
    Udp(UdpSocket),
}

impl Port {
    async fn bind(route: &Route) -> Result<Self> {
        if !route.is_udp {
            let local = Local::bind(&route.from).await?;
            return local
                .map(Self::Tcp)
                .ok_or_else(|| Failure::new(Exit::Io, format!("{} cannot be bound", route.from)));
        }
        let addresses = local::addresses(&route.from).await?;
        let address = *addresses.first().ok_or_else(|| Failure::new(Exit::Resolution, "no address"))?;
        UdpSocket::bind(address).await.map(Self::Udp).map_err(|error| cannot_listen(address, &error))
    }

    fn address(&self) -> io::Result<SocketAddr> {
        match self {
            Self::Tcp(local) => Ok(local.address()),
            Self::Udp(socket) => socket.local_addr(),
        }
    }
}

pub(crate) async fn run(options: Forward) -> Result {
    let mut stop = Stop::catch()?;
    raise_descriptors();
    let mut ports = Vec::new();
    let mut lines = Vec::new();
    for route in &options.routes {
        let port = Port::bind(route).await?;
        let address = port.address().map_err(|error| Failure::io("no local address", &error))?;
        let protocol = if route.is_udp { "udp" } else { "tcp" };
        lines.push(format!("forwarding {address} to {}/{protocol}", route.target));
        ports.push(port);
    }
    let ready = async {
        let proxy = options.way.connect().await?;
        if options.routes.iter().any(|route| route.is_udp) {
            match proxy.carries_udp().await {
                Ok(true) => {}
                Ok(false) => return Err(way::failure(&anabranch::proxy::client::TunnelError::NoUdp)),
                Err(error) => return Err(way::failure(&error)),
            }
        }
        Ok(proxy)
    };
    let proxy = tokio::select! {
        ready = ready => ready?,
        () = stop.wait() => return Err(Failure::new(Exit::Interrupted, "interrupted")),
    };
    exit::say(lines.join("\n"))?;
    systemd::ready();
    let mut running = JoinSet::new();
    let idle = Duration::from_secs(options.udp_idle.into());
    for (port, route) in ports.into_iter().zip(options.routes) {
        let proxy = proxy.clone();
        match port {
            Port::Tcp(local) => running.spawn(streams(local, route.target, proxy)),
            Port::Udp(socket) => running.spawn(datagrams(socket, route.target, Terms { proxy, idle })),
        };
    }
    running.spawn(way::tell_states(proxy.clone()));
    stop.wait().await;
    systemd::stopping();
    way::end(&proxy, &mut running).await;
    Ok(())
}

/// Leads the connections of a port to `target`.
async fn streams(local: Local, target: Target, proxy: Proxy) {
    let told = Arc::new(Mutex::new(String::new()));
    local
        .accept(move |program| {
            let (target, proxy, told) = (target.clone(), proxy.clone(), Arc::clone(&told));
            async move {
                match stream::open(&proxy, &target).await {
                    Ok(tunnel) => stream::carry(program, tunnel, Bytes::new()).await,
                    Err(error) => refuse(&program, &format!("{target}: {error}"), &told),
                }
            }
        })
        .await;
}

/// Resets the program's connection, and reports the reason unless it is the same as before: the program
/// learns none.
fn refuse(program: &TcpStream, why: &str, told: &Mutex<String>) {
    #[expect(deprecated, reason = "the connection is reset, so closing it does not block")]
    let _ = program.set_linger(Some(Duration::ZERO));
    let mut told = told.lock().unwrap_or_else(PoisonError::into_inner);
    if *told != why {
        exit::note(format_args!("anabranch: {}", exit::one_line(why)));
        why.clone_into(&mut told);
    }
}

/// Leads the datagrams of a port to `target`, in a flow for each program.
async fn datagrams(socket: UdpSocket, target: Target, terms: Terms) {
    let socket = Arc::new(socket);
    let mut flows: Flows<SocketAddr> = Flows::new();
    let mut buffer = vec![0; MAX_DATAGRAM];
    loop {
        // An error reports that an earlier datagram reached nobody (ICMP).
        let Ok((len, from)) = socket.recv_from(&mut buffer).await else { continue };
        flows.pass(&from, Bytes::copy_from_slice(&buffer[..len]), |inbox| {
            let socket = Arc::clone(&socket);
            flows::carry(terms.clone(), target.clone(), inbox, move |payload| {
                let socket = Arc::clone(&socket);
                async move {
                    let _ = socket.send_to(&payload, from).await;
                }
            })
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn routes_name_a_port_and_a_target() {
        for (text, from, target, is_udp) in [
            ("127.0.0.1:5432=db.internal:5432/tcp", "127.0.0.1:5432", "db.internal:5432", false),
            ("5353=1.1.1.1:53/udp", ":5353", "1.1.1.1:53", true),
            ("[::1]:80=[2001:db8::1]:8080", "[::1]:80", "[2001:db8::1]:8080", false),
        ] {
            let route: Route = text.parse().unwrap();
            assert_eq!(
                (route.from.to_string(), route.target.to_string()),
                (from.to_owned(), target.to_owned())
            );
            assert_eq!(route.is_udp, is_udp, "{text}");
        }
        for bad in ["", "80", "80=", "80=x", "localhost=x:1", "80=x:1/sctp", "80=x:0", "80=x:1/"] {
            assert!(bad.parse::<Route>().is_err(), "{bad}");
        }
    }
}
