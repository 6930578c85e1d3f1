//! Connections of the public API.

use std::future::{Future, poll_fn};
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use anabranch_tls::rustls::pki_types::CertificateDer;
use anabranch_transport::datagram::Terms as DatagramTerms;
use anabranch_transport::schedule::Route;
use anabranch_transport::{ConnectionError, ConnectionStats, MigrateError, Silence};
use anabranch_wire::{ConnectionId, Dir, PathId, StreamId, Time, VarInt, Version};
use bytes::Bytes;

use crate::connection_inner::{ConnectionInner, ConnectionRef, State};
use crate::error::{ExportError, SendDatagramError};
use crate::recv_stream::RecvStream;
use crate::send_stream::SendStream;

/// A connection that is being set up. Awaiting it waits for the handshake.
#[derive(Debug)]
#[must_use = "a connection is only set up while it is awaited or held"]
pub struct Connecting {
    /// `None` once the connection was returned to the application.
    connection: Option<Connection>,
}

impl Connecting {
    pub(crate) fn new(connection: Arc<ConnectionInner>) -> Self {
        Self { connection: Some(Connection(ConnectionRef::new(connection))) }
    }

    /// Returns the connection before the handshake is complete. A client then sends early data (0-RTT, RFC
    /// 9001 §4.6), which an attacker may replay. A server sends data to a client that is not authenticated
    /// yet (0.5-RTT).
    ///
    /// The second value resolves to `true` if the server accepted the early data. If the server rejected it,
    /// stream data is sent again automatically once the handshake is complete. If the server has also chosen
    /// another application protocol than before, the connection is closed instead.
    ///
    /// # Errors
    /// Returns `self` if this client stores no session of the server that allows early data.
    pub fn into_0rtt(mut self) -> Result<(Connection, ZeroRttAccepted), Self> {
        let possible = |state: &mut State| state.core.side().is_server() || state.offers_early_data;
        match self.connection.take_if(|connection| connection.0.with_state(possible)) {
            Some(connection) => {
                let accepted = ZeroRttAccepted(connection.clone());
                Ok((connection, accepted))
            }
            None => Err(self),
        }
    }

    /// Waits until the handshake has determined the application protocol and the server name. On a server,
    /// this is before the handshake is complete.
    ///
    /// # Errors
    /// Fails if the handshake fails.
    pub async fn handshake_data(&self) -> Result<HandshakeData, ConnectionError> {
        let Some(connection) = &self.connection else { return Err(ConnectionError::LocallyClosed) };
        poll_fn(|cx| {
            connection.0.with_state(|state| match state.handshake_data {
                true => Poll::Ready(Ok(())),
                false => state.wait(cx, |state| &mut state.progress),
            })
        })
        .await?;
        Ok(connection.handshake_data())
    }

    /// Returns the number of bytes received on all paths of this connection.
    pub(crate) fn heard(&self) -> u64 {
        let received = |state: &mut State| state.core.paths().map(|path| path.bytes_received).sum();
        self.connection.as_ref().map_or(0, |connection| connection.0.with_state(received))
    }

    /// Returns true if, since the last call, this host has failed to send a packet that the handshake needs.
    pub(crate) fn take_unreachable(&self) -> bool {
        let take = |state: &mut State| std::mem::take(&mut state.unreachable);
        self.connection.as_ref().is_some_and(|connection| connection.0.with_state(take))
    }

    /// Returns the peer's address.
    pub fn remote_address(&self) -> Option<SocketAddr> {
        self.connection.as_ref().map(Connection::remote_address)
    }
}

impl Future for Connecting {
    type Output = Result<Connection, ConnectionError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Some(connection) = &self.connection else {
            return Poll::Ready(Err(ConnectionError::LocallyClosed));
        };
        let result = std::task::ready!(connection.0.with_state(|state| state.poll_connected(cx)));
        let connection = self.connection.take();
        Poll::Ready(result.and_then(|_| connection.ok_or(ConnectionError::LocallyClosed)))
    }
}

