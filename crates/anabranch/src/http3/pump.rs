//! Sending of a body as fast as the peer reads it.

use std::pin::Pin;
use std::task::{Context, Poll};

use anabranch_http3::Code;
use bytes::{Buf, Bytes};
use http_body::Frame;

use super::stall::Stall;
use super::{Error, SendHalf};

/// A body that is being sent: its next piece, and the check of the client's progress.
#[derive(Debug, Default)]
pub(super) struct Pump {
    /// Piece that was taken from the body and has not been sent yet.
    piece: Bytes,
    stall: Option<Box<Stall>>,
}

impl Pump {
    /// Creates a pump that resets the stream when `stall` is exhausted.
    pub(super) fn new(stall: Option<Box<Stall>>) -> Self {
        Self { piece: Bytes::new(), stall }
    }

    /// Sends `piece` before the rest of the body.
    pub(super) fn put(&mut self, piece: Bytes) {
        self.piece = piece;
    }

    /// Sends as much of `body` as there is room for. Returns ready when the body's end has been sent, or on
    /// an error.
    pub(super) fn poll<B>(
        &mut self,
        cx: &mut Context<'_>,
        mut body: Pin<&mut B>,
        send: &mut SendHalf,
    ) -> Poll<Result<(), Error>>
    where
        B: http_body::Body,
        B::Error: Into<crate::Error>,
    {
        loop {
            while !self.piece.is_empty() {
                match send.poll_write(cx, &mut self.piece) {
                    Poll::Ready(Ok(_)) => self.on_progress(),
                    Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                    Poll::Pending => return self.poll_patience(cx, send).map(Err),
                }
            }
            let frame = match body.as_mut().poll_frame(cx) {
                Poll::Ready(frame) => frame,
                // If the peer has stopped the stream, sending ends at once, without waiting for the body.
                Poll::Pending => return send.poll_stopped(cx).map(Err),
            };
            match frame.map(|frame| frame.map(Frame::into_data)) {
                Some(Ok(Ok(mut data))) => self.piece = data.copy_to_bytes(data.remaining()),
                Some(Ok(Err(frame))) => {
                    if let Ok(trailers) = frame.into_trailers() {
                        return Poll::Ready(send.send_trailers(&trailers));
                    }
                }
                Some(Err(error)) => return Poll::Ready(Err(Error::Body(error.into()))),
                None => return Poll::Ready(send.finish()),
            }
        }
    }

    fn on_progress(&mut self) {
        if let Some(stall) = &mut self.stall {
            stall.on_progress();
        }
    }

    fn poll_patience(&mut self, cx: &mut Context<'_>, send: &mut SendHalf) -> Poll<Error> {
        let Some(stall) = &mut self.stall else { return Poll::Pending };
        stall.poll_exhausted(cx, self.piece.len(), || send.standing()).map(|()| {
            send.reset(Code::EXCESSIVE_LOAD);
            Error::TooSlow
        })
    }
}
