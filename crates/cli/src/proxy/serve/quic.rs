//! HTTP/3 connections of a proxy's clients.

use std::sync::Arc;

use anabranch::http3;
use anabranch::proxy::server::{Nothing, ProxyService};
use anabranch::{Endpoint, Incoming, TransportConfig};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::identified::Identified;
use super::metrics::Transport;
use super::shared::{MAX_TUNNELS, Shared};
use crate::proxy::MAX_WAITING_DATAGRAMS;

/// Application protocols in ALPN (RFC 9114 §3.1).
pub(super) const PROTOCOLS: &[&str] = &["h3"];
/// Maximum number of connections of one endpoint; further ones are refused. Those without a tunnel end after a minute, see
/// [`Limits`](anabranch::http3::Limits).
const MAX_CONNECTIONS: usize = 16_384;
/// Returns the settings of the transport with limits for many tunnels on one connection.
pub(super) fn transport(transport: TransportConfig) -> TransportConfig {
    let streams = transport.streams().clone().with_max_bidi(MAX_TUNNELS as u64);
    transport.with_streams(streams).with_datagram_send_buffer(MAX_WAITING_DATAGRAMS)
}

/// Accepts connections until the endpoint is closed. Refuses them once the server is stopping.
pub(super) async fn accept(endpoint: Endpoint, shared: Arc<Shared>) {
    let room = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    while let Some(incoming) = endpoint.accept().await {
        let permit = Arc::clone(&room).try_acquire_owned().ok().filter(|_| !shared.stopping.is_cancelled());
        match permit {
            Some(permit) => _ = shared.connections.spawn(serve(incoming, Arc::clone(&shared), permit)),
            None => incoming.refuse(),
        }
    }
}

/// Serves a connection until it ends.
async fn serve(incoming: Incoming, shared: Arc<Shared>, _place: OwnedSemaphorePermit) {
    let Ok(connecting) = incoming.accept() else { return };
    // Early data cannot open tunnels: a CONNECT request waits until the handshake is complete (RFC 8470 §3).
    let Ok((connection, _)) = connecting.into_0rtt() else { return };
    let _open = shared.metrics.connection(Transport::Quic);
    let _watched = shared.metrics.watch(&connection);
    let inner = ProxyService::new(shared.proxy.clone(), Nothing);
    let service = Identified { inner, connection: connection.clone(), identities: shared.identities.clone() };
    let (options, http3) = (shared.options.clone(), shared.http3.clone());
    // Other errors are not reported: the connection was lost, or the client violated HTTP/3.
    if http3::serve_connection(connection.clone(), service, options, http3).await.is_err() {
        shared.faults.quic(connection.remote_address(), &connection);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn max_tunnels_and_max_waiting_datagrams_bound_a_connection() {
        let transport = transport(TransportConfig::default());
        assert_eq!(transport.streams().max_bidi(), MAX_TUNNELS as u64);
        assert_eq!(transport.datagram_send_buffer(), MAX_WAITING_DATAGRAMS);
    }
}
