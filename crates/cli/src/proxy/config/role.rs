//! Commands that have configuration files of different kinds.

use clap::{Args, ValueEnum};

use super::Document;
use super::options::known_keys;

/// Keys of a server's configuration.
const SERVER: [&str; 14] = [
    "listen",
    "announce",
    "cert",
    "key",
    "client_ca",
    "users",
    "metrics",
    "log",
    "status_socket",
    "drain",
    "tcp",
    "vpn_pool",
    "access",
    "limits",
];

/// Command that reads a configuration file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Role {
    /// `anabranch proxy serve`
    Serve,
    /// `anabranch proxy connect`
    Connect,
    /// `anabranch forward`
    Forward,
}

impl Role {
    /// Returns the role that knows the most keys of a file; the first one of several that know as many. `C` has the options of
    /// `proxy connect`, `F` those of `forward`.
    pub(crate) fn of<C: Args, F: Args>(document: &Document) -> Self {
        let table = document.table().unwrap_or_default();
        let keys: Vec<&str> = table.iter().map(|(key, _)| key.get_ref().as_ref()).collect();
        let server = keys.iter().filter(|key| SERVER.contains(key)).count();
        let roles = [
            (Self::Serve, server),
            (Self::Connect, known_keys::<C>(&keys)),
            (Self::Forward, known_keys::<F>(&keys)),
        ];
        // Of several equal maxima, `max_by_key` returns the last one.
        roles.into_iter().rev().max_by_key(|(_, known)| *known).map_or(Self::Serve, |(role, _)| role)
    }

    /// Returns the command line of the role, without options.
    pub(crate) fn command(self) -> &'static str {
        match self {
            Self::Serve => "anabranch proxy serve",
            Self::Connect => "anabranch proxy connect",
            Self::Forward => "anabranch forward",
        }
    }
}
