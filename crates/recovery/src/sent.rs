//! The packets of one space that are under way, by order.

use core::ops::Range;
use std::collections::VecDeque;

use anabranch_wire::Time;

use crate::rate::Snapshot;

/// Most consecutive orders a sender may skip at once; each takes a slot until it is passed.
pub(crate) const MAX_SKIP: u64 = 1 << 10;

/// Skipped orders (ranges of them) remembered after the packets around them are acknowledged or lost, to catch a peer that
/// acknowledges what it cannot have received (RFC 9000 §21.4).
pub(crate) const MAX_HOLES: usize = 32;

/// Packets one space may hold. A peer that never acknowledges makes the sender forget its oldest packets
/// here, far beyond what any congestion window reaches.
pub(crate) const MAX_TRACKED: usize = 1 << 18;

/// Packets one space may hold that do not count toward bytes in flight: acknowledgments alone, which a peer
/// need not acknowledge (RFC 9000 §13.2.1). Those beyond are not remembered, which only makes later ACK
/// frames repeat more ranges.
pub const MAX_QUIET_TRACKED: usize = 160;

/// Such packets that are remembered one by one; of those that follow only every [`SPARSE`]th is.
const DENSE_QUIET: usize = 128;

/// See [`DENSE_QUIET`].
const SPARSE: u64 = 16;

/// A packet as its sender remembers it.
#[derive(Clone, Debug)]
pub struct Sent<T> {
    /// Time at which it left.
    pub time: Time,
    /// Its size in bytes of UDP payload.
    pub size: u16,
    /// `true` if it asks for an acknowledgment (RFC 9002 §2).
    pub ack_eliciting: bool,
    /// `true` if it counts toward bytes in flight (RFC 9002 §2).
    pub in_flight: bool,
    /// `true` if it left with ECT(0).
    pub ect: bool,
    /// `true` if it probes for a larger MTU; its loss says nothing about congestion (RFC 9000 §14.4).
    pub mtu_probe: bool,
    /// Data of the transport about its frames, returned when it is acknowledged or lost.
    pub owed: T,
}

/// A packet under way.
#[derive(Debug)]
pub(crate) struct Packet<T> {
    pub(crate) sent: Sent<T>,
    pub(crate) snapshot: Snapshot,
    /// `true` if it is part of the path's bytes in flight and speaks to its controller: in flight, and sent
    /// since the last migration.
    pub(crate) counted: bool,
}

#[derive(Debug)]
enum State<T> {
    Sent(Packet<T>),
    /// Acknowledged, as are (or were, if already forgotten) all of the `run` slots that end here.
    Acked {
        run: u32,
    },
}

/// State of one order.
#[derive(Debug)]
struct Slot<T> {
    order: u64,
    state: State<T>,
}

/// Slots by ascending order; orders that the sender has skipped, or does not remember, have none. Once
/// [`Self::compact`] has run, its front is a packet that is still under way.
#[derive(Debug)]
pub(crate) struct SentList<T> {
    /// The order after the newest one sent.
    next: u64,
    slots: VecDeque<Slot<T>>,
    /// Packets under way that are not in flight.
    quiet: usize,
    /// First and last order of recent holes, ascending.
    holes: VecDeque<(u64, u64)>,
}

impl<T> SentList<T> {
    pub(crate) fn new() -> Self {
        Self { next: 0, slots: VecDeque::new(), quiet: 0, holes: VecDeque::new() }
    }

    /// Returns the order after the newest one sent.
    pub(crate) fn next(&self) -> u64 {
        self.next
    }

    /// Returns the oldest order that is not acknowledged or lost.
    pub(crate) fn base(&self) -> u64 {
        self.slots.front().map_or(self.next, |slot| slot.order)
    }

    /// Returns whether a packet has to be forgotten before another is added.
    pub(crate) fn is_full(&self) -> bool {
        self.slots.len() >= MAX_TRACKED
    }

    /// Returns whether a packet is remembered that is not in flight.
    fn remembers_quiet(&self, order: u64) -> bool {
        self.quiet < DENSE_QUIET || self.quiet < MAX_QUIET_TRACKED && order.is_multiple_of(SPARSE)
    }

    /// Appends a packet whose order is at least [`Self::next`]; one that is not in flight only if there is
    /// room for such packets.
    pub(crate) fn push(&mut self, order: u64, packet: Packet<T>) {
        let next = self.next;
        debug_assert!(order >= next && order - next <= MAX_SKIP, "orders increase by small steps");
        if order > next {
            if self.holes.len() == MAX_HOLES {
                self.holes.pop_front();
            }
            self.holes.push_back((next, order - 1));
        }
        self.next = order + 1;
        let quiet = !packet.sent.in_flight;
        if quiet && !self.remembers_quiet(order) {
            return;
        }
        self.quiet += usize::from(quiet);
        self.slots.push_back(Slot { order, state: State::Sent(packet) });
    }

