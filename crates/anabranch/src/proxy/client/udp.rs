//! A UDP flow through the proxy (RFC 9298).

use std::future::poll_fn;
use std::io;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

use anabranch_http3::Code;
use anabranch_http3::capsule::{CapsuleReader, CapsuleType};
use anabranch_wire::{push_varint, varint_len};
use bytes::{Buf, Bytes};

use super::tcp::broken;
use crate::error::SendDatagramError;
use crate::http3::{Datagrams, RecvHalf, SendHalf};
use crate::lock::lock;

/// Context ID of UDP payloads (RFC 9298 §5).
const PAYLOADS: u8 = 0;
/// Maximum length of a UDP payload, in bytes (RFC 9298 §5).
const MAX_PAYLOAD: usize = 65_527;
/// Maximum number of bytes that one read takes from the stream of capsules.
const MAX_READ: usize = 64 * 1024;

/// A UDP flow between this client and a target, through the proxy. Payloads may be lost, as in UDP.
///
/// They travel in DATAGRAM frames. If the proxy does not support those, they travel as capsules on the flow's
/// stream.
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
    datagrams: Datagrams,
    stream: RecvHalf,
    capsules: CapsuleReader,
    /// Bytes of the stream that are not parsed yet.
    unread: Bytes,
}

#[derive(Debug)]
struct Outgoing {
    quic: crate::Connection,
    datagrams: Datagrams,
    /// Length of what precedes a payload in a DATAGRAM frame: the quarter stream ID and the context ID.
    overhead: usize,
    uses_capsules: bool,
    stream: Mutex<CapsuleStream>,
}

#[derive(Debug)]
struct CapsuleStream {
    half: SendHalf,
    /// Rest of a capsule of which a part was sent.
    rest: Bytes,
    /// Task that reads the flow; it also sends `rest`.
    reader: Option<Waker>,
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
    /// Creates the flow of an accepted request. `takes_datagrams` says whether the proxy supports HTTP
    /// datagrams.
    pub(super) fn new(
        quic: crate::Connection,
        send: SendHalf,
        stream: RecvHalf,
        takes_datagrams: bool,
    ) -> Self {
        let datagrams = send.datagrams();
        let uses_capsules = !takes_datagrams || quic.max_datagram_size().is_none();
        let overhead = varint_len(send.id().index()) + 1;
        let capsule_stream = CapsuleStream { half: send, rest: Bytes::new(), reader: None };
        let outgoing = Arc::new(Outgoing {
            quic,
            datagrams: datagrams.clone(),
            overhead,
            uses_capsules,
            stream: Mutex::new(capsule_stream),
        });
        let capsules = CapsuleReader::new(&[CapsuleType::DATAGRAM]);
        let receiver = UdpReceiver {
            outgoing: Arc::clone(&outgoing),
            datagrams,
            stream,
            capsules,
            unread: Bytes::new(),
        };
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
        if self.0.uses_capsules { self.0.send_capsule(payload) } else { self.0.send_datagram(payload) }
    }

    /// Returns the maximum length of a payload at present, in bytes.
    pub fn max_payload(&self) -> usize {
        if self.0.uses_capsules {
            return MAX_PAYLOAD;
        }
        self.0.quic.max_datagram_size().unwrap_or(0).saturating_sub(self.0.overhead).min(MAX_PAYLOAD)
    }
}

impl Outgoing {
    fn send_datagram(&self, payload: &[u8]) -> Result<(), SendPayloadError> {
        let mut datagram = Vec::with_capacity(1 + payload.len());
        datagram.push(PAYLOADS);
        datagram.extend_from_slice(payload);
        self.datagrams.send(&datagram).map_err(|error| match error {
            SendDatagramError::TooLarge => {
                let max = self.quic.max_datagram_size().unwrap_or(0).saturating_sub(self.overhead);
                SendPayloadError::TooLarge { len: payload.len(), max }
            }
            SendDatagramError::Blocked => SendPayloadError::Full,
            SendDatagramError::UnsupportedByPeer => {
                SendPayloadError::Ended(io::ErrorKind::Unsupported.into())
            }
            SendDatagramError::ConnectionLost(error) => {
                SendPayloadError::Ended(io::Error::new(io::ErrorKind::ConnectionAborted, error))
            }
        })
    }

