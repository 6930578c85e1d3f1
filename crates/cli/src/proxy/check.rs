//! `anabranch proxy check`: what is wrong in a proxy's configuration.

use std::path::{Path, PathBuf};

use anabranch::config;
use clap::Args;

use super::config::{Config, read_users};
use crate::exit::{self, Result, say};

/// Check the configuration of a server, and the files that it names, without starting it
#[derive(Args, Debug)]
#[command(after_help = exit::STATUSES)]
pub(crate) struct Check {
    /// Configuration in TOML, as for `anabranch proxy serve --config`
    #[arg(value_name = "FILE", required_unless_present = "users")]
    file: Option<PathBuf>,
    /// Check this file with users, too
    #[arg(long, value_name = "FILE")]
    users: Option<PathBuf>,
}

pub(crate) fn run(options: &Check) -> Result {
    let read = options.file.as_deref().map(Config::read).transpose()?.unwrap_or_default();
    if let (Some(cert), Some(key)) = (&read.cert, &read.key) {
        config::certificates(cert)?;
        config::private_key(key)?;
    }
    let mut count = 0;
    for users in [&read.users, &options.users].into_iter().flatten() {
        count += read_users(users)?.len();
    }
    let name = |path: &Path| path.display().to_string();
    let what = options.file.as_deref().or(options.users.as_deref()).map_or_else(String::new, name);
    say(match count {
        0 => format!("{what}: good; it names no users, so --users must"),
        1 => format!("{what}: good, with 1 user"),
        count => format!("{what}: good, with {count} users"),
    })
}
