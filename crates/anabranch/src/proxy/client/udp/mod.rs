//! A UDP flow through the proxy (RFC 9298).

mod frames;

use std::future::poll_fn;
use std::io;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use anabranch_http3::capsule::{CapsuleReader, CapsuleType};
use bytes::{Buf, Bytes};

pub(super) use self::frames::Frames;

use super::capsules::CapsuleStream;
use super::stream::{TunnelReceiver, TunnelSender};
use crate::lock::lock;
use crate::proxy::copies::Numbers;

/// Context ID of UDP payloads (RFC 9298 §5).
const PAYLOADS: u8 = 0;
/// Maximum length of a UDP payload, in bytes (RFC 9298 §5).
const MAX_PAYLOAD: usize = 65_527;
/// Number of bytes that one read takes from the stream of capsules, without a copy.
const PIECE: usize = 64 * 1024;

/// A UDP flow between this client and a target, through the proxy. Payloads may be lost, as in UDP.
///
/// They travel in DATAGRAM frames. If the proxy does not support those or is reached over TCP, they travel as capsules on the
/// flow's stream.
#[derive(Debug)]
pub struct UdpTunnel {
    sender: UdpSender,
    receiver: UdpReceiver,
}

/// Sending end of a [`UdpTunnel`]. The flow ends when the last clone is dropped.
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
    /// The payload does not fit into a packet of the connection. The limit may change with the paths.
    #[error("the payload has {len} bytes, and at most {max} fit")]
    TooLarge {
        /// Length of the payload, in bytes.
        len: usize,
        /// Maximum length at present, in bytes.
        max: usize,
    },
    /// The queue is full: the paths are slower than the flow.
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
        let receiver =
            UdpReceiver { outgoing: Arc::clone(&outgoing), stream, capsules, unread: Bytes::new() };
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

    /// Returns whether each payload travels twice, because the proxy removes the duplicates.
    pub fn has_copies(&self) -> bool {
        self.sender.0.numbers().is_some()
    }

    /// Returns the two ends, for different tasks.
    pub fn split(self) -> (UdpSender, UdpReceiver) {
        (self.sender, self.receiver)
    }
}

impl UdpSender {
    /// Sends a payload at once, or drops it.
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
    pub fn poll_recv(&mut self, cx: &Context<'_>) -> Poll<io::Result<Option<Bytes>>> {
        if self.outgoing.uses_capsules
            && let Poll::Ready(Err(error)) = lock(&self.outgoing.stream).poll_rest(Some(cx))
        {
            return Poll::Ready(Err(error));
        }
        if let Some(frames) = &self.outgoing.frames
            && let Poll::Ready(Some(payload)) = frames.poll_recv(cx)
        {
            return Poll::Ready(Ok(Some(payload)));
        }
        // The stream has the capsules, and the end of the flow.
        loop {
            while !self.unread.is_empty() {
                let invalid =
                    |_| io::Error::new(io::ErrorKind::InvalidData, "the proxy sent an invalid capsule");
                let (read, capsule) = self.capsules.read(&self.unread).map_err(invalid)?;
                self.unread.advance(read);
                if let Some(payload) =
                    capsule.and_then(|capsule| payload(capsule.value, self.outgoing.numbers()))
                {
                    return Poll::Ready(Ok(Some(payload)));
                }
            }
            match std::task::ready!(self.stream.poll_read_chunk(cx, PIECE)) {
                Ok(Some(chunk)) => self.unread = chunk,
                Ok(None) => return Poll::Ready(Ok(None)),
                Err(error) => return Poll::Ready(Err(error.into())),
            }
        }
    }

    /// Returns the maximum length of a payload that [`UdpSender::send`] accepts at present, in bytes.
    pub fn max_payload(&self) -> usize {
        UdpSender(Arc::clone(&self.outgoing)).max_payload()
    }
}

/// Returns the UDP payload in an HTTP datagram; `None` for another context, which is dropped (RFC 9298 §5), for a duplicate,
/// and for a payload that is too long.
fn payload(mut datagram: Bytes, numbers: Option<&Numbers>) -> Option<Bytes> {
    let start = match numbers {
        _ if *datagram.first()? == PAYLOADS => 1,
        Some(numbers) => numbers.first(&datagram)?,
        None => return None,
    };
    datagram.advance(start);
    (datagram.len() <= MAX_PAYLOAD).then_some(datagram)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_context_zero_has_payloads_of_max_payload_bytes() {
        let payload = |datagram: Bytes| payload(datagram, None);
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
        assert_eq!(numbered().unwrap(), "hello");
        assert_eq!(numbered(), None);
        assert_eq!(payload(Bytes::from_static(b"\0hello"), Some(&numbers)).unwrap(), "hello");
        assert_eq!(payload(Bytes::from_static(b"\x04\0\0\0\x08hello"), Some(&numbers)), None);
    }
}
