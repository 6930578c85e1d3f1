//! Content that is sent: one byte, repeated.

/// Number of bytes of one write.
pub(super) const PIECE: usize = 64 * 1024;
/// Content of one write.
pub(super) static PATTERN: [u8; PIECE] = [0x5a; PIECE];
