//! A server that passes requests to a service.

mod answer;
mod connection;
mod date;
mod lifetime;
mod sending;
mod shutdown;

use std::convert::Infallible;
use std::future::{pending, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use anabranch_wire::configuration;
use http::{Request, Response};
use tokio::sync::Semaphore;
use tower_service::Service;

pub use self::shutdown::Shutdown;
use super::{Body, Config, Connection, Error, Limits, StalledResponses};
use crate::endpoint::Endpoint;
use crate::incoming::Incoming;

/// ALPN protocol name of HTTP/3 (RFC 9114 §3.1).
const ALPN: &[u8] = b"h3";

/// Maximum time for sending the last packets to clients once everything else is complete.
const FAREWELL: Duration = Duration::from_secs(1);

/// An HTTP/3 server: it accepts connections of an endpoint, and passes their requests to a service. The
/// service can be any [`Service`] of `http` messages, for instance an `axum::Router`.
///
/// Each request has a [`ConnectionInfo`](super::ConnectionInfo) among its extensions. An extended CONNECT
/// (RFC 9220) has a [`Protocol`](super::Protocol), and any CONNECT has [`Datagrams`](super::Datagrams). If
/// the service responds to CONNECT with success, the bodies of request and response are the two directions of
/// a tunnel.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use anabranch::http3::Server;
/// use anabranch::{Endpoint, SelfSigned};
/// use axum::{Router, routing::get};
/// use std::{future::ready, time::Duration};
///
/// let identity = SelfSigned::new(["localhost"])?;
/// let endpoint = Endpoint::server(identity.server_config(["h3"])?, "127.0.0.1:0".parse()?)?;
/// let router = Router::new().route("/", get(|| async { "hello" }));
/// let interrupted = async { ready(()).await /* or tokio::signal::ctrl_c() */ };
/// Server::new(endpoint, router).serve_with_shutdown(interrupted, Duration::from_secs(10)).await;
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct Server<S> {
    endpoint: Endpoint,
    service: S,
    options: ServeOptions,
}

configuration! {
    /// Settings for serving connections.
    #[derive(Clone, Debug)]
    pub struct ServeOptions {
        /// Limits and features of HTTP/3.
        lend config, with_config: Config = Config::default();
        /// Limits on the resources of clients.
        lend limits, with_limits: Limits = Limits::default();
        /// `true` if a `date` field is added to responses without one (RFC 9110 §6.6.1).
        copy date, with_date: bool = true;
        /// Memory that stalled responses hold, over all connections that are served with clones of these
        /// settings.
        lend stalled, with_stalled: StalledResponses = StalledResponses::default();
    }
}

impl<S> Server<S> {
    /// Creates a server on `endpoint`, whose application protocol must be `h3`.
    pub fn new(endpoint: Endpoint, service: S) -> Self {
        Self { endpoint, service, options: ServeOptions::default() }
    }

    /// Sets the limits and features of HTTP/3.
    #[must_use]
    pub fn config(mut self, config: Config) -> Self {
        self.options.config = config;
        self
    }

    /// Sets the limits on the resources of clients.
    #[must_use]
    pub fn limits(mut self, limits: Limits) -> Self {
        self.options.limits = limits;
        self
    }

    /// Sets whether a `date` field is added to responses without one; the default is `true`.
    #[must_use]
    pub fn date(mut self, date: bool) -> Self {
        self.options.date = date;
        self
    }
}

impl<S, B> Server<S>
where
    S: Service<Request<Body>, Response = Response<B>> + Clone + Send + 'static,
    S::Future: Send + 'static,
    B: http_body::Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<crate::Error>,
{
    /// Serves connections until the endpoint is closed.
    pub async fn serve(self) {
        self.serve_with_shutdown(pending::<()>(), Duration::ZERO).await;
    }

    /// Serves connections until `signal` is ready, and then shuts down gracefully. The server accepts no more
    /// connections, asks clients to send no more requests (GOAWAY), processes earlier requests for at most
    /// `drain`, and closes.
    pub async fn serve_with_shutdown(self, signal: impl Future, drain: Duration) {
        let max = self.options.limits.max_connections.clamp(1, Semaphore::MAX_PERMITS.min(u32::MAX as usize));
        let connections = Arc::new(Semaphore::new(max));
        let shutdown = Shutdown::new();
        {
            let mut signal = pin!(signal);
            while let Some(incoming) = next_unless(&self.endpoint, signal.as_mut()).await {
                match Arc::clone(&connections).try_acquire_owned() {
                    Ok(permit) => {
                        let serving = serve_incoming(
                            incoming,
                            self.service.clone(),
                            self.options.clone(),
                            shutdown.clone(),
                        );
                        tokio::spawn(async move {
                            let _permit = permit;
                            // A failure with one client does not concern the server.
                            let _ = serving.await;
                        });
                    }
                    Err(_) => incoming.refuse(),
                }
            }
        }
        shutdown.begin(drain);
        let mut all_done = pin!(connections.acquire_many(max as u32));
        let mut refusing = pin!(refuse_all(&self.endpoint));
        poll_fn(|cx| {
            // Polling `refusing` refuses new clients. It never completes.
            let _ = refusing.as_mut().poll(cx);
            all_done.as_mut().poll(cx).map(drop)
        })
        .await;
        let _ = tokio::time::timeout(FAREWELL, self.endpoint.wait_idle()).await;
    }
}

/// Waits for the next client; `None` if `event` is ready first.
async fn next_unless(endpoint: &Endpoint, mut event: std::pin::Pin<&mut impl Future>) -> Option<Incoming> {
    let mut next = pin!(endpoint.accept());
    poll_fn(|cx| match event.as_mut().poll(cx) {
        Poll::Ready(_) => Poll::Ready(None),
        Poll::Pending => next.as_mut().poll(cx),
    })
    .await
}

/// Refuses new clients for as long as it is polled.
async fn refuse_all(endpoint: &Endpoint) -> Infallible {
    while let Some(incoming) = endpoint.accept().await {
        incoming.refuse();
    }
    // The endpoint was closed. Its connections have ended, but their tasks may not have noticed yet.
    pending().await
}

async fn serve_incoming<S, B>(
    incoming: Incoming,
    service: S,
    options: ServeOptions,
    shutdown: Shutdown,
) -> Result<(), Error>
where
    S: Service<Request<Body>, Response = Response<B>> + Send + 'static,
    S::Future: Send + 'static,
    B: http_body::Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<crate::Error>,
{
    let connecting = incoming.accept().map_err(Error::ConnectionLost)?;
    let data = tokio::time::timeout(options.limits.idle_timeout, connecting.handshake_data()).await;
    let data = data.map_err(|_| Error::TooSlow)?.map_err(Error::ConnectionLost)?;
    if data.protocol.as_deref() != Some(ALPN) {
        return Err(Error::NotHttp3);
    }
    // On a server this never fails.
    let Ok((quic, _)) = connecting.into_0rtt() else { return Err(Error::Closed) };
    serve_connection(quic, service, options, shutdown).await
}

/// Serves one connection, whose handshake need not be complete. Returns when the connection has ended. This
/// function is for programs that accept the connections themselves, for instance because they have several
/// application protocols on one endpoint.
///
/// # Errors
/// Fails if the connection is lost, or if the service fails: its `poll_ready` returns an error.
pub async fn serve_connection<S, B>(
    quic: crate::Connection,
    service: S,
    options: ServeOptions,
    shutdown: Shutdown,
) -> Result<(), Error>
where
    S: Service<Request<Body>, Response = Response<B>> + Send + 'static,
    S::Future: Send + 'static,
    B: http_body::Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<crate::Error>,
{
    let connection = Connection::new(quic, options.config.clone());
    connection::Serving::new(connection, service, options, &shutdown).run().await
}
