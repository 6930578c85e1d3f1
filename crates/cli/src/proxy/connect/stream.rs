//! TCP connections of programs, as tunnels.

use anabranch::proxy::client::{Proxy, Target, TcpTunnel, TunnelError};
use bytes::Bytes;
use tokio::net::TcpStream;
use tracing::debug;

use super::way;

/// Opens a tunnel. Reports the failure to the log, and to people if it concerns the credentials.
pub(crate) async fn open(proxy: &Proxy, target: &Target) -> Result<TcpTunnel, TunnelError> {
    let opened = proxy.tcp(target).await;
    if let Err(error) = &opened {
        debug!(target: "anabranch::proxy", %target, %error, "no tunnel");
        way::tell_refusal(error);
    }
    opened
}

/// Moves bytes between a program and a tunnel until both have ended. `first` was read from the program
/// already.
pub(crate) async fn carry(program: TcpStream, tunnel: TcpTunnel, first: Bytes) {
    let pumped = tunnel.pump(program, first).await;
    let error = pumped.error.as_ref().map(tracing::field::display);
    debug!(target: "anabranch::proxy", sent = pumped.sent, received = pumped.received, error, "tunnel ended");
}
