//! noq as a peer: see `peers/README.md` for the contract. What noq shares with quinn, of which it is a fork, this program
//! shares with quinn's.
#![forbid(unsafe_code)]

#[path = "../../quinn/src/client.rs"]
mod client;
mod http3;
mod multipath;
mod reading;
#[path = "../../quinn/src/server.rs"]
mod server;
#[path = "../../quinn/src/tls.rs"]
mod tls;
#[path = "../../quinn/src/work.rs"]
mod work;

use std::future::Future;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use peer_common::args::{self, Command, Common};
use peer_common::report::Report;
use peer_common::{Failure, exit_code, failed, life, socket};
use quinn::{
    Connection, ConnectionId, ConnectionIdGenerator, EndpointConfig, IdleTimeout, MtuDiscoveryConfig, PathId,
    TransportConfig, VarInt,
};

/// What the server speaks.
const ALPN: &[&str] = &["perf", "hq-interop", multipath::ALPN];

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
        Command::Other(word, words) if word == "multipath" => {
            let ending = life::ending();
            block_on(None, multipath::run(words, ending))
        }
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

/// Connection IDs without a mark of the process, which live so long.
struct RandomIds(Option<Duration>);

impl ConnectionIdGenerator for RandomIds {
    fn generate_cid(&mut self) -> ConnectionId {
        let mut id = [0; 8];
        // If the system has no randomness, the next ID is the same and the connection fails.
        let _ = aws_lc_rs::rand::fill(&mut id);
        ConnectionId::new(&id)
    }

    fn cid_len(&self) -> usize {
        8
    }

    fn cid_lifetime(&self) -> Option<Duration> {
        self.0
    }
}

/// Has a server take connection IDs of its earlier life for its own, to answer them with resets.
fn unmarked_ids(config: &mut EndpointConfig) {
    config.cid_generator(Arc::new(|| Box::new(RandomIds(None))));
}

/// Adds what a connection's first path was like.
fn first_path(report: Report, connection: &Connection) -> Report {
    match connection.path_stats(PathId::ZERO) {
        Some(path) => report.raw("lost_packets", path.lost_packets).raw("mtu", path.current_mtu),
        None => report,
    }
}
