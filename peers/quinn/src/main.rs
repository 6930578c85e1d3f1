//! quinn as a peer: see `peers/README.md` for the contract.
#![forbid(unsafe_code)]

mod client;
mod http3;
mod reading;
mod server;
mod tls;
mod work;

use std::future::Future;
use std::process::ExitCode;

use peer_common::args::{self, Command, Common};
use peer_common::report::Report;
use peer_common::{Failure, exit_code, failed, life, socket};
use quinn::{
    Connection, ConnectionId, ConnectionIdGenerator, EndpointConfig, IdleTimeout, MtuDiscoveryConfig,
    TransportConfig, VarInt,
};

/// What the server speaks.
const ALPN: &[&str] = &["perf", "hq-interop", "h3"];

/// The only version this stack has besides drafts of it.
const VERSION_1: u32 = 1;

fn main() -> ExitCode {
    // Before any thread starts, as `ending` requires.
    exit_code(args::parse().and_then(|command| match command {
        Command::Server(options) => {
            let ending = life::ending();
            block_on(options.common.one_core, server::run(options, ending))
        }
        Command::Client(options) => block_on(options.common.one_core, client::run(options)),
        Command::Other(word, _) => failed(format!("unknown command {word}")),
    }))
}

/// Runs `task` on one pinned thread, or on tokio's ordinary pool.
fn block_on(cpu: Option<usize>, task: impl Future<Output = Result<(), Failure>>) -> Result<(), Failure> {
    let mut builder = match cpu {
        Some(cpu) => {
            socket::pin(cpu)?;
            tokio::runtime::Builder::new_current_thread()
        }
        None => tokio::runtime::Builder::new_multi_thread(),
    };
    builder.enable_all().build()?.block_on(task)
}

/// Transport settings of both sides.
fn transport(common: &Common) -> Result<TransportConfig, Failure> {
    let mut config = TransportConfig::default();
    config
        .stream_receive_window(VarInt::from_u64(common.window)?)
        .receive_window(VarInt::from_u64(common.window * 2)?)
        .send_window(common.window * 2)
        .max_idle_timeout(Some(IdleTimeout::try_from(common.idle)?))
        .mtu_discovery_config(Some(MtuDiscoveryConfig::default()))
        .enable_segmentation_offload(!common.no_gso);
    Ok(config)
}

/// Endpoint settings of both sides: version 1, and for a client also a draft it can be told to open with.
fn endpoint_config(drafts: &[u32]) -> EndpointConfig {
    let mut config = EndpointConfig::default();
    config.supported_versions([&[VERSION_1], drafts].concat());
    config
}

/// Connection IDs of which any process could be the issuer.
struct UnmarkedIds;

impl ConnectionIdGenerator for UnmarkedIds {
    fn generate_cid(&mut self) -> ConnectionId {
        let mut id = [0; 8];
        // If the system has no randomness, the next ID is the same and the connection fails.
        let _ = aws_lc_rs::rand::fill(&mut id);
        ConnectionId::new(&id)
    }

    fn cid_len(&self) -> usize {
        8
    }

    fn cid_lifetime(&self) -> Option<std::time::Duration> {
        None
    }
}

/// Has a server take connection IDs of its earlier life for its own, to answer them with resets.
fn unmarked_ids(config: &mut EndpointConfig) {
    config.cid_generator(|| Box::new(UnmarkedIds));
}

/// Adds what a connection's path was like.
fn first_path(report: Report, connection: &Connection) -> Report {
    let path = connection.stats().path;
    report.raw("lost_packets", path.lost_packets).raw("mtu", path.current_mtu)
}
