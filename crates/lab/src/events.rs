//! The event queue: what happens next, in an order that depends on nothing but the simulation.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

use anabranch_wire::Time;

/// Things that will happen, earliest first; those of one instant in the order in which they were added.
#[derive(Debug)]
pub struct Events<T> {
    heap: BinaryHeap<Reverse<Entry<T>>>,
    added: u64,
}

#[derive(Debug)]
struct Entry<T> {
    at: Time,
    sequence: u64,
    what: T,
}

impl<T> Default for Events<T> {
    fn default() -> Self {
        Self { heap: BinaryHeap::new(), added: 0 }
    }
}

impl<T> Events<T> {
    /// `what` will happen at `at`.
    pub fn add(&mut self, at: Time, what: T) {
        self.heap.push(Reverse(Entry { at, sequence: self.added, what }));
        self.added += 1;
    }

    /// When the next thing happens.
    pub fn next_time(&self) -> Option<Time> {
        self.heap.peek().map(|Reverse(entry)| entry.at)
    }

    /// The next thing without taking it.
    pub fn peek(&self) -> Option<(Time, &T)> {
        self.heap.peek().map(|Reverse(entry)| (entry.at, &entry.what))
    }

    /// Takes the next thing.
    pub fn pop(&mut self) -> Option<(Time, T)> {
        self.heap.pop().map(|Reverse(entry)| (entry.at, entry.what))
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
}
