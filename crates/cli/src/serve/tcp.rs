//! HTTP/2 and HTTP/1.1 over TLS, for clients that do not speak QUIC, or do not know yet that this server
//! does.

use std::convert::Infallible;
use std::future::Future;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;

use anabranch::rustls;
use http::header::ALT_SVC;
use http::{HeaderValue, Request};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use tokio::net::TcpStream;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_io_timeout::TimeoutStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tower_service::Service;

use super::activity::Activity;
use super::metrics::{Handshake, Transport};
use super::protocol::Protocol;
use super::shared::Shared;
use super::sockets;
use crate::exit::Result;

/// Application protocols, most preferred first.
pub(super) const PROTOCOLS: &[&str] = &["h2", "http/1.1"];

/// Connections of one listener at a time; others wait in the kernel's queue.
const MAX_CONNECTIONS: usize = 512;
/// Requests at a time on an HTTP/2 connection.
const MAX_STREAMS: u32 = 128;
/// Header fields of a request: how many, and bytes.
const MAX_FIELDS: usize = 100;
const MAX_HEADER: u32 = 32 * 1024;
/// Bytes that wait to be sent on an HTTP/2 stream, or were read ahead on an HTTP/1.1 connection.
const MAX_BUFFER: usize = 256 * 1024;
/// Maximum time that a client may take for the TLS handshake, and for the header of a request.
const MAX_HELLO: Duration = Duration::from_secs(10);
/// Maximum time without a request, up to twice this; then the client is told to end, and gets as long for
/// that. With answers that are being sent, it is `--stall-timeout` if that is longer.
const MAX_IDLE: Duration = Duration::from_secs(60);
/// Pause of accepting when the process has no more descriptors.
const REST: Duration = Duration::from_millis(100);
/// Time that clients remember other protocols (RFC 7838 §3.1), in seconds.
const REMEMBERED: u32 = 86_400;

/// A socket that connections are accepted on.
pub(super) struct Listener {
    socket: tokio::net::TcpListener,
    tls: TlsAcceptor,
    /// Alternative service: address of HTTP/3.
    alternative: Option<HeaderValue>,
}

impl Listener {
    /// Creates the server; `udp_ports` are those of QUIC, and clients are sent to the one with this socket's
    /// own number, if there is one.
    pub(super) fn new(
        listener: std::net::TcpListener,
        tls: Arc<rustls::ServerConfig>,
        udp_ports: &[u16],
    ) -> Result<Self> {
        let socket = sockets::listener(listener)?;
        let own = socket.local_addr().map_or(0, |address| address.port());
        let port = udp_ports.iter().find(|port| **port == own).or(udp_ports.first());
        Ok(Self { socket, tls: tls.into(), alternative: port.and_then(|port| alternative(*port)) })
    }
}

fn alternative(port: u16) -> Option<HeaderValue> {
    HeaderValue::from_str(&format!("h3=\":{port}\"; ma={REMEMBERED}")).ok()
}

/// Accepts connections until the server stops.
pub(super) async fn accept(listener: Listener, shared: Arc<Shared>) {
    let listener = Arc::new(listener);
    let room = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    loop {
        let next = async {
            // The semaphore is never closed.
            let permit = Arc::clone(&room).acquire_owned().await.ok();
            (permit, listener.socket.accept().await)
        };
        let (permit, accepted) = tokio::select! {
            // The server waits for its connections, not for this.
            () = shared.stopping.cancelled() => std::future::pending().await,
            next = next => next,
        };
        match accepted {
            Ok((stream, client)) => {
                let client = SocketAddr::new(client.ip().to_canonical(), client.port());
                let (listener, connection) = (Arc::clone(&listener), Arc::clone(&shared));
                shared.connections.spawn(serve(stream, client, listener, connection, permit));
            }
            // A client that is gone already, or no more descriptors.
            Err(_) => tokio::time::sleep(REST).await,
        }
    }
}

