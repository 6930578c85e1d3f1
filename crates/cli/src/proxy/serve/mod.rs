//! `anabranch proxy serve`: the proxy, which connects to targets for its users.

mod drain;
mod faults;
mod http2;
mod identified;
mod log;
mod metrics;
#[cfg(all(feature = "vpn", target_os = "linux"))]
mod network;
#[cfg(not(all(feature = "vpn", target_os = "linux")))]
#[path = "network_absent.rs"]
mod network;
mod quic;
mod shared;
mod status;
mod tcp;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anabranch::Endpoint;
use anabranch::proxy::server::{Access, Proxy, Rule};
use clap::Args;
use tokio::task::JoinSet;

use self::identified::Identities;
pub(crate) use self::log::Format as LogFormat;

use self::log::Log;
use self::metrics::Metrics;
use self::shared::Shared;
use super::config::{Config, Known, read_users};
use super::connect::way;
use crate::exit::{self, Exit, Failure, Result, note};
use crate::identity::{Certified, Identity};
use crate::listen::{HostPort, PORT};
use crate::multipath::ServerPaths;
use crate::options::Tuning;
use crate::serve::metrics as scrape;
use crate::serve::quic::announcing;
use crate::serve::sockets::{self, Sockets};
use crate::serve::{announced, names, places, raise_descriptors, systemd, trust, workers};
use crate::signal::{Stop, hangup};
use crate::status::publish::{Publishing, reporting};
use crate::verbose::Verbosity;

/// Default time that open tunnels have to end after SIGTERM, in seconds.
const DRAIN: u32 = 10;

/// Carry TCP connections and UDP flows of users to their targets, over HTTP/3, HTTP/2 and HTTP/1.1
#[derive(Args, Debug)]
#[command(after_help = exit::STATUSES)]
pub(crate) struct Serve {
    /// Configuration in TOML; options of the command line take precedence. On SIGHUP the file is read again for the access
    /// list, and so is the file with users
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Addresses, or names of this host, and ports to listen on, for UDP and TCP alike, as for `anabranch serve`
    #[arg(long, value_name = "HOST:PORT", num_args = 1..)]
    listen: Vec<String>,
    /// Further address of this proxy, announced to clients that use several paths; may be repeated. The default port is that
    /// of the first listen address
    #[arg(long, value_name = "IP[:PORT]")]
    announce: Vec<HostPort>,
    #[command(flatten)]
    identity: Identity,
    /// Require each client to have a certificate that an authority in this PEM file has signed
    #[arg(long, value_name = "PEM")]
    client_ca: Option<PathBuf>,
    /// Users in TOML: [[user]] with name, secret (from `anabranch proxy hash`) and, optionally, certificate, flows,
    /// connections and rate. Clients send NAME and SECRET (Basic), or the token NAME.SECRET (Bearer)
    #[arg(long, value_name = "FILE")]
    users: Option<PathBuf>,
    /// Allow this network although it is not public, as in 10.0.0.0/8:5432; may be repeated
    #[arg(long, value_name = "RULE")]
    allow: Vec<Rule>,
    /// Deny these targets, as in 203.0.114.0/24, .example or *:25; may be repeated
    #[arg(long, value_name = "RULE")]
    deny: Vec<Rule>,
    /// Deny all targets but these; may be repeated
    #[arg(long, value_name = "RULE")]
    only: Vec<Rule>,
    /// Tasks that serve QUIC at the same time, each with a socket of its own, as for `anabranch serve` [default: 1]
    #[arg(long, value_name = "N", value_parser = workers)]
    workers: Option<usize>,
    /// Do not serve HTTP/2 and HTTP/1.1 over TCP
    #[arg(long)]
    no_tcp: bool,
    /// Format of the access log on standard error, a line for each tunnel that has ended or was refused [default: text]
    #[arg(long, value_enum, value_name = "FORM")]
    log: Option<LogFormat>,
    /// Serve metrics for Prometheus at http://IP:PORT/metrics
    #[arg(long, value_name = "IP:PORT")]
    metrics: Option<SocketAddr>,
    #[command(flatten)]
    network: network::Network,
    #[command(flatten)]
    publishing: Publishing,
    /// Seconds that open tunnels have to end after SIGTERM [default: 10]; a second signal aborts them at once
    #[arg(long, value_name = "SECONDS")]
    drain: Option<u32>,
    #[command(flatten)]
    pub(crate) verbosity: Verbosity,
    #[command(flatten)]
    paths: ServerPaths,
    #[command(flatten)]
    tuning: Tuning,
}