/// Future that resolves to `true` if the server accepted early data, and to `false` if it rejected the data
/// or if the connection is lost first.
#[derive(Debug)]
pub struct ZeroRttAccepted(Connection);

impl Future for ZeroRttAccepted {
    type Output = bool;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<bool> {
        self.0.0.with_state(|state| state.poll_connected(cx)).map(|result| result.unwrap_or(false))
    }
}

impl State {
    /// Polls for the end of the handshake. Ready with `true` if early data was accepted.
    fn poll_connected(&mut self, cx: &Context<'_>) -> Poll<Result<bool, ConnectionError>> {
        match self.connected {
            Some(early_data_accepted) => Poll::Ready(Ok(early_data_accepted)),
            None => self.wait(cx, |state| &mut state.progress),
        }
    }
}

/// Results of a handshake.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct HandshakeData {
    /// The application protocol.
    pub protocol: Option<Vec<u8>>,
    /// The host name that the client asked for.
    pub server_name: Option<String>,
    /// The QUIC version.
    pub version: Version,
    /// `true` if TLS resumed an earlier session.
    pub resumed: bool,
}

/// A QUIC connection. Clones are cheap and refer to the same connection.
///
/// When the last handle is dropped, including the handles of its streams, the connection closes with code 0.
/// Data that the peer has not acknowledged by then may be lost. If it matters, wait for
/// [`SendStream::stopped`] or for the peer's response.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), anabranch::Error> {
/// # use anabranch::{Endpoint, SelfSigned, config};
/// use anabranch::VarInt;
///
/// # let identity = SelfSigned::new(["localhost"])?;
/// # let server = Endpoint::server(identity.server_config(["example"])?, "127.0.0.1:0".parse()?)?;
/// # let address = server.local_addr()?;
/// # tokio::spawn(async move {
/// #     let connection = server.accept().await?.await.ok()?;
/// #     let (mut send, mut recv) = connection.accept_bi().await.ok()?;
/// #     let request = recv.read_to_end(1024).await.ok()?;
/// #     send.write_all(&request).await.ok()?;
/// #     send.finish().ok()?;
/// #     Some(connection.closed().await)
/// # });
/// # let config = config::client(identity.roots()?, ["example"])?;
/// # let client = Endpoint::client("127.0.0.1:0".parse()?)?;
/// # let connection = client.connect_with(&config, address, "localhost")?.await?;
/// // With a server that echoes:
/// let (mut send, mut recv) = connection.open_bi().await?;
/// send.write_all(b"hello").await?;
/// send.finish()?;
/// assert_eq!(recv.read_to_end(1024).await?, b"hello");
/// println!("{:?} after {} bytes", connection.rtt(), connection.paths()[0].bytes_sent);
/// connection.close(VarInt::ZERO, b"done");
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct Connection(pub(crate) ConnectionRef);

impl Connection {
    /// Opens a bidirectional stream. Waits until the peer's stream limit allows it. The peer learns of the
    /// stream when the first frame is sent on it.
    ///
    /// # Errors
    /// Fails if the connection is lost.
    pub async fn open_bi(&self) -> Result<(SendStream, RecvStream), ConnectionError> {
        poll_fn(|cx| self.poll_open_bi(cx)).await
    }

    /// Polls [`Connection::open_bi`].
    ///
    /// # Errors
    /// Fails if the connection is lost.
    pub fn poll_open_bi(&self, cx: &Context<'_>) -> Poll<Result<(SendStream, RecvStream), ConnectionError>> {
        self.poll_open(cx, Dir::Bi).map_ok(|id| self.both_halves(id))
    }

    /// Opens a unidirectional stream, on which only this endpoint sends. Otherwise like
    /// [`Connection::open_bi`].
    ///
    /// # Errors
    /// Fails if the connection is lost.
    pub async fn open_uni(&self) -> Result<SendStream, ConnectionError> {
        poll_fn(|cx| self.poll_open_uni(cx)).await
    }

