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
use http::request::Parts;
use http::{HeaderValue, Method, Request, Response, StatusCode, Version};
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

/// Maximum number of connections of one listener; further ones wait in the kernel's queue.
const MAX_CONNECTIONS: usize = 4_096;
/// Maximum number of header fields of a request in HTTP/1.1.
const MAX_FIELDS: usize = 100;
/// Maximum size of the header section of a request in HTTP/1.1, in bytes.
const MAX_HEADER: usize = 32 * 1024;
/// Maximum duration of the TLS handshake, of the reception of a request's header section in HTTP/1.1, and of an upgrade.
const MAX_HELLO: Duration = Duration::from_secs(10);
/// Maximum time that a connection may have neither a request nor a tunnel. Without it, clients that never authenticate would
/// take the places of all others.
const MAX_IDLE: Duration = Duration::from_secs(60);
/// Pause after a connection could not be accepted, for instance because the process has no free descriptors.
const REST: Duration = Duration::from_millis(100);
/// Names of the upgrades for UDP (RFC 9298 §3.2) and for IP packets (RFC 9484 §4.2).
const UPGRADES: [&str; 2] = ["connect-udp", "connect-ip"];

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
            // No more connections are accepted. The task stays pending, because the server takes its end for a failure.
            () = shared.stopping.cancelled() => std::future::pending().await,
            next = next => next,
        };
        match accepted {
            Ok((stream, client)) => {
                let client = SocketAddr::new(client.ip().to_canonical(), client.port());
                let serving = serve(stream, client, tls.clone(), Arc::clone(&shared), permit);
                shared.connections.spawn(serving);
            }
            // The client has closed its connection already, or the process has no free descriptors.
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
                    // The connection counts as open until its tunnels end. In HTTP/1.1 a tunnel outlives the HTTP connection.
                    let _open = open;
                    // A failed upgrade means that the connection was lost.
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
    // A client that reads nothing could delay the end. Tunnels have until the server ends.
    tokio::select! {
        _ = connection => {}
        () = unused(&open) => {}
    }
}

/// Waits until two consecutive checks, [`MAX_IDLE`] / 2 apart, find that neither a request nor a tunnel holds `open`.
async fn unused<T>(open: &Arc<T>) {
    let mut was_unused = false;
    loop {
        tokio::time::sleep(MAX_IDLE / 2).await;
        // One of the references is that of the connection.
        let is_unused = Arc::strong_count(open) == 1;
        if is_unused && was_unused {
            return;
        }
        was_unused = is_unused;
    }
}

/// Returns the response to a request and, if it opens a tunnel, the tunnel and the future of its byte stream.
async fn answer(
    shared: &Shared,
    client: SocketAddr,
    mut request: Request<Incoming>,
) -> (Response<Empty<Bytes>>, Option<(Tunnel, OnUpgrade)>) {
    let upgrade = hyper::upgrade::on(&mut request);
    let (parts, _) = request.into_parts();
    let upgraded = upgraded(&parts);
    let Some(asked) = shared.proxy.asked(&parts, upgraded, client) else {
        let mut response = Response::new(Empty::new());
        *response.status_mut() = StatusCode::NOT_FOUND;
        return (response, None);
    };
    match shared.proxy.open(asked).await {
        Ok(tunnel) => {
            let status = upgraded.map_or(StatusCode::OK, |_| StatusCode::SWITCHING_PROTOCOLS);
            let mut response = tunnel.response(status);
            if let Some(name) = upgraded {
                let fields = response.headers_mut();
                fields.insert(CONNECTION, HeaderValue::from_static("upgrade"));
                fields.insert(UPGRADE, HeaderValue::from_static(name));
            }
            (response.map(|()| Empty::new()), Some((tunnel, upgrade)))
        }
        Err(refusal) => (refusal.response().map(|()| Empty::new()), None),
    }
}

/// Returns the protocol of a request for an upgrade; `None` if it is another request. In HTTP/1.1 such a request has the method
/// GET.
fn upgraded(parts: &Parts) -> Option<&'static str> {
    if parts.version >= Version::HTTP_2 || parts.method != Method::GET {
        return None;
    }
    let name = parts.headers.get(UPGRADE)?.as_bytes();
    UPGRADES.into_iter().find(|known| name.eq_ignore_ascii_case(known.as_bytes()))
}

/// Creates the builder of an HTTP/1.1 connection.
fn builder() -> auto::Builder<TokioExecutor> {
    let mut builder = auto::Builder::new(TokioExecutor::new()).http1_only();
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(MAX_HELLO)
        .max_headers(MAX_FIELDS)
        .max_buf_size(MAX_HEADER);
    builder
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::time::Instant;

    use super::*;

    #[test]
    fn upgrades_are_those_of_http_1_1() {
        let of = |version: Version, method: &str, name: &str| {
            let request = Request::builder().version(version).method(method).header(UPGRADE, name);
            upgraded(&request.body(()).unwrap().into_parts().0)
        };
        for name in UPGRADES {
            assert_eq!(of(Version::HTTP_11, "GET", &name.to_uppercase()), Some(name));
            assert_eq!(of(Version::HTTP_11, "POST", name), None);
            assert_eq!(of(Version::HTTP_2, "GET", name), None);
        }
        assert_eq!(of(Version::HTTP_11, "GET", "websocket"), None);
    }

    #[tokio::test]
    async fn header_sections_have_twice_max_header_bytes_at_most_in_http_1_1() {
        for (len, status) in [(MAX_HEADER / 2, "200"), (2 * MAX_HEADER, "431")] {
            let (mut client, server) = tokio::io::duplex(4 * MAX_HEADER);
            tokio::spawn(async move {
                let service = service_fn(async |_: Request<Incoming>| {
                    Ok::<_, Infallible>(Response::new(Empty::<Bytes>::new()))
                });
                let _ = builder().serve_connection(TokioIo::new(server), service).await;
            });
            let request = format!("GET / HTTP/1.1\r\nhost: x\r\nx: {}\r\n\r\n", "a".repeat(len));
            client.write_all(request.as_bytes()).await.unwrap();
            let mut response = [0; 12];
            client.read_exact(&mut response).await.unwrap();
            assert_eq!(&response[9..], status.as_bytes(), "{len}");
        }
    }

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