pub(crate) async fn run(options: Serve) -> Result {
    let config = options.read()?;
    let (known, access) = options.policy(&config)?;
    let listen = if options.listen.is_empty() { &config.listen } else { &options.listen };
    let places = places(listen)?;
    let identity = options.identity.clone().or(config.cert.clone(), config.key.clone());
    let mut certified = identity.load(&names(&places))?;
    if let Some(file) = options.client_ca.as_deref().or(config.client_ca.as_deref()) {
        certified = certified.with_client_ca(file)?;
    }
    let workers = options.workers.or(config.workers).unwrap_or(1);
    let sockets = Sockets::open(&places, !options.no_tcp && config.tcp.unwrap_or(true), workers).await?;
    let scraped = options.metrics.or(config.metrics).map(sockets::bind_tcp).transpose()?;
    let publisher = options.publishing.clone().or(config.status_socket.clone()).bind("serve")?;
    // Signals are caught before the server prints that it listens.
    let mut stop = Stop::catch_without_hangup()?;
    let mut again = hangup()?;
    raise_descriptors();

    let log = Log::start(options.log.or(config.log).unwrap_or_default());
    let metrics = Arc::new(Metrics::new());
    let observer = metrics.observer(log.clone());
    let made = Proxy::new(config.options.clone(), known.users, access);
    let proxy = made.map_err(|error| Failure::io("no randomness", &error))?.with_observer(observer);
    let mut accepting = JoinSet::new();
    let proxy = options.network.attach(&config.vpn, proxy, &mut accepting)?;
    let shared = Arc::new(Shared::new(proxy, metrics, Identities::new(known.certificates)));
    let scraped = match scraped {
        Some(listener) => Some(scrape::serve(listener, shared.text(), &mut accepting)?),
        None => None,
    };
    if let Some(publisher) = publisher {
        let (newest, reporting) = reporting(status::State::new(Arc::clone(&shared)));
        accepting.spawn(reporting);
        accepting.spawn(publisher.publish(newest));
    }
    let announced = options.announced(&config, &sockets)?;
    let endpoints = options.listen(&certified, sockets, &announced, &shared, &mut accepting)?;
    let trust = if identity.is_made_up() { trust(&certified, identity.kept_in()) } else { Vec::new() };
    exit::say(announcement(&endpoints, trust, scraped)?)?;
    systemd::ready();

    loop {
        tokio::select! {
            _ = accepting.join_next() => return Err(Failure::new(Exit::Io, "a socket failed")),
            () = stop.wait() => break,
            _ = again.recv() => options.reload(&shared, &config),
        }
    }
    systemd::stopping();
    let patience = options.drain.or(config.drain).unwrap_or(DRAIN);
    drain::drain(&shared, &endpoints, Duration::from_secs(patience.into()), &mut stop).await;
    log.flush();
    // Aborted tasks remove files that they have created, for instance sockets.
    accepting.shutdown().await;
    Ok(())
}

impl Serve {
    fn read(&self) -> Result<Config> {
        Ok(self.config.as_deref().map(Config::read).transpose()?.unwrap_or_default())
    }

    /// Returns users and access list.
    fn policy(&self, config: &Config) -> Result<(Known, Access)> {
        let file: Option<&Path> = self.users.as_deref().or(config.users.as_deref());
        let nobody = || {
            Failure::new(Exit::Usage, "nobody could use the proxy")
                .or("name a file with users with --users; `anabranch proxy hash` hashes their secrets")
        };
        let known = read_users(file.ok_or_else(nobody)?)?;
        if !known.certificates.is_empty() && self.client_ca.is_none() && config.client_ca.is_none() {
            return Err(Failure::new(Exit::Usage, "users are known by certificates that nobody has signed")
                .or("name the authority with --client-ca"));
        }
        let or = |own: &[Rule], configured: &[Rule]| {
            if own.is_empty() { configured.to_vec() } else { own.to_vec() }
        };
        let access = Access::default()
            .with_allow(or(&self.allow, config.access.allow()))
            .with_deny(or(&self.deny, config.access.deny()))
            .with_only(or(&self.only, config.access.only()));
        Ok((known, access))
    }

