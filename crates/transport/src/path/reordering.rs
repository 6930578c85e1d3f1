//! Reordering of received packets: by how many packet numbers, and by how much time, later packets overtook an earlier
//! one.

use std::collections::VecDeque;
use std::time::Duration;

use anabranch_wire::Time;

/// Upper limits of the classes of [`ReorderingStats::distances`], in packet numbers. The last class has none.
pub const REORDERING_DISTANCES: [u64; 11] = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024];
/// Upper limits of the classes of [`ReorderingStats::delays`]. The last class has none.
pub const REORDERING_DELAYS: [Duration; 11] = [
    Duration::from_micros(100),
    Duration::from_micros(200),
    Duration::from_micros(500),
    Duration::from_millis(1),
    Duration::from_millis(2),
    Duration::from_millis(5),
    Duration::from_millis(10),
    Duration::from_millis(20),
    Duration::from_millis(50),
    Duration::from_millis(100),
    Duration::from_millis(200),
];

/// Maximum number of gaps of a path that are remembered. A gap is removed when all of its packets have arrived. If
/// there are too many gaps, the one that began first is dropped.
const MAX_GAPS: usize = 64;

/// Received 1-RTT packets that arrived after one with a larger number, by how far and how long they were overtaken
/// (compare the reordering extent and the late-time offset of RFC 4737 §4.2). Duplicates do not count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ReorderingStats {
    /// Number of packets for each class of distances. A packet's distance is the largest number received before it,
    /// minus its own number. With a single packet number space, numbers of other paths lie in between.
    pub distances: [u64; REORDERING_DISTANCES.len() + 1],
    /// Largest distance.
    pub max_distance: u64,
    /// Number of packets for each class of delays. A packet's delay is the time since the arrival of the first packet
    /// that overtook it.
    pub delays: [u64; REORDERING_DELAYS.len() + 1],
    /// Longest delay.
    pub max_delay: Duration,
    /// Sum of all delays.
    pub total_delay: Duration,
    /// Sum of all distances.
    pub total_distance: u64,
    /// Number of overtaken packets that are in no class of delays, because their gap was dropped when too many others
    /// had begun.
    pub untimed: u64,
}

impl ReorderingStats {
    /// Returns the number of packets that were overtaken.
    pub fn packets(&self) -> u64 {
        self.distances.iter().sum()
    }

    /// Adds the counts of another path or connection.
    pub fn add(&mut self, other: &Self) {
        self.distances.iter_mut().zip(other.distances).for_each(|(sum, count)| *sum += count);
        self.delays.iter_mut().zip(other.delays).for_each(|(sum, count)| *sum += count);
        self.max_distance = self.max_distance.max(other.max_distance);
        self.max_delay = self.max_delay.max(other.max_delay);
        self.total_delay += other.total_delay;
        self.total_distance += other.total_distance;
        self.untimed += other.untimed;
    }
}

/// Consecutive packet numbers that were missing when a larger one arrived.
#[derive(Clone, Copy, Debug)]
struct Gap {
    first: u64,
    /// Number of packets that have not arrived.
    missing: u64,
    since: Time,
}

/// Gaps of a path and counts of the packets that closed them. Created at the first gap; packets in order do not change
/// it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Reordering {
    /// Gaps in ascending order of their packet numbers.
    gaps: VecDeque<Gap>,
    stats: ReorderingStats,
}

impl Reordering {
    /// Records that packet `number` arrived while the packets from `first` up to it were missing.
    pub(crate) fn on_gap(&mut self, now: Time, first: u64, number: u64) {
        if self.gaps.len() == MAX_GAPS {
            self.gaps.pop_front();
        }
        self.gaps.push_back(Gap { first, missing: number - first, since: now });
    }

    /// Counts a packet that arrives after the larger number `largest`.
    pub(crate) fn on_overtaken(&mut self, now: Time, number: u64, largest: u64) {
        let stats = &mut self.stats;
        let distance = largest - number;
        stats.distances[REORDERING_DISTANCES.partition_point(|limit| *limit < distance)] += 1;
        stats.max_distance = stats.max_distance.max(distance);
        stats.total_distance += distance;
        let place = self.gaps.partition_point(|gap| gap.first <= number).checked_sub(1);
        let Some((place, gap)) = place.and_then(|place| Some((place, self.gaps.get_mut(place)?))) else {
            stats.untimed += 1;
            return;
        };
        let delay = now - gap.since;
        gap.missing = gap.missing.saturating_sub(1);
        if gap.missing == 0 {
            self.gaps.remove(place);
        }
        stats.delays[REORDERING_DELAYS.partition_point(|limit| *limit < delay)] += 1;
        stats.max_delay = stats.max_delay.max(delay);
        stats.total_delay += delay;
    }

    pub(crate) fn stats(&self) -> ReorderingStats {
        self.stats
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Time {
        Time::from_millis(ms)
    }

    #[test]
    fn distance_and_delay_count_from_the_packet_that_overtook_first() {
        let mut reordering = Reordering::default();
        // Packets 5 and 6 are missing when packet 7 arrives; packet 9 is missing when packet 10 arrives.
        reordering.on_gap(at(10), 5, 7);
        reordering.on_gap(at(12), 9, 10);
        reordering.on_overtaken(at(13), 6, 10);
        reordering.on_overtaken(at(14), 9, 11);
        let stats = reordering.stats();
        assert_eq!((stats.packets(), stats.max_distance, stats.total_distance), (2, 4, 6));
        assert_eq!(stats.distances[..4], [0, 1, 1, 0]);
        assert_eq!(
            (stats.max_delay, stats.total_delay),
            (Duration::from_millis(3), Duration::from_millis(5))
        );
        // A delay of 2 ms is in the class up to 2 ms, and one of 3 ms in the class up to 5 ms.
        assert_eq!(stats.delays[4..6], [1, 1]);
        assert_eq!(stats.untimed, 0);
        // Packet 5 is still missing; packets 6 and 9 have arrived.
        assert_eq!(reordering.gaps.iter().map(|gap| (gap.first, gap.missing)).collect::<Vec<_>>(), [(5, 1)]);
    }

    #[test]
    fn at_most_max_gaps_are_remembered() {
        let mut reordering = Reordering::default();
        let gaps = MAX_GAPS as u64 + 8;
        (0..gaps).for_each(|gap| reordering.on_gap(at(gap), 2 * gap, 2 * gap + 1));
        assert_eq!(reordering.gaps.len(), MAX_GAPS);
        reordering.on_overtaken(at(100), 2, 2 * gaps);
        assert_eq!((reordering.stats().untimed, reordering.stats().packets()), (1, 1));
        reordering.on_overtaken(at(100), 2 * gaps - 2, 2 * gaps);
        assert_eq!(reordering.stats().delays.iter().sum::<u64>(), 1);
    }

    #[test]
    fn what_exceeds_all_limits_is_in_the_last_class() {
        let mut reordering = Reordering::default();
        reordering.on_gap(at(0), 0, 5_000);
        reordering.on_overtaken(at(10_000), 0, 5_000);
        let stats = reordering.stats();
        assert_eq!((stats.distances[11], stats.delays[11]), (1, 1));
        let mut sum = stats;
        sum.add(&stats);
        assert_eq!((sum.packets(), sum.max_distance, sum.total_distance), (2, 5_000, 10_000));
    }
}
