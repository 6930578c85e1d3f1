//! QUIC connections of a proxy's clients, which speak HTTP/3.

use std::sync::Arc;

use anabranch::http3;
use anabranch::proxy::server::{Nothing, ProxyService};
use anabranch::{Endpoint, Incoming, TransportConfig};

use super::metrics::Transport;
use super::shared::{MAX_TUNNELS, Shared};

/// Application protocols in ALPN (RFC 9114 §3.1).
pub(super) const PROTOCOLS: &[&str] = &["h3"];
/// Maximum number of bytes of datagrams that wait to be sent on one connection. Datagrams beyond it are dropped, so a queue
/// of them does not become old.
const MAX_WAITING_DATAGRAMS: usize = 256 * 1024;

/// Returns the settings of the transport for many tunnels.
pub(super) fn transport(transport: TransportConfig) -> TransportConfig {
    let streams = transport.streams().clone().with_max_bidi(MAX_TUNNELS as u64);
    transport.with_streams(streams).with_datagram_send_buffer(MAX_WAITING_DATAGRAMS)
}

/// Accepts connections until the endpoint is closed. Refuses them once the server is stopping.
pub(super) async fn accept(endpoint: Endpoint, shared: Arc<Shared>) {
    while let Some(incoming) = endpoint.accept().await {
        if shared.stopping.is_cancelled() {
            incoming.refuse();
        } else {
            shared.connections.spawn(serve(incoming, Arc::clone(&shared)));
        }
    }
}

async fn serve(incoming: Incoming, shared: Arc<Shared>) {
    let Ok(connecting) = incoming.accept() else { return };
    // Early data cannot open tunnels: CONNECT waits until the handshake is complete (RFC 8470 §3).
    let Ok((connection, _)) = connecting.into_0rtt() else { return };
    let _open = shared.metrics.connection(Transport::Quic);
    let _watched = shared.metrics.watch(&connection);
    let service = ProxyService::new(shared.proxy.clone(), Nothing);
    // Errors are not reported: the client is gone, or violated HTTP/3.
    let _ = http3::serve_connection(connection, service, shared.options.clone(), shared.http3.clone()).await;
}
