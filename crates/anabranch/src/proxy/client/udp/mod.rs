//! A UDP flow through the proxy (RFC 9298).

mod frames;

use std::future::{Future, poll_fn};
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use anabranch_http3::capsule::{CapsuleReader, CapsuleType};
use anabranch_wire::PathId;
use bytes::{Buf, Bytes};
use tokio::time::{Instant, Sleep, sleep_until};

pub(super) use self::frames::Frames;

use super::capsules::CapsuleStream;
use super::stream::{TunnelReceiver, TunnelSender};
use crate::lock::lock;
use crate::proxy::copies::{Numbers, PREFIX, number};
use crate::proxy::order::{Order, STREAM};
use crate::sync::Mutex;

/// Context ID of UDP payloads (RFC 9298 §5).
const PAYLOADS: u8 = 0;
/// Maximum length of a UDP payload, in bytes (RFC 9298 §5).
const MAX_PAYLOAD: usize = 65_527;
/// Maximum number of bytes that one read takes from the flow's stream, without a copy.
const PIECE: usize = 64 * 1024;

/// A UDP flow between this client and a target, through the proxy. Payloads may be lost, as in UDP.
///
/// Payloads are sent in DATAGRAM frames, or as DATAGRAM capsules on the flow's stream if either end does not support
/// HTTP datagrams in such frames.
#[derive(Debug)]
pub struct UdpTunnel {
    sender: UdpSender,
    receiver: UdpReceiver,
}

/// Sending end of a [`UdpTunnel`]. The flow ends when all clones and the [`UdpReceiver`] are dropped.
#[derive(Clone, Debug)]
pub struct UdpSender(Arc<Outgoing>);

/// Receiving end of a [`UdpTunnel`].
#[derive(Debug)]
pub struct UdpReceiver {
    outgoing: Arc<Outgoing>,
    stream: TunnelReceiver,
    capsules: CapsuleReader,
    /// Bytes of the stream that are not parsed yet.
    unread: Bytes,
    /// Payloads that wait for payloads with smaller numbers, if the flow is ordered.
    ordered: Option<Ordered>,
}

/// Received payloads that wait for payloads with smaller numbers, and the timer that ends their wait.
#[derive(Debug)]
struct Ordered {
    order: Order,
    timer: Pin<Box<Sleep>>,
}

impl Ordered {
    fn new(hold: Duration) -> Self {
        Self { order: Order::new(hold), timer: Box::pin(sleep_until(Instant::now())) }
    }

    /// Polls for the next payload in order.
    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Bytes> {
        loop {
            if let Some(payload) = self.order.pop(Instant::now()) {
                return Poll::Ready(payload);
            }
            let Some(due) = self.order.due() else { return Poll::Pending };
            self.timer.as_mut().reset(due);
            ready!(self.timer.as_mut().poll(cx));
        }
    }
}

#[derive(Debug)]
struct Outgoing {
    /// DATAGRAM frames; `None` over HTTP/2.
    frames: Option<Frames>,
    uses_capsules: bool,
    stream: Mutex<CapsuleStream>,
}

/// Reason why a payload was not sent. It is dropped.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SendPayloadError {
    /// The payload does not fit into a packet of the connection. The limit changes with the MTU of the paths.
    #[error("the payload has {len} bytes, and at most {max} fit")]
    TooLarge {
        /// Length of the payload, in bytes.
        len: usize,
        /// Maximum length at present, in bytes.
        max: usize,
    },
    /// The queue is full, because payloads are handed over faster than the paths carry them.
    #[error("the queue is full")]
    Full,
    /// The flow has ended.
    #[error("the flow has ended: {0}")]
    Ended(#[source] io::Error),
}

impl UdpTunnel {
    /// Creates the flow of an accepted request.
    pub(super) fn new(frames: Option<Frames>, send: TunnelSender, stream: TunnelReceiver) -> Self {
        let uses_capsules = !frames.as_ref().is_some_and(Frames::can_be_sent);
        let outgoing =
            Arc::new(Outgoing { frames, uses_capsules, stream: Mutex::new(CapsuleStream::new(send)) });
        let capsules = CapsuleReader::new(&[CapsuleType::DATAGRAM]);
        let ordered = outgoing.frames.as_ref().and_then(Frames::order).map(Ordered::new);
        let receiver =
            UdpReceiver { outgoing: Arc::clone(&outgoing), stream, capsules, unread: Bytes::new(), ordered };
        Self { sender: UdpSender(outgoing), receiver }
    }

