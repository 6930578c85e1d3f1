use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

const FAST: PathId = PathId(0);
const SLOW: PathId = PathId(1);

/// State of a receiver that acknowledges in the order news-first: all received numbers, and the largest of
/// each path.
#[derive(Default)]
struct Receiver {
    received: RangeSet,
    largest: BTreeMap<PathId, u64>,
    news: News,
}

impl Receiver {
    fn receive(&mut self, path: PathId, numbers: impl IntoIterator<Item = u64>) {
        for number in numbers {
            self.received.insert(number..number + 1);
            let largest = self.largest.entry(path).or_default();
            *largest = number.max(*largest);
            self.news.on_packet(path, number);
        }
    }

    /// Returns the ranges of a frame of `path`, including both ends, and records it as sent.
    fn tell(&mut self, path: PathId, max_ranges: usize) -> Vec<(u64, u64)> {
        self.tell_and_name(path, max_ranges).0
    }

    fn tell_and_name(&mut self, path: PathId, max_ranges: usize) -> (Vec<(u64, u64)>, u32) {
        let chosen = self.news.choose(&self.received, path, self.largest[&path], max_ranges);
        let frame = self.news.frame;
        self.news.on_named(&chosen, frame);
        (chosen.into_iter().map(|range| (range.start, range.end - 1)).collect(), frame)
    }
}

#[test]
fn a_slow_path_is_heard_below_a_fast_one() {
    let mut receiver = Receiver::default();
    // The fast path delivers even numbers. The odd ones are in flight on the slow path, and 1 and 3 arrive
    // late.
    receiver.receive(FAST, (0..100).map(|n| 2 * n));
    while receiver.news.has_unnamed(FAST) {
        receiver.tell(FAST, 5);
    }
    receiver.receive(SLOW, [1, 3]);
    assert_eq!(receiver.tell(SLOW, 5), [(0, 3)]);
    // The fast path's next frame repeats packets 1 and 3, next to its own news and packets that were reported
    // only once.
    receiver.receive(FAST, [200, 202]);
    let ranges = receiver.tell(FAST, 5);
    assert_eq!(ranges[..2], [(202, 202), (200, 200)]);
    assert_eq!(ranges.len(), 5);
}

#[test]
fn frames_of_a_path_leave_other_news_to_its_own_path() {
    let mut receiver = Receiver::default();
    receiver.receive(FAST, [0, 2, 4]);
    receiver.receive(SLOW, [1]);
    assert_eq!(receiver.tell(FAST, 5), [(4, 4), (2, 2), (0, 0)]);
    assert!(!receiver.news.has_unnamed(FAST) && receiver.news.has_unnamed(SLOW));
    assert_eq!(receiver.tell(SLOW, 5), [(0, 1)]);
    assert_eq!(receiver.tell(FAST, 5), [(4, 4), (0, 2)]);
}

#[test]
fn a_path_without_acknowledgments_does_not_keep_its_news_to_itself() {
    let mut receiver = Receiver::default();
    receiver.receive(FAST, [0, 2]);
    receiver.receive(SLOW, [1]);
    for _ in 0..PATIENCE {
        assert!(!receiver.tell(FAST, 5).iter().any(|range| (range.0..=range.1).contains(&1)));
    }
    assert_eq!(receiver.tell(FAST, 5), [(0, 2)]);
    assert!(!receiver.news.has_unnamed(SLOW));
}

#[test]
fn what_was_told_three_times_makes_way_and_comes_back_where_there_is_room() {
    let mut receiver = Receiver::default();
    receiver.receive(FAST, [0, 2, 4, 6]);
    for _ in 0..MAX_REPEATS {
        assert_eq!(receiver.tell(FAST, 4), [(6, 6), (4, 4), (2, 2), (0, 0)]);
    }
    // Nothing is fresh: the frame has the largest number, and two old arrivals at a time.
    assert_eq!(receiver.tell(FAST, 4), [(6, 6), (2, 2), (0, 0)]);
    assert_eq!(receiver.tell(FAST, 4), [(6, 6), (4, 4)]);
    receiver.receive(FAST, [8, 10, 12]);
    assert_eq!(receiver.tell(FAST, 3), [(12, 12), (10, 10), (8, 8)]);
}

#[test]
fn what_the_peer_heard_is_not_repeated() {
    let mut receiver = Receiver::default();
    receiver.receive(FAST, [0, 2]);
    let (_, first) = receiver.tell_and_name(FAST, 5);
    receiver.receive(FAST, [4]);
    let (_, second) = receiver.tell_and_name(FAST, 5);
    receiver.receive(FAST, [6]);
    receiver.news.on_heard(first);
    assert_eq!(receiver.tell(FAST, 5), [(6, 6), (4, 4)]);
    receiver.news.on_heard(second);
    assert_eq!(receiver.tell(FAST, 5), [(6, 6)]);
    receiver.news.on_heard(second + 100);
    assert_eq!(receiver.tell(FAST, 5), [(6, 6)]);
}

#[test]
fn half_a_frame_of_news_is_pressing() {
    let mut receiver = Receiver::default();
    receiver.receive(FAST, [0, 1, 2]);
    assert!(!receiver.news.is_pressing(FAST, 5));
    receiver.receive(FAST, [4]);
    assert!(receiver.news.is_pressing(FAST, 5) && !receiver.news.is_pressing(FAST, 6));
    assert!(!receiver.news.is_pressing(SLOW, 5), "each path for itself");
    receiver.tell(FAST, 5);
    assert!(!receiver.news.is_pressing(FAST, 2));
}

