//! quiceh, the reference implementation of QUIC VReverso, as a peer: see `peers/README.md` for the contract.
//! quiceh is a fork of quiche, and this program shares sources with that of quiche.
#![forbid(unsafe_code)]

#[path = "../../quiche/src/client.rs"]
mod client;
mod config;
#[path = "../../quiche/src/endpoint.rs"]
mod endpoint;
#[path = "../../quiche/src/http3.rs"]
mod http3;
#[path = "../../quiche/src/job.rs"]
mod job;
#[path = "../../quiche/src/outgoing.rs"]
mod outgoing;
mod pages;
#[path = "../../quiche/src/pair.rs"]
mod pair;
#[path = "../../quiche/src/receive.rs"]
mod receive;
#[path = "../../quiche/src/server.rs"]
mod server;
mod stack;
#[path = "../../quiche/src/udp.rs"]
mod udp;
mod unlimited;

use std::process::ExitCode;

use peer_common::args::{self, Command};
use peer_common::{exit_code, failed, life, socket};

fn main() -> ExitCode {
    // The stack panics on some late packets. One line reports the location, as for any failure.
    std::panic::set_hook(Box::new(|panic| {
        let place = panic.location().map_or_else(String::new, |place| place.to_string());
        let file = place.rsplit_once("/src/").map_or(place.as_str(), |(_, file)| file);
        eprintln!("panicked at {file}: {}", panic.payload_as_str().unwrap_or_default());
    }));
    exit_code(args::parse_any_wire().and_then(|command| match command {
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
        Command::Other(word, flags) if word == "pages" => pages::run(flags),
        Command::Other(word, _) => failed(format!("unknown command {word}")),
    }))
}
