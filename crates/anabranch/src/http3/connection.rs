//! HTTP/3 connections of the public API.

use std::convert::Infallible;
use std::future::poll_fn;
use std::net::SocketAddr;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use anabranch_http3::message::Protocol;
use anabranch_http3::{Code, Config, Settings};
use anabranch_transport as core;
use anabranch_wire::{Dir, StreamId};
use http::Request;
use http::request::Parts;
use tracing::debug;

use super::Error;
use super::error::request_error;
use super::exchange::Exchange;
use super::half::Half;
use super::recv_half::RecvHalf;
use super::send_half::SendHalf;
use super::state::Access;
use crate::log::HTTP3;

/// HTTP/3 on a QUIC connection, in either role: the level below [`Client`](super::Client) and
/// [`Server`](super::Server).
///
/// Clones are cheap and refer to the same connection. When the last handle is dropped, including the handles
/// of its requests, the connection closes with H3_NO_ERROR.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use anabranch::http3::{Config, Connection};
/// use anabranch::{Endpoint, SelfSigned, config};
/// use bytes::Bytes;
/// use http::{Request, Response};
///
/// let identity = SelfSigned::new(["localhost"])?;
/// let server = Endpoint::server(identity.server_config(["h3"])?, "127.0.0.1:0".parse()?)?;
/// let address = server.local_addr()?;
/// tokio::spawn(async move {
///     let quic = server.accept().await.ok_or("closed")?.await?;
///     let connection = Connection::new(quic, Config::default());
///     while let Some((request, mut send, _receive)) = connection.accept().await? {
///         let body = Bytes::from(format!("you asked for {}", request.uri().path()));
///         send.send_whole_response(Response::new(body)).await?;
///     }
///     Ok::<_, anabranch::Error>(())
/// });
///
/// let mut endpoint = Endpoint::client("127.0.0.1:0".parse()?)?;
/// endpoint.set_default_client_config(config::client(identity.roots()?, ["h3"])?);
/// let quic = endpoint.connect(address, "localhost")?.await?;
/// let connection = Connection::new(quic, Config::default());
/// let mut receive = connection.request_without_body(Request::get("https://localhost/tea").body(())?).await?;
/// assert_eq!(receive.response().await?.status(), 200);
/// assert_eq!(receive.read_chunk(100).await?.as_deref(), Some(&b"you asked for /tea"[..]));
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct Connection {
    quic: crate::Connection,
}

/// Round-trip time that is assumed before the first sample (RFC 9002 §6.2.2).
pub(super) const ASSUMED_RTT: Duration = Duration::from_millis(333);

/// Information about a request's arrival, among the request's extensions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ConnectionInfo {
    /// The client's address.
    pub remote: SocketAddr,
    /// Local address of the connection's first path, if it is known. On a wildcard socket, it becomes known
    /// when the first packet arrives.
    pub local: Option<SocketAddr>,
    /// `true` if the request arrived before the handshake was complete, so that it may be a replay (RFC
    /// 8470). Its method is then a safe one: other requests wait until the handshake is complete.
    pub early_data: bool,
}

/// A request that was accepted.
pub(super) struct Accepted {
    pub(super) id: StreamId,
    pub(super) parts: Parts,
    /// `true` if the request has neither body nor trailers.
    pub(super) ended: bool,
}

impl Connection {
    /// Begins HTTP/3 on `quic`. From then on all of its streams belong to HTTP/3. The handshake need not be
    /// complete: a client may send early data, a server may receive it.
    ///
    /// If HTTP/3 has begun before, the result is another handle, and `config` is ignored.
    pub fn new(quic: crate::Connection, config: Config) -> Self {
        let mut woken = Vec::new();
        quic.0.update(|state| {
            let now = quic.0.driver.now();
            state.http3(now, || config);
            state.wake_session(now, &mut woken);
        });
        woken.into_iter().for_each(std::task::Waker::wake);
        Self { quic }
    }

    /// Returns the QUIC connection, for its addresses and statistics.
    pub fn quic(&self) -> &crate::Connection {
        &self.quic
    }

    /// Sends a request with a body, or one that opens a tunnel if the method is CONNECT; for clients. Waits
    /// until the server's stream limit allows it. An extended CONNECT (RFC 9220) also waits for the server's
    /// SETTINGS.
    ///
    /// # Errors
    /// Fails if the server accepts no more requests (GOAWAY), if the request cannot be sent over HTTP/3, or
    /// if the connection is lost.
    pub async fn request(&self, request: Request<()>) -> Result<(SendHalf, RecvHalf), Error> {
        let exchange = self.begin(&request.into_parts().0, false).await?;
        Ok((SendHalf::new(Half::client(Arc::clone(&exchange))), RecvHalf::new(Half::client(exchange))))
    }