/// Row M12: gaps in shared packet numbers cost memory only up to [`MAX_NEWS`] and [`MAX_OLD_NEWS`].
#[test]
fn row_m12_news_is_bounded() {
    let mut receiver = Receiver::default();
    receiver.receive(FAST, (0..10 * MAX_NEWS as u64).map(|n| 2 * n));
    assert_eq!(receiver.news.fresh.len(), MAX_NEWS);
    for _ in 0..4 * MAX_NEWS {
        receiver.tell(FAST, 8);
    }
    assert_eq!((receiver.news.fresh.len(), receiver.news.old.len()), (0, MAX_OLD_NEWS));
}

/// Generates the packets of two or three paths that share their numbers, in order of arrival, as pairs of
/// path and number.
fn arrivals() -> impl Strategy<Value = Vec<(PathId, u64)>> {
    // One-way delays in packet times; the largest ratio is 200 to 1.
    let paths = proptest::collection::vec((1u64..=200, 1u32..=8, 0u32..20), 2..=3);
    let packets = proptest::collection::vec((any::<u32>(), 0u32..100, 0u64..3), 1..400);
    (paths, packets).prop_map(|(paths, packets)| {
        let total: u32 = paths.iter().map(|(_, weight, _)| weight).sum();
        let mut arrivals: Vec<(u64, u64, PathId)> = Vec::new();
        for (number, (draw, luck, jitter)) in packets.into_iter().enumerate() {
            let mut left = draw % total;
            let path = paths.iter().position(|(_, weight, _)| {
                let chosen = left < *weight;
                left = left.saturating_sub(*weight);
                chosen
            });
            let Some(path) = path else { continue };
            let (delay, _, loss) = paths[path];
            if luck >= loss {
                arrivals.push((number as u64 + delay + jitter, number as u64, PathId(path as u32)));
            }
        }
        arrivals.sort_unstable();
        arrivals.into_iter().map(|(_, number, path)| (path, number)).collect()
    })
}

/// A receiver whose frames are checked when they are written.
struct Watched {
    receiver: Receiver,
    max_ranges: usize,
    /// Packets that have arrived and that no frame of their path has reported yet.
    owed: BTreeMap<PathId, Vec<u64>>,
    /// Path of each packet, number of frames that reported it, and number of frames of its own path since it
    /// arrived.
    named: BTreeMap<u64, (PathId, u32, u32)>,
}

impl Watched {
    fn ack(&mut self, path: PathId) -> Result<(), TestCaseError> {
        let largest = self.receiver.largest[&path];
        let ranges = self.receiver.tell(path, self.max_ranges);
        prop_assert_eq!(ranges[0].1, largest);
        prop_assert!(ranges.len() <= self.max_ranges);
        prop_assert!(ranges.windows(2).all(|pair| pair[1].1 + 1 < pair[0].0), "{:?}", ranges);
        for range in &ranges {
            let part = self.receiver.received.range_of(range.0);
            prop_assert!(part.is_some_and(|part| range.1 < part.end), "{:?} did not arrive", range);
        }
        let named = |pn: u64| ranges.iter().any(|range| (range.0..=range.1).contains(&pn));
        let owed = self.owed.remove(&path).unwrap_or_default();
        prop_assert!(owed.iter().all(|pn| named(*pn)), "{:?} lacks some of {:?}", ranges, owed);
        for (pn, (own, told, chances)) in &mut self.named {
            *told += u32::from(named(*pn));
            *chances += u32::from(*own == path);
            prop_assert!(
                *told >= 2 || *chances <= MAX_CHANCES,
                "{} on {:?} was told once in {}",
                pn,
                own,
                chances
            );
        }
        self.named.retain(|_, (_, told, _)| *told < 2);
        Ok(())
    }
}

/// Number of frames of its own path within which a packet must be reported a second time.
const MAX_CHANCES: u32 = 8;

proptest! {
    /// Checks for any paths and at least five ranges: the first ACK of its path reports each packet, and one
    /// of the next few reports it again. No frame reports a packet that did not arrive, or a number above the
    /// path's largest.
    #[test]
    fn every_packet_is_told_at_once_and_again(
        arrivals in arrivals(),
        max_ranges in 5usize..40,
        threshold in 1usize..33,
    ) {
        let receiver = Receiver::default();
        let mut watched = Watched { receiver, max_ranges, owed: BTreeMap::new(), named: BTreeMap::new() };
        for (path, pn) in arrivals {
            watched.receiver.receive(path, [pn]);
            watched.named.insert(pn, (path, 0, 0));
            let owed = watched.owed.entry(path).or_default();
            owed.push(pn);
            if owed.len() >= threshold || watched.receiver.news.is_pressing(path, max_ranges) {
                watched.ack(path)?;
            }
        }
        for path in watched.owed.keys().copied().collect::<Vec<_>>() {
            watched.ack(path)?;
        }
    }
}

#[test]
fn serial_numbers_of_frames_begin_anew() {
    let mut receiver = Receiver::default();
    receiver.news.frame = u32::MAX;
    receiver.receive(FAST, [0, 2]);
    let (_, last) = receiver.tell_and_name(FAST, 5);
    let (_, first) = receiver.tell_and_name(FAST, 5);
    assert_eq!((last, first), (u32::MAX, 0));
    receiver.receive(FAST, [4]);
    receiver.news.on_heard(first);
    assert_eq!(receiver.tell(FAST, 5), [(4, 4)]);
}
