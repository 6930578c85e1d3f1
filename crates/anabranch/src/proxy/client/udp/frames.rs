//! Payloads of a flow in DATAGRAM frames (RFC 9298 §5, RFC 9221).

use std::io;
use std::task::{Context, Poll};
use std::time::Duration;

use anabranch_wire::{PathId, varint_len};
use bytes::Bytes;

use super::{MAX_PAYLOAD, PAYLOADS, SendPayloadError};
use crate::DatagramTerms;
use crate::error::SendDatagramError;
use crate::http3::Datagrams;
use crate::proxy::FlowTerms;
use crate::proxy::copies::{Numbers, PREFIX};

/// The DATAGRAM frames of a flow over HTTP/3.
#[derive(Debug)]
pub(in crate::proxy::client) struct Frames {
    quic: crate::Connection,
    datagrams: Datagrams,
    /// Length of the quarter stream ID, the context ID and the payload's number, if there is one, in bytes.
    overhead: usize,
    /// Terms, as far as the proxy has agreed to them.
    terms: FlowTerms,
    /// Terms of the DATAGRAM frames.
    datagram_terms: DatagramTerms,
    /// Numbers of the payloads, if they have any.
    numbers: Option<Numbers>,
    /// `true` if the proxy supports HTTP datagrams.
    is_supported: bool,
}

impl Frames {
    /// Creates the frames of the request on the stream with this index.
    pub(in crate::proxy::client) fn new(
        quic: crate::Connection,
        datagrams: Datagrams,
        stream: u64,
        terms: FlowTerms,
        is_supported: bool,
    ) -> Self {
        let numbers = terms.has_numbers().then(Numbers::default);
        let overhead = varint_len(stream) + if numbers.is_some() { PREFIX } else { 1 };
        Self { quic, datagrams, overhead, terms, datagram_terms: terms.datagrams(), numbers, is_supported }
    }

    /// Returns whether the proxy takes payloads in DATAGRAM frames.
    pub(super) fn can_be_sent(&self) -> bool {
        self.is_supported && self.quic.max_datagram_size().is_some()
    }

    /// Returns whether each payload is sent twice.
    pub(super) fn has_copies(&self) -> bool {
        self.terms.has_copies()
    }

    /// Returns the maximum time for which a payload waits for payloads with smaller numbers, if the flow is ordered.
    pub(super) fn order(&self) -> Option<Duration> {
        self.terms.order()
    }

    /// Returns the numbers of the payloads, if they have any.
    pub(super) fn numbers(&self) -> Option<&Numbers> {
        self.numbers.as_ref()
    }

    /// Returns the maximum length of a payload at present, in bytes.
    pub(super) fn max_payload(&self) -> usize {
        self.quic.max_datagram_size().unwrap_or(0).saturating_sub(self.overhead).min(MAX_PAYLOAD)
    }

    /// Sends a payload at once, or drops it.
    pub(super) fn send(&self, payload: &[u8]) -> Result<(), SendPayloadError> {
        let mut datagram = Vec::with_capacity(PREFIX + payload.len());
        match &self.numbers {
            Some(numbers) => datagram.extend(numbers.prefix()),
            None => datagram.push(PAYLOADS),
        }
        datagram.extend_from_slice(payload);
        self.datagrams.send_with(&datagram, &self.datagram_terms).map_err(|error| match error {
            SendDatagramError::TooLarge => {
                SendPayloadError::TooLarge { len: payload.len(), max: self.max_payload() }
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

    /// Returns the next HTTP datagram with the path on which it arrived; `None` once no more can be received.
    pub(super) fn poll_recv(&self, cx: &Context<'_>) -> Poll<Option<(PathId, Bytes)>> {
        self.datagrams.poll_recv_from(cx).map(Result::ok)
    }
}
