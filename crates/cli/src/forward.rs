//! `anabranch forward`: local ports whose connections and datagrams go to targets through a proxy.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::str::FromStr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anabranch::proxy::client::{Target, TunnelError};
use bytes::Bytes;
use clap::Args;
use tokio::net::{TcpStream, UdpSocket};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::exit::{self, Exit, Failure, Result};
use crate::listen::HostPort;
use crate::options::cannot_listen;
use crate::proxy::config::Configured;
use crate::proxy::connect::flows::{self, Flows, Terms};
use crate::proxy::connect::link::{Client, Link};
use crate::proxy::connect::local::{self, Local};
use crate::proxy::connect::ports::{Ports, numbered};
use crate::proxy::connect::seeing::Seeing;
use crate::proxy::connect::stream;
use crate::proxy::connect::way::{self, Way};
use crate::serve::{raise_descriptors, systemd};
use crate::signal::Again;

/// Forward ports of this host to targets through a proxy, over all networks at once
///
/// The proxy resolves the names of targets. Example: 127.0.0.1:5432=db.internal:5432/tcp 5353=1.1.1.1:53/udp
#[derive(Args, Debug)]
#[command(after_help = exit::STATUSES)]
pub(crate) struct Forward {
    #[command(flatten)]
    way: Way,
    /// Local ports and their targets. Without a host the port is bound to the loopback address, without a protocol it
    /// is a TCP port
    #[arg(value_name = "[HOST:]PORT=HOST:PORT[/tcp|/udp]", required = true)]
    routes: Vec<Route>,
    /// Seconds without a datagram after which a UDP flow ends
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = clap::value_parser!(u32).range(1..))]
    udp_idle: u32,
    #[command(flatten)]
    seeing: Seeing,
}

/// Pause after a datagram could not be received.
const REST: Duration = Duration::from_millis(10);

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

/// Key of a port: its address in the options, `true` for UDP, and its number among several equal ones.
type Name = ((String, bool), usize);

/// State that all ports share.
#[derive(Debug)]
struct Shared {
    client: Client,
    /// Target of each port.
    targets: BTreeMap<Name, Target>,
    /// Time without datagrams after which a UDP flow ends.
    idle: Duration,
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
        for address in local::addresses(&route.from).await? {
            match flows::bind(address).await {
                Ok(socket) => return Ok(Self::Udp(socket)),
                // A name such as `localhost` may resolve to an address that is not one of this host.
                Err(error) if error.kind() == io::ErrorKind::AddrNotAvailable && !route.from.is_address() => {
                }
                Err(error) => return Err(cannot_listen(address, &error)),
            }
        }
        Err(Failure::new(Exit::Io, format!("{} is no address of this host", route.from)))
    }

    fn address(&self) -> io::Result<SocketAddr> {
        match self {
            Self::Tcp(local) => Ok(local.address()),
            Self::Udp(socket) => socket.local_addr(),
        }
    }
}

/// Bound ports that are not served yet, and the lines to print about them.
#[derive(Default)]
struct Bound {
    ports: Vec<(Name, Port)>,
    lines: Vec<String>,
}

/// The running command.
struct Running {
    link: Link,
    shared: watch::Sender<Arc<Shared>>,
    ports: Ports<Name>,
    /// Options that cannot change while the command runs.
    seeing: Seeing,
}

pub(crate) async fn run(configured: Configured<Forward>) -> Result {
    let options = configured.read()?;
    let (mut stop, mut again) = Again::catch(configured.has_file())?;
    raise_descriptors();
    let mut ports = Ports::new();
    let mut bound = options.bind(&ports).await?;
    let seeing = options.seeing.bind("forward")?;
    let ready = async {
        let link = Link::connect(&options.way).await?;
        options.check_udp(&link.current().borrow().clone()).await?;
        Ok::<_, Failure>(link)
    };
    let link = tokio::select! {
        ready = ready => ready?,
        () = stop.wait() => return Err(Failure::new(Exit::Interrupted, "interrupted")),
    };
    bound.lines.extend(seeing.start(&link.current(), ports.serving())?);
    exit::say(bound.lines.join("\n"))?;
    let shared = watch::Sender::new(Arc::new(options.shared(&link)));
    bound.ports.into_iter().for_each(|(name, port)| serve(&mut ports, name, port, &shared));
    systemd::ready();
    let mut running = Running { link, shared, ports, seeing: options.seeing };
    loop {
        tokio::select! {
            () = stop.wait() => break,
            () = again.wait() => {}
        }
        tokio::select! {
            () = stop.wait() => break,
            () = running.reload(&configured) => {}
        }
    }
    systemd::stopping();
    let Running { link, mut ports, .. } = running;
    link.end(ports.serving()).await;
    Ok(())
}

impl Forward {
    /// Checks the options and the files that they name.
    pub(crate) fn check(&self) -> Result {
        self.way.check()
    }

    fn named(&self) -> impl Iterator<Item = (Name, &Route)> {
        let names = self.routes.iter().map(|route| (route.from.to_string(), route.is_udp));
        numbered(names).into_iter().zip(&self.routes)
    }