    /// Sends a payload, like [`UdpSender::send`].
    ///
    /// # Errors
    /// Fails as [`UdpSender::send`] does.
    pub fn send(&self, payload: &[u8]) -> Result<(), SendPayloadError> {
        self.sender.send(payload)
    }

    /// Waits for the next payload, like [`UdpReceiver::recv`].
    ///
    /// # Errors
    /// Fails as [`UdpReceiver::recv`] does.
    pub async fn recv(&mut self) -> io::Result<Option<Bytes>> {
        self.receiver.recv().await
    }

    /// Returns the maximum length of a payload at present, in bytes.
    pub fn max_payload(&self) -> usize {
        self.sender.max_payload()
    }

    /// Returns whether each payload is sent twice, which is so if copies were requested and the proxy removes duplicates.
    pub fn has_copies(&self) -> bool {
        self.sender.0.frames.as_ref().is_some_and(Frames::has_copies)
    }

    /// Returns whether both ends deliver payloads in the order in which they were sent.
    pub fn is_ordered(&self) -> bool {
        self.sender.0.frames.as_ref().and_then(Frames::order).is_some()
    }

    /// Splits the tunnel into its two ends, which different tasks can use.
    pub fn split(self) -> (UdpSender, UdpReceiver) {
        (self.sender, self.receiver)
    }
}

impl UdpSender {
    /// Queues a payload, or drops it and returns the reason. Never waits.
    ///
    /// A payload that does not fit into a DATAGRAM frame is not sent as a capsule instead: that would hide
    /// the path's MTU from programs that probe it (RFC 9298 §6.1).
    ///
    /// # Errors
    /// Fails if the payload does not fit, if the queue is full, or if the flow has ended.
    pub fn send(&self, payload: &[u8]) -> Result<(), SendPayloadError> {
        if payload.len() > MAX_PAYLOAD {
            return Err(SendPayloadError::TooLarge { len: payload.len(), max: self.max_payload() });
        }
        match self.0.sendable() {
            Some(frames) => frames.send(payload),
            None => self.0.send_capsule(payload),
        }
    }

    /// Returns the maximum length of a payload at present, in bytes.
    pub fn max_payload(&self) -> usize {
        self.0.sendable().map_or(MAX_PAYLOAD, Frames::max_payload)
    }
}

impl Outgoing {
    /// Returns the DATAGRAM frames, if payloads are sent in them.
    fn sendable(&self) -> Option<&Frames> {
        self.frames.as_ref().filter(|_| !self.uses_capsules)
    }

    fn numbers(&self) -> Option<&Numbers> {
        self.frames.as_ref().and_then(Frames::numbers)
    }

    fn send_capsule(&self, payload: &[u8]) -> Result<(), SendPayloadError> {
        match lock(&self.stream).send_datagram(PAYLOADS, payload) {
            Ok(true) => Ok(()),
            Ok(false) => Err(SendPayloadError::Full),
            Err(error) => Err(SendPayloadError::Ended(error)),
        }
    }
}

impl UdpReceiver {
    /// Waits for the next payload from the target; `None` when the proxy has ended the flow.
    ///
    /// # Errors
    /// Fails if the proxy reset the flow, if it violates RFC 9297, or if the connection is lost.
    pub async fn recv(&mut self) -> io::Result<Option<Bytes>> {
        poll_fn(|cx| self.poll_recv(cx)).await
    }

