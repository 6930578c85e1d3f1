//! tquic as a peer, for interop only: see `peers/README.md` for the contract.
#![forbid(unsafe_code)]

mod client;
mod config;
mod endpoint;
mod outgoing;
mod server;
mod stream;
mod udp;
mod visit;

use std::process::ExitCode;

use peer_common::args::{self, Command};
use peer_common::{exit_code, failed, life};

fn main() -> ExitCode {
    exit_code(args::parse().and_then(|command| match command {
        Command::Server(options) => {
            // Must precede any other thread, as `ending` requires.
            let ending = life::ending();
            server::run(&options, &ending)
        }
        Command::Client(options) => client::run(&options),
        Command::Other(word, _) => failed(format!("unknown command {word}")),
    }))
}
