//! The core's only source of randomness: a generator with a seed from the driver.

use anabranch_wire::ConnectionId;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};

/// Seeded random generator. The same seed makes a connection behave identically.
#[derive(Debug)]
pub(crate) struct Random(ChaCha8Rng);

impl Random {
    pub(crate) fn new(seed: [u8; 32]) -> Self {
        Self(ChaCha8Rng::from_seed(seed))
    }

    pub(crate) fn bytes<const N: usize>(&mut self) -> [u8; N] {
        let mut bytes = [0; N];
        self.0.fill_bytes(&mut bytes);
        bytes
    }

    pub(crate) fn u64(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// Returns a random number below `bound`, or 0 if `bound` is 0. The slight bias is irrelevant for bounds
    /// far below 2^64.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.0.next_u64().checked_rem(bound).unwrap_or(0)
    }

    /// Returns a connection ID of `len` random bytes.
    pub(crate) fn cid(&mut self, len: usize) -> ConnectionId {
        let bytes: [u8; anabranch_wire::MAX_CID_LEN] = self.bytes();
        ConnectionId::new(&bytes[..len.min(bytes.len())]).unwrap_or(ConnectionId::EMPTY)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
