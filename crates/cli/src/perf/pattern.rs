//! The content of what is sent: the same byte, over and over.

/// Bytes that are written at a time.
pub(super) const PIECE: usize = 64 * 1024;
/// Content of the pieces.
pub(super) static PATTERN: [u8; PIECE] = [0x5a; PIECE];