    /// Reads users and access list again. If they are invalid, the proxy keeps the present ones. `first` is the configuration
    /// with which the server was started.
    fn reload(&self, shared: &Shared, first: &Config) {
        match self.read().and_then(|config| Ok((self.policy(&config)?, config))) {
            Ok(((known, access), config)) => {
                note(format_args!("anabranch: read again, with {} users", known.users.len()));
                shared.identities.replace(known.certificates);
                shared.proxy.replace(known.users, access);
                way::tell_fixed(&config.fixed_differences(first));
            }
            Err(failure) => {
                failure.say();
                note("anabranch: users and access list stay as they were");
            }
        }
    }

    /// Returns the further addresses that are announced to clients.
    fn announced(&self, config: &Config, sockets: &Sockets) -> Result<Vec<SocketAddr>> {
        let announce = if self.announce.is_empty() { &config.announce } else { &self.announce };
        announced(announce, sockets.udp_ports().first().copied().unwrap_or(PORT))
    }

    /// Starts to accept connections on every socket.
    fn listen(
        &self,
        certified: &Certified,
        sockets: Sockets,
        announced: &[SocketAddr],
        shared: &Arc<Shared>,
        accepting: &mut JoinSet<()>,
    ) -> Result<Vec<Endpoint>> {
        let transport = quic::transport(self.tuning.served()).with_multipath(self.paths.config());
        let config = certified.quic(quic::PROTOCOLS, transport)?;
        let mut endpoints = Vec::new();
        for (index, sockets) in sockets.udp.into_iter().enumerate() {
            let endpoint = announcing(config.clone(), sockets, announced, index == 0)?;
            accepting.spawn(quic::accept(endpoint.clone(), Arc::clone(shared)));
            endpoints.push(endpoint);
        }
        let tls = certified.tcp(tcp::PROTOCOLS)?;
        for listener in sockets.tcp {
            let listener = sockets::listener(listener)?;
            accepting.spawn(tcp::accept(listener, Arc::clone(&tls), Arc::clone(shared)));
        }
        Ok(endpoints)
    }
}

/// Returns the lines that are printed at the start. Programs that start this command parse the first ones.
fn announcement(endpoints: &[Endpoint], trust: Vec<String>, metrics: Option<SocketAddr>) -> Result<String> {
    let mut lines = Vec::new();
    for endpoint in endpoints {
        let address = endpoint.local_addr().map_err(|error| Failure::io("no local address", &error))?;
        lines.push(format!("listening {address}"));
    }
    lines.extend(trust);
    lines.extend(metrics.map(|address| format!("metrics http://{address}/metrics")));
    Ok(lines.join("\n"))
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        serve: Serve,
    }

    #[test]
    fn options_win_over_the_file() {
        let line = Line::parse_from(["serve", "--allow", "10.0.0.0/8", "--users", "/nowhere"]);
        let access = Access::default().with_allow(["192.168.0.0/16".parse().unwrap()]);
        let access = access.with_deny(["*:25".parse().unwrap()]);
        let config = Config { access, ..Config::default() };
        let failure = line.serve.policy(&config).unwrap_err();
        assert_eq!(failure.exit(), Exit::Usage);
        assert!(failure.to_string().starts_with("/nowhere: "), "{failure}");
        let file = tempfile::NamedTempFile::new().unwrap();
        let hash = "$argon2id$v=19$m=8,t=1,p=1$c2FsdHNhbHRzYWx0$eSdTyYzsBgXpSqGVxl/nnTnqvzqC4kIXtFiOqMpd1rE";
        std::fs::write(file.path(), format!("[[user]]\nname = \"a\"\nsecret = \"{hash}\"\n")).unwrap();
        let serve = Serve { users: Some(file.path().to_owned()), ..line.serve };
        let (known, access) = serve.policy(&config).unwrap();
        assert_eq!(known.users.len(), 1);
        assert_eq!(access.allow()[0].to_string(), "10.0.0.0/8");
        assert_eq!(access.deny()[0].to_string(), "*:25");
        let nobody = Serve { users: None, ..serve }.policy(&Config::default()).unwrap_err();
        assert!(nobody.to_string().contains("--users"), "{nobody}");
    }
}
