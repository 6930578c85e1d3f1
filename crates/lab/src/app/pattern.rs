//! Content whose every byte can be recomputed, so that both ends know the expected data.

/// Infinite sequence of bytes that follows from a key. It does not repeat within the length of any
/// simulation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pattern(pub u64);

impl Pattern {
    /// Fills `buf` with the bytes from `offset` on.
    pub fn fill(self, offset: u64, buf: &mut [u8]) {
        self.words(offset, buf.len(), |range, bytes| buf[range].copy_from_slice(bytes));
    }

    /// Returns whether `data` equals the pattern's bytes from `offset` on.
    pub fn matches(self, offset: u64, data: &[u8]) -> bool {
        let mut equal = true;
        self.words(offset, data.len(), |range, bytes| equal &= data[range] == *bytes);
        equal
    }

    /// Calls `each` with the bytes from `offset` on, up to eight at a time. The range that is passed with
    /// them states their place within the `len` bytes.
    fn words(self, offset: u64, len: usize, mut each: impl FnMut(core::ops::Range<usize>, &[u8])) {
        let mut done = 0;
        while done < len {
            let at = offset + done as u64;
            let word = self.word(at / 8).to_le_bytes();
            let from = (at % 8) as usize;
            let n = (8 - from).min(len - done);
            each(done..done + n, &word[from..from + n]);
            done += n;
        }
    }

    /// Returns word `index`, computed with the finalizer of splitmix64, which spreads every input bit over
    /// the word.
    fn word(self, index: u64) -> u64 {
        let mut z = self.0.wrapping_add(index.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_cut_matches_and_any_change_or_shift_does_not() {
        let pattern = Pattern(42);
        let mut whole = [0; 100];
        pattern.fill(0, &mut whole);
        for from in 0..20 {
            let mut cut = whole[from..from + 50].to_vec();
            assert!(pattern.matches(from as u64, &cut));
            assert!(!pattern.matches(from as u64 + 1, &cut));
            assert!(!Pattern(43).matches(from as u64, &cut));
            cut[from] ^= 1;
            assert!(!pattern.matches(from as u64, &cut));
        }
    }
}
