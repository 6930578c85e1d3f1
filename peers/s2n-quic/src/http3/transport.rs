//! s2n-quic's connections and streams as h3 uses them.

use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes};
use h3::error::Code;
use h3::quic::{self, ConnectionErrorIncoming, StreamErrorIncoming, StreamId, WriteBuf};
use s2n_quic::application;
use s2n_quic::connection::{self, BidirectionalStreamAcceptor, Handle, ReceiveStreamAcceptor};
use s2n_quic::stream;

/// Connection.
pub struct Transport {
    opener: OpenStreams,
    bidirectional: BidirectionalStreamAcceptor,
    unidirectional: ReceiveStreamAcceptor,
}

impl Transport {
    pub fn new(connection: s2n_quic::Connection) -> Self {
        let (handle, acceptor) = connection.split();
        let (bidirectional, unidirectional) = acceptor.split();
        Self { opener: OpenStreams(handle), bidirectional, unidirectional }
    }
}

/// Handle that opens streams.
#[derive(Clone)]
pub struct OpenStreams(Handle);

/// Both directions of a stream.
pub struct BidiStream<B> {
    send: SendStream<B>,
    recv: RecvStream,
}

/// Sending part of a stream, with data that s2n-quic has not taken yet.
pub struct SendStream<B> {
    stream: stream::SendStream,
    data: Option<WriteBuf<B>>,
    chunk: Bytes,
}

/// Receiving part of a stream.
pub struct RecvStream(stream::ReceiveStream);

impl<B> BidiStream<B> {
    fn new(stream: stream::BidirectionalStream) -> Self {
        let (recv, send) = stream.split();
        Self { send: SendStream::new(send), recv: RecvStream(recv) }
    }
}

impl<B> SendStream<B> {
    fn new(stream: stream::SendStream) -> Self {
        Self { stream, data: None, chunk: Bytes::new() }
    }
}

fn of_connection(error: connection::Error) -> ConnectionErrorIncoming {
    match error {
        connection::Error::Application { error, .. } => {
            ConnectionErrorIncoming::ApplicationClose { error_code: error.into() }
        }
        connection::Error::IdleTimerExpired { .. } => ConnectionErrorIncoming::Timeout,
        other => ConnectionErrorIncoming::Undefined(Arc::new(other)),
    }
}

fn of_stream(error: stream::Error) -> StreamErrorIncoming {
    match error {
        stream::Error::StreamReset { error, .. } => {
            StreamErrorIncoming::StreamTerminated { error_code: error.into() }
        }
        stream::Error::ConnectionError { error, .. } => opening(error),
        other => StreamErrorIncoming::Unknown(Box::new(other)),
    }
}

fn opening(error: connection::Error) -> StreamErrorIncoming {
    StreamErrorIncoming::ConnectionErrorIncoming { connection_error: of_connection(error) }
}

/// Returns the error for an end of the connection without one.
fn ended() -> ConnectionErrorIncoming {
    ConnectionErrorIncoming::ApplicationClose { error_code: Code::H3_NO_ERROR.value() }
}

/// Returns an error code, which h3 never chooses too large.
fn code(value: u64) -> application::Error {
    application::Error::new(value).unwrap_or(application::Error::UNKNOWN)
}

/// Returns the ID of a stream, which s2n-quic never chooses too large.
fn stream_id(id: u64) -> StreamId {
    StreamId::try_from(id).unwrap_or_else(|_| unreachable!("stream IDs have 62 bits"))
}

impl<B: Buf> quic::Connection<B> for Transport {
    type RecvStream = RecvStream;
    type OpenStreams = OpenStreams;

