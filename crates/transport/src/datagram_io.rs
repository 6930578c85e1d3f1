//! Datagrams that the core receives and sends, and batches of them.

use std::net::SocketAddr;

use anabranch_wire::Ecn;

/// Smallest datagram that carries an Initial packet or validates a path (RFC 9000 §14.1, §8.2.1).
pub(crate) const MIN_INITIAL_SIZE: usize = 1200;

/// The two addresses that a datagram travels between.
///
/// `local` may be unspecified (`0.0.0.0` or `::`) as long as the driver does not know which interface is
/// used; the first datagram that arrives with a specified local address fixes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FourTuple {
    /// This end's address and port.
    pub local: SocketAddr,
    /// The peer's address and port.
    pub remote: SocketAddr,
}

impl FourTuple {
    /// Returns whether `other` is the same network path: the same remote address, and local addresses that do
    /// not contradict.
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

/// A received UDP datagram, borrowed from the driver's buffer, which the core may scribble over.
#[derive(Debug)]
pub struct Datagram<'a> {
    /// Addresses that the datagram came from and to.
    pub tuple: FourTuple,
    /// Its ECN codepoint, `None` for Not-ECT.
    pub ecn: Option<Ecn>,
    /// UDP payload.
    pub payload: &'a mut [u8],
}

/// Datagrams to send with one system call: same addresses, same mark, all of one size but the last, which may
/// be smaller. Their bytes lie one after another in the [`TransmitBuf`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transmit {
    /// From and to.
    pub tuple: FourTuple,
    /// ECN codepoint to set.
    pub ecn: Option<Ecn>,
    /// Bytes in the buffer that belong to this batch.
    pub len: usize,
    /// Size of each datagram but the last; equal to `len` for a single one.
    pub segment_size: usize,
}

/// The buffer that a driver lends for outgoing batches.
#[derive(Debug)]
pub struct TransmitBuf {
    bytes: Vec<u8>,
    max_datagrams: usize,
}

/// Largest UDP payload that one batch may hold: what a single `sendmsg` with segmentation offload takes.
pub const MAX_BATCH_BYTES: usize = 65_000;

impl TransmitBuf {
    /// Creates a buffer for batches of at most `max_datagrams` datagrams and [`MAX_BATCH_BYTES`] bytes.
    pub fn new(max_datagrams: usize) -> Self {
        Self { bytes: Vec::new(), max_datagrams: max_datagrams.max(1) }
    }

    /// Returns the maximum number of datagrams in a batch.
    pub fn max_datagrams(&self) -> usize {
        self.max_datagrams
    }

    /// Returns the bytes of the batch that `poll_transmit` reported.
    pub fn filled(&self, transmit: &Transmit) -> &[u8] {
        &self.bytes[..transmit.len]
    }

    /// Returns room for `len` bytes; the buffer grows once, then stays.
    pub(crate) fn room(&mut self, len: usize) -> &mut [u8] {
        if self.bytes.len() < len {
            self.bytes.resize(len, 0);
        }
        &mut self.bytes[..len]
    }
}
