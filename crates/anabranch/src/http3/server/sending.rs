//! Sending of a response that is not available at once, as a task of its own.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::Response;
use http_body::Body;
use tokio::sync::OwnedSemaphorePermit;

use super::super::pump::Pump;
use super::super::stall::Stall;
use super::super::{Error, SendHalf};
use super::answer::{Answer, Begun};
use super::date;

/// Future that sends one response. Each tunnel has one for as long as it lasts, so the fields are laid out by hand: an `async`
/// function would hold its arguments twice.
pub(super) struct Sending<F, B> {
    answer: Pin<Box<Answer<F, B>>>,
    /// Beginning of the response; `None` until it is available, and after it was sent.
    begun: Option<Box<Begun>>,
    send: SendHalf,
    pump: Pump,
    is_head_sent: bool,
    date: bool,
    /// Permit of the request, which others wait for.
    _permit: Option<OwnedSemaphorePermit>,
}

impl<F, B, E> Sending<F, B>
where
    F: Future<Output = Result<Response<B>, E>>,
    B: Body,
    B::Error: Into<crate::Error>,
{
    /// Creates the future of a response, whose beginning may be available. It gets a date if `date` is `true` and the beginning is not
    /// available.
    pub(super) fn new(
        answer: Pin<Box<Answer<F, B>>>,
        begun: Option<Box<Begun>>,
        send: SendHalf,
        stall: Option<Stall>,
        date: bool,
        permit: Option<OwnedSemaphorePermit>,
    ) -> Self {
        let pump = Pump::new(stall.map(Box::new));
        Self { answer, begun, send, pump, is_head_sent: false, date, _permit: permit }
    }

    /// Sends the rest of the response. If the client stops the stream, fails.
    fn poll_sent(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        if !self.is_head_sent {
            let begun = ready!(self.poll_begun(cx))?;
            self.send.send_head(&begun.head.parts, begun.head.end)?;
            if begun.head.end {
                return Poll::Ready(Ok(()));
            }
            self.is_head_sent = true;
            self.pump.put(begun.first);
        }
        self.answer.as_mut().poll_body(cx, &mut self.pump, &mut self.send)
    }

    /// Returns the beginning of the response once it is available.
    fn poll_begun(&mut self, cx: &mut Context<'_>) -> Poll<Result<Begun, Error>> {
        if let Some(begun) = self.begun.take() {
            return Poll::Ready(Ok(*begun));
        }
        match self.answer.as_mut().poll_head(cx) {
            Poll::Ready(Ok(mut head)) => {
                if self.date {
                    date::add(&mut head.parts, date::now);
                }
                Poll::Ready(Ok(Begun { head, first: Bytes::new() }))
            }
            Poll::Ready(Err(_)) => Poll::Ready(Err(Error::Closed)),
            Poll::Pending => self.send.poll_stopped(cx).map(Err),
        }
    }
}

impl<F, B, E> Future for Sending<F, B>
where
    F: Future<Output = Result<Response<B>, E>>,
    B: Body,
    B::Error: Into<crate::Error>,
{
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        // A failure is ignored: the stream is reset when this future is dropped, so the client notices it.
        self.get_mut().poll_sent(cx).map(drop)
    }
}
