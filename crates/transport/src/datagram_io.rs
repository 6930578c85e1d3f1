//! Datagrams that the core receives and sends, and batches of them.

use std::net::SocketAddr;

use anabranch_wire::Ecn;

/// Minimum size, in bytes, of a datagram that carries an Initial packet or validates a path (RFC 9000 §14.1,
/// §8.2.1).
pub(crate) const MIN_INITIAL_SIZE: usize = 1200;

/// Addresses between which a datagram travels.
///
/// `local` may be unspecified (`0.0.0.0` or `::`) until the driver knows which interface is used. The first
/// datagram that arrives with a specified local address determines it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FourTuple {
    /// This end's address and port.
    pub local: SocketAddr,
    /// The peer's address and port.
    pub remote: SocketAddr,
}

impl FourTuple {
    /// Returns whether `other` is the same network path: the remote addresses and the local ports are equal,
    /// and the local IP addresses are equal or one of them is unspecified.
    #[inline]
    pub fn matches(&self, other: &Self) -> bool {
        self == other || self.is_vaguely(other)
    }

    fn is_vaguely(&self, other: &Self) -> bool {
        self.remote == other.remote
            && self.local.port() == other.local.port()
            && (self.local.ip() == other.local.ip()
                || self.local.ip().is_unspecified()
                || other.local.ip().is_unspecified())
    }
}

/// A received UDP datagram in the driver's buffer. The core decrypts in place, so it may overwrite the bytes.
#[derive(Debug)]
pub struct Datagram<'a> {
    /// Addresses of the datagram.
    pub tuple: FourTuple,
    /// ECN codepoint; `None` for Not-ECT.
    pub ecn: Option<Ecn>,
    /// UDP payload.
    pub payload: &'a mut [u8],
}

/// Datagrams to send with one system call. They have the same addresses, the same ECN codepoint and the same
/// size; only the last one may be smaller. Their bytes are contiguous in the [`TransmitBuf`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transmit {
    /// Addresses of the datagrams.
    pub tuple: FourTuple,
    /// ECN codepoint to set.
    pub ecn: Option<Ecn>,
    /// Length of the batch in the buffer, in bytes.
    pub len: usize,
    /// Size of each datagram but the last, in bytes; equal to `len` for a single one.
    pub segment_size: usize,
}

/// Buffer that a driver provides for outgoing batches.
#[derive(Debug)]
pub struct TransmitBuf {
    bytes: Vec<u8>,
    max_datagrams: usize,
    /// Memory for batches of other paths, at most [`MAX_SPARE`].
    spare: Vec<Vec<u8>>,
}

/// Maximum number of unused batches' memory that a buffer keeps.
const MAX_SPARE: usize = 4;

/// Maximum UDP payload of one batch, in bytes: a single `sendmsg` with segmentation offload accepts this
/// much.
pub const MAX_BATCH_BYTES: usize = 65_000;

impl TransmitBuf {
    /// Creates a buffer for batches of at most `max_datagrams` datagrams and [`MAX_BATCH_BYTES`] bytes.
    pub fn new(max_datagrams: usize) -> Self {
        Self { bytes: Vec::new(), max_datagrams: max_datagrams.max(1), spare: Vec::new() }
    }

    /// Returns the maximum number of datagrams in a batch.
    pub fn max_datagrams(&self) -> usize {
        self.max_datagrams
    }

    /// Returns the maximum number of datagrams of `size` bytes in a batch.
    pub(crate) fn most_of(&self, size: usize) -> usize {
        self.max_datagrams.min(MAX_BATCH_BYTES / size).max(1)
    }

    /// Returns the bytes of the batch that `poll_transmit` reported.
    pub fn filled(&self, transmit: &Transmit) -> &[u8] {
        &self.bytes[..transmit.len]
    }

