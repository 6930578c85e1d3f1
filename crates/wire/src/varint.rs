//! Variable-length integers (RFC 9000 §16): their values and sizes. The cursors read and write them.

use core::fmt;

/// Maximum value of a varint, 2^62 - 1.
pub const MAX_VARINT: u64 = (1 << 62) - 1;

/// Integer that fits into a varint, at most 2^62 - 1 (RFC 9000 §16). Application error codes have this type,
/// for example.
///
/// ```
/// use anabranch_wire::VarInt;
///
/// const ABANDON: VarInt = VarInt::from_u32(0x3e);
/// assert_eq!(ABANDON.get(), 62);
/// assert!(VarInt::try_from(u64::MAX).is_err());
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct VarInt(pub(crate) u64);

/// Integer above 2^62 - 1, which does not fit into a varint (RFC 9000 §16).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VarIntTooLarge(pub u64);

impl fmt::Display for VarIntTooLarge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} is more than 2^62 - 1, the largest value of a variable-length integer", self.0)
    }
}

impl core::error::Error for VarIntTooLarge {}

impl VarInt {
    /// Smallest value, 0.
    pub const ZERO: Self = Self(0);
    /// Largest value, 2^62 - 1.
    pub const MAX: Self = Self(MAX_VARINT);

    /// Creates a varint from an integer that always fits.
    pub const fn from_u32(value: u32) -> Self {
        Self(value as u64)
    }

    /// Returns the value.
    pub const fn get(self) -> u64 {
        self.0
    }
}

impl From<u32> for VarInt {
    fn from(value: u32) -> Self {
        Self::from_u32(value)
    }
}

impl From<VarInt> for u64 {
    fn from(value: VarInt) -> Self {
        value.0
    }
}

impl PartialEq<u64> for VarInt {
    fn eq(&self, other: &u64) -> bool {
        self.0 == *other
    }
}

impl TryFrom<u64> for VarInt {
    type Error = VarIntTooLarge;

    fn try_from(value: u64) -> Result<Self, VarIntTooLarge> {
        if value > MAX_VARINT { Err(VarIntTooLarge(value)) } else { Ok(Self(value)) }
    }
}

impl fmt::Display for VarInt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Returns the size of the shortest encoding of `value`: 1, 2, 4 or 8 bytes. `value` must not exceed
/// [`MAX_VARINT`].
#[inline]
pub const fn varint_len(value: u64) -> usize {
    debug_assert!(value <= MAX_VARINT);
    match value {
        0..=0x3f => 1,
        0x40..=0x3fff => 2,
        0x4000..=0x3fff_ffff => 4,
        _ => 8,
    }
}

/// Appends `value` as a forward varint, which all versions use outside of frames. A value above
/// [`MAX_VARINT`] is replaced by [`MAX_VARINT`].
#[inline]
pub fn push_varint(out: &mut Vec<u8>, value: u64) {
    debug_assert!(value <= MAX_VARINT);
    let value = if value > MAX_VARINT { MAX_VARINT } else { value };
    let len = varint_len(value);
    let prefix = u64::from(len.trailing_zeros()) << (8 * len - 2);
    out.extend_from_slice(&(value | prefix).to_be_bytes()[8 - len..]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn larger_values_are_no_varints() {
        assert_eq!(VarInt::try_from(MAX_VARINT), Ok(VarInt::MAX));
        assert_eq!(VarInt::try_from(MAX_VARINT + 1), Err(VarIntTooLarge(1 << 62)));
        assert_eq!(VarInt::from(u32::MAX).get(), u64::from(u32::MAX));
        assert_eq!(VarInt::MAX.to_string(), "4611686018427387903");
    }

    #[test]
    fn lengths_change_at_the_powers_of_two() {
        for (value, len) in
            [(0, 1), (63, 1), (64, 2), (16383, 2), (16384, 4), ((1 << 30) - 1, 4), (1 << 30, 8)]
        {
            assert_eq!(varint_len(value), len, "{value}");
        }
        assert_eq!(varint_len(MAX_VARINT), 8);
    }
}
