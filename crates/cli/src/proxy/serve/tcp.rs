//! Tunnels over HTTP/2 and HTTP/1.1, for clients whose network blocks UDP.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use anabranch::proxy::server::Tunnel;
use anabranch::rustls::{self, pki_types::CertificateDer};
use bytes::Bytes;
use http::header::{CONNECTION, UPGRADE};
use http::{HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::Empty;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_rustls::TlsAcceptor;

use super::http2;
use super::metrics::Transport;
use super::shared::Shared;

/// Application protocols in ALPN, most preferred first.
pub(super) const PROTOCOLS: &[&str] = &["h2", "http/1.1"];

/// Maximum number of connections of one listener; others wait in the kernel's queue.
const MAX_CONNECTIONS: usize = 4_096;
/// Maximum number of header fields of a request in HTTP/1.1.
const MAX_FIELDS: usize = 100;
/// Maximum number of bytes that were read ahead on an HTTP/1.1 connection.
const MAX_BUFFER: usize = 64 * 1024;
/// Maximum duration of the TLS handshake, of reading the header of a request, and of an upgrade.
const MAX_HELLO: Duration = Duration::from_secs(10);
/// Maximum time that a connection may have neither a request nor a tunnel. Without it, clients that never authenticate would
/// take the places of all others.
const MAX_IDLE: Duration = Duration::from_secs(60);
/// Pause before accepting again when the process has no free descriptors.
const REST: Duration = Duration::from_millis(100);
/// Name of the upgrade for UDP (RFC 9298 §3.2).
const CONNECT_UDP: &str = "connect-udp";

/// Accepts connections until the server stops.
pub(super) async fn accept(listener: TcpListener, tls: Arc<rustls::ServerConfig>, shared: Arc<Shared>) {
    let room = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    let tls = TlsAcceptor::from(tls);
    loop {
        let next = async {
            // The semaphore is never closed.
            let permit = Arc::clone(&room).acquire_owned().await.ok();
            (permit, listener.accept().await)
        };
        let (permit, accepted) = tokio::select! {
            // No more connections are accepted. The server waits for its connections, not for this task.
            () = shared.stopping.cancelled() => std::future::pending().await,
            next = next => next,
        };
        match accepted {
            Ok((stream, client)) => {
                let client = SocketAddr::new(client.ip().to_canonical(), client.port());
                let serving = serve(stream, client, tls.clone(), Arc::clone(&shared), permit);
                shared.connections.spawn(serving);
            }
            // The client is gone already, or the process has no free descriptors.
            Err(_) => tokio::time::sleep(REST).await,
        }
    }
}

async fn serve(
    stream: TcpStream,
    client: SocketAddr,
    tls: TlsAcceptor,
    shared: Arc<Shared>,
    permit: Option<OwnedSemaphorePermit>,
) {
    let open = Arc::new((shared.metrics.connection(Transport::Tcp), permit));
    let _ = stream.set_nodelay(true);
    let greeted = tokio::select! {
        () = shared.stopping.cancelled() => return,
        greeted = tokio::time::timeout(MAX_HELLO, tls.accept(stream)) => greeted,
    };
    let stream = match greeted {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) => return shared.faults.tls(client, &error),
        Err(_) => return,
    };
    let chain: Option<Arc<[CertificateDer<'static>]>> = stream.get_ref().1.peer_certificates().map(Arc::from);
    let unneeded = async {
        tokio::select! {
            () = shared.stopping.cancelled() => {}
            () = unused(&open) => {}
        }
    };
    if stream.get_ref().1.alpn_protocol() == Some(b"h2") {
        let client = http2::Client { address: client, chain };
        return http2::serve(stream, client, &open, &shared, unneeded).await;
    }
    let service = service_fn(|mut request: Request<Incoming>| {
        let (shared, open) = (Arc::clone(&shared), Arc::clone(&open));
        shared.identities.identify(chain.as_deref(), request.extensions_mut());
        async move {
            let (response, tunnel) = answer(&shared, client, request).await;
            if let Some((tunnel, upgrade)) = tunnel {
                shared.connections.spawn(async move {
                    // A tunnel over HTTP/1.1 has its connection to itself, and keeps its place.
                    let _open = open;
                    // An upgrade that fails means that the client is gone.
                    let upgrade = async { upgrade.await.map(TokioIo::new) };
                    let _ = tunnel.relay(upgrade, MAX_HELLO).await;
                });
            }
            Ok::<_, Infallible>(response)
        }
    });
    let builder = builder();
    let mut connection = pin!(builder.serve_connection_with_upgrades(TokioIo::new(stream), service));
    tokio::select! {
        _ = connection.as_mut() => return,
        () = unneeded => {}
    }
    connection.as_mut().graceful_shutdown();
    let _ = connection.await;
}

/// Returns once neither a request nor a tunnel has held `open` at two checks in a row.
async fn unused<T>(open: &Arc<T>) {
    let mut was_unused = false;
    loop {
        tokio::time::sleep(MAX_IDLE / 2).await;
        // One reference is the connection's own.
        let is_unused = Arc::strong_count(open) == 1;
        if is_unused && was_unused {
            return;
        }
        was_unused = is_unused;
    }
}

/// Responds to a request in HTTP/1.1. Returns the tunnel that it opens, and the future of its byte stream.
async fn answer(
    shared: &Shared,
    client: SocketAddr,
    mut request: Request<Incoming>,
) -> (Response<Empty<Bytes>>, Option<(Tunnel, OnUpgrade)>) {
    let upgrade = hyper::upgrade::on(&mut request);
    let (parts, _) = request.into_parts();
    // RFC 9298 §3.2: a GET request, upgraded.
    let is_upgrade = parts.method == Method::GET
        && parts
            .headers
            .get(UPGRADE)
            .is_some_and(|name| name.as_bytes().eq_ignore_ascii_case(CONNECT_UDP.as_bytes()));
    let Some(asked) = shared.proxy.asked(&parts, is_upgrade.then_some(CONNECT_UDP), client) else {
        let mut response = Response::new(Empty::new());
        *response.status_mut() = StatusCode::NOT_FOUND;
        return (response, None);
    };
    match shared.proxy.open(asked).await {
        Ok(tunnel) => {
            let status = if is_upgrade { StatusCode::SWITCHING_PROTOCOLS } else { StatusCode::OK };
            let mut response = tunnel.response(status);
            if is_upgrade {
                let fields = response.headers_mut();
                fields.insert(CONNECTION, HeaderValue::from_static("upgrade"));
                fields.insert(UPGRADE, HeaderValue::from_static(CONNECT_UDP));
            }
            (response.map(|()| Empty::new()), Some((tunnel, upgrade)))
        }
        Err(refusal) => (refusal.response().map(|()| Empty::new()), None),
    }
}

fn builder() -> auto::Builder<TokioExecutor> {
    let mut builder = auto::Builder::new(TokioExecutor::new()).http1_only();
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(MAX_HELLO)
        .max_headers(MAX_FIELDS)
        .max_buf_size(MAX_BUFFER);
    builder
}

#[cfg(test)]
mod tests {
    use tokio::time::Instant;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_connection_without_a_tunnel_ends_after_max_idle() {
        let begin = Instant::now();
        let open = Arc::new(());
        let tunnel = Arc::clone(&open);
        let ends = async {
            tokio::time::sleep(10 * MAX_IDLE).await;
            drop(tunnel);
        };
        tokio::join!(unused(&open), ends);
        let idle = begin.elapsed() - 10 * MAX_IDLE;
        assert!(idle >= MAX_IDLE / 2 && idle <= MAX_IDLE, "{idle:?}");
    }
}