    /// Sends a request without a body, like [`Connection::request`]; for clients.
    ///
    /// # Errors
    /// Fails as [`Connection::request`] does.
    pub async fn request_without_body(&self, request: Request<()>) -> Result<RecvHalf, Error> {
        Ok(RecvHalf::new(Half::client(self.begin(&request.into_parts().0, true).await?)))
    }

    pub(super) async fn begin(&self, parts: &Parts, end: bool) -> Result<Arc<Exchange>, Error> {
        if parts.extensions.get::<Protocol>().is_some() {
            self.settings().await?;
        }
        let id = poll_fn(|cx| self.poll_begin(cx, parts, end)).await?;
        debug!(
            target: HTTP3,
            parent: &self.quic.0.span(),
            stream = %id,
            method = %parts.method,
            uri = %parts.uri,
            "request",
        );
        Ok(Arc::new(Exchange::new(self.quic.0.clone(), id)))
    }

    fn poll_begin(&self, cx: &Context<'_>, parts: &Parts, end: bool) -> Poll<Result<StreamId, Error>> {
        self.quic.0.change_http3(|access| {
            if let Some(error) = access.ended() {
                return Poll::Ready(Err(error));
            }
            match access.session.request(access.core.streams(), parts, end).map_err(request_error) {
                Ok(id) => Poll::Ready(Ok(id)),
                Err(Some(error)) => Poll::Ready(Err(error)),
                Err(None) => {
                    access.tasks.requesting.register(cx);
                    Poll::Pending
                }
            }
        })
    }

