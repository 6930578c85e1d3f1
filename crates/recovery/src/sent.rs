//! The packets of one space that are under way, by order.

use core::ops::Range;
use std::collections::VecDeque;

use anabranch_wire::Time;

use crate::rate::Snapshot;

/// Most consecutive orders a sender may skip at once; each takes a slot until it is passed.
pub(crate) const MAX_SKIP: u64 = 1 << 10;

/// Skipped orders (ranges of them) remembered after the packets around them are settled, to catch a peer that
/// acknowledges what it cannot have received (RFC 9000 §21.4).
pub(crate) const MAX_HOLES: usize = 32;

/// Slots one space may hold. A peer that never acknowledges makes the sender forget its oldest packets here,
/// far beyond what any congestion window reaches.
pub(crate) const MAX_TRACKED: usize = 1 << 18;

/// Slots one space may hold beyond what bytes in flight account for: acknowledgments alone, sent to a peer that never
/// acknowledges them. Forgotten, they only make later ACK frames repeat more ranges.
pub const MAX_QUIET_TRACKED: usize = 1 << 14;

/// Fewest bytes that a packet in flight has: header, connection ID of 0 bytes, a frame, the tag.
pub(crate) const MIN_PACKET_SIZE: u64 = 19;

/// A packet as its sender remembers it.
#[derive(Clone, Debug)]
pub struct Sent<T> {
    /// When it left.
    pub time: Time,
    /// Its size in bytes of UDP payload.
    pub size: u16,
    /// Whether it asks for an acknowledgment (RFC 9002 §2).
    pub ack_eliciting: bool,
    /// Whether it counts toward bytes in flight (RFC 9002 §2).
    pub in_flight: bool,
    /// Whether it left with ECT(0).
    pub ect: bool,
    /// Whether it probes for a larger MTU; its loss says nothing about congestion (RFC 9000 §14.4).
    pub mtu_probe: bool,
    /// What its frames owe when it is acknowledged or lost.
    pub owed: T,
}

/// A packet under way.
#[derive(Debug)]
pub(crate) struct Packet<T> {
    pub(crate) sent: Sent<T>,
    pub(crate) snapshot: Snapshot,
    /// Whether it is part of the path's bytes in flight and speaks to its controller: in flight, and sent since the
    /// last migration.
    pub(crate) counted: bool,
}

#[derive(Debug)]
enum Slot<T> {
    Sent(Packet<T>),
    /// Acknowledged, as are (or were, if already forgotten) all of the `run` orders that end here.
    Acked {
        run: u32,
    },
    /// Skipped by the sender.
    Hole,
}

/// What left the front of the list.
pub(crate) enum Front {
    Acked,
    Hole,
}

/// A ring of slots indexed by order − base. Its front is always a packet that is still under way.
#[derive(Debug)]
pub(crate) struct SentList<T> {
    base: u64,
    slots: VecDeque<Slot<T>>,
    /// First and last order of recent holes, ascending.
    holes: VecDeque<(u64, u64)>,
}

impl<T> SentList<T> {
    pub(crate) fn new() -> Self {
        Self { base: 0, slots: VecDeque::new(), holes: VecDeque::new() }
    }

    /// The order after the newest one sent.
    pub(crate) fn next(&self) -> u64 {
        self.base + self.slots.len() as u64
    }

    /// Orders below are settled.
    pub(crate) fn base(&self) -> u64 {
        self.base
    }

    /// Whether a packet has to be forgotten before another is added, with so many bytes in flight.
    pub(crate) fn is_full(&self, bytes_in_flight: u64) -> bool {
        let in_flight = usize::try_from(bytes_in_flight / MIN_PACKET_SIZE).unwrap_or(usize::MAX);
        self.slots.len() >= in_flight.saturating_add(MAX_QUIET_TRACKED).min(MAX_TRACKED)
    }

    /// Appends a packet whose order is at least [`Self::next`].
    pub(crate) fn push(&mut self, order: u64, packet: Packet<T>) {
        let next = self.next();
        debug_assert!(order >= next && order - next <= MAX_SKIP, "orders increase by small steps");
        if order > next {
            if self.holes.len() == MAX_HOLES {
                self.holes.pop_front();
            }
            self.holes.push_back((next, order - 1));
            if self.slots.is_empty() {
                self.base = order;
            } else {
                self.slots.extend((next..order).map(|_| Slot::Hole));
            }
        }
        self.slots.push_back(Slot::Sent(packet));
    }

    /// An order in `low..=high` that was never sent, if one is known.
    pub(crate) fn unsent(&self, low: u64, high: u64) -> Option<u64> {
        if high >= self.next() {
            return Some(high);
        }
        let first = self.holes.partition_point(|&(_, end)| end < low);
        self.holes.get(first).filter(|&&(start, _)| start <= high).map(|&(start, _)| start.max(low))
    }

    /// Takes the packets under way in `low..=high` out, newest first. Costs a step per packet taken plus a step per
    /// earlier acknowledged range, however wide: runs of acknowledged slots are skipped at once. Returns the steps.
    pub(crate) fn take(&mut self, low: u64, high: u64, mut each: impl FnMut(u64, Packet<T>)) -> usize {
        let low = low.max(self.base);
        let Some(newest) = self.next().checked_sub(1) else { return 0 };
        let high = high.min(newest);
        let mut order = high;
        let mut steps = 0;
        while order >= low {
            steps += 1;
            let slot = &mut self.slots[(order - self.base) as usize];
            let step = match slot {
                Slot::Acked { run } => u64::from(*run),
                Slot::Hole => 1,
                Slot::Sent(_) => {
                    if let Slot::Sent(packet) = core::mem::replace(slot, Slot::Acked { run: 1 }) {
                        each(order, packet);
                    }
                    1
                }
            };
            let Some(below) = order.checked_sub(step) else { break };
            order = below;
        }
        if high >= low
            && let Slot::Acked { run } = &mut self.slots[(high - self.base) as usize]
        {
            *run = (*run).max(u32::try_from(high - low + 1).unwrap_or(u32::MAX));
        }
        steps
    }

