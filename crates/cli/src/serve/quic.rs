//! QUIC connections, each with the application protocol that the client negotiated.

use std::io::ErrorKind;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;

use anabranch::http3;
use anabranch::{Connection, Endpoint, EndpointConfig, Incoming, LoadBalancing, ServerConfig};

use super::hand_over::Legacy;
use super::hq;
use super::metrics::{Handshake, Transport};
use super::protocol::Protocol;
use super::shared::Shared;
use super::ticket_key::KeptKeys;
use crate::events::ConnectionEvents;
use crate::exit::{Failure, Result};
use crate::options::cannot_listen;

/// Application protocols in ALPN, most preferred first.
pub(super) const PROTOCOLS: &[&str] = &[HTTP3, crate::hq::ALPN];
/// Protocol name of HTTP/3 in ALPN (RFC 9114 §3.1).
const HTTP3: &str = "h3";

/// Sockets of one endpoint.
pub(super) enum Bound {
    /// Sockets that are bound to one address: one for each worker.
    New(Vec<UdpSocket>),
    /// Those of another process.
    Inherited(Legacy),
}

impl Bound {
    /// Returns the addresses of the sockets, first the endpoint's own.
    pub(super) fn addresses(&self) -> Result<Vec<SocketAddr>> {
        let addresses = match self {
            Self::New(sockets) => sockets.iter().take(1).map(UdpSocket::local_addr).collect(),
            Self::Inherited(legacy) => legacy.local_addrs(),
        };
        addresses.map_err(|error| unusable(&error))
    }

    /// Returns the number of workers.
    pub(super) fn workers(&self) -> usize {
        match self {
            Self::New(sockets) => sockets.len(),
            Self::Inherited(legacy) => legacy.workers(),
        }
    }
}

fn unusable(error: &std::io::Error) -> Failure {
    Failure::io("cannot use a UDP socket", error)
}

/// Creates an endpoint with a worker for each of its sockets. An endpoint that is bound to every address of this host announces
/// all `announced` addresses to clients, because they lead to the same endpoint. Otherwise only the `first`
/// endpoint announces them, in addition to its own address.
pub(super) fn endpoint(
    mut config: ServerConfig,
    (kept, balancing): (Option<&KeptKeys>, Option<&LoadBalancing>),
    bound: Bound,
    announced: &[SocketAddr],
    first: bool,
) -> Result<Endpoint> {
    let existing = bound.addresses()?;
    let own = *existing.first().ok_or_else(|| unusable(&ErrorKind::InvalidInput.into()))?;
    let everywhere = own.ip().is_unspecified();
    if everywhere || first {
        config = config.with_alternative_addresses(announced.to_vec());
    }
    let made = anabranch::random_config().and_then(|secrets| {
        let secrets = balancing.cloned().into_iter().fold(secrets, EndpointConfig::with_load_balancing);
        let secrets = kept.into_iter().fold(secrets, |secrets, kept| kept.apply(secrets, own));
        Ok(match bound {
            Bound::New(sockets) => Endpoint::with_workers(&secrets, Some(config), sockets)?,
            // Of the secrets, those that the other process has handed over are kept.
            Bound::Inherited(legacy) => legacy.take_over(&secrets, config)?,
        })
    });
    let endpoint = made.map_err(|error| unusable(&error))?;
    for address in announced.iter().filter(|address| !everywhere && first && !existing.contains(address)) {
        endpoint.add_socket(*address).map_err(|error| cannot_listen(*address, &error))?;
    }
    Ok(endpoint)
}

/// Creates an endpoint like [`endpoint`], with secrets of its own.
pub(crate) fn announcing(
    config: ServerConfig,
    sockets: Vec<UdpSocket>,
    announced: &[SocketAddr],
    first: bool,
) -> Result<Endpoint> {
    endpoint(config, (None, None), Bound::New(sockets), announced, first)
}

/// Accepts connections until the endpoint is closed. Refuses them once the server wants no more.
pub(super) async fn accept(endpoint: Endpoint, shared: Arc<Shared>) {
    while let Some(incoming) = endpoint.accept().await {
        if shared.refusing.is_cancelled() {
            incoming.refuse();
        } else {
            shared.connections.spawn(serve(incoming, Arc::clone(&shared)));
        }
    }
}

async fn serve(incoming: Incoming, shared: Arc<Shared>) {
    let metrics = &shared.metrics;
    let _open = metrics.connection(Transport::Quic);
    let failed = || metrics.handshake(Transport::Quic, Handshake::Failed);
    // Early data is served before the handshake is complete. It may be replayed, which is harmless because
    // requests only read.
    let Ok(connecting) = incoming.accept() else { return failed() };
    if connecting.handshake_data().await.is_err() {
        return failed();
    }
    let Ok((connection, _)) = connecting.into_0rtt() else { return failed() };
    let _watched = metrics.watch(&connection);
    let watch = ConnectionEvents::new(&connection, &shared.events);
    let handshake = async {
        match connection.confirmed().await {
            Ok(()) => {
                watch.established();
                metrics.handshake(Transport::Quic, Handshake::Completed);
            }
            Err(_) => failed(),
        }
    };
    tokio::join!(handshake, speak(connection.clone(), &shared));
}

/// Serves a connection with the negotiated protocol until it ends.
async fn speak(connection: Connection, shared: &Arc<Shared>) {
    if connection.handshake_data().protocol.as_deref() != Some(HTTP3.as_bytes()) {
        return hq::serve(connection, Arc::clone(shared)).await;
    }
    let service = shared.service(Protocol::Http3, connection.remote_address(), Arc::default());
    // Errors are not reported: the client is gone, or violated HTTP/3.
    let _ = http3::serve_connection(connection, service, shared.options.clone(), shared.http3.clone()).await;
}
