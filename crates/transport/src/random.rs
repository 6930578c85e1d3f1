//! The core's only source of randomness: a generator with a seed from the driver.

use anabranch_wire::ConnectionId;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};

/// Seeded random generator. The same seed makes a connection behave identically. It stores the seed and the position in the generator's
/// output, not the generator, which is nine times as large: every connection has one, and uses it rarely.
pub(crate) struct Random {
    seed: [u8; 32],
    /// Number of 32-bit words that were used.
    used: u64,
}

impl Random {
    pub(crate) fn new(seed: [u8; 32]) -> Self {
        Self { seed, used: 0 }
    }

    pub(crate) fn bytes<const N: usize>(&mut self) -> [u8; N] {
        let mut bytes = [0; N];
        let mut generator = ChaCha8Rng::from_seed(self.seed);
        generator.set_word_pos(self.used.into());
        generator.fill_bytes(&mut bytes);
        self.used += N.div_ceil(4) as u64;
        bytes
    }

    pub(crate) fn u64(&mut self) -> u64 {
        u64::from_le_bytes(self.bytes())
    }

    /// Returns a random number below `bound`, or 0 if `bound` is 0. The slight bias is irrelevant for bounds
    /// far below 2^64.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.u64().checked_rem(bound).unwrap_or(0)
    }

    /// Returns a connection ID of `len` random bytes.
    pub(crate) fn cid(&mut self, len: usize) -> ConnectionId {
        let bytes: [u8; anabranch_wire::MAX_CID_LEN] = self.bytes();
        ConnectionId::new(&bytes[..len.min(bytes.len())]).unwrap_or(ConnectionId::EMPTY)
    }
}

impl std::fmt::Debug for Random {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Random").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_those_of_the_generator_one_after_the_other() {
        let mut random = Random::new([7; 32]);
        let mut generator = ChaCha8Rng::from_seed([7; 32]);
        for _ in 0..100 {
            let mut bytes = [0; 5];
            generator.fill_bytes(&mut bytes);
            assert_eq!(random.bytes(), bytes);
            assert_eq!(random.u64(), generator.next_u64());
            let mut bytes = [0; 20];
            generator.fill_bytes(&mut bytes);
            assert_eq!(random.bytes(), bytes);
        }
    }

    /// Connection IDs of ten connections: neither those of one connection nor those of all have anything in
    /// common (RFC 9000 §5.1).
    #[test]
    fn connection_ids_have_nothing_in_common() {
        const IDS: usize = 10_000;
        let mut all = vec![[0u32; 256]; 8];
        for connection in 0..10 {
            let mut random = Random::new([connection; 32]);
            let mut counts = vec![[0u32; 256]; 8];
            for _ in 0..IDS {
                let cid = random.cid(8);
                for (at, byte) in cid.iter().enumerate() {
                    counts[at][usize::from(*byte)] += 1;
                    all[at][usize::from(*byte)] += 1;
                }
            }
            // A value has a share of 39 with a standard deviation of 6.2, and in all 391 with 20.
            assert!(counts.iter().flatten().all(|count| (5..80).contains(count)), "connection {connection}");
        }
        assert!(all.iter().flatten().all(|count| (280..510).contains(count)));
    }
}
