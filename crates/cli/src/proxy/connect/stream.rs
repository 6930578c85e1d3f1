//! Tunnels for TCP connections of programs.

use anabranch::proxy::client::{Target, TcpTunnel, TunnelError};
use bytes::Bytes;
use tokio::net::TcpStream;
use tracing::debug;

use super::link::Client;
use super::seen::{Flow, Kind};
use super::way;

/// A tunnel that the proxy has opened.
#[derive(Debug)]
pub(crate) struct Stream {
    tunnel: TcpTunnel,
    flow: Flow,
    /// Keeps the paths managed while the tunnel is open.
    client: Client,
}

/// Opens a tunnel. Logs a failure, and prints one that concerns the credentials on standard error.
pub(crate) async fn open(client: &Client, target: &Target) -> Result<Stream, TunnelError> {
    match client.proxy().tcp(target).await {
        Ok(tunnel) => {
            let flow = client.seen().open(Kind::Tcp, target);
            Ok(Stream { tunnel, flow, client: client.clone() })
        }
        Err(error) => {
            debug!(target: "anabranch::proxy", %target, %error, "no tunnel");
            client.seen().fail(Kind::Tcp);
            way::tell_refusal(&error);
            Err(error)
        }
    }
}

impl Stream {
    /// Moves bytes between a program and the tunnel until both have ended. `first` has bytes that were read
    /// from the program already.
    pub(crate) async fn carry(self, program: TcpStream, first: Bytes) {
        let pumped = self.tunnel.pump_counting(program, first, self.flow.traffic()).await;
        let error = pumped.error.as_ref().map(tracing::field::display);
        debug!(target: "anabranch::proxy", sent = pumped.sent, received = pumped.received, error, "tunnel ended");
    }

    /// Returns the tunnel for a program whose TCP does not end in a socket, with its counters, and the client that has to live
    /// as long as it does.
    #[cfg(all(feature = "vpn", target_os = "linux"))]
    pub(crate) fn into_parts(self) -> (TcpTunnel, Flow, Client) {
        (self.tunnel, self.flow, self.client)
    }
}