    fn send_capsule(&self, payload: &[u8]) -> Result<(), SendPayloadError> {
        let mut stream = lock(&self.stream);
        if let Poll::Ready(Err(error)) = stream.poll_rest(None) {
            return Err(SendPayloadError::Ended(error));
        }
        if !stream.rest.is_empty() {
            return Err(SendPayloadError::Full);
        }
        let mut capsule = Vec::with_capacity(payload.len() + 10);
        push_varint(&mut capsule, CapsuleType::DATAGRAM.0);
        push_varint(&mut capsule, payload.len() as u64 + 1);
        capsule.push(PAYLOADS);
        capsule.extend_from_slice(payload);
        stream.rest = capsule.into();
        match stream.poll_rest(None) {
            Poll::Ready(Err(error)) => Err(SendPayloadError::Ended(error)),
            _ => Ok(()),
        }
    }
}

impl CapsuleStream {
    /// Sends as much of the rest as there is room for. Wakes the reading task, by `cx` if that is the caller,
    /// when there is more room.
    fn poll_rest(&mut self, cx: Option<&Context<'_>>) -> Poll<io::Result<()>> {
        if let Some(cx) = cx {
            self.reader = Some(cx.waker().clone());
        }
        let waker = self.reader.clone().unwrap_or_else(|| Waker::noop().clone());
        let cx = Context::from_waker(&waker);
        while !self.rest.is_empty() {
            std::task::ready!(self.half.poll_write(&cx, &mut self.rest)).map_err(broken)?;
        }
        Poll::Ready(Ok(()))
    }
}

impl Drop for Outgoing {
    fn drop(&mut self) {
        let stream = self.stream.get_mut().unwrap_or_else(std::sync::PoisonError::into_inner);
        match stream.rest.is_empty() {
            // If this fails, the stream has ended already.
            true => _ = stream.half.finish(),
            false => stream.half.reset(Code::REQUEST_CANCELLED),
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
        while let Poll::Ready(Ok(datagram)) = self.datagrams.poll_recv(cx) {
            if let Some(payload) = payload(datagram) {
                return Poll::Ready(Ok(Some(payload)));
            }
        }
        // The stream has the capsules, and the end of the flow.
        loop {
            while !self.unread.is_empty() {
                let invalid =
                    |_| io::Error::new(io::ErrorKind::InvalidData, "the proxy sent an invalid capsule");
                let (read, capsule) = self.capsules.read(&self.unread).map_err(invalid)?;
                self.unread.advance(read);
                if let Some(payload) = capsule.and_then(|capsule| payload(capsule.value)) {
                    return Poll::Ready(Ok(Some(payload)));
                }
            }
            match std::task::ready!(self.stream.poll_read_chunk(cx, MAX_READ)) {
                Ok(Some(chunk)) => self.unread = chunk,
                Ok(None) => return Poll::Ready(Ok(None)),
                Err(error) => return Poll::Ready(Err(broken(error))),
            }
        }
    }

    /// Returns the maximum length of a payload that [`UdpSender::send`] accepts at present, in bytes.
    pub fn max_payload(&self) -> usize {
        UdpSender(Arc::clone(&self.outgoing)).max_payload()
    }
}

/// Returns the UDP payload in an HTTP datagram; `None` for another context, which is dropped (RFC 9298 §5),
/// and for a payload that is too long.
fn payload(mut datagram: Bytes) -> Option<Bytes> {
    let (first, rest) = datagram.split_first()?;
    if *first != PAYLOADS || rest.len() > MAX_PAYLOAD {
        return None;
    }
    datagram.advance(1);
    Some(datagram)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_context_zero_has_payloads_of_max_payload_bytes() {
        assert_eq!(payload(Bytes::from_static(b"\0hello")).unwrap(), "hello");
        assert_eq!(payload(Bytes::from_static(b"\0")).unwrap(), "");
        assert_eq!(payload(Bytes::from_static(b"\x02hello")), None);
        assert_eq!(payload(Bytes::new()), None);
        assert!(payload(vec![0; MAX_PAYLOAD + 1].into()).is_some());
        assert!(payload(vec![0; MAX_PAYLOAD + 2].into()).is_none());
    }
}