    /// Polls [`UdpReceiver::recv`].
    ///
    /// # Errors
    /// Fails as [`UdpReceiver::recv`] does.
    pub fn poll_recv(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Option<Bytes>>> {
        if self.outgoing.uses_capsules
            && let Poll::Ready(Err(error)) = lock(&self.outgoing.stream).poll_rest(Some(cx))
        {
            return Poll::Ready(Err(error));
        }
        while let Some(frames) = &self.outgoing.frames
            && let Poll::Ready(Some((path, datagram))) = frames.poll_recv(cx)
        {
            if let Some(payload) = self.accept(path, datagram) {
                return Poll::Ready(Ok(Some(payload)));
            }
        }
        if let Some(ordered) = &mut self.ordered
            && let Poll::Ready(payload) = ordered.poll_next(cx)
        {
            return Poll::Ready(Ok(Some(payload)));
        }
        // The stream carries the capsules, and its end is the end of the flow.
        loop {
            while !self.unread.is_empty() {
                let Ok((read, capsule)) = self.capsules.read(&self.unread) else {
                    return Poll::Ready(Err(self.abort()));
                };
                self.unread.advance(read);
                if let Some(payload) = capsule.and_then(|capsule| self.accept(STREAM, capsule.value)) {
                    return Poll::Ready(Ok(Some(payload)));
                }
            }
            match ready!(self.stream.poll_read_chunk(cx, PIECE)) {
                Ok(Some(chunk)) => self.unread = chunk,
                Ok(None) if self.capsules.end().is_err() => return Poll::Ready(Err(self.abort())),
                Ok(None) => return Poll::Ready(Ok(None)),
                Err(error) => return Poll::Ready(Err(error.into())),
            }
        }
    }

    /// Ends both directions because of a wrong capsule.
    fn abort(&mut self) -> io::Error {
        lock(&self.outgoing.stream).abort(&mut self.stream)
    }

    /// Accepts an HTTP datagram, which arrived on `path`. Returns the next payload to deliver; `None` if the datagram was dropped, or if its payload waits for
    /// payloads with smaller numbers.
    fn accept(&mut self, path: PathId, datagram: Bytes) -> Option<Bytes> {
        let received = self.ordered.as_ref().and_then(|_| number(&datagram));
        let Some((number, payload)) = payload(datagram, self.outgoing.numbers()) else {
            if let (Some(Ordered { order, .. }), Some(number)) = (&self.ordered, received) {
                order.note_copy(Instant::now(), path, number);
            }
            return None;
        };
        match (&self.ordered, number) {
            (Some(Ordered { order, .. }), Some(number)) => {
                let now = Instant::now();
                order.push(now, path, number, payload);
                order.pop(now)
            }
            _ => Some(payload),
        }
    }

    /// Returns the maximum length of a payload that [`UdpSender::send`] accepts at present, in bytes.
    pub fn max_payload(&self) -> usize {
        UdpSender(Arc::clone(&self.outgoing)).max_payload()
    }
}

/// Returns the UDP payload in an HTTP datagram, and its number if it has one. Returns `None`, so that the datagram is dropped, for
/// an unknown context ID (RFC 9298 §5), a duplicate, and a payload longer than [`MAX_PAYLOAD`].
fn payload(mut datagram: Bytes, numbers: Option<&Numbers>) -> Option<(Option<u32>, Bytes)> {
    let (start, number) = match numbers {
        _ if *datagram.first()? == PAYLOADS => (1, None),
        Some(numbers) => (PREFIX, Some(numbers.first(&datagram)?)),
        None => return None,
    };
    datagram.advance(start);
    (datagram.len() <= MAX_PAYLOAD).then_some((number, datagram))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_context_zero_has_payloads_of_max_payload_bytes() {
        let payload = |datagram: Bytes| payload(datagram, None).map(|(_, payload)| payload);
        assert_eq!(payload(Bytes::from_static(b"\0hello")).unwrap(), "hello");
        assert_eq!(payload(Bytes::from_static(b"\0")).unwrap(), "");
        assert_eq!(payload(Bytes::from_static(b"\x02\0\0\0\0hello")), None);
        assert_eq!(payload(Bytes::new()), None);
        assert!(payload(vec![0; MAX_PAYLOAD + 1].into()).is_some());
        assert!(payload(vec![0; MAX_PAYLOAD + 2].into()).is_none());
    }

    #[test]
    fn numbered_payloads_are_delivered_once() {
        let numbers = Numbers::default();
        let numbered = || payload(Bytes::from_static(b"\x02\0\0\0\x07hello"), Some(&numbers));
        assert_eq!(numbered().unwrap(), (Some(7), Bytes::from("hello")));
        assert_eq!(numbered(), None);
        assert_eq!(
            payload(Bytes::from_static(b"\0hello"), Some(&numbers)).unwrap(),
            (None, Bytes::from("hello"))
        );
        assert_eq!(payload(Bytes::from_static(b"\x04\0\0\0\x08hello"), Some(&numbers)), None);
    }
}
