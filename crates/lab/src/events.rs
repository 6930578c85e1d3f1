//! Event queue of a simulation. The order of its entries depends only on their times and the order of their
//! addition.

use std::cmp::{Ordering, Reverse};
use std::collections::{BinaryHeap, VecDeque};

use anabranch_wire::Time;

/// Future events, earliest first. Events with the same time are in the order in which they were added.
///
/// For each link of a network, most events are added in order of time. The caller can add such events to a
/// numbered line, which is a FIFO. Only the heads of the lines are compared.
#[derive(Debug)]
pub struct Events<T> {
    heap: BinaryHeap<Reverse<Entry<T>>>,
    lines: Vec<VecDeque<Entry<T>>>,
    added: u64,
    /// Location of the next entry; `None` if the queue is empty.
    next: Option<Front>,
}

#[derive(Clone, Copy, Debug)]
enum Front {
    Heap,
    Line(usize),
}

#[derive(Debug)]
struct Entry<T> {
    at: Time,
    sequence: u64,
    what: T,
}

impl<T> Default for Events<T> {
    fn default() -> Self {
        Self { heap: BinaryHeap::new(), lines: Vec::new(), added: 0, next: None }
    }
}

impl<T> Events<T> {
    /// Adds the event `what` at the time `at`.
    pub fn add(&mut self, at: Time, what: T) {
        let entry = self.entry(at, what);
        if self.is_next(at) {
            self.next = Some(Front::Heap);
        }
        self.heap.push(Reverse(entry));
    }

    /// Adds the event `what` at the time `at` to a line. If `at` is before the last entry of the line, the
    /// event goes to the heap, which costs more. Line numbers start at 0 and should be few.
    pub fn add_in_line(&mut self, line: usize, at: Time, what: T) {
        if line >= self.lines.len() {
            self.lines.resize_with(line + 1, VecDeque::new);
        }
        if self.lines[line].back().is_some_and(|last| last.at > at) {
            return self.add(at, what);
        }
        let entry = self.entry(at, what);
        if self.is_next(at) {
            self.next = Some(Front::Line(line));
        }
        self.lines[line].push_back(entry);
    }

    fn entry(&mut self, at: Time, what: T) -> Entry<T> {
        self.added += 1;
        Entry { at, sequence: self.added, what }
    }

    /// Returns whether an entry for the time `at` would precede all others.
    fn is_next(&self, at: Time) -> bool {
        self.next_time().is_none_or(|next| at < next)
    }

    fn first(&self) -> Option<&Entry<T>> {
        match self.next? {
            Front::Heap => self.heap.peek().map(|Reverse(entry)| entry),
            Front::Line(line) => self.lines[line].front(),
        }
    }

    /// Returns the time of the next entry.
    pub fn next_time(&self) -> Option<Time> {
        self.first().map(|entry| entry.at)
    }

    /// Returns the next entry without removing it.
    pub fn peek(&self) -> Option<(Time, &T)> {
        self.first().map(|entry| (entry.at, &entry.what))
    }

    /// Removes and returns the next entry.
    pub fn pop(&mut self) -> Option<(Time, T)> {
        let entry = match self.next? {
            Front::Heap => self.heap.pop().map(|Reverse(entry)| entry),
            Front::Line(line) => self.lines[line].pop_front(),
        };
        let heads = self
            .lines
            .iter()
            .enumerate()
            .filter_map(|(at, line)| Some((line.front()?.key(), Front::Line(at))));
        let heap = self.heap.peek().map(|Reverse(entry)| (entry.key(), Front::Heap));
        self.next = heads.chain(heap).min_by_key(|(key, _)| *key).map(|(_, place)| place);
        entry.map(|entry| (entry.at, entry.what))
    }
}

impl<T> Entry<T> {
    fn key(&self) -> (Time, u64) {
        (self.at, self.sequence)
    }
}

impl<T> PartialEq for Entry<T> {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl<T> Eq for Entry<T> {}

impl<T> PartialOrd for Entry<T> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> Ord for Entry<T> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.key().cmp(&other.key())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Seed;

    #[test]
    fn earliest_first_and_first_come_first_served() {
        let mut events = Events::default();
        for (at, what) in [(5, 'c'), (1, 'a'), (5, 'd'), (2, 'b')] {
            events.add(Time::from_millis(at), what);
        }
        assert_eq!(events.next_time(), Some(Time::from_millis(1)));
        let order: String = std::iter::from_fn(|| events.pop()).map(|(_, what)| what).collect();
        assert_eq!(order, "abcd");
    }

    #[test]
    fn lines_change_nothing_about_the_order() {
        let mut rng = Seed(3).rng("lines");
        let (mut in_lines, mut plain) = (Events::default(), Events::default());
        for n in 0..5_000 {
            if rng.chance(0.6) {
                let at = Time::from_micros(n / 2 + rng.below(20));
                match rng.below(4) {
                    3 => in_lines.add(at, n),
                    line => in_lines.add_in_line(line as usize, at, n),
                }
                plain.add(at, n);
            } else {
                assert_eq!(in_lines.peek(), plain.peek());
                assert_eq!(in_lines.pop(), plain.pop());
            }
        }
        let rest: Vec<_> = std::iter::from_fn(|| in_lines.pop()).collect();
        assert_eq!(rest, std::iter::from_fn(|| plain.pop()).collect::<Vec<_>>());
        assert!(rest.len() > 500);
    }
}