    /// Appends another batch to the one in this buffer, if both together are one: the same addresses and the same ECN codepoint; all
    /// datagrams of the first one are full, and those of the second one are not larger. Nothing smaller follows a single datagram, which
    /// may be a probe that is larger than the path allows. Returns whether it did.
    pub fn append(&mut self, transmit: &mut Transmit, next: &Transmit, bytes: &[u8]) -> bool {
        let size = transmit.segment_size;
        let len = transmit.len + bytes.len();
        let continues = transmit.tuple == next.tuple
            && transmit.ecn == next.ecn
            && transmit.len.is_multiple_of(size)
            && (next.segment_size == size
                || transmit.len > size && next.segment_size == next.len && next.len < size)
            && len.div_ceil(size) <= self.max_datagrams
            && len <= MAX_BATCH_BYTES;
        if continues {
            self.bytes.truncate(transmit.len);
            self.bytes.extend_from_slice(bytes);
            transmit.len = len;
        }
        continues
    }

    /// Returns memory of at least `len` bytes for a batch.
    pub(crate) fn spare(&mut self, len: usize) -> Vec<u8> {
        let mut bytes = self.spare.pop().unwrap_or_default();
        if bytes.len() < len {
            bytes.resize(len, 0);
        }
        bytes
    }

    /// Keeps a batch's memory for the next one.
    pub(crate) fn keep(&mut self, bytes: Vec<u8>) {
        if self.spare.len() < MAX_SPARE {
            self.spare.push(bytes);
        }
    }

    /// Replaces this buffer's bytes by those of a batch.
    pub(crate) fn replace(&mut self, bytes: Vec<u8>) {
        let before = std::mem::replace(&mut self.bytes, bytes);
        self.keep(before);
    }

    /// Returns a slice of `len` bytes. The buffer grows when it is too small, and never shrinks.
    pub(crate) fn room(&mut self, len: usize) -> &mut [u8] {
        if self.bytes.len() < len {
            self.bytes.resize(len, 0);
        }
        &mut self.bytes[..len]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TO: FourTuple = FourTuple { local: ADDRESS, remote: ADDRESS };
    const ADDRESS: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 1);

    fn batch(len: usize, segment_size: usize) -> Transmit {
        Transmit { tuple: TO, ecn: None, len, segment_size }
    }

    #[test]
    fn batches_continue_each_other_if_they_could_have_been_one() {
        let append = |first: Transmit, next: Transmit| {
            let mut buffer = TransmitBuf::new(8);
            buffer.room(first.len).fill(1);
            let mut both = first;
            let appended = buffer.append(&mut both, &next, &vec![2; next.len]);
            assert_eq!(both.len, first.len + if appended { next.len } else { 0 });
            assert!(buffer.filled(&both)[..first.len].iter().all(|byte| *byte == 1));
            assert!(buffer.filled(&both)[first.len..].iter().all(|byte| *byte == 2));
            appended
        };
        assert!(append(batch(1_200, 1_200), batch(1_200, 1_200)));
        assert!(append(batch(1_200, 1_200), batch(3_600, 1_200)));
        assert!(!append(batch(1_400, 1_400), batch(1_200, 1_200)), "the first one may be a probe");
        assert!(append(batch(2_400, 1_200), batch(50, 50)), "the last one may be smaller");
        assert!(append(batch(2_400, 1_200), batch(1_250, 1_200)));
        assert!(!append(batch(1_250, 1_200), batch(1_200, 1_200)), "only the last one may be smaller");
        assert!(!append(batch(1_200, 1_200), batch(1_300, 1_300)));
        assert!(!append(batch(1_200, 1_200), batch(100, 50)));
        assert!(append(batch(7 * 1_200, 1_200), batch(1_200, 1_200)));
        assert!(!append(batch(8 * 1_200, 1_200), batch(1_200, 1_200)), "more than the buffer is for");
        assert!(!append(batch(20_000, 20_000), batch(60_000, 20_000)), "more than one call takes");
        let elsewhere = Transmit { ecn: Some(Ecn::Ect0), ..batch(1_200, 1_200) };
        assert!(!append(batch(1_200, 1_200), elsewhere));
        let moved = FourTuple { remote: SocketAddr::new(ADDRESS.ip(), 2), ..TO };
        assert!(!append(batch(1_200, 1_200), Transmit { tuple: moved, ..batch(1_200, 1_200) }));
    }
}
