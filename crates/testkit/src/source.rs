//! Values that follow from the bytes of an input, for fuzz targets with structured input.

/// Maximum value of a variable-length integer (RFC 9000 §16).
const MAX_VARINT: u64 = (1 << 62) - 1;

/// Source of the input's bytes, and of zeros after them.
#[derive(Clone, Debug)]
pub struct Source<'a>(&'a [u8]);

impl<'a> Source<'a> {
    /// Creates the source of an input.
    pub fn new(data: &'a [u8]) -> Self {
        Self(data)
    }

    /// Returns whether the input has no bytes left.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the next byte.
    pub fn byte(&mut self) -> u8 {
        let Some((&byte, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        byte
    }

    /// Returns the next two bytes as a number.
    pub fn number(&mut self) -> u16 {
        u16::from_be_bytes([self.byte(), self.byte()])
    }

    /// Returns whether the next byte is odd.
    pub fn flag(&mut self) -> bool {
        self.byte() % 2 == 1
    }

    /// Returns one of `choices`.
    pub fn choose<T: Clone>(&mut self, choices: &[T]) -> T {
        choices[usize::from(self.byte()) % choices.len()].clone()
    }

    /// Returns variable-length integers of all sizes, including those at the limits of encodings.
    pub fn value(&mut self) -> u64 {
        let kind = self.byte();
        let near = u64::from(kind >> 4);
        match kind & 0x0f {
            0..=5 => u64::from(self.byte()),
            6 => 0x3f + near,
            7 => 0x3fff + near,
            8 => 0x3fff_ffff + near,
            9 => (1 << 32) - 8 + near,
            10 => (1 << 60) - 8 + near,
            11 => MAX_VARINT - near,
            _ => (0..8).fold(0, |value, _| value << 8 | u64::from(self.byte())) & MAX_VARINT,
        }
    }

    /// Returns `len` bytes, with zeros after the end of the input.
    pub fn bytes(&mut self, len: usize) -> Vec<u8> {
        (0..len).map(|_| self.byte()).collect()
    }

    /// Returns `N` bytes, with zeros after the end of the input.
    pub fn array<const N: usize>(&mut self) -> [u8; N] {
        std::array::from_fn(|_| self.byte())
    }

    /// Returns a byte string of at most `max` bytes, whose length is the next byte.
    pub fn string(&mut self, max: u8) -> Vec<u8> {
        let len = usize::from(self.byte()) % (usize::from(max) + 1);
        self.bytes(len)
    }

    /// Returns the bytes that are left.
    pub fn rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.0)
    }
}
