//! Connections, and the opening and accepting of streams on them.

use crate::error::{connection_error, lost, varint};
use std::task::{Context, Poll};

use bytes::{Buf, Bytes};
use h3::error::Code;
use h3::quic::{self, ConnectionErrorIncoming, StreamErrorIncoming, StreamId, WriteBuf};

use crate::recv_stream::RecvStream;
use crate::send_stream::SendStream;

/// An [`anabranch::Connection`] as the transport of h3.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), anabranch::Error> {
/// # use anabranch::{Endpoint, SelfSigned, config};
/// use anabranch_h3::Connection;
///
/// # let identity = SelfSigned::new(["localhost"])?;
/// # let server = Endpoint::server(identity.server_config(["h3"])?, "127.0.0.1:0".parse()?)?;
/// # let address = server.local_addr()?;
/// # tokio::spawn(async move {
/// #     let connection = Connection::new(server.accept().await?.await.ok()?);
/// #     let mut connection = h3::server::Connection::new(connection).await.ok()?;
/// #     let (_, mut stream) = connection.accept().await.ok()??.resolve_request().await.ok()?;
/// #     stream.send_response(http::Response::new(())).await.ok()?;
/// #     stream.send_data(bytes::Bytes::from_static(b"hello")).await.ok()?;
/// #     stream.finish().await.ok()?;
/// #     connection.accept().await.ok()
/// # });
/// # let mut endpoint = Endpoint::client("127.0.0.1:0".parse()?)?;
/// # endpoint.set_default_client_config(config::client(identity.roots()?, ["h3"])?);
/// let transport = Connection::new(endpoint.connect(address, "localhost")?.await?);
/// let (mut driver, mut requests) = h3::client::new(transport).await?;
/// tokio::spawn(async move { driver.wait_idle().await });
/// let mut stream = requests.send_request(http::Request::get("https://localhost/").body(())?).await?;
/// stream.finish().await?;
/// assert_eq!(stream.recv_response().await?.status(), 200);
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct Connection(pub(crate) OpenStreams);

impl Connection {
    /// Wraps `connection` for h3. The connection's ALPN protocol should be `h3`.
    pub fn new(connection: anabranch::Connection) -> Self {
        Self(OpenStreams(connection))
    }
}

impl<B: Buf> quic::Connection<B> for Connection {
    type RecvStream = RecvStream;
    type OpenStreams = OpenStreams;

    fn poll_accept_recv(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Self::RecvStream, ConnectionErrorIncoming>> {
        self.0.0.poll_accept_uni(cx).map_ok(RecvStream::new).map_err(connection_error)
    }

    fn poll_accept_bidi(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Self::BidiStream, ConnectionErrorIncoming>> {
        self.0.0.poll_accept_bi(cx).map_ok(BidiStream::new).map_err(connection_error)
    }

    fn opener(&self) -> Self::OpenStreams {
        self.0.clone()
    }
}

impl<B: Buf> quic::OpenStreams<B> for Connection {
    type BidiStream = BidiStream<B>;
    type SendStream = SendStream<B>;

    fn poll_open_bidi(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Self::BidiStream, StreamErrorIncoming>> {
        self.0.poll_open_bidi(cx)
    }

    fn poll_open_send(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Self::SendStream, StreamErrorIncoming>> {
        self.0.poll_open_send(cx)
    }

    fn close(&mut self, code: Code, reason: &[u8]) {
        quic::OpenStreams::<B>::close(&mut self.0, code, reason);
    }
}

/// Opener of a [`Connection`]'s streams.
#[derive(Clone, Debug)]
pub struct OpenStreams(pub(crate) anabranch::Connection);

impl<B: Buf> quic::OpenStreams<B> for OpenStreams {
    type BidiStream = BidiStream<B>;
    type SendStream = SendStream<B>;

    fn poll_open_bidi(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Self::BidiStream, StreamErrorIncoming>> {
        self.0.poll_open_bi(cx).map_ok(BidiStream::new).map_err(lost)
    }

    fn poll_open_send(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Self::SendStream, StreamErrorIncoming>> {
        self.0.poll_open_uni(cx).map_ok(SendStream::new).map_err(lost)
    }

    fn close(&mut self, code: Code, reason: &[u8]) {
        self.0.close(varint(code.value()), reason);
    }
}

/// Both halves of a bidirectional stream.
#[derive(Debug)]
pub struct BidiStream<B: Buf> {
    send: SendStream<B>,
    recv: RecvStream,
}

impl<B: Buf> BidiStream<B> {
    fn new((send, recv): (anabranch::SendStream, anabranch::RecvStream)) -> Self {
        Self { send: SendStream::new(send), recv: RecvStream::new(recv) }
    }
}

impl<B: Buf> quic::BidiStream<B> for BidiStream<B> {
    type SendStream = SendStream<B>;
    type RecvStream = RecvStream;

    fn split(self) -> (Self::SendStream, Self::RecvStream) {
        (self.send, self.recv)
    }
}

impl<B: Buf> quic::RecvStream for BidiStream<B> {
    type Buf = Bytes;

    fn poll_data(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Bytes>, StreamErrorIncoming>> {
        self.recv.poll_data(cx)
    }

    fn stop_sending(&mut self, error_code: u64) {
        self.recv.stop_sending(error_code);
    }

    fn recv_id(&self) -> StreamId {
        self.recv.recv_id()
    }
}

impl<B: Buf> quic::SendStream<B> for BidiStream<B> {
    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), StreamErrorIncoming>> {
        self.send.poll_ready(cx)
    }

    fn send_data<T: Into<WriteBuf<B>>>(&mut self, data: T) -> Result<(), StreamErrorIncoming> {
        self.send.send_data(data)
    }

    fn poll_finish(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), StreamErrorIncoming>> {
        self.send.poll_finish(cx)
    }

    fn reset(&mut self, reset_code: u64) {
        self.send.reset(reset_code);
    }

    fn send_id(&self) -> StreamId {
        self.send.send_id()
    }
}

impl<B: Buf> quic::SendStreamUnframed<B> for BidiStream<B> {
    fn poll_send<D: Buf>(
        &mut self,
        cx: &mut Context<'_>,
        buf: &mut D,
    ) -> Poll<Result<usize, StreamErrorIncoming>> {
        self.send.poll_send(cx, buf)
    }
}