    /// Waits for the next request; for servers. Returns it with the half that sends the response and the half
    /// that reads the request's body; `None` once the connection has ended without an error.
    ///
    /// # Errors
    /// Fails if the connection is lost.
    pub async fn accept(&self) -> Result<Option<(Request<()>, SendHalf, RecvHalf)>, Error> {
        let mut accepted = Vec::with_capacity(1);
        match poll_fn(|cx| self.poll_accept(cx, 1, &mut accepted)).await {
            Ok(_) => Ok(accepted.pop().map(|Accepted { id, parts, .. }| {
                let exchange = Arc::new(Exchange::new(self.quic.0.clone(), id));
                let send = SendHalf::new(Half::server(Arc::clone(&exchange)));
                (Request::from_parts(parts, ()), send, RecvHalf::new(Half::server(exchange)))
            })),
            Err(error) if error.is_farewell() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Appends up to `max` requests to `accepted`, and returns the information about their arrival. Pending
    /// while no request has arrived.
    pub(super) fn poll_accept(
        &self,
        cx: &Context<'_>,
        max: usize,
        accepted: &mut Vec<Accepted>,
    ) -> Poll<Result<ConnectionInfo, Error>> {
        let before = accepted.len();
        let poll = self.quic.0.http3(|access| {
            while accepted.len() - before < max
                && let Some((id, parts)) = access.session.accept()
            {
                let ended = access.session.is_read_to_end(id);
                accepted.push(Accepted { id, parts, ended });
            }
            let poll = if accepted.len() > before {
                Poll::Ready(Ok(ConnectionInfo::of(access.core, !access.connected)))
            } else if let Some(error) = access.ended() {
                Poll::Ready(Err(error))
            } else {
                access.tasks.accepting.register(cx);
                Poll::Pending
            };
            (poll, false)
        });
        for Accepted { id, parts, .. } in &accepted[before..] {
            debug!(
                target: HTTP3,
                parent: &self.quic.0.span(),
                stream = %id,
                method = %parts.method,
                uri = %parts.uri,
                "request",
            );
        }
        poll
    }

    /// Waits for the peer's SETTINGS and returns them.
    ///
    /// # Errors
    /// Fails if the connection is lost first.
    pub async fn settings(&self) -> Result<Settings, Error> {
        self.wait(|access| access.session.peer_settings().copied()).await
    }

    /// Announces a graceful shutdown (GOAWAY, RFC 9114 §5.2), waits one round trip for it to arrive, and
    /// rejects requests that arrive later. Accepted requests continue: close the connection when they are
    /// complete.
    pub async fn shutdown(&self) {
        self.announce_shutdown();
        let heard = self.quic.rtt().unwrap_or(ASSUMED_RTT);
        let _ = tokio::time::timeout(heard, self.closed()).await;
        self.finish_shutdown();
    }

    pub(super) fn announce_shutdown(&self) {
        self.quic.0.change_http3(|access| access.session.announce_shutdown(access.core.streams()));
    }

    pub(super) fn finish_shutdown(&self) {
        self.quic.0.change_http3(|access| access.session.shutdown(access.core.streams()));
    }

    /// Closes the connection at once with H3_NO_ERROR. Data that the peer has not received yet is lost.
    pub fn close(&self) {
        self.close_with(Code::NO_ERROR, "");
    }

    /// Closes the connection at once with `code` and `reason`.
    pub fn close_with(&self, code: Code, reason: &str) {
        self.quic.close(code.into(), reason.as_bytes());
    }

    /// Waits until the connection has ended, and returns the reason.
    pub async fn closed(&self) -> Error {
        poll_fn(|cx| self.poll_closed(cx)).await
    }

    pub(super) fn poll_closed(&self, cx: &Context<'_>) -> Poll<Error> {
        self.poll_wait(cx, |_| None::<Infallible>).map(|result| match result {
            Ok(never) => match never {},
            Err(error) => error,
        })
    }

    /// Waits until the peer announces that it accepts no more requests (GOAWAY), which may never happen.
    ///
    /// # Errors
    /// Fails if the connection is lost first.
    pub async fn going_away(&self) -> Result<(), Error> {
        self.wait(|access| access.session.is_going_away().then_some(())).await
    }

    /// Waits until the handshake is complete.
    pub(super) async fn established(&self) -> Result<(), Error> {
        match self.quic.handshake_complete().await {
            Ok(_) => Ok(()),
            Err(error) => Err(self
                .quic
                .0
                .http3(|access| (access.ended(), false))
                .unwrap_or(Error::ConnectionLost(error))),
        }
    }

    /// Returns whether the connection accepts further requests.
    pub(super) fn is_usable(&self) -> bool {
        self.quic.0.http3(|access| {
            let usable = access.connection_error().is_none() && !access.session.is_going_away();
            (usable, false)
        })
    }

    /// Drops requests on streams before `first` whose header sections have not arrived. Returns the ID of the
    /// first request that the client has not opened; for servers.
    pub(super) fn expire_heads(&self, first: StreamId) -> StreamId {
        self.quic.0.change_http3(|access| {
            access.session.expire_heads(access.core.streams(), first);
            access.session.next_request()
        })
    }

    /// Returns the number of bytes received on all streams.
    pub(super) fn received_bytes(&self) -> u64 {
        self.quic.0.http3(|access| (access.core.streams().bytes_received(), false))
    }

    /// Returns the number of bytes in the send buffer: those that the peer has not acknowledged.
    pub(super) fn unacknowledged_bytes(&self) -> u64 {
        self.quic.0.http3(|access| (access.core.streams().buffered_bytes(), false))
    }

    /// Returns whether all requests are complete, and the peer has acknowledged all data and the ends of all
    /// streams.
    pub(super) fn is_quiet(&self) -> bool {
        self.quic.0.http3(|access| {
            let streams = access.core.streams();
            let delivered = streams.buffered_bytes() == 0 && streams.unacknowledged_streams(Dir::Bi) == 0;
            (delivered && access.session.open_requests() == 0, false)
        })
    }

    async fn wait<R>(&self, mut ready: impl FnMut(&mut Access<'_>) -> Option<R>) -> Result<R, Error> {
        poll_fn(|cx| self.poll_wait(cx, &mut ready)).await
    }

    fn poll_wait<R>(
        &self,
        cx: &Context<'_>,
        ready: impl FnOnce(&mut Access<'_>) -> Option<R>,
    ) -> Poll<Result<R, Error>> {
        let poll = |access: &mut Access<'_>| {
            if let Some(result) = ready(access) {
                return Poll::Ready(Ok(result));
            }
            if let Some(error) = access.ended() {
                return Poll::Ready(Err(error));
            }
            access.tasks.progress.register(cx);
            Poll::Pending
        };
        self.quic.0.http3(|access| (poll(access), false))
    }
}

impl ConnectionInfo {
    fn of(core: &core::Connection, early_data: bool) -> Self {
        let remote = core.remote_address();
        let local = core.paths().next().map(|path| path.tuple.local);
        Self {
            remote: SocketAddr::new(remote.ip().to_canonical(), remote.port()),
            local: local.filter(|local| !local.ip().is_unspecified()),
            early_data,
        }
    }
}
