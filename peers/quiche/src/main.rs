//! quiche as a peer: see `peers/README.md` for the contract.
//!
//! quiche provides neither sockets nor an event loop. Those of this program use one thread, segmentation
//! offload in both directions, and many datagrams per system call.
#![forbid(unsafe_code)]

mod client;
mod config;
mod endpoint;
mod http3;
mod job;
mod outgoing;
mod pair;
mod receive;
mod server;
mod stack;
mod udp;
mod unlimited;

use std::process::ExitCode;

use peer_common::args::{self, Command};
use peer_common::{exit_code, failed, life, socket};

fn main() -> ExitCode {
    exit_code(args::parse().and_then(|command| match command {
        Command::Server(options) => {
            // Must precede any other thread, as `ending` requires.
            let ending = life::ending();
            options.common.one_core.map_or(Ok(()), socket::pin)?;
            server::run(&options, &ending)
        }
        Command::Client(options) => {
            options.common.one_core.map_or(Ok(()), socket::pin)?;
            client::run(&options)
        }
        Command::Other(word, flags) if word == "receive" => receive::run(flags),
        Command::Other(word, _) => failed(format!("unknown command {word}")),
    }))
}