    fn poll_accept_recv(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Result<Self::RecvStream, ConnectionErrorIncoming>> {
        let accepted = ready!(self.unidirectional.poll_accept_receive_stream(context));
        Poll::Ready(accepted.map_err(of_connection)?.map(RecvStream).ok_or_else(ended))
    }

    fn poll_accept_bidi(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Result<Self::BidiStream, ConnectionErrorIncoming>> {
        let accepted = ready!(self.bidirectional.poll_accept_bidirectional_stream(context));
        Poll::Ready(accepted.map_err(of_connection)?.map(BidiStream::new).ok_or_else(ended))
    }

    fn opener(&self) -> Self::OpenStreams {
        self.opener.clone()
    }
}

impl<B: Buf> quic::OpenStreams<B> for Transport {
    type BidiStream = BidiStream<B>;
    type SendStream = SendStream<B>;

    fn poll_open_bidi(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Result<Self::BidiStream, StreamErrorIncoming>> {
        self.opener.poll_open_bidi(context)
    }

    fn poll_open_send(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Result<Self::SendStream, StreamErrorIncoming>> {
        self.opener.poll_open_send(context)
    }

    fn close(&mut self, code: Code, reason: &[u8]) {
        quic::OpenStreams::<B>::close(&mut self.opener, code, reason);
    }
}

impl<B: Buf> quic::OpenStreams<B> for OpenStreams {
    type BidiStream = BidiStream<B>;
    type SendStream = SendStream<B>;

    fn poll_open_bidi(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Result<Self::BidiStream, StreamErrorIncoming>> {
        self.0.poll_open_bidirectional_stream(context).map_ok(BidiStream::new).map_err(opening)
    }

    fn poll_open_send(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Result<Self::SendStream, StreamErrorIncoming>> {
        self.0.poll_open_send_stream(context).map_ok(SendStream::new).map_err(opening)
    }

    fn close(&mut self, error: Code, _: &[u8]) {
        self.0.close(code(error.value()));
    }
}

impl<B: Buf> quic::SendStream<B> for SendStream<B> {
    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), StreamErrorIncoming>> {
        loop {
            if !self.chunk.is_empty() {
                ready!(self.stream.poll_send(&mut self.chunk, context)).map_err(of_stream)?;
                continue;
            }
            match &mut self.data {
                Some(data) if data.has_remaining() => self.chunk = data.copy_to_bytes(data.chunk().len()),
                _ => {
                    self.data = None;
                    return Poll::Ready(Ok(()));
                }
            }
        }
    }

    fn send_data<T: Into<WriteBuf<B>>>(&mut self, data: T) -> Result<(), StreamErrorIncoming> {
        // h3 polls for readiness between any two calls.
        self.data = Some(data.into());
        Ok(())
    }

    fn poll_finish(&mut self, context: &mut Context<'_>) -> Poll<Result<(), StreamErrorIncoming>> {
        ready!(self.poll_ready(context))?;
        Poll::Ready(self.stream.finish().map_err(of_stream))
    }

    fn reset(&mut self, reset_code: u64) {
        let _ = self.stream.reset(code(reset_code));
    }

    fn send_id(&self) -> StreamId {
        stream_id(self.stream.id())
    }
}

impl quic::RecvStream for RecvStream {
    type Buf = Bytes;

    fn poll_data(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Result<Option<Self::Buf>, StreamErrorIncoming>> {
        self.0.poll_receive(context).map_err(of_stream)
    }

    fn stop_sending(&mut self, error_code: u64) {
        let _ = self.0.stop_sending(code(error_code));
    }

    fn recv_id(&self) -> StreamId {
        stream_id(self.0.id())
    }
}

impl<B: Buf> quic::SendStream<B> for BidiStream<B> {
    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), StreamErrorIncoming>> {
        self.send.poll_ready(context)
    }

    fn send_data<T: Into<WriteBuf<B>>>(&mut self, data: T) -> Result<(), StreamErrorIncoming> {
        self.send.send_data(data)
    }

    fn poll_finish(&mut self, context: &mut Context<'_>) -> Poll<Result<(), StreamErrorIncoming>> {
        self.send.poll_finish(context)
    }

    fn reset(&mut self, reset_code: u64) {
        self.send.reset(reset_code);
    }

    fn send_id(&self) -> StreamId {
        self.send.send_id()
    }
}

impl<B: Buf> quic::RecvStream for BidiStream<B> {
    type Buf = Bytes;

    fn poll_data(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Result<Option<Self::Buf>, StreamErrorIncoming>> {
        self.recv.poll_data(context)
    }

    fn stop_sending(&mut self, error_code: u64) {
        self.recv.stop_sending(error_code);
    }

    fn recv_id(&self) -> StreamId {
        self.recv.recv_id()
    }
}

impl<B: Buf> quic::BidiStream<B> for BidiStream<B> {
    type SendStream = SendStream<B>;
    type RecvStream = RecvStream;

    fn split(self) -> (Self::SendStream, Self::RecvStream) {
        (self.send, self.recv)
    }
}
