//! Server: `perf`, `hq-interop` and `h3` on one endpoint.

use std::sync::mpsc::{Receiver, TryRecvError};

use peer_common::args::Server;
use peer_common::report::Report;
use peer_common::{Failure, life};

use crate::config;
use crate::endpoint::Endpoint;
use crate::udp::Socket;

/// Serves until `ending` yields.
pub fn run(options: &Server, ending: &Receiver<()>) -> Result<(), Failure> {
    let config = config::server(options)?;
    let socket = Socket::bind(options.listen)?;
    life::ready(socket.address);
    let mut endpoint = Endpoint::new(config, socket, true, options.root.clone());
    while ending.try_recv() == Err(TryRecvError::Empty) {
        endpoint.turn()?;
    }
    Report::new().cpu().print();
    Ok(())
}