    /// Polls [`Connection::open_uni`].
    ///
    /// # Errors
    /// Fails if the connection is lost.
    pub fn poll_open_uni(&self, cx: &Context<'_>) -> Poll<Result<SendStream, ConnectionError>> {
        self.poll_open(cx, Dir::Uni).map_ok(|id| SendStream::new(self.0.clone(), id))
    }

    fn poll_open(&self, cx: &Context<'_>, dir: Dir) -> Poll<Result<StreamId, ConnectionError>> {
        // If the limit is reached, a STREAMS_BLOCKED frame may have to be sent.
        self.0.update(|state| match state.core.streams().open(dir).filter(|_| state.ended.is_none()) {
            Some(id) => Poll::Ready(Ok(id)),
            None => state.wait(cx, |state| state.opening.of(dir)),
        })
    }

    fn both_halves(&self, id: StreamId) -> (SendStream, RecvStream) {
        (SendStream::new(self.0.clone(), id), RecvStream::new(self.0.clone(), id))
    }

    /// Waits for the next bidirectional stream that the peer opens.
    ///
    /// # Errors
    /// Fails if the connection is lost.
    pub async fn accept_bi(&self) -> Result<(SendStream, RecvStream), ConnectionError> {
        poll_fn(|cx| self.poll_accept_bi(cx)).await
    }

    /// Polls [`Connection::accept_bi`].
    ///
    /// # Errors
    /// Fails if the connection is lost.
    pub fn poll_accept_bi(
        &self,
        cx: &Context<'_>,
    ) -> Poll<Result<(SendStream, RecvStream), ConnectionError>> {
        self.poll_accept(cx, Dir::Bi).map_ok(|id| self.both_halves(id))
    }

    /// Waits for the next unidirectional stream that the peer opens.
    ///
    /// # Errors
    /// Fails if the connection is lost.
    pub async fn accept_uni(&self) -> Result<RecvStream, ConnectionError> {
        poll_fn(|cx| self.poll_accept_uni(cx)).await
    }

    /// Polls [`Connection::accept_uni`].
    ///
    /// # Errors
    /// Fails if the connection is lost.
    pub fn poll_accept_uni(&self, cx: &Context<'_>) -> Poll<Result<RecvStream, ConnectionError>> {
        self.poll_accept(cx, Dir::Uni).map_ok(|id| RecvStream::new(self.0.clone(), id))
    }

    fn poll_accept(&self, cx: &Context<'_>, dir: Dir) -> Poll<Result<StreamId, ConnectionError>> {
        self.0.with_state(|state| match state.core.streams().accept(dir) {
            Some(id) => Poll::Ready(Ok(id)),
            None => state.wait(cx, |state| state.accepting.of(dir)),
        })
    }

    /// Queues an unreliable message (RFC 9221).
    ///
    /// # Errors
    /// Fails if the peer does not support datagrams, if the message is too large, if the queue is full, or if
    /// the connection is lost.
    pub fn send_datagram(&self, message: Bytes) -> Result<(), SendDatagramError> {
        self.send_datagram_on(message, Route::Any)
    }

    /// Queues a message like [`Connection::send_datagram`], but for the paths that `route` permits. The
    /// message waits until such a path has room; later messages that another path may carry can overtake it.
    /// See [`Route`] for paths that do not work.
    ///
    /// # Errors
    /// Fails as [`Connection::send_datagram`] does.
    pub fn send_datagram_on(&self, message: Bytes, route: Route) -> Result<(), SendDatagramError> {
        self.send_datagram_with(message, &DatagramTerms::default().with_route(route))
    }

    /// Queues a message on these terms: its flow, its lifetime, its copies.
    ///
    /// # Errors
    /// Fails as [`Connection::send_datagram`] does.
    pub fn send_datagram_with(&self, message: Bytes, terms: &DatagramTerms) -> Result<(), SendDatagramError> {
        let now = self.0.driver.now();
        self.0.update(|state| state.send_datagram(now, message, terms))
    }

