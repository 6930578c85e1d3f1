//! Invariants of the order of a flow's messages, compared with a model that remembers everything.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use anabranch_testkit::source::Source;
use anabranch_transport::datagram::Order;
use anabranch_transport::wire::{PathId, Time};
use bytes::Bytes;

/// Maximum number of messages that an input sends.
const MAX_MESSAGES: usize = 400;

/// Overhead that is counted for each message, in bytes.
const OVERHEAD: usize = 64;

/// Number of later messages on a path after which an earlier one counts as lost there.
const THRESHOLD: usize = 3;

const HOLD: Duration = Duration::from_millis(100);

/// Everything that happened. Numbers do not wrap around here.
#[derive(Default)]
struct Model {
    /// Number after the largest one that was delivered.
    next: i64,
    /// All numbers that arrived. The owner of the order drops duplicates.
    seen: BTreeSet<i64>,
    /// Messages that wait: their lengths and their arrivals.
    held: BTreeMap<i64, (usize, Time)>,
    /// Arrivals on each path: the last one's time, and all numbers.
    paths: BTreeMap<u32, (Time, Vec<i64>)>,
}

pub(crate) fn run(data: &[u8]) {
    let mut source = Source::new(data);
    let mut order = Order::new(HOLD);
    let mut model = Model::default();
    let mut now = Time::from_millis(1_000);
    for _ in 0..MAX_MESSAGES {
        if source.is_empty() {
            break;
        }
        match source.byte() % 8 {
            0 => now += Duration::from_millis(source.byte().into()),
            1 => model.deliver(&mut order, now, usize::from(source.number())),
            kind => {
                let jump = if kind == 2 { i64::from(source.number()) << 12 } else { 0 };
                let number = model.next + jump + i64::from(source.byte() % 16) - 4;
                let path = u32::from(source.byte() % 4);
                model.push(&mut order, now, path, number.max(0), usize::from(source.byte()));
            }
        }
        assert_eq!(order.bytes(), model.bytes());
    }
    now += HOLD;
    model.deliver(&mut order, now, usize::MAX);
    assert_eq!((order.bytes(), order.due(), model.held.len()), (0, None, 0), "no message is dropped");
}

/// Returns a message that has its number at its beginning.
fn message(number: i64, len: usize) -> Bytes {
    let mut message = number.to_be_bytes().to_vec();
    message.resize(8 + len, 0);
    message.into()
}

impl Model {
    fn bytes(&self) -> usize {
        self.held.values().map(|(len, _)| len + OVERHEAD).sum()
    }

    fn push(&mut self, order: &mut Order, now: Time, path: u32, number: i64, len: usize) {
        let is_duplicate = !self.seen.insert(number);
        if is_duplicate {
            return;
        }
        let arrivals = self.paths.entry(path).or_insert((now, Vec::new()));
        arrivals.0 = now;
        arrivals.1.push(number);
        let message = message(number, len);
        self.held.insert(number, (message.len(), now));
        order.push(now, PathId(path), number as u32, message);
    }

    /// Takes all messages that wait for no other one.
    fn deliver(&mut self, order: &mut Order, now: Time, max_bytes: usize) {
        let mut bytes = self.bytes();
        while let Some(message) = order.pop(now, max_bytes) {
            let number = i64::from_be_bytes(*message.first_chunk().expect("a number"));
            let since = self.held.values().map(|(_, since)| *since).min();
            let (&first, _) = self.held.first_key_value().expect("a message that waited");
            assert_eq!(number, first, "the first of those that wait");
            let is_due = since.is_some_and(|since| now >= since + HOLD);
            let is_early = number > self.next && bytes <= max_bytes && !is_due;
            assert!(!is_early || self.are_lost_before(now, number), "nothing overtakes a message in time");
            self.held.remove(&number);
            self.next = self.next.max(number + 1);
            bytes = self.bytes();
            assert_eq!(order.bytes(), bytes);
        }
        assert!(bytes <= max_bytes || self.held.is_empty());
        let Some((&first, _)) = self.held.first_key_value() else { return };
        assert!(first > self.next, "a message for which nothing is missing");
        // Each message that waits is delivered in time.
        let oldest = self.held.values().map(|(_, since)| *since).min();
        assert!(order.due() == oldest.map(|since| since + HOLD) && order.due() > Some(now));
    }

    /// Returns whether each path in use delivered enough messages after those before `number`.
    fn are_lost_before(&self, now: Time, number: i64) -> bool {
        let in_use = self.paths.values().filter(|(last, _)| now < *last + HOLD);
        in_use
            .into_iter()
            .all(|(_, numbers)| numbers.iter().filter(|arrived| **arrived >= number).count() >= THRESHOLD)
    }
}
