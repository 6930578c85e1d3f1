//! Configuration files of a proxy and of its clients, in TOML.

mod certificates;
mod document;
mod options;
mod role;
mod users;

use std::fmt::Display;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anabranch::proxy::server::{Access, IpNetwork, PacketSink, ProxyOptions};
use clap::ValueEnum;
use ipnet::IpNet;
use serde::Deserialize;
use toml::Spanned;

pub(crate) use self::certificates::Certificates;
pub(crate) use self::document::{Document, Problem};
pub(crate) use self::options::{Configured, known_keys};
pub(crate) use self::role::{KnownKeys, Role};
pub(crate) use self::users::{Known, read_users};

use super::serve::LogFormat;
use crate::exit::Result;
use crate::listen::{HostPort, PORT};
use crate::options::network;
use crate::serve::{announced, workers};

/// Configuration of `anabranch proxy serve`. Options of the command line take precedence.
#[derive(Debug, Default)]
pub(crate) struct Config {
    pub(crate) listen: Vec<String>,
    pub(crate) announce: Vec<HostPort>,
    pub(crate) cert: Option<PathBuf>,
    pub(crate) key: Option<PathBuf>,
    pub(crate) client_ca: Option<PathBuf>,
    pub(crate) users: Option<PathBuf>,
    pub(crate) metrics: Option<SocketAddr>,
    pub(crate) log: Option<LogFormat>,
    pub(crate) status_socket: Option<PathBuf>,
    pub(crate) drain: Option<u32>,
    pub(crate) workers: Option<usize>,
    pub(crate) tcp: Option<bool>,
    pub(crate) vpn: VpnNetworks,
    pub(crate) access: Access,
    pub(crate) options: ProxyOptions,
}

/// Networks of a proxy that carries IP packets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct VpnNetworks {
    /// Addresses for clients.
    pub(crate) pools: Vec<IpNet>,
    /// Networks to which packets are carried; to all if there are none.
    pub(crate) routes: Vec<IpNet>,
}

/// Contents of the file before they are checked.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Written {
    listen: Vec<Spanned<String>>,
    announce: Vec<Spanned<String>>,
    cert: Option<PathBuf>,
    key: Option<PathBuf>,
    client_ca: Option<PathBuf>,
    users: Option<PathBuf>,
    metrics: Option<SocketAddr>,
    log: Option<Spanned<String>>,
    status_socket: Option<PathBuf>,
    drain: Option<u32>,
    workers: Option<Spanned<usize>>,
    tcp: Option<bool>,
    vpn_pool: Vec<Spanned<String>>,
    vpn_route: Vec<Spanned<String>>,
    access: WrittenAccess,
    limits: WrittenLimits,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct WrittenAccess {
    allow: Vec<Spanned<String>>,
    deny: Vec<Spanned<String>>,
    only: Vec<Spanned<String>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct WrittenLimits {
    flows: Option<usize>,
    /// This and the other times are in seconds.
    connect_timeout: Option<Spanned<f64>>,
    resolve_timeout: Option<Spanned<f64>>,
    udp_idle: Option<Spanned<f64>>,
}

impl Config {
    /// Reads a configuration file. Its paths are resolved against its directory.
    ///
    /// # Errors
    /// Fails with every problem if the file cannot be read or is invalid.
    pub(crate) fn read(path: &Path) -> Result<Self> {
        let document = Document::read(path)?;
        Self::of(&document).map_err(|problems| document.failure(&problems))
    }

    pub(crate) fn of(document: &Document) -> std::result::Result<Self, Vec<Problem>> {
        let written: Written = document.parse().map_err(|problem| vec![problem])?;
        let mut problems = Vec::new();
        let _ = parsed(&written.listen, &mut problems, str::parse::<HostPort>);
        let announce = parsed(&written.announce, &mut problems, announce);
        let log = parsed(&written.log, &mut problems, log).pop();
        let workers = written.workers.as_ref().and_then(|written| {
            let at = |what| Problem::at(written.span(), format!("workers {what}"));
            workers(&written.get_ref().to_string()).map_err(|what| problems.push(at(what))).ok()
        });
        let vpn = VpnNetworks {
            pools: parsed(&written.vpn_pool, &mut problems, pool),
            routes: parsed(&written.vpn_route, &mut problems, network),
        };
        let mut rules = |texts: &[_]| parsed(texts, &mut problems, str::parse);
        let WrittenAccess { allow, deny, only } = &written.access;
        let access = Access::default().with_allow(rules(allow)).with_deny(rules(deny)).with_only(rules(only));
        let options = written.limits.options(&mut problems);
        if written.cert.is_some() != written.key.is_some() {
            problems.push(Problem::new("cert and key belong together; name both or neither"));
        }
        if !problems.is_empty() {
            return Err(problems);
        }
        let listen = written.listen.into_iter().map(Spanned::into_inner).collect();
        let beside = |path: Option<PathBuf>| path.map(|path| document.beside(&path));
        let (cert, key, users) = (beside(written.cert), beside(written.key), beside(written.users));
        let (client_ca, status_socket) = (beside(written.client_ca), beside(written.status_socket));
        let Written { metrics, drain, tcp, .. } = written;
        Ok(Self {
            listen,
            announce,
            cert,
            key,
            client_ca,
            users,
            metrics,
            log,
            status_socket,
            drain,
            workers,
            tcp,
            vpn,
            access,
            options,
        })
    }
}

/// Parses the texts of a key. Adds a problem for each one that is invalid.
fn parsed<'a, T, E: Display>(
    texts: impl IntoIterator<Item = &'a Spanned<String>>,
    problems: &mut Vec<Problem>,
    parse: impl Fn(&str) -> std::result::Result<T, E>,
) -> Vec<T> {
    let parse = |text: &Spanned<String>| {
        let parsed = parse(text.get_ref());
        parsed.map_err(|error| problems.push(Problem::at(text.span(), error))).ok()
    };
    texts.into_iter().filter_map(parse).collect()
}