    /// Sends a message like [`Connection::send_datagram`], but waits while the queue is full.
    ///
    /// # Errors
    /// Fails if the peer does not support datagrams, if the message is too large, or if the connection is
    /// lost.
    pub async fn send_datagram_wait(&self, message: Bytes) -> Result<(), SendDatagramError> {
        poll_fn(|cx| {
            let (now, terms) = (self.0.driver.now(), DatagramTerms::default());
            self.0.update(|state| match state.send_datagram(now, message.clone(), &terms) {
                Err(SendDatagramError::Blocked) => {
                    state.datagram_writers.register(cx);
                    Poll::Pending
                }
                result => Poll::Ready(result),
            })
        })
        .await
    }

    /// Waits for the peer's next unreliable message.
    ///
    /// # Errors
    /// Fails if the connection is lost.
    pub async fn read_datagram(&self) -> Result<Bytes, ConnectionError> {
        poll_fn(|cx| self.poll_read_datagram(cx)).await
    }

    /// Polls [`Connection::read_datagram`].
    ///
    /// # Errors
    /// Fails if the connection is lost.
    pub fn poll_read_datagram(&self, cx: &Context<'_>) -> Poll<Result<Bytes, ConnectionError>> {
        self.0.with_state(|state| match state.core.datagrams().recv() {
            Some(message) => Poll::Ready(Ok(message)),
            None => state.wait(cx, |state| &mut state.datagram_readers),
        })
    }

    /// Returns the length of the longest message that [`Connection::send_datagram`] accepts now; `None` if
    /// the peer does not support datagrams.
    pub fn max_datagram_size(&self) -> Option<usize> {
        self.0.with_state(|state| state.core.datagrams().max_len())
    }

    /// Closes the connection at once. Its streams end, and data that the peer has not received yet is lost.
    /// CONNECTION_CLOSE carries `code` (at most 2^62 - 1) and `reason` to the peer's application.
    pub fn close(&self, code: VarInt, reason: &[u8]) {
        self.0.close(code, Bytes::copy_from_slice(reason));
    }

    /// Waits until the connection has ended, and returns the reason.
    pub async fn closed(&self) -> ConnectionError {
        let result =
            poll_fn(|cx| self.0.with_state(|state| state.wait::<()>(cx, |state| &mut state.progress))).await;
        result.err().unwrap_or(ConnectionError::LocallyClosed)
    }

    /// Returns the reason for the end of the connection; `None` while it has not ended.
    pub fn close_reason(&self) -> Option<ConnectionError> {
        self.0.with_state(|state| state.ended.clone())
    }

    /// Returns the peer's address. It may change (RFC 9000 §9).
    pub fn remote_address(&self) -> SocketAddr {
        let address = self.0.with_state(|state| state.core.remote_address());
        SocketAddr::new(address.ip().to_canonical(), address.port())
    }

    /// Returns this end's address on the first path; `None` if it is not known yet, as on a wildcard socket
    /// before the first packet arrives, or if no path is left.
    pub fn local_address(&self) -> Option<SocketAddr> {
        let local = self.0.with_state(|state| state.core.paths().next().map(|path| path.tuple.local));
        local.filter(|local| !local.ip().is_unspecified())
    }

    /// Returns the smoothed round-trip time of the connection's first path; `None` before the first sample,
    /// or if no path is left.
    pub fn rtt(&self) -> Option<Duration> {
        let first = self.0.with_state(|state| state.core.paths().next());
        first.filter(|path| path.rtt_via.is_some()).map(|path| path.smoothed_rtt)
    }

    /// Returns the time for which the peer has been silent, and the part of this time in which this host was
    /// suspended or this process was stopped.
    pub fn silence(&self) -> Silence {
        let now = self.0.driver.now();
        self.0.with_state(|state| state.core.silence(now))
    }

    /// Returns the destination connection ID of the client's first Initial packet. Both endpoints know it, so
    /// the connection's trace and its span in logs are named by it.
    pub fn original_dcid(&self) -> ConnectionId {
        self.0.with_state(|state| state.core.original_dcid())
    }

    /// Returns totals, and the state of every path.
    pub fn stats(&self) -> ConnectionStats {
        self.0.with_state(|state| state.core.stats())
    }

