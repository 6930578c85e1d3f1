//! `anabranch proxy connect`: SOCKS5 and HTTP proxies on this host, which carry connections of programs to the remote proxy.

pub(crate) mod flows;
mod http;
pub(crate) mod link;
pub(crate) mod local;
mod metrics;
pub(crate) mod news;
mod outlet;
pub(crate) mod ports;
pub(crate) mod rules;
pub(crate) mod seeing;
pub(crate) mod seen;
mod socks;
mod state;
pub(crate) mod stream;
pub(crate) mod way;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use tokio::sync::watch;

use self::link::{Client, Link};
use self::local::{Guard, Local};
use self::ports::{Ports, numbered};
use self::seeing::Seeing;
use self::way::Way;
use super::config::Configured;
use crate::exit::{self, Exit, Failure, Result};
use crate::listen::HostPort;
use crate::serve::{raise_descriptors, systemd};
use crate::signal::Again;

/// Offer programs of this host a SOCKS5 and an HTTP proxy, whose connections are carried over all networks at
/// once
///
/// Names of hosts are resolved by the proxy, not here. SOCKS5 carries TCP (CONNECT) and UDP (UDP ASSOCIATE). HTTP
/// carries connections that CONNECT requests, which programs use for HTTPS
#[derive(Args, Debug)]
#[command(after_help = exit::STATUSES)]
pub(crate) struct Connect {
    #[command(flatten)]
    way: Way,
    /// Address and port of the SOCKS5 proxy for programs; may be repeated [default: 127.0.0.1:1080, unless there is
    /// --http]
    #[arg(long, value_name = "HOST:PORT")]
    socks: Vec<HostPort>,
    /// Address and port of the HTTP proxy for programs; may be repeated
    #[arg(long, value_name = "HOST:PORT")]
    http: Vec<HostPort>,
    /// Serve only programs that send the name and the password in this file, NAME:PASSWORD
    #[arg(long, value_name = "FILE")]
    local_user_file: Option<PathBuf>,
    /// Seconds without a datagram after which a UDP flow ends
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = clap::value_parser!(u32).range(1..))]
    udp_idle: u32,
    #[command(flatten)]
    seeing: Seeing,
}

/// Protocol of a local proxy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Speaks {
    Socks,
    Http,
}

/// Key of a port: its protocol, its address in the options, and its number among several equal ones.
type Port = ((Speaks, String), usize);

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
}

pub(crate) async fn run(configured: Configured<Connect>) -> Result {
    let options = configured.read()?;
    let guard = options.guard()?;
    // Signals are caught before the ports are open and the command prints them.
    let (mut stop, mut again) = Again::catch(configured.has_file())?;
    raise_descriptors();
    let mut ports = Ports::new();
    let bound = options.bind(&ports).await?;
    let seeing = options.seeing.bind("connect")?;
    let link = tokio::select! {
        connected = Link::connect(&options.way) => connected?,
        () = stop.wait() => return Err(Failure::new(Exit::Interrupted, "interrupted")),
    };
    let seen = seeing.start(&link.current(), ports.serving())?;
    exit::say(announcement(&bound, seen))?;
    warn(&bound, guard.is_some());
    let shared = watch::Sender::new(Arc::new(options.shared(&link, guard)));
    bound.into_iter().for_each(|(port, local)| serve(&mut ports, port, local, &shared));
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

impl Connect {
    /// Checks the options and the files that they name.
    pub(crate) fn check(&self) -> Result {
        self.way.check()?;
        self.guard().map(drop)
    }

    fn guard(&self) -> Result<Option<Guard>> {
        self.local_user_file.as_deref().map(Guard::load).transpose()
    }

    /// Returns the keys and the addresses of the ports that the options name.
    fn ports(&self) -> Vec<(Port, HostPort)> {
        let usual = HostPort { host: Some("127.0.0.1".to_owned()), port: 1080, has_port: true };
        let socks = match self.socks.is_empty() && self.http.is_empty() {
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

    /// Binds the ports that are not open yet.
    async fn bind(&self, ports: &Ports<Port>) -> Result<Vec<(Port, Local)>> {
        let mut bound = Vec::new();
        for (port, place) in self.ports() {
            if !ports.is_open(&port) {
                bound.extend(Local::bind(&place).await?.map(|local| (port, local)));
            }
        }
        Ok(bound)
    }

    fn shared(&self, link: &Link, guard: Option<Guard>) -> Shared {
        let client = link.current().borrow().clone();
        Shared { client, guard, idle: Duration::from_secs(self.udp_idle.into()) }
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
        let options = configured.read()?;
        let guard = options.guard()?;
        let bound = options.bind(&self.ports).await?;
        let fresh = self.link.renew(&options.way).await?;
        if !bound.is_empty() {
            exit::say(announcement(&bound, Vec::new()))?;
        }
        way::tell_fixed(&options.seeing.differences(&self.seeing));
        // The following steps cannot fail.
        warn(&bound, guard.is_some());
        let what = way::changes(bound.len(), fresh.is_some());
        fresh.into_iter().for_each(|fresh| self.link.replace(fresh));
        self.shared.send_replace(Arc::new(options.shared(&self.link, guard)));
        let closed = self.ports.keep(&options.ports().into_iter().map(|(port, _)| port).collect());
        bound.into_iter().for_each(|(port, local)| serve(&mut self.ports, port, local, &self.shared));
        Ok(format!("{what}, {closed} closed"))
    }
}

/// Serves the programs that connect to a port.
fn serve(ports: &mut Ports<Port>, port: Port, local: Local, shared: &watch::Sender<Arc<Shared>>) {
    let ((speaks, _), _) = port;
    let shared = shared.subscribe();
    ports.serve(port, |closing| {
        local.accept(closing, move |stream| {
            let shared = Arc::clone(&shared.borrow());
            async move {
                match speaks {
                    Speaks::Socks => socks::serve(stream, &shared).await,
                    Speaks::Http => http::serve(stream, shared).await,
                }
            }
        })
    });
}

/// Returns the lines on standard output, which programs that start this command parse.
fn announcement(bound: &[(Port, Local)], more: Vec<String>) -> String {
    let line = |(((speaks, _), _), local): &(Port, Local)| {
        let name = match speaks {
            Speaks::Socks => "socks",
            Speaks::Http => "http",
        };
        format!("listening {name} {}", local.address())
    };
    bound.iter().map(line).chain(more).collect::<Vec<_>>().join("\n")
}

/// Prints a warning if programs of other hosts can use the local proxies without a password.
fn warn(bound: &[(Port, Local)], is_guarded: bool) {
    if !is_guarded && bound.iter().any(|(_, local)| !local.address().ip().is_loopback()) {
        exit::note("anabranch: other hosts can use this proxy without a password; see --local-user-file");
    }
}