    /// Returns an order in `low..=high` that was never sent, if one is known.
    pub(crate) fn unsent(&self, low: u64, high: u64) -> Option<u64> {
        if high >= self.next {
            return Some(high);
        }
        let first = self.holes.partition_point(|&(_, end)| end < low);
        self.holes.get(first).filter(|&&(start, _)| start <= high).map(|&(start, _)| start.max(low))
    }

    /// Returns the index of the first slot whose order is at least `order`.
    fn index(&self, order: u64) -> usize {
        let Some(base) = self.slots.front().map(|slot| slot.order) else { return 0 };
        // As many slots as orders stand in front of it at most; without gaps it is just as many.
        let most = usize::try_from(order.saturating_sub(base)).unwrap_or(usize::MAX).min(self.slots.len());
        let is_below = |at: usize| self.slots[at].order < order;
        if most == 0 || is_below(most - 1) {
            return most;
        }
        // The gaps: a binary search in front of it.
        let (mut low, mut high) = (0, most - 1);
        while low < high {
            let middle = low.midpoint(high);
            if is_below(middle) { low = middle + 1 } else { high = middle }
        }
        low
    }

    /// Takes the packets under way in `low..=high` out, newest first. Costs a step per packet taken plus a
    /// step per earlier acknowledged range, however wide: runs of acknowledged slots are skipped at once.
    /// Returns the steps.
    pub(crate) fn take(&mut self, low: u64, high: u64, mut each: impl FnMut(u64, Packet<T>)) -> usize {
        let (first, end) = (self.index(low), self.index(high.saturating_add(1)));
        let mut steps = 0;
        let mut left = end;
        while left > first {
            steps += 1;
            let slot = &mut self.slots[left - 1];
            let step = match &mut slot.state {
                State::Acked { run } => *run as usize,
                state @ State::Sent(_) => {
                    if let State::Sent(packet) = core::mem::replace(state, State::Acked { run: 1 }) {
                        self.quiet -= usize::from(!packet.sent.in_flight);
                        each(slot.order, packet);
                    }
                    1
                }
            };
            left = left.saturating_sub(step);
        }
        if end > first
            && let State::Acked { run } = &mut self.slots[end - 1].state
        {
            *run = (*run).max(u32::try_from(end - first).unwrap_or(u32::MAX));
        }
        steps
    }

    /// Returns the oldest packet under way, once [`Self::compact`] has run.
    pub(crate) fn front(&self) -> Option<(u64, &Packet<T>)> {
        match self.slots.front() {
            Some(Slot { order, state: State::Sent(packet) }) => Some((*order, packet)),
            _ => None,
        }
    }

    /// Takes the oldest packet under way out, once [`Self::compact`] has run.
    pub(crate) fn pop(&mut self) -> Option<(u64, Packet<T>)> {
        self.front()?;
        match self.slots.pop_front() {
            Some(Slot { order, state: State::Sent(packet) }) => {
                self.quiet -= usize::from(!packet.sent.in_flight);
                Some((order, packet))
            }
            _ => None,
        }
    }

    /// Drops acknowledged slots from the front and returns their number.
    pub(crate) fn compact(&mut self) -> usize {
        let mut dropped = 0;
        while matches!(self.slots.front(), Some(Slot { state: State::Acked { .. }, .. })) {
            self.slots.pop_front();
            dropped += 1;
        }
        dropped
    }

    /// Returns the packets under way, oldest first.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Packet<T>> {
        self.slots.iter().filter_map(|slot| match &slot.state {
            State::Sent(packet) => Some(packet),
            State::Acked { .. } => None,
        })
    }

    /// Returns the packets under way among `orders`, with their orders, oldest first.
    pub(crate) fn range(&self, orders: Range<u64>) -> impl DoubleEndedIterator<Item = (u64, &Packet<T>)> {
        let start = self.index(orders.start);
        let end = self.index(orders.end).max(start);
        self.slots.range(start..end).filter_map(|slot| match &slot.state {
            State::Sent(packet) => Some((slot.order, packet)),
            State::Acked { .. } => None,
        })
    }

    /// Returns the packets under way, oldest first, to be changed.
    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Packet<T>> {
        self.slots.iter_mut().filter_map(|slot| match &mut slot.state {
            State::Sent(packet) => Some(packet),
            State::Acked { .. } => None,
        })
    }
}

#[cfg(test)]
mod tests;
