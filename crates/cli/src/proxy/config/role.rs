//! Commands that have configuration files of different kinds.

use clap::ValueEnum;

use super::Document;

/// Keys of a server's configuration.
const SERVER: [&str; 16] = [
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
    "workers",
    "tcp",
    "vpn_pool",
    "vpn_route",
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
    /// `anabranch vpn connect`
    #[cfg(all(feature = "vpn", target_os = "linux"))]
    Vpn,
}

/// Returns how many of a file's keys are options of a command.
pub(crate) type KnownKeys = fn(&[&str]) -> usize;

impl Role {
    /// Returns the role whose keys a file has. `clients` are the roles of clients with their options. A file that could be for
    /// several roles is for the first one.
    pub(crate) fn of(document: &Document, clients: &[(Self, KnownKeys)]) -> Self {
        let table = document.table().unwrap_or_default();
        let keys: Vec<&str> = table.iter().map(|(key, _)| key.get_ref().as_ref()).collect();
        let server = keys.iter().filter(|key| SERVER.contains(key)).count();
        let clients = clients.iter().map(|(role, known)| (*role, known(&keys)));
        // The last one of several is the maximum.
        let roles = std::iter::once((Self::Serve, server)).chain(clients);
        roles.rev().max_by_key(|(_, known)| *known).map_or(Self::Serve, |(role, _)| role)
    }

    /// Returns the command line of the role, without options.
    pub(crate) fn command(self) -> &'static str {
        match self {
            Self::Serve => "anabranch proxy serve",
            Self::Connect => "anabranch proxy connect",
            Self::Forward => "anabranch forward",
            #[cfg(all(feature = "vpn", target_os = "linux"))]
            Self::Vpn => "anabranch vpn connect",
        }
    }
}
