//! noq as a peer: see `peers/README.md` for the contract. noq is a fork of quinn, and this program shares
//! sources with that of quinn.
#![forbid(unsafe_code)]

#[path = "../../quinn/src/client.rs"]
mod client;
mod http3;
mod multipath;
mod reading;
#[path = "../../quinn/src/runtime.rs"]
mod runtime;
#[path = "../../quinn/src/server.rs"]
mod server;
#[path = "../../quinn/src/setup.rs"]
mod setup;
#[path = "../../quinn/src/tls.rs"]
mod tls;
#[path = "../../quinn/src/work.rs"]
mod work;

use std::process::ExitCode;
use std::sync::Arc;

use peer_common::args::{self, Command};
use peer_common::report::Report;
use peer_common::{exit_code, failed, life};
use quinn::{Connection, EndpointConfig, PathId};

use crate::runtime::block_on;
use crate::setup::UnmarkedIds;

/// ALPN protocols of the server.
const ALPN: &[&str] = &["perf", "hq-interop", multipath::ALPN];

fn main() -> ExitCode {
    // Must precede any other thread, as `ending` requires.
    exit_code(args::parse().and_then(|command| match command {
        Command::Server(options) => {
            let ending = life::ending();
            block_on(options.common.one_core, server::run(options, ending))
        }
        Command::Client(options) => block_on(options.common.one_core, client::run(options)),
        Command::Other(word, words) if word == "multipath" => {
            let ending = life::ending();
            block_on(None, multipath::run(words, ending))
        }
        Command::Other(word, _) => failed(format!("unknown command {word}")),
    }))
}

/// Makes a server accept connection IDs of an earlier process as its own, so that it responds with stateless
/// resets.
fn unmarked_ids(config: &mut EndpointConfig) {
    config.cid_generator(Arc::new(|| Box::new(UnmarkedIds(None))));
}

/// Adds statistics of a connection's first path to the report.
fn first_path(report: Report, connection: &Connection) -> Report {
    match connection.path_stats(PathId::ZERO) {
        Some(path) => report.raw("lost_packets", path.lost_packets).raw("mtu", path.current_mtu),
        None => report,
    }
}
