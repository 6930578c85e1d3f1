//! The receiving half of a stream.

use crate::error::{read_error, stream_id, varint};
use std::task::{Context, Poll};

use bytes::Bytes;
use h3::quic::{self, StreamErrorIncoming, StreamId};

/// The receiving half of a stream.
#[derive(Debug)]
pub struct RecvStream(anabranch::RecvStream);

impl RecvStream {
    pub(crate) fn new(stream: anabranch::RecvStream) -> Self {
        Self(stream)
    }
}

impl quic::RecvStream for RecvStream {
    type Buf = Bytes;

    fn poll_data(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Bytes>, StreamErrorIncoming>> {
        self.0.poll_read_chunk(cx, usize::MAX).map_err(read_error)
    }

    fn stop_sending(&mut self, error_code: u64) {
        // Fails if the stream was read to its end. Nothing is left to do then.
        let _ = self.0.stop(varint(error_code));
    }

    fn recv_id(&self) -> StreamId {
        stream_id(self.0.id())
    }
}
