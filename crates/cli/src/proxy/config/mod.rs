//! Configuration files of a proxy and of its clients, in TOML.

mod certificates;
mod document;
mod options;
mod role;
mod users;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anabranch::proxy::server::{Access, ProxyOptions, Rule};
use serde::Deserialize;
use toml::Spanned;

pub(crate) use self::certificates::Certificates;
pub(crate) use self::document::{Document, Problem};
pub(crate) use self::options::{Configured, known_keys};
pub(crate) use self::role::{KnownKeys, Role};
pub(crate) use self::users::{Known, read_users};

use crate::exit::Result;
use crate::listen::HostPort;

/// Configuration of `anabranch proxy serve`. Options of the command line win.
#[derive(Debug, Default)]
pub(crate) struct Config {
    pub(crate) listen: Vec<String>,
    pub(crate) cert: Option<PathBuf>,
    pub(crate) key: Option<PathBuf>,
    pub(crate) client_ca: Option<PathBuf>,
    pub(crate) users: Option<PathBuf>,
    pub(crate) metrics: Option<SocketAddr>,
    pub(crate) status_socket: Option<PathBuf>,
    pub(crate) drain: Option<u32>,
    pub(crate) tcp: Option<bool>,
    pub(crate) access: Access,
    pub(crate) options: ProxyOptions,
}

/// The file, as it is written.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Written {
    listen: Vec<Spanned<String>>,
    cert: Option<PathBuf>,
    key: Option<PathBuf>,
    client_ca: Option<PathBuf>,
    users: Option<PathBuf>,
    metrics: Option<SocketAddr>,
    status_socket: Option<PathBuf>,
    drain: Option<u32>,
    tcp: Option<bool>,
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
    /// Times in seconds.
    connect_timeout: Option<Spanned<f64>>,
    resolve_timeout: Option<Spanned<f64>>,
    udp_idle: Option<Spanned<f64>>,
}

impl Config {
    /// Reads the configuration in a file, whose paths are relative to its directory.
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
        for place in &written.listen {
            if let Err(what) = place.get_ref().parse::<HostPort>() {
                problems.push(Problem::at(place.span(), what));
            }
        }
        let mut rules = |texts: &[Spanned<String>]| -> Vec<Rule> {
            let parsed = texts.iter().filter_map(|text| match text.get_ref().parse() {
                Ok(rule) => Some(rule),
                Err(error) => {
                    problems.push(Problem::at(text.span(), error));
                    None
                }
            });
            parsed.collect()
        };
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
        Ok(Self { listen, cert, key, client_ca, users, metrics, status_socket, drain, tcp, access, options })
    }
}

impl Config {
    /// Returns the names of the settings that differ and cannot change while the server runs.
    pub(crate) fn fixed_differences(&self, other: &Self) -> Vec<&'static str> {
        let differences = [
            ("listen", self.listen != other.listen),
            ("cert", self.cert != other.cert),
            ("key", self.key != other.key),
            ("client_ca", self.client_ca != other.client_ca),
            ("metrics", self.metrics != other.metrics),
            ("status_socket", self.status_socket != other.status_socket),
            ("drain", self.drain != other.drain),
            ("tcp", self.tcp != other.tcp),
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
