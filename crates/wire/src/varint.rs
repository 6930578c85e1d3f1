//! Variable-length integers (RFC 9000 §16): sizes. The cursors read and write them.

/// The largest value of a varint, 2^62 - 1.
pub const MAX_VARINT: u64 = (1 << 62) - 1;

/// Bytes of `value`'s shortest encoding: 1, 2, 4 or 8. A value above [`MAX_VARINT`] is the caller's bug.
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

/// Appends `value` front to back, as outside of frames in every version. A value above [`MAX_VARINT`] becomes it.
#[inline]
pub fn push_varint(out: &mut Vec<u8>, value: u64) {
    let value = if value > MAX_VARINT { MAX_VARINT } else { value };
    let len = varint_len(value);
    let prefix = u64::from(len.trailing_zeros()) << (8 * len - 2);
    out.extend_from_slice(&(value | prefix).to_be_bytes()[8 - len..]);
}

#[cfg(test)]
mod tests {
    use super::*;

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
