//! Roles of a tunnel, each of which has a configuration of its own.

use clap::{Args, ValueEnum};

use super::Document;
use super::options::known_keys;

/// Keys of a server's configuration.
const SERVER: [&str; 11] = [
    "listen",
    "cert",
    "key",
    "client_ca",
    "users",
    "metrics",
    "status_socket",
    "drain",
    "tcp",
    "access",
    "limits",
];

/// Command that a configuration is for.
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
    /// Returns the role whose keys a file has. `C` has the options of `proxy connect`, `F` those of `forward`. A file that
    /// could be for several roles is for the first one.
    pub(crate) fn of<C: Args, F: Args>(document: &Document) -> Self {
        let table = document.table().unwrap_or_default();
        let keys: Vec<&str> = table.iter().map(|(key, _)| key.get_ref().as_ref()).collect();
        let server = keys.iter().filter(|key| SERVER.contains(key)).count();
        let roles = [
            (Self::Serve, server),
            (Self::Connect, known_keys::<C>(&keys)),
            (Self::Forward, known_keys::<F>(&keys)),
        ];
        // The last one of several is the maximum.
        roles.into_iter().rev().max_by_key(|(_, known)| *known).map_or(Self::Serve, |(role, _)| role)
    }

    /// Returns the command.
    pub(crate) fn command(self) -> &'static str {
        match self {
            Self::Serve => "anabranch proxy serve",
            Self::Connect => "anabranch proxy connect",
            Self::Forward => "anabranch forward",
        }
    }
}
