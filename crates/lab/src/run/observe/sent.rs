//! Number of times that each byte of a stream was sent.

use std::collections::BTreeMap;

/// Counts of one stream. What is sent for the first time follows on what was sent before, so that only
/// repetitions need to be remembered.
#[derive(Debug, Default)]
pub(super) struct Sent {
    /// Bytes sent at least once.
    pub(super) once: u64,
    /// Repetitions of the bytes from each offset on, up to the next one.
    again: BTreeMap<u64, u64>,
    most: u64,
}

impl Sent {
    /// Adds bytes `offset..end`, which are sent, and returns how many of them were sent before.
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

    /// Returns the number of times that the most often sent byte was sent.
    pub(super) fn most(&self) -> u64 {
        self.most + u64::from(self.once > 0)
    }

    /// Has a count of its own begin at `offset`.
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
