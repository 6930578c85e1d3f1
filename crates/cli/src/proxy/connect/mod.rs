//! `anabranch proxy connect`: SOCKS5 and HTTP proxies on this host, which carry connections of programs to the remote proxy.

mod drops;
pub(crate) mod flows;
mod http;
pub(crate) mod link;
pub(crate) mod local;
mod metrics;
pub(crate) mod news;
mod outlet;
pub(crate) mod ports;
mod presets;
pub(crate) mod rules;
pub(crate) mod seeing;
pub(crate) mod seen;
mod socks;
mod state;
pub(crate) mod stream;
#[cfg(target_os = "linux")]
mod transparent;
#[cfg(not(target_os = "linux"))]
#[path = "transparent_absent.rs"]
mod transparent;
pub(crate) mod way;

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use tokio::sync::watch;

use self::link::{Client, Link};
use self::local::{Guard, Local};
use self::ports::{Ports, numbered};
use self::seeing::Seeing;
use self::transparent::{Capture, Networks, Transparent};
use self::way::Way;
use super::config::Configured;
use crate::exit::{self, Exit, Failure, Result};
use crate::listen::HostPort;
use crate::serve::{raise_descriptors, systemd};
use crate::signal::Again;

/// Offer programs of this host a SOCKS5 and an HTTP proxy, whose connections are carried over all networks at
/// once, or carry all TCP connections of this host
///
/// Names of hosts are resolved by the proxy, not here. SOCKS5 carries TCP (CONNECT) and UDP (UDP ASSOCIATE). HTTP
/// carries connections that CONNECT requests, which programs use for HTTPS
#[derive(Args, Debug)]
#[command(after_help = exit::STATUSES)]
pub(crate) struct Connect {
    #[command(flatten)]
    way: Way,
    /// Address and port of the SOCKS5 proxy for programs; may be repeated [default: 127.0.0.1:1080, unless there is
    /// --http or --transparent]
    #[arg(long, value_name = "HOST:PORT")]
    socks: Vec<HostPort>,
    /// Address and port of the HTTP proxy for programs; may be repeated
    #[arg(long, value_name = "HOST:PORT")]
    http: Vec<HostPort>,
    #[command(flatten)]
    transparent: Transparent,
    /// Serve only programs that send the name and the password in this file, NAME:PASSWORD
    #[arg(long, value_name = "FILE")]
    local_user_file: Option<PathBuf>,
    /// Seconds without a datagram after which a UDP flow ends
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = clap::value_parser!(u32).range(1..))]
    udp_idle: u32,
    #[command(flatten)]
    seeing: Seeing,
}

/// Protocol by which programs speak to a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Speaks {
    Socks,
    Http,
    /// That of the program's target.
    Transparent,
}

/// Key of a port: its protocol, its address in the options, and its number among several equal ones.
type Port = ((Speaks, String), usize);

/// A port that was bound and is not served yet.
struct Bound {
    port: Port,
    local: Local,
    /// Rules that lead connections to the port.
    capture: Option<Capture>,
}

/// State that the local proxies share.
#[derive(Debug)]
struct Shared {
    client: Client,
    /// Name and password that programs must send; `None` if there are none.
    guard: Option<Guard>,
    /// Time without datagrams after which a UDP flow ends.
    idle: Duration,
}

/// The running command.
struct Running {
    link: Link,
    shared: watch::Sender<Arc<Shared>>,
    ports: Ports<Port>,
    /// Options that cannot change while the command runs.
    seeing: Seeing,
    networks: Networks,
}