fn announce(text: &str) -> std::result::Result<HostPort, String> {
    let place: HostPort = text.parse()?;
    match announced(std::slice::from_ref(&place), PORT) {
        Ok(_) => Ok(place),
        Err(_) => Err(format!("`{text}` is no IP address with or without a port")),
    }
}

fn log(text: &str) -> std::result::Result<LogFormat, String> {
    LogFormat::from_str(text, false).map_err(|_| format!("`{text}` is not text, json or none"))
}

fn pool(text: &str) -> std::result::Result<IpNet, String> {
    let pool = text.parse().map_err(|_| format!("`{text}` is no network"))?;
    match IpNetwork::new([pool], Nowhere) {
        Ok(_) => Ok(pool),
        Err(error) => Err(error.to_string()),
    }
}

/// Sink of a network that is only checked.
struct Nowhere;

impl PacketSink for Nowhere {
    fn send(&self, _: &[u8]) -> bool {
        false
    }
}

impl Config {
    /// Returns the names of the settings that differ from `other` but cannot change while the server runs.
    pub(crate) fn fixed_differences(&self, other: &Self) -> Vec<&'static str> {
        let differences = [
            ("listen", self.listen != other.listen),
            ("announce", self.announce != other.announce),
            ("cert", self.cert != other.cert),
            ("key", self.key != other.key),
            ("client_ca", self.client_ca != other.client_ca),
            ("metrics", self.metrics != other.metrics),
            ("log", self.log != other.log),
            ("status_socket", self.status_socket != other.status_socket),
            ("drain", self.drain != other.drain),
            ("workers", self.workers != other.workers),
            ("tcp", self.tcp != other.tcp),
            ("vpn_pool", self.vpn.pools != other.vpn.pools),
            ("vpn_route", self.vpn.routes != other.vpn.routes),
            ("limits", self.options != other.options),
        ];
        differences.into_iter().filter(|(_, differs)| *differs).map(|(name, _)| name).collect()
    }
}

impl WrittenLimits {
    fn options(&self, problems: &mut Vec<Problem>) -> ProxyOptions {
        let mut options = ProxyOptions::default();
        if let Some(flows) = self.flows {
            options = options.with_max_flows(flows);
        }
        type With = fn(ProxyOptions, Duration) -> ProxyOptions;
        let times: [(&Option<Spanned<f64>>, With); 3] = [
            (&self.connect_timeout, ProxyOptions::with_connect_timeout),
            (&self.resolve_timeout, ProxyOptions::with_resolve_timeout),
            (&self.udp_idle, ProxyOptions::with_udp_idle),
        ];
        for (written, with) in times {
            let Some(written) = written else { continue };
            match Duration::try_from_secs_f64(*written.get_ref()).ok().filter(|time| !time.is_zero()) {
                Some(time) => options = with(options, time),
                None => problems.push(Problem::at(written.span(), "a time is a number of seconds above 0")),
            }
        }
        options
    }
}

#[cfg(test)]
mod tests;
