//! s2n-quic as a peer: see `peers/README.md` for the contract.
#![forbid(unsafe_code)]

mod client;
mod http3;
#[path = "../../quinn/src/runtime.rs"]
mod runtime;
mod server;
mod tls;
mod work;

use std::future::poll_fn;
use std::net::SocketAddr;
use std::process::ExitCode;
use std::task::Poll;

use bytes::Bytes;
use peer_common::args::{self, Command, Common};
use peer_common::{Failure, exit_code, failed, life, socket};
use s2n_quic::connection::Handle;
use s2n_quic::provider::datagram::default::{Endpoint as Datagrams, Receiver, Sender};
use s2n_quic::provider::io::tokio::Provider as Io;
use s2n_quic::provider::limits::Limits;

use crate::runtime::block_on;

/// Number of datagrams that wait for their packet, or for their reader.
const DATAGRAMS: usize = 1024;

fn main() -> ExitCode {
    exit_code(args::parse().and_then(|command| match command {
        Command::Server(options) => {
            // Must precede any other thread, as `ending` requires.
            let ending = life::ending();
            block_on(options.common.one_core, server::run(options, ending))
        }
        Command::Client(options) => block_on(options.common.one_core, client::run(options)),
        Command::Other(word, _) => failed(format!("unknown command {word}")),
    }))
}

/// Converts the error of a builder, which may not implement `Error`.
fn wrong(error: impl std::fmt::Display) -> Failure {
    Failure::Failed(error.to_string())
}

/// Returns the transport settings of both client and server.
fn limits(common: &Common) -> Result<Limits, Failure> {
    let send_buffer = u32::try_from(common.window * 2)?;
    Limits::new()
        .with_data_window(common.window * 2)
        .and_then(|limits| limits.with_bidirectional_local_data_window(common.window))
        .and_then(|limits| limits.with_bidirectional_remote_data_window(common.window))
        .and_then(|limits| limits.with_max_send_buffer_size(send_buffer))
        .and_then(|limits| limits.with_max_idle_timeout(common.idle))
        // Ten seconds otherwise, which is too short if many packets get lost.
        .and_then(|limits| limits.with_max_handshake_duration(common.idle))
        .map_err(wrong)
}

/// Creates a socket at `address`, with the tuning that all peers share.
fn io(address: SocketAddr, common: &Common) -> Result<(Io, SocketAddr), Failure> {
    let socket = socket::bind(address)?;
    let local = socket.local_addr()?;
    let io = Io::builder().with_rx_socket(socket)?.with_gso(!common.no_gso)?;
    Ok((io.build()?, local))
}

/// Returns the support of DATAGRAM frames.
fn datagrams() -> Result<Datagrams, Failure> {
    let queues = Datagrams::builder().with_send_capacity(DATAGRAMS)?.with_recv_capacity(DATAGRAMS)?;
    Ok(queues.build()?)
}

/// Returns the next datagram of a connection.
async fn next_datagram(connection: &Handle) -> Result<Bytes, Failure> {
    poll_fn(|context| {
        match connection.datagram_mut(|receiver: &mut Receiver| receiver.poll_recv_datagram(context)) {
            Ok(polled) => polled.map_err(wrong),
            Err(error) => Poll::Ready(Err(wrong(error))),
        }
    })
    .await
}

/// Sends a datagram, after those that wait.
async fn send_datagram(connection: &Handle, mut datagram: Bytes) -> Result<(), Failure> {
    poll_fn(|context| {
        let send = |sender: &mut Sender| sender.poll_send_datagram(&mut datagram, context);
        match connection.datagram_mut(send) {
            Ok(polled) => polled.map_err(wrong),
            Err(error) => Poll::Ready(Err(wrong(error))),
        }
    })
    .await
}
