//! quinn as a peer: see `peers/README.md` for the contract.
#![forbid(unsafe_code)]

mod client;
mod http3;
mod server;
mod tls;
mod work;

use std::future::Future;
use std::process::ExitCode;

use peer_common::args::{self, Command, Common};
use peer_common::{Failure, exit_code, failed, life, socket};
use quinn::{EndpointConfig, IdleTimeout, MtuDiscoveryConfig, TransportConfig, VarInt};

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