async fn serve(
    stream: TcpStream,
    client: SocketAddr,
    listener: Arc<Listener>,
    shared: Arc<Shared>,
    _permit: Option<OwnedSemaphorePermit>,
) {
    let _open = shared.metrics.connection(Transport::Tcp);
    // Delays that the kernel would add for small answers; without it they are only slower.
    let _ = stream.set_nodelay(true);
    let mut stream = TimeoutStream::new(stream);
    stream.set_write_timeout(shared.stall);
    let greeted = tokio::time::timeout(MAX_HELLO, listener.tls.accept(Box::pin(stream)));
    let greeted = tokio::select! {
        () = shared.stopping.cancelled() => return,
        greeted = greeted => greeted,
    };
    let Ok(Ok(stream)) = greeted else {
        return shared.metrics.handshake(Transport::Tcp, Handshake::Failed);
    };
    shared.metrics.handshake(Transport::Tcp, Handshake::Completed);
    speak(stream, client, &listener, &shared).await;
}

type Stream = TlsStream<Pin<Box<TimeoutStream<TcpStream>>>>;

/// Serves a connection in the protocol that was agreed on, until the client ends it, is idle, or the server
/// stops.
async fn speak(stream: Stream, client: SocketAddr, listener: &Listener, shared: &Arc<Shared>) {
    let is_http2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
    let protocol = if is_http2 { Protocol::Http2 } else { Protocol::Http1 };
    let activity = Arc::new(Activity::default());
    let service = shared.service(protocol, client, Arc::clone(&activity));
    let alternative = listener.alternative.clone();
    let service = service_fn(move |request: Request<Incoming>| {
        let answer = service.clone().call(request);
        let alternative = alternative.clone();
        async move {
            let mut answer = answer.await?;
            alternative.into_iter().for_each(|value| _ = answer.headers_mut().insert(ALT_SVC, value));
            Ok::<_, Infallible>(answer)
        }
    });
    let builder = builder(is_http2);
    let connection = builder.serve_connection(TokioIo::new(stream), service);
    run(connection, shared, &activity).await;
}

/// Errors are the client's affair: it is gone, or does not speak HTTP.
async fn run(
    connection: impl Graceful + Future<Output = std::result::Result<(), anabranch::Error>>,
    shared: &Shared,
    activity: &Activity,
) {
    let mut connection = pin!(connection);
    let mut ending = false;
    loop {
        tokio::select! {
            _ = connection.as_mut() => return,
            () = shared.stopping.cancelled(), if !ending => {}
            () = activity.idle_for(MAX_IDLE, shared.stall) => {
                // It was asked to end before, or has not even begun.
                if ending {
                    return;
                }
            }
        }
        ending = true;
        connection.as_mut().graceful_shutdown();
    }
}

/// Operation that hyper-util's connections share.
trait Graceful {
    fn graceful_shutdown(self: Pin<&mut Self>);
}

impl<S, B> Graceful for auto::Connection<'_, TokioIo<Stream>, S, TokioExecutor>
where
    S: hyper::service::HttpService<Incoming, ResBody = B>,
    S::Error: Into<anabranch::Error>,
    S::Future: 'static,
    B: http_body::Body + 'static,
    B::Error: Into<anabranch::Error>,
    TokioExecutor: auto::HttpServerConnExec<S::Future, B>,
{
    fn graceful_shutdown(self: Pin<&mut Self>) {
        auto::Connection::graceful_shutdown(self);
    }
}

/// Creates the builder for the protocol that TLS has negotiated.
fn builder(is_http2: bool) -> auto::Builder<TokioExecutor> {
    let builder = auto::Builder::new(TokioExecutor::new());
    let mut builder = if is_http2 { builder.http2_only() } else { builder.http1_only() };
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(MAX_HELLO)
        .max_headers(MAX_FIELDS)
        .max_buf_size(MAX_BUFFER);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(MAX_STREAMS)
        .max_header_list_size(MAX_HEADER)
        .max_send_buf_size(MAX_BUFFER);
    builder
}
