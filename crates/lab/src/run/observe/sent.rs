//! Number of times that each byte of a stream was sent.

use std::collections::BTreeMap;

/// Counts of one stream. Bytes are sent for the first time in the order of their offsets, so only
/// retransmissions must be stored.
#[derive(Debug, Default)]
pub(super) struct Sent {
    /// Number of bytes sent at least once.
    pub(super) once: u64,
    /// Number of retransmissions by offset. Each number applies from its offset up to the next offset.
    again: BTreeMap<u64, u64>,
    most: u64,
}

impl Sent {
    /// Adds the sent bytes `offset..end`. Returns how many of them had been sent before.
    pub(super) fn add(&mut self, offset: u64, end: u64) -> u64 {
        let before = self.once;
        self.once = before.max(end);
        let repeated = before.min(end);
        if offset >= repeated {
            return 0;
        }
        self.split(offset);
        self.split(repeated);
        for (_, times) in self.again.range_mut(offset..repeated) {
            *times += 1;
            self.most = self.most.max(*times);
        }
        repeated - offset
    }

    /// Returns the maximum number of times that any byte was sent.
    pub(super) fn most(&self) -> u64 {
        self.most + u64::from(self.once > 0)
    }

    /// Starts a separate count at `offset`.
    fn split(&mut self, offset: u64) {
        let times = self.again.range(..=offset).next_back().map_or(0, |(_, times)| *times);
        self.again.entry(offset).or_insert(times);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Seed;

    #[test]
    fn counts_are_those_of_counting_byte_by_byte() {
        let mut rng = Seed(1).rng("sent");
        let (mut sent, mut bytes) = (Sent::default(), vec![0_u64; 400]);
        let mut next = 0;
        for _ in 0..300 {
            let first = rng.chance(0.3) && next < 390;
            let start = if first { next } else { rng.below(next.max(1)) };
            let end = (start + rng.between(1, 10)).min(if first { 400 } else { next });
            next = next.max(end);
            let before = bytes[start as usize..end.max(start) as usize].iter().filter(|n| **n > 0).count();
            assert_eq!(sent.add(start, end), before as u64);
            bytes[start as usize..end.max(start) as usize].iter_mut().for_each(|n| *n += 1);
            assert_eq!(sent.most(), bytes.iter().copied().max().unwrap());
            assert_eq!(sent.once, next);
        }
        assert!(sent.most() > 3 && next > 300);
    }
}
