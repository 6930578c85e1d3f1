//! HTTP/2 and HTTP/1.1 over TLS, for clients that do not support QUIC, or do not know yet that this server
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
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
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

/// Application protocols in ALPN, most preferred first.
pub(super) const PROTOCOLS: &[&str] = &["h2", "http/1.1"];

/// Maximum number of connections of one listener; others wait in the kernel's queue.
const MAX_CONNECTIONS: usize = 512;
/// Maximum number of concurrent requests on an HTTP/2 connection.
const MAX_STREAMS: u32 = 128;
/// Maximum number of header fields of a request, and their maximum size in bytes.
const MAX_FIELDS: usize = 100;
const MAX_HEADER: u32 = 32 * 1024;
/// Maximum number of bytes that wait to be sent on an HTTP/2 stream, or were read ahead on an HTTP/1.1
/// connection.
const MAX_BUFFER: usize = 256 * 1024;
/// Maximum time in which a client sends its first request after a hand-over. Then its connection is closed without one.
const FIRST_REQUEST: Duration = Duration::from_secs(1);
/// Maximum duration of the TLS handshake, and of reading the header of a request.
const MAX_HELLO: Duration = Duration::from_secs(10);
/// Time without activity after which a graceful shutdown of a connection begins. Activity is checked at
/// intervals of this length, so up to twice this time may pass before the shutdown begins. The connection is
/// closed if the shutdown takes as long again. While responses are unfinished, `--stall-timeout` applies
/// instead if it is longer.
const MAX_IDLE: Duration = Duration::from_secs(60);
/// Pause before accepting again when the process has no free descriptors.
const REST: Duration = Duration::from_millis(100);
/// Time that clients store the alternative service (RFC 7838 §3.1), in seconds.
const REMEMBERED: u32 = 86_400;

/// Socket that accepts connections.
pub(super) struct Listener {
    socket: tokio::net::TcpListener,
    tls: TlsAcceptor,
    /// Value of Alt-Svc: the address of HTTP/3.
    alternative: Option<HeaderValue>,
}

impl Listener {
    /// Creates the listener. `udp_ports` are the ports of QUIC. The one with this socket's number, or else
    /// the first one, is announced as alternative service.
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
            // No more connections are accepted. The server waits for its connections, not for this task.
            () = shared.stopping.cancelled() => std::future::pending().await,
            next = next => next,
        };
        match accepted {
            Ok((stream, client)) => {
                let client = SocketAddr::new(client.ip().to_canonical(), client.port());
                let (listener, connection) = (Arc::clone(&listener), Arc::clone(&shared));
                shared.connections.spawn(serve(stream, client, listener, connection, permit));
            }
            // The client is gone already, or the process has no free descriptors.
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
    // Disables Nagle's algorithm, which delays small responses. A failure only makes them slower.
    let _ = stream.set_nodelay(true);
    let mut stream = TimeoutStream::new(stream);
    stream.set_write_timeout(shared.stall);
    let greeted = tokio::time::timeout(MAX_HELLO, listener.tls.accept(Box::pin(stream)));
    let greeted = tokio::select! {
        () = shared.refusing.cancelled() => return,
        greeted = greeted => greeted,
    };
    let Ok(Ok(stream)) = greeted else {
        return shared.metrics.handshake(Transport::Tcp, Handshake::Failed);
    };
    shared.metrics.handshake(Transport::Tcp, Handshake::Completed);
    speak(stream, client, &listener, &shared).await;
}

type Stream = TlsStream<Pin<Box<TimeoutStream<TcpStream>>>>;

/// Serves a connection with the negotiated protocol until the client ends it, it is idle, or the server
/// stops.
async fn speak(stream: Stream, client: SocketAddr, listener: &Listener, shared: &Arc<Shared>) {
    let is_http2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
    let protocol = if is_http2 { Protocol::Http2 } else { Protocol::Http1 };
    let activity = Arc::new(Activity::default());
    let service = shared.service(protocol, client, Arc::clone(&activity));
    let alternative = listener.alternative.clone();
    let begun = Arc::new(Notify::new());
    let begins = Arc::clone(&begun);
    let service = service_fn(move |request: Request<Incoming>| {
        begins.notify_one();
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
    run(connection, shared, &activity, &begun).await;
}

/// Runs a connection. Errors are not reported: the client is gone, or violated HTTP.
async fn run(
    connection: impl Graceful + Future<Output = std::result::Result<(), anabranch::Error>>,
    shared: &Shared,
    activity: &Activity,
    begun: &Notify,
) {
    let mut connection = pin!(connection);
    let mut ending = false;
    loop {
        tokio::select! {
            _ = connection.as_mut() => return,
            // After a hand-over, the first request of a client that connected before may be on its way.
            () = shared.stopping.cancelled(), if !ending => if !shared.refusing.is_cancelled() {
                tokio::select! {
                    _ = connection.as_mut() => return,
                    () = begun.notified() => {}
                    () = tokio::time::sleep(FIRST_REQUEST) => {}
                }
            },
            () = activity.idle_for(MAX_IDLE, shared.stall) => {
                // The graceful shutdown has already lasted for a whole idle period.
                if ending {
                    return;
                }
            }
        }
        ending = true;
        connection.as_mut().graceful_shutdown();
    }
}

/// Graceful shutdown, which hyper-util's connection types share.
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

/// Creates the builder for the protocol that TLS negotiated.
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
