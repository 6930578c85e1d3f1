//! `anabranch proxy check`: checks of configuration files.

use std::path::{Path, PathBuf};

use anabranch::config;
use clap::Args;

use super::config::{Config, Configured, Document, KnownKeys, Role, known_keys, read_users};
use super::connect::Connect;
use crate::exit::{self, Result, say};
use crate::forward::Forward;
#[cfg(all(feature = "vpn", target_os = "linux"))]
use crate::vpn;

/// Roles of clients, with their options.
const CLIENTS: &[(Role, KnownKeys)] = &[
    (Role::Connect, known_keys::<Connect>),
    (Role::Forward, known_keys::<Forward>),
    #[cfg(all(feature = "vpn", target_os = "linux"))]
    (Role::Vpn, known_keys::<vpn::Connect>),
];

/// Check the configuration of a server or a client, and the files that it names, without starting it
#[derive(Args, Debug)]
#[command(after_help = exit::STATUSES)]
pub(crate) struct Check {
    /// Configuration in TOML, as for --config of `anabranch proxy serve`, `anabranch proxy connect`, `anabranch forward` and
    /// `anabranch vpn connect`
    #[arg(value_name = "FILE", required_unless_present = "users")]
    file: Option<PathBuf>,
    /// Command that the file is for [default: the one that has its keys]
    #[arg(long, value_name = "COMMAND", value_enum)]
    role: Option<Role>,
    /// Check this file with users, too
    #[arg(long, value_name = "FILE")]
    users: Option<PathBuf>,
}

pub(crate) fn run(options: &Check) -> Result {
    let role = match (&options.file, options.role) {
        (Some(file), None) => Role::of(&Document::read(file)?, CLIENTS),
        (_, role) => role.unwrap_or(Role::Serve),
    };
    match (&options.file, role) {
        (Some(file), Role::Connect) => Configured::<Connect>::of_file(file).read()?.check()?,
        (Some(file), Role::Forward) => Configured::<Forward>::of_file(file).read()?.check()?,
        #[cfg(all(feature = "vpn", target_os = "linux"))]
        (Some(file), Role::Vpn) => Configured::<vpn::Connect>::of_file(file).read()?.check()?,
        _ => return server(options),
    }
    let users = options.users.as_deref().map(read_users).transpose()?.map(|known| known.users);
    let file = options.file.as_deref().map_or_else(String::new, name);
    let users = users.map_or_else(String::new, |users| format!(", and so are the users ({})", users.len()));
    say(format!("{file}: good, for `{}`{users}", role.command()))
}

/// Checks the configuration of a server.
fn server(options: &Check) -> Result {
    let read = options.file.as_deref().map(Config::read).transpose()?.unwrap_or_default();
    if let (Some(cert), Some(key)) = (&read.cert, &read.key) {
        config::certificates(cert)?;
        config::private_key(key)?;
    }
    read.client_ca.as_deref().map(config::roots).transpose()?;
    let mut count = 0;
    for users in [&read.users, &options.users].into_iter().flatten() {
        count += read_users(users)?.users.len();
    }
    let what = options.file.as_deref().or(options.users.as_deref()).map_or_else(String::new, name);
    say(match count {
        0 => format!("{what}: good; it names no users, so --users must"),
        1 => format!("{what}: good, with 1 user"),
        count => format!("{what}: good, with {count} users"),
    })
}

fn name(path: &Path) -> String {
    path.display().to_string()
}
