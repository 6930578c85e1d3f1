//! Received bytes of a stream.

use std::collections::BTreeMap;

/// Received bytes of one stream.
#[derive(Debug, Default)]
pub(super) struct Arrived {
    /// Offset of the next byte in order.
    next: u64,
    /// Disjoint ranges of bytes beyond `next`: the end of each by its start.
    beyond: BTreeMap<u64, u64>,
    /// Number of bytes in the ranges of `beyond`.
    pub(super) waiting: u64,
}

impl Arrived {
    /// Adds the received bytes `start..end`.
    pub(super) fn add(&mut self, start: u64, end: u64) {
        let (mut start, mut end) = (start.max(self.next), end);
        if start >= end {
            return;
        }
        if start == self.next && self.beyond.first_key_value().is_none_or(|(first, _)| *first > end) {
            self.next = end;
            return;
        }
        if let Some((&before, &until)) = self.beyond.range(..start).next_back()
            && until >= start
        {
            start = before;
        }
        while let Some((&first, &until)) = self.beyond.range(start..=end).next() {
            self.beyond.remove(&first);
            self.waiting -= until - first;
            end = end.max(until);
        }
        if start == self.next {
            self.next = end;
        } else {
            self.beyond.insert(start, end);
            self.waiting += end - start;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Seed;

    #[test]
    fn what_waits_is_what_has_come_beyond_a_gap() {
        for seed in 0..50 {
            let mut rng = Seed(seed).rng("arrived");
            let (mut arrived, mut bytes) = (Arrived::default(), [false; 200]);
            while bytes.contains(&false) {
                let start = rng.below(200);
                let end = (start + rng.between(0, 20)).min(200);
                arrived.add(start, end);
                bytes[start as usize..end as usize].fill(true);
                let next = bytes.iter().position(|came| !came).unwrap_or(200);
                let waiting = bytes[next..].iter().filter(|came| **came).count();
                assert_eq!((arrived.next, arrived.waiting), (next as u64, waiting as u64));
            }
            assert!(arrived.beyond.is_empty());
        }
    }
}
