//! Read buffers of relays, whose size follows the length of the last read.

use bytes::BytesMut;

/// Minimum and, below, maximum size of a buffer, in bytes. The size returns to the minimum when a read does
/// not fill it.
const MIN_BUFFER: usize = 1024;
const MAX_BUFFER: usize = 16 * 1024;

/// Buffer whose size doubles after each read that fills it.
pub(super) struct Buffer {
    bytes: BytesMut,
    size: usize,
}

impl Buffer {
    /// Creates a buffer without memory.
    pub(super) fn new() -> Self {
        Self { bytes: BytesMut::new(), size: MIN_BUFFER }
    }

    /// Discards the bytes of the last read. Returns an empty buffer for the next one.
    pub(super) fn for_read(&mut self) -> &mut BytesMut {
        let filled = self.bytes.len() >= self.size;
        self.size = if filled { (2 * self.size).min(MAX_BUFFER) } else { MIN_BUFFER };
        self.bytes.clear();
        if self.bytes.capacity() != self.size {
            self.bytes = BytesMut::with_capacity(self.size);
        }
        &mut self.bytes
    }

    /// Returns the bytes of the last read.
    pub(super) fn read(&self) -> &[u8] {
        &self.bytes
    }

    /// Frees the memory until the next read.
    pub(super) fn release(&mut self) {
        self.bytes = BytesMut::new();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_busy_buffer_grows_to_max_buffer_and_an_idle_one_is_small() {
        let mut buffer = Buffer::new();
        for _ in 0..20 {
            let room = buffer.for_read();
            let size = room.capacity();
            room.resize(size, 7);
            assert!(buffer.read().len() <= MAX_BUFFER);
        }
        assert_eq!(buffer.read().len(), MAX_BUFFER);
        buffer.for_read().extend_from_slice(b"few");
        assert_eq!(buffer.read(), b"few");
        assert_eq!(buffer.for_read().capacity(), MIN_BUFFER);
        buffer.release();
        assert_eq!(buffer.bytes.capacity(), 0);
    }
}
