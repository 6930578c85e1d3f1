//! CRYPTO stream of one packet number space, in both directions (RFC 9000 §7.5).

use std::ops::Range;

use anabranch_wire::{SpaceId, TransportErrorCode, Writer, max_crypto_len, write_crypto};

use crate::error::TransportError;
use crate::ranges::RangeSet;
use crate::stream::{Pool, ReceiveBuffer};
use crate::token::{Token, Tokens};

/// Maximum number of CRYPTO bytes buffered beyond those that TLS has read (RFC 9000 §7.5: at least 4096).
pub(crate) const MAX_CRYPTO_BUFFER: u64 = 64 * 1024;

/// Maximum number of CRYPTO bytes from a client whose address is not validated; the whole ClientHello must
/// fit. With a Retry or a token the limit is [`MAX_CLIENT_HELLO_LEN`](anabranch_tls::MAX_CLIENT_HELLO_LEN).
pub(crate) const MAX_UNVALIDATED_CRYPTO: u64 = 8 * 1024;

/// Maximum number of separate ranges of CRYPTO data that wait for missing bytes (RFC 9000 §7.5).
const MAX_CRYPTO_FRAGMENTS: usize = 64;

/// Both directions of the CRYPTO stream of one packet number space.
#[derive(Debug, Default)]
pub(crate) struct CryptoStream {
    /// Received data; `None` until any has arrived. It is boxed, because the idle stream stays in memory
    /// after the handshake.
    received: Option<Box<Received>>,
    /// Number of bytes that TLS has read.
    read: u64,
    sending: Vec<u8>,
    /// Offset of the first byte of `sending`.
    base: u64,
    /// Offset of the first byte that was never sent.
    next: u64,
    lost: RangeSet,
    /// Acknowledged ranges above `base`. Bytes before `base` are acknowledged and no longer stored.
    acked: RangeSet,
}

/// Received data of a CRYPTO stream.
#[derive(Debug)]
struct Received {
    buffer: ReceiveBuffer,
    /// Pool for the buffer's memory. It keeps no free memory, because handshakes are short.
    pool: Pool,
}

impl CryptoStream {
    /// Handles a CRYPTO frame, whose data must end at or below `limit`.
    pub(crate) fn on_frame(&mut self, offset: u64, data: &[u8], limit: u64) -> Result<(), TransportError> {
        let limit = limit.min(self.read + MAX_CRYPTO_BUFFER);
        if offset + data.len() as u64 > limit {
            return Err(TransportError::new(
                TransportErrorCode::CRYPTO_BUFFER_EXCEEDED,
                "too many handshake bytes out of order",
            ));
        }
        let Received { buffer, pool } = &mut **self.received.get_or_insert_with(|| {
            let mut buffer = ReceiveBuffer::default();
            buffer.set_max_fragments(MAX_CRYPTO_FRAGMENTS);
            Box::new(Received { buffer, pool: Pool::frugal() })
        });
        buffer.set_limit(limit);
        buffer.insert(offset, data, pool).map_err(|_full| {
            TransportError::new(TransportErrorCode::CRYPTO_BUFFER_EXCEEDED, "too many handshake fragments")
        })?;
        Ok(())
    }

    /// Returns the next bytes in order for TLS; empty if none are available.
    pub(crate) fn peek(&self) -> &[u8] {
        self.received.as_ref().map_or(&[], |received| received.buffer.peek())
    }

    /// Discards `n` bytes that TLS has read.
    pub(crate) fn consume(&mut self, n: usize) {
        if let Some(received) = &mut self.received {
            received.buffer.consume(n, &mut received.pool);
        }
        self.read += n as u64;
    }

    /// Returns the highest offset received.
    pub(crate) fn received_end(&self) -> u64 {
        self.received.as_ref().map_or(0, |received| received.buffer.highest())
    }

    /// Returns the number of bytes allocated for received data.
    pub(crate) fn allocated(&self) -> usize {
        self.received.as_ref().map_or(0, |received| received.buffer.allocated())
    }

    /// Returns whether bytes have arrived that TLS has not read.
    pub(crate) fn has_unread(&self) -> bool {
        self.received.as_ref().is_some_and(|received| !received.buffer.is_empty())
    }

    /// Queues handshake data of TLS for sending.
    pub(crate) fn push(&mut self, data: &[u8]) {
        self.sending.extend_from_slice(data);
    }

    fn end(&self) -> u64 {
        self.base + self.sending.len() as u64
    }

    /// Returns whether any data is to be sent.
    pub(crate) fn has_pending(&self) -> bool {
        !self.lost.is_empty() || self.next < self.end()
    }

    fn next_range(&self) -> Option<Range<u64>> {
        self.lost.first().or_else(|| (self.next < self.end()).then(|| self.next..self.end()))
    }

    /// Writes CRYPTO frames until the packet is full.
    pub(crate) fn write(&mut self, space: SpaceId, w: &mut Writer<'_>, tokens: &mut Tokens) {
        while let Some(range) = self.next_range() {
            let len = (range.end - range.start).min(max_crypto_len(w.remaining(), range.start) as u64);
            if len == 0 {
                return;
            }
            let from = (range.start - self.base) as usize;
            let data = &self.sending[from..from + len as usize];
            if write_crypto(w, range.start, data.len(), |to| to.copy_from_slice(data)).is_err() {
                return;
            }
            let sent = range.start..range.start + len;
            self.lost.remove(sent.clone());
            self.next = self.next.max(sent.end);
            tokens.push(Token::Crypto { space, offset: sent.start, len: len as u32 });
        }
    }

    pub(crate) fn on_acked(&mut self, offset: u64, len: u32) {
        // A late acknowledgment may name bytes that were queued again after a Retry. These bytes are sent
        // nevertheless.
        let range = offset..(offset + u64::from(len)).min(self.next);
        if range.is_empty() {
            return;
        }
        self.lost.remove(range.clone());
        self.acked.insert(range);
        let prefix = self.acked.first();
        if let Some(prefix) = prefix.filter(|prefix| prefix.start <= self.base) {
            if prefix.end > self.base {
                self.sending.drain(..(prefix.end - self.base) as usize);
                self.base = prefix.end;
            }
            self.acked.remove(0..self.base);
        }
        if self.sending.is_empty() {
            self.sending = Vec::new();
        }
    }

    pub(crate) fn on_lost(&mut self, offset: u64, len: u32) {
        let start = offset.max(self.base);
        let end = offset + u64::from(len);
        if start < end {
            for gap in self.acked.gaps(start..end) {
                self.lost.insert(gap);
            }
        }
    }

    /// Queues all data to be sent again (after a Retry, RFC 9000 §17.2.5.3).
    pub(crate) fn resend_all(&mut self) {
        self.lost = RangeSet::default();
        self.next = self.base;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_waits_is_bounded_in_bytes_and_in_fragments() {
        let mut stream = CryptoStream::default();
        assert!(stream.on_frame(MAX_UNVALIDATED_CRYPTO, b"x", MAX_UNVALIDATED_CRYPTO).is_err());
        assert!(stream.on_frame(MAX_CRYPTO_BUFFER, b"x", u64::MAX).is_err());
        let taken = (0..1_000).take_while(|n| stream.on_frame(2 * n + 1, b"x", u64::MAX).is_ok()).count();
        assert!((MAX_CRYPTO_FRAGMENTS..=MAX_CRYPTO_FRAGMENTS + 1).contains(&taken), "{taken}");
    }
}
