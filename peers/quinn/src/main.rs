//! quinn as a peer: see `peers/README.md` for the contract.
#![forbid(unsafe_code)]

mod client;
mod http3;
mod reading;
mod runtime;
mod server;
mod setup;
mod tls;
mod work;

use std::process::ExitCode;

use peer_common::args::{self, Command};
use peer_common::report::Report;
use peer_common::{exit_code, failed, life};
use quinn::{Connection, EndpointConfig};

use crate::runtime::block_on;
use crate::setup::UnmarkedIds;

/// ALPN protocols of the server.
const ALPN: &[&str] = &["perf", "hq-interop", "h3"];

fn main() -> ExitCode {
    // Must precede any other thread, as `ending` requires.
    exit_code(args::parse().and_then(|command| match command {
        Command::Server(options) => {
            let ending = life::ending();
            block_on(options.common.one_core, server::run(options, ending))
        }
        Command::Client(options) => block_on(options.common.one_core, client::run(options)),
        Command::Other(word, _) => failed(format!("unknown command {word}")),
    }))
}

/// Makes a server accept connection IDs of an earlier process as its own, so that it responds with stateless
/// resets.
fn unmarked_ids(config: &mut EndpointConfig) {
    config.cid_generator(|| Box::new(UnmarkedIds(None)));
}

/// Adds statistics of a connection's path to the report.
fn first_path(report: Report, connection: &Connection) -> Report {
    let path = connection.stats().path;
    report.raw("lost_packets", path.lost_packets).raw("mtu", path.current_mtu)
}