pub(crate) async fn run(configured: Configured<Connect>) -> Result {
    let options = Connect::read(&configured)?;
    let guard = options.guard()?;
    // Signals are caught before the ports are open and the command prints them.
    let (mut stop, mut again) = Again::catch(configured.has_file())?;
    raise_descriptors();
    let mut ports = Ports::new();
    let mut bound = options.bind(&ports).await?;
    let seeing = options.seeing.bind("connect")?;
    let link = tokio::select! {
        connected = Link::connect(&options.way) => connected?,
        () = stop.wait() => return Err(Failure::new(Exit::Interrupted, "interrupted")),
    };
    let seen = seeing.start(&link.current(), ports.serving())?;
    options.capture(&mut bound).await?;
    exit::say(announcement(&bound, seen))?;
    warn(&bound, guard.is_some());
    let shared = watch::Sender::new(Arc::new(options.shared(&link, guard)));
    bound.into_iter().for_each(|bound| serve(&mut ports, bound, &shared));
    systemd::ready();
    let networks = options.transparent.networks().clone();
    let mut running = Running { link, shared, ports, seeing: options.seeing, networks };
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

impl Connect {
    fn read(configured: &Configured<Self>) -> Result<Self> {
        let mut options = configured.read()?;
        options.way.mark_tcp(options.transparent.mark());
        Ok(options)
    }

    /// Checks the options and the files that they name.
    pub(crate) fn check(&self) -> Result {
        self.way.check()?;
        self.transparent.places()?;
        self.guard().map(drop)
    }

    fn guard(&self) -> Result<Option<Guard>> {
        self.local_user_file.as_deref().map(Guard::load).transpose()
    }

    /// Returns the keys of the local proxies' ports that the options name, and their places.
    fn ports(&self) -> Vec<(Port, HostPort)> {
        let usual = HostPort { host: Some("127.0.0.1".to_owned()), port: 1080, has_port: true };
        let socks = match self.socks.is_empty() && self.http.is_empty() && self.transparent.is_empty() {
            true => vec![usual],
            false => self.socks.clone(),
        };
        let of = |places: Vec<HostPort>, speaks: Speaks| {
            places.into_iter().map(move |place| ((speaks, place.to_string()), place))
        };
        let wanted: Vec<_> = of(socks, Speaks::Socks).chain(of(self.http.clone(), Speaks::Http)).collect();
        let (names, places): (Vec<_>, Vec<_>) = wanted.into_iter().unzip();
        numbered(names).into_iter().zip(places).collect()
    }

    /// Returns the keys of the ports for captured connections, their addresses, and whether this host must have each.
    fn captured(&self) -> Result<Vec<(Port, (SocketAddr, bool))>> {
        let places = self.transparent.places()?;
        let names = places.iter().map(|(address, _)| (Speaks::Transparent, address.to_string()));
        Ok(numbered(names).into_iter().zip(places).collect())
    }

    /// Returns the keys of all ports that the options name.
    fn wanted(&self) -> Result<BTreeSet<Port>> {
        let captured = self.captured()?.into_iter().map(|(port, _)| port);
        Ok(self.ports().into_iter().map(|(port, _)| port).chain(captured).collect())
    }

    /// Binds the ports that are not open yet.
    async fn bind(&self, ports: &Ports<Port>) -> Result<Vec<Bound>> {
        let mut bound = Vec::new();
        let mut add = |port, local: Option<Local>| {
            bound.extend(local.map(|local| Bound { port, local, capture: None }));
        };
        for (port, place) in self.ports() {
            if !ports.is_open(&port) {
                add(port, Local::bind(&place).await?);
            }
        }
        for (port, (address, must)) in self.captured()? {
            if !ports.is_open(&port) {
                add(port, transparent::bind(address, must)?);
            }
        }
        Ok(bound)
    }

    /// Has the kernel lead connections to the ports for them.
    async fn capture(&self, bound: &mut [Bound]) -> Result {
        for bound in bound.iter_mut().filter(|bound| bound.speaks() == Speaks::Transparent) {
            let networks = self.transparent.networks().clone();
            bound.capture = Some(Capture::begin(bound.local.address(), networks).await?);
        }
        Ok(())
    }

    fn shared(&self, link: &Link, guard: Option<Guard>) -> Shared {
        let client = link.current().borrow().clone();
        Shared { client, guard, idle: Duration::from_secs(self.udp_idle.into()) }
    }
}

impl Bound {
    fn speaks(&self) -> Speaks {
        let ((speaks, _), _) = self.port;
        speaks
    }
}

impl Running {
    /// Reads the configuration again and applies it. If it is invalid, or if the proxy that it names cannot be reached,
    /// changes nothing.
    async fn reload(&mut self, configured: &Configured<Connect>) {
        match self.read_again(configured).await {
            Ok(what) => exit::note(format_args!("anabranch: read again: {what}")),
            Err(failure) => {
                failure.say();
                exit::note("anabranch: everything stays as it was");
            }
        }
    }

    async fn read_again(&mut self, configured: &Configured<Connect>) -> Result<String> {
        let options = Connect::read(configured)?;
        let guard = options.guard()?;
        let wanted = options.wanted()?;
        let mut bound = options.bind(&self.ports).await?;
        let fresh = self.link.renew(&options.way).await?;
        options.capture(&mut bound).await?;
        if !bound.is_empty() {
            exit::say(announcement(&bound, Vec::new()))?;
        }
        let mut fixed = options.seeing.differences(&self.seeing);
        if bound.iter().all(|bound| bound.capture.is_none()) {
            fixed.extend(options.transparent.networks().differences(&self.networks));
        }
        way::tell_fixed(&fixed);
        // The following steps cannot fail.
        warn(&bound, guard.is_some());
        let what = way::changes(bound.len(), fresh.is_some());
        fresh.into_iter().for_each(|fresh| self.link.replace(fresh));
        self.shared.send_replace(Arc::new(options.shared(&self.link, guard)));
        let closed = self.ports.keep(&wanted);
        bound.into_iter().for_each(|bound| serve(&mut self.ports, bound, &self.shared));
        Ok(format!("{what}, {closed} closed"))
    }
}

/// Serves the programs that connect to a port.
fn serve(ports: &mut Ports<Port>, bound: Bound, shared: &watch::Sender<Arc<Shared>>) {
    let (speaks, shared) = (bound.speaks(), shared.subscribe());
    let Bound { port, local, capture } = bound;
    ports.serve(port, |closing| {
        let captured = closing.clone();
        let accepting = local.accept(closing, move |stream| {
            let shared = Arc::clone(&shared.borrow());
            async move {
                match speaks {
                    Speaks::Socks => socks::serve(stream, &shared).await,
                    Speaks::Http => http::serve(stream, shared).await,
                    Speaks::Transparent => transparent::serve(stream, &shared).await,
                }
            }
        });
        async move {
            // No further connections are led to a port that is closed.
            let capturing = async move {
                captured.cancelled().await;
                drop(capture);
            };
            tokio::join!(capturing, accepting);
        }
    });
}

/// Returns the lines on standard output, which programs that start this command parse.
fn announcement(bound: &[Bound], more: Vec<String>) -> String {
    let line = |bound: &Bound| {
        let name = match bound.speaks() {
            Speaks::Socks => "socks",
            Speaks::Http => "http",
            Speaks::Transparent => "transparent",
        };
        format!("listening {name} {}", bound.local.address())
    };
    bound.iter().map(line).chain(more).collect::<Vec<_>>().join("\n")
}

/// Prints a warning if programs of other hosts can use the local proxies without a password.
fn warn(bound: &[Bound], is_guarded: bool) {
    let is_open =
        |bound: &Bound| bound.speaks() != Speaks::Transparent && !bound.local.address().ip().is_loopback();
    if !is_guarded && bound.iter().any(is_open) {
        exit::note("anabranch: other hosts can use this proxy without a password; see --local-user-file");
    }
}