    /// The oldest packet under way, once [`Self::settle`] has run.
    pub(crate) fn front(&self) -> Option<(u64, &Packet<T>)> {
        match self.slots.front() {
            Some(Slot::Sent(packet)) => Some((self.base, packet)),
            _ => None,
        }
    }

    /// Takes the oldest packet under way out, once [`Self::settle`] has run.
    pub(crate) fn pop(&mut self) -> Option<(u64, Packet<T>)> {
        self.front()?;
        let order = self.base;
        self.base += 1;
        match self.slots.pop_front() {
            Some(Slot::Sent(packet)) => Some((order, packet)),
            _ => None,
        }
    }

    /// Drops settled slots from the front, telling what each was.
    pub(crate) fn settle(&mut self, mut each: impl FnMut(Front)) {
        while let Some(slot) = self.slots.front() {
            match slot {
                Slot::Sent(_) => return,
                Slot::Acked { .. } => each(Front::Acked),
                Slot::Hole => each(Front::Hole),
            }
            self.slots.pop_front();
            self.base += 1;
        }
    }

    /// Packets under way, oldest first.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Packet<T>> {
        self.slots.iter().filter_map(|slot| match slot {
            Slot::Sent(packet) => Some(packet),
            _ => None,
        })
    }

    /// Packets under way among `orders`, with their orders, oldest first.
    pub(crate) fn range(&self, orders: Range<u64>) -> impl DoubleEndedIterator<Item = (u64, &Packet<T>)> {
        let start = orders.start.clamp(self.base, self.next());
        let end = orders.end.clamp(start, self.next());
        let slots = self.slots.range((start - self.base) as usize..(end - self.base) as usize);
        slots.enumerate().filter_map(move |(index, slot)| match slot {
            Slot::Sent(packet) => Some((start + index as u64, packet)),
            _ => None,
        })
    }

    /// Packets under way, oldest first, to be changed.
    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Packet<T>> {
        self.slots.iter_mut().filter_map(|slot| match slot {
            Slot::Sent(packet) => Some(packet),
            _ => None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(orders: impl IntoIterator<Item = u64>) -> SentList<u64> {
        let mut list = SentList::new();
        for order in orders {
            let (time, size, owed) = (Time::from_micros(order), 1200, order);
            let sent =
                Sent { time, size, ack_eliciting: true, in_flight: true, ect: false, mtu_probe: false, owed };
            list.push(order, Packet { sent, snapshot: Snapshot::default(), counted: true });
        }
        list
    }

    fn take(list: &mut SentList<u64>, low: u64, high: u64) -> (Vec<u64>, usize) {
        let mut taken = Vec::new();
        let steps = list.take(low, high, |order, packet| {
            assert_eq!(order, packet.sent.owed);
            taken.push(order);
        });
        (taken, steps)
    }

    #[test]
    fn wide_ranges_behind_a_missing_packet_cost_nothing_twice() {
        let mut list = list(0..10_000);
        assert_eq!(take(&mut list, 1, 9_000).1, 9_000);
        // The same range, one packet wider at a time, as acknowledgments repeat it.
        for high in 9_001..9_500 {
            let (taken, steps) = take(&mut list, 1, high);
            assert_eq!(taken, [high]);
            assert!(steps <= 2, "{steps}");
        }
        assert_eq!(take(&mut list, 0, 9_499), (vec![0], 2));
    }

    #[test]
    fn settled_slots_leave_and_orders_go_on() {
        let mut list = list(0..5);
        take(&mut list, 0, 2);
        let mut settled = 0;
        list.settle(|front| settled += u32::from(matches!(front, Front::Acked)));
        assert_eq!(settled, 3);
        assert_eq!(list.front().map(|(order, _)| order), Some(3));
        assert_eq!(list.pop().map(|(order, _)| order), Some(3));
        assert_eq!(take(&mut list, 0, 4).0, [4]);
        list.settle(|_| ());
        assert!(list.front().is_none() && list.pop().is_none());
        assert_eq!(list.next(), 5);
    }

    #[test]
    fn holes_are_known_even_after_everything_around_them_is_settled() {
        let mut list = list([0, 1, 4, 5, 9]);
        assert_eq!(list.unsent(0, 1), None);
        assert_eq!(list.unsent(0, 4), Some(2));
        assert_eq!(list.unsent(3, 3), Some(3));
        assert_eq!(list.unsent(7, 9), Some(7));
        assert_eq!(list.unsent(9, 10), Some(10));
        for (low, high) in [(0, 1), (4, 5), (9, 9)] {
            take(&mut list, low, high);
        }
        list.settle(|_| ());
        assert_eq!((list.unsent(0, 9), list.unsent(4, 5)), (Some(2), None));
    }

    #[test]
    fn holes_are_remembered_up_to_a_bound() {
        let list = list((0..200).map(|n| n * 2));
        assert_eq!(list.unsent(1, 1), None, "forgotten");
        assert_eq!(list.unsent(397, 397), Some(397));
        assert_eq!(list.holes.len(), MAX_HOLES);
    }
}
