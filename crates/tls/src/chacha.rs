//! ChaCha20 block function (RFC 8439 §2.3), for header protection.
//!
//! aws-lc-rs returns five bytes of keystream, but a packet format may mask more of them, so the block
//! function is implemented here. It has no table and no branch that depends on the key, so it runs in
//! constant time.

/// The text "expand 32-byte k".
const CONSTANTS: Row = [0x6170_7865, 0x3320_646e, 0x7962_2d32, 0x6b20_6574];

/// Row of four words. Operations on whole rows let the compiler use vector registers.
type Row = [u32; 4];

/// Returns the first 16 bytes of the keystream block for `counter` and `nonce`.
///
/// A header protection sample consists of the counter (4 bytes, little endian) and the nonce (RFC 9001
/// §5.4.4).
pub(crate) fn keystream(key: &[u8; 32], sample: &[u8; 16]) -> [u8; 16] {
    let (low, high) = key.split_at(16);
    let start = [CONSTANTS, row(low), row(high), row(sample)];
    let mut state = start;
    for _ in 0..10 {
        double_round(&mut state);
    }
    let mut out = [0; 16];
    for ((bytes, word), start) in out.chunks_exact_mut(4).zip(state[0]).zip(start[0]) {
        bytes.copy_from_slice(&word.wrapping_add(start).to_le_bytes());
    }
    out
}

fn row(bytes: &[u8]) -> Row {
    core::array::from_fn(|i| {
        u32::from_le_bytes([bytes[4 * i], bytes[4 * i + 1], bytes[4 * i + 2], bytes[4 * i + 3]])
    })
}

/// Applies four quarter rounds to the columns and four to the diagonals.
#[inline]
fn double_round([a, b, c, d]: &mut [Row; 4]) {
    quarter_rounds(a, b, c, d);
    (*b, *c, *d) = (turn(*b, 1), turn(*c, 2), turn(*d, 3));
    quarter_rounds(a, b, c, d);
    (*b, *c, *d) = (turn(*b, 3), turn(*c, 2), turn(*d, 1));
}

/// Applies the quarter round of RFC 8439 §2.1 to four columns at once.
#[inline]
fn quarter_rounds(a: &mut Row, b: &mut Row, c: &mut Row, d: &mut Row) {
    step(a, b, d, 16);
    step(c, d, b, 12);
    step(a, b, d, 8);
    step(c, d, b, 7);
}

/// Computes `x += y; z = (z ^ x) <<< bits`.
#[inline]
fn step(x: &mut Row, y: &Row, z: &mut Row, bits: u32) {
    for i in 0..4 {
        x[i] = x[i].wrapping_add(y[i]);
        z[i] = (z[i] ^ x[i]).rotate_left(bits);
    }
}

#[inline]
fn turn(row: Row, by: usize) -> Row {
    core::array::from_fn(|i| row[(i + by) % 4])
}

#[cfg(test)]
mod tests {
    use super::keystream;
    use crate::suite::Suite;
    use aws_lc_rs::aead::quic;

    /// Checks the test vector of RFC 8439 §2.3.2.
    #[test]
    fn block_function_vector() {
        let key: [u8; 32] = core::array::from_fn(|i| u8::try_from(i).unwrap());
        let sample = [1, 0, 0, 0, 0, 0, 0, 9, 0, 0, 0, 0x4a, 0, 0, 0, 0];
        let expected =
            [0x10, 0xf1, 0xe7, 0xe4, 0xd1, 0x3b, 0x59, 0x15, 0x50, 0x0f, 0xdd, 0x1f, 0xa3, 0x20, 0x71, 0xc4];
        assert_eq!(keystream(&key, &sample), expected);
    }

    #[test]
    fn agrees_with_aws_lc_on_its_five_bytes() {
        assert_eq!(Suite::ChaCha20Poly1305.key_len(), 32);
        for seed in 0..=255u8 {
            let key: [u8; 32] = core::array::from_fn(|i| seed.wrapping_mul(31).wrapping_add(i as u8 * 7));
            let sample: [u8; 16] = core::array::from_fn(|i| seed ^ (i as u8 * 13));
            let theirs = quic::HeaderProtectionKey::new(&quic::CHACHA20, &key).unwrap();
            assert_eq!(keystream(&key, &sample)[..5], theirs.new_mask(&sample).unwrap());
        }
    }
}