    /// Returns the results of the handshake so far.
    pub fn handshake_data(&self) -> HandshakeData {
        self.0.with_state(|state| HandshakeData {
            protocol: state.core.alpn().map(<[u8]>::to_vec),
            server_name: state.core.server_name().map(str::to_owned),
            version: state.core.version(),
            resumed: state.core.is_resumed(),
        })
    }

    /// Returns the peer's certificate chain, its own certificate first; `None` if the peer sent none.
    pub fn peer_certificates(&self) -> Option<Vec<CertificateDer<'static>>> {
        self.0.with_state(|state| state.core.peer_certificates().map(<[_]>::to_vec))
    }

    /// Fills `output` with keying material that only both ends of this connection can compute (RFC 8446
    /// §7.5).
    ///
    /// # Errors
    /// Fails if the handshake is not complete, the connection is closed, or `output` is too long.
    pub fn export_keying_material(
        &self,
        output: &mut [u8],
        label: &[u8],
        context: &[u8],
    ) -> Result<(), ExportError> {
        self.0.with_state(|state| {
            if let Some(error) = &state.ended {
                return Err(error.clone().into());
            }
            let tls = state.core.tls().filter(|_| state.connected.is_some());
            let tls = tls.ok_or(ExportError::HandshakeIncomplete)?;
            tls.export_keying_material(output, label, Some(context)).map_err(|_| ExportError::TooLong)
        })
    }

    /// Updates the keys that protect packets, as soon as RFC 9001 §6 allows.
    pub fn update_keys(&self) {
        self.0.update(|state| state.core.update_keys());
    }

    /// Migrates the connection to another local address of the endpoint (RFC 9000 §9); see
    /// [`Endpoint::add_socket`](crate::Endpoint::add_socket). The connection moves once the server has
    /// responded there. If `local` is a wildcard address, only its port is used, and the IP address stays the
    /// same.
    ///
    /// # Errors
    /// Fails if migration is forbidden, or not possible yet.
    pub fn migrate(&self, local: SocketAddr) -> Result<(), MigrateError> {
        let in_use = self.local_address().filter(|_| local.ip().is_unspecified());
        let local = SocketAddr::new(in_use.map_or(local.ip(), |address| address.ip()), local.port());
        self.0.update(|state| {
            let begun = state.core.migrate(self.0.driver.now(), local);
            if begun.is_ok() {
                // The application has chosen the address, so the connection no longer follows the routing
                // table.
                state.paths.roaming = None;
            }
            begun
        })
    }

    /// Waits until the handshake is complete (RFC 9001 §4.1.1), for connections that are used before that.
    /// Returns whether early data was accepted.
    ///
    /// # Errors
    /// Fails if the connection is lost first.
    pub async fn handshake_complete(&self) -> Result<bool, ConnectionError> {
        poll_fn(|cx| self.0.with_state(|state| state.poll_connected(cx))).await
    }

    /// Waits until the handshake is confirmed (RFC 9001 §4.1.2). From then on a client may migrate.
    ///
    /// # Errors
    /// Fails if the connection is lost first.
    pub async fn confirmed(&self) -> Result<(), ConnectionError> {
        poll_fn(|cx| {
            self.0.with_state(|state| match state.core.is_confirmed() {
                true => Poll::Ready(Ok(())),
                false => state.wait(cx, |state| &mut state.progress),
            })
        })
        .await
    }

    /// Sends a PING frame, which the peer must acknowledge, to keep the connection alive or to measure the
    /// round-trip time.
    pub fn ping(&self) {
        self.0.update(|state| state.core.ping(PathId::ZERO));
    }
}

impl State {
    fn send_datagram(
        &mut self,
        now: Time,
        message: Bytes,
        terms: &DatagramTerms,
    ) -> Result<(), SendDatagramError> {
        if let Some(error) = &self.ended {
            return Err(error.clone().into());
        }
        self.core.datagrams().send_with(now, message, terms).map_err(SendDatagramError::of)
    }
}