    /// Binds the ports that are not open yet.
    async fn bind(&self, ports: &Ports<Name>) -> Result<Bound> {
        let mut bound = Bound::default();
        for (name, route) in self.named().filter(|(name, _)| !ports.is_open(name)) {
            let port = Port::bind(route).await?;
            let address = port.address().map_err(|error| Failure::io("no local address", &error))?;
            let protocol = if route.is_udp { "udp" } else { "tcp" };
            bound.lines.push(format!("forwarding {address} to {}/{protocol}", route.target));
            bound.ports.push((name, port));
        }
        Ok(bound)
    }

    /// Fails if a route is for UDP and the proxy does not support UDP.
    async fn check_udp(&self, client: &Client) -> Result {
        if !self.routes.iter().any(|route| route.is_udp) {
            return Ok(());
        }
        match client.proxy().carries_udp().await {
            Ok(true) => Ok(()),
            Ok(false) => Err(way::failure(&TunnelError::NoUdp)),
            Err(error) => Err(way::failure(&error)),
        }
    }

    fn shared(&self, link: &Link) -> Shared {
        Shared {
            client: link.current().borrow().clone(),
            targets: self.named().map(|(name, route)| (name, route.target.clone())).collect(),
            idle: Duration::from_secs(self.udp_idle.into()),
        }
    }
}

impl Running {
    /// Reads the configuration again and applies it. If it is invalid, or if the proxy that it names cannot be reached,
    /// changes nothing.
    async fn reload(&mut self, configured: &Configured<Forward>) {
        match self.read_again(configured).await {
            Ok(what) => exit::note(format_args!("anabranch: read again: {what}")),
            Err(failure) => {
                failure.say();
                exit::note("anabranch: everything stays as it was");
            }
        }
    }

    async fn read_again(&mut self, configured: &Configured<Forward>) -> Result<String> {
        let options = configured.read()?;
        let bound = options.bind(&self.ports).await?;
        let fresh = self.link.renew(&options.way).await?;
        options
            .check_udp(fresh.as_ref().map_or(&self.link.current().borrow().clone(), |fresh| fresh.client()))
            .await?;
        if !bound.lines.is_empty() {
            exit::say(bound.lines.join("\n"))?;
        }
        way::tell_fixed(&options.seeing.differences(&self.seeing));
        // The following steps cannot fail.
        let what = way::changes(bound.ports.len(), fresh.is_some());
        fresh.into_iter().for_each(|fresh| self.link.replace(fresh));
        self.shared.send_replace(Arc::new(options.shared(&self.link)));
        let closed = self.ports.keep(&options.named().map(|(name, _)| name).collect());
        let Bound { ports, .. } = bound;
        ports.into_iter().for_each(|(name, port)| serve(&mut self.ports, name, port, &self.shared));
        Ok(format!("{what}, {closed} closed"))
    }
}

fn serve(ports: &mut Ports<Name>, name: Name, port: Port, shared: &watch::Sender<Arc<Shared>>) {
    let (shared, from) = (shared.subscribe(), name.clone());
    match port {
        Port::Tcp(local) => ports.serve(name, |closing| streams(local, from, shared, closing)),
        Port::Udp(socket) => ports.serve(name, |closing| async move {
            tokio::select! {
                () = datagrams(socket, from, shared) => {}
                () = closing.cancelled() => {}
            }
        }),
    }
}

/// Accepts connections on a port, and carries each to the port's target.
async fn streams(local: Local, from: Name, shared: watch::Receiver<Arc<Shared>>, closing: CancellationToken) {
    let told = Arc::new(Mutex::new(String::new()));
    let serve = move |program: TcpStream| {
        let (shared, told) = (Arc::clone(&shared.borrow()), Arc::clone(&told));
        let target = shared.targets.get(&from).cloned();
        async move {
            // A port that is about to be closed has no target.
            let Some(target) = target else { return };
            match stream::open(&shared.client, &target).await {
                Ok(tunnel) => {
                    drop(shared);
                    tunnel.carry(program, Bytes::new()).await;
                }
                Err(error) => refuse(&program, &format!("{target}: {error}"), &told),
            }
        }
    };
    local.accept(closing, serve).await;
}

/// Resets the program's connection. Prints the reason, which the program does not receive, unless it is the same as that
/// of the port's last refusal.
fn refuse(program: &TcpStream, why: &str, told: &Mutex<String>) {
    #[expect(deprecated, reason = "the connection is reset, so closing it does not block")]
    let _ = program.set_linger(Some(Duration::ZERO));
    let mut told = told.lock().unwrap_or_else(PoisonError::into_inner);
    if *told != why {
        exit::note(format_args!("anabranch: {}", exit::one_line(why)));
        why.clone_into(&mut told);
    }
}

/// Carries the datagrams of a port to its target, in one flow for each source address.
async fn datagrams(socket: UdpSocket, name: Name, shared: watch::Receiver<Arc<Shared>>) {
    let socket = Arc::new(socket);
    let mut flows: Flows<SocketAddr> = Flows::new();
    loop {
        let Ok((datagram, from)) = flows::receive(&socket).await else {
            // ICMP may have reported an earlier datagram as undeliverable. Another error may occur again at once.
            tokio::time::sleep(REST).await;
            continue;
        };
        let shared = Arc::clone(&shared.borrow());
        let Some(target) = shared.targets.get(&name).cloned() else { continue };
        flows.pass(&from, datagram, |inbox| {
            let socket = Arc::clone(&socket);
            let terms = Terms { client: shared.client.clone(), idle: shared.idle };
            flows::carry(terms, target, inbox, move |payload| {
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
