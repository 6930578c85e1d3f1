//! Encoding of packet numbers (RFC 9000 §17.1, appendix A).

use crate::varint::MAX_VARINT;

/// Returns the number of packet numbers up to `pn` that the peer may not have received, if it has
/// acknowledged `largest_acked` (RFC 9000 A.2).
#[inline]
pub const fn unacked_numbers(pn: u64, largest_acked: Option<u64>) -> u64 {
    match largest_acked {
        Some(largest) => pn.saturating_sub(largest),
        None => pn.saturating_add(1),
    }
}

/// Returns the encoded length of a packet number in bytes, 1 to 4. The peer can decode it if its largest
/// received number is at most `unacked` away (RFC 9000 A.2).
#[inline]
pub const fn packet_number_len(unacked: u64) -> usize {
    // The encoding must distinguish twice as many numbers as are unacknowledged: ceil(log2(unacked)) + 1
    // bits.
    let bits = u64::BITS - unacked.saturating_sub(1).leading_zeros() + 1;
    match bits.div_ceil(8) {
        bytes @ 0..=4 => bytes as usize,
        _ => 4,
    }
}

/// Returns the packet number whose low `bits` bits are `truncated` and that is closest to the successor of
/// `largest` (RFC 9000 A.3).
///
/// `largest` is the largest packet number of the space in a successfully decrypted packet.
#[inline]
pub const fn decode_packet_number(largest: Option<u64>, truncated: u64, bits: u32) -> u64 {
    let expected = match largest {
        Some(largest) => largest + 1,
        None => 0,
    };
    let window = 1u64 << bits;
    let candidate = expected & !(window - 1) | truncated;
    if candidate + window / 2 <= expected && candidate <= MAX_VARINT - window {
        candidate + window
    } else if candidate > expected + window / 2 && candidate >= window {
        candidate - window
    } else {
        candidate
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Examples of RFC 9000 A.2 and A.3.
    #[test]
    fn vectors() {
        assert_eq!(packet_number_len(unacked_numbers(0xac_5c02, Some(0xab_e8b3))), 2);
        assert_eq!(packet_number_len(unacked_numbers(0xac_e8fe, Some(0xab_e8b3))), 3);
        assert_eq!(decode_packet_number(Some(0xa82f_30ea), 0x9b32, 16), 0xa82f_9b32);
    }

    #[test]
    fn the_first_packets_take_one_byte() {
        assert_eq!(packet_number_len(unacked_numbers(0, None)), 1);
        assert_eq!(packet_number_len(unacked_numbers(127, None)), 1);
        assert_eq!(packet_number_len(unacked_numbers(128, None)), 2);
        assert_eq!(decode_packet_number(None, 0, 8), 0);
        assert_eq!(decode_packet_number(None, 255, 8), 255);
    }

    /// Checks that the window extends from half its size below the expected number (exclusive) to half above
    /// it (inclusive).
    #[test]
    fn edges_of_the_window() {
        for pn in [1000 - 127, 1000, 1000 + 128] {
            assert_eq!(decode_packet_number(Some(999), pn & 0xff, 8), pn);
        }
        assert_eq!(decode_packet_number(Some(999), (1000 - 128) & 0xff, 8), 1000 + 128);
        assert_eq!(decode_packet_number(Some(999), (1000 + 129) & 0xff, 8), 1000 - 127);
    }

    #[test]
    fn numbers_never_leave_their_range() {
        assert_eq!(decode_packet_number(Some(MAX_VARINT - 1), 0, 8), MAX_VARINT - 255);
        assert_eq!(decode_packet_number(Some(5), 250, 8), 250, "there is nothing below 0");
    }

    proptest! {
        /// Checks that decoding reverses truncation if the peer's largest number is between the acknowledged
        /// and the sent one.
        #[test]
        fn decoding_reverses_truncation(acked in 0..MAX_VARINT / 2, ahead in 1..1u64 << 31, seen in 0..u64::MAX) {
            let pn = acked + ahead;
            let largest = acked + seen % ahead;
            let bits = 8 * packet_number_len(unacked_numbers(pn, Some(acked))) as u32;
            let truncated = pn & ((1 << bits) - 1);
            prop_assert_eq!(decode_packet_number(Some(largest), truncated, bits), pn);
        }

        #[test]
        fn any_input_gives_a_packet_number(largest in 0..=MAX_VARINT, truncated in 0..u64::MAX, bits in 1..=32u32) {
            let truncated = truncated & ((1 << bits) - 1);
            let pn = decode_packet_number(Some(largest), truncated, bits);
            prop_assert!(pn <= MAX_VARINT + 1);
            prop_assert_eq!(pn & ((1 << bits) - 1), truncated);
        }
    }
}
