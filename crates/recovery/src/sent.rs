//! Packets of one space that are neither acknowledged nor lost. A packet's *order* is its position in the
//! sequence of packets that were sent on the path in this space.

use core::ops::Range;
use std::collections::VecDeque;

use anabranch_wire::Time;

use crate::rate::Snapshot;

/// Maximum number of consecutive orders that a sender may skip at once.
pub(crate) const MAX_SKIP: u64 = 1 << 10;

/// Maximum number of ranges of skipped orders that are remembered. They are kept after the packets around
/// them are acknowledged or lost, to detect a peer that acknowledges packets that were never sent (RFC 9000
/// §21.4).
pub(crate) const MAX_HOLES: usize = 32;

/// Maximum number of packets tracked in one space. If a peer never acknowledges any, the sender drops the
/// oldest ones. The limit is far beyond any congestion window.
pub(crate) const MAX_TRACKED: usize = 1 << 18;

/// Maximum number of tracked packets of one space that do not count towards bytes in flight. They contain
/// only ACK frames, and a peer need not acknowledge them (RFC 9000 §13.2.1). Further ones are not tracked;
/// the only effect is that later ACK frames repeat more ranges.
pub const MAX_QUIET_TRACKED: usize = 160;

/// Number of tracked packets that do not count towards bytes in flight, up to which every such packet is
/// tracked. Beyond it, only packets whose order is a multiple of [`SPARSE`] are tracked.
const DENSE_QUIET: usize = 128;

/// Divisor of the orders of packets that are tracked beyond [`DENSE_QUIET`].
const SPARSE: u64 = 16;

/// Sender's record of a packet.
#[derive(Clone, Debug)]
pub struct Sent<T> {
    /// Time at which the packet was sent.
    pub time: Time,
    /// Size in bytes of UDP payload.
    pub size: u16,
    /// `true` if the packet is ack-eliciting (RFC 9002 §2).
    pub ack_eliciting: bool,
    /// `true` if the packet counts towards bytes in flight (RFC 9002 §2).
    pub in_flight: bool,
    /// `true` if the packet was sent with ECT(0).
    pub ect: bool,
    /// `true` if the packet is an MTU probe. Its loss does not indicate congestion (RFC 9000 §14.4).
    pub mtu_probe: bool,
    /// The transport's record of the packet's frames, returned when the packet is acknowledged or lost.
    pub owed: T,
}

/// Sent packet that is neither acknowledged nor lost.
#[derive(Debug)]
pub(crate) struct Packet<T> {
    pub(crate) sent: Sent<T>,
    pub(crate) snapshot: Snapshot,
    /// `true` if the packet counts towards the path's bytes in flight and its controller: it is in flight,
    /// and congestion control has not restarted since it was sent.
    pub(crate) counted: bool,
}

#[derive(Debug)]
enum State<T> {
    Sent(Packet<T>),
    /// Acknowledged packet. It is the last of `run` consecutive acknowledged slots, some of which may already
    /// be removed.
    Acked {
        run: u32,
    },
}

/// State of one packet.
#[derive(Debug)]
struct Slot<T> {
    order: u64,
    state: State<T>,
}

/// Slots of the tracked packets, by ascending order. Orders that were skipped or are not tracked have no
/// slot. After [`Self::compact`], the front slot is a packet that is neither acknowledged nor lost.
#[derive(Debug)]
pub(crate) struct SentList<T> {
    /// Order that follows that of the newest sent packet.
    next: u64,
    slots: VecDeque<Slot<T>>,
    /// Number of tracked packets that do not count towards bytes in flight.
    quiet: usize,
    /// First and last order of each recent range of skipped orders, ascending.
    holes: VecDeque<(u64, u64)>,
}

impl<T> SentList<T> {
    pub(crate) fn new() -> Self {
        Self { next: 0, slots: VecDeque::new(), quiet: 0, holes: VecDeque::new() }
    }

    /// Frees memory beyond that of the tracked packets.
    pub(crate) fn shrink(&mut self) {
        self.slots.shrink_to_fit();
        self.holes.shrink_to_fit();
    }

    /// Returns the order that follows that of the newest sent packet.
    pub(crate) fn next(&self) -> u64 {
        self.next
    }

    /// Returns the order of the oldest packet that is neither acknowledged nor lost.
    pub(crate) fn base(&self) -> u64 {
        self.slots.front().map_or(self.next, |slot| slot.order)
    }

    /// Returns whether the oldest packet must be removed before another one is added.
    pub(crate) fn is_full(&self) -> bool {
        self.slots.len() >= MAX_TRACKED
    }

    /// Returns whether the packet `order`, which does not count towards bytes in flight, is to be tracked.
    fn remembers_quiet(&self, order: u64) -> bool {
        self.quiet < DENSE_QUIET || self.quiet < MAX_QUIET_TRACKED && order.is_multiple_of(SPARSE)
    }

    /// Appends a packet whose order is at least [`Self::next`]. A packet that does not count towards bytes in
    /// flight is dropped if the limit of such packets is reached.
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
        // At most `order - base` slots precede the slot; exactly that many if there are no gaps.
        let most = usize::try_from(order.saturating_sub(base)).unwrap_or(usize::MAX).min(self.slots.len());
        let is_below = |at: usize| self.slots[at].order < order;
        if most == 0 || is_below(most - 1) {
            return most;
        }
        // There are gaps, so a binary search below that bound is needed.
        let (mut low, mut high) = (0, most - 1);
        while low < high {
            let middle = low.midpoint(high);
            if is_below(middle) { low = middle + 1 } else { high = middle }
        }
        low
    }

    /// Removes the unacknowledged packets in `low..=high` and passes them to `each`, newest first. The cost
    /// is one step for each packet and one for each range acknowledged earlier, regardless of its width,
    /// because runs of acknowledged slots are skipped. Returns the number of steps.
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

    /// Returns the oldest unacknowledged packet. [`Self::compact`] must have been called before.
    pub(crate) fn front(&self) -> Option<(u64, &Packet<T>)> {
        match self.slots.front() {
            Some(Slot { order, state: State::Sent(packet) }) => Some((*order, packet)),
            _ => None,
        }
    }

    /// Removes and returns the oldest unacknowledged packet. [`Self::compact`] must have been called before.
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

    /// Removes acknowledged slots from the front and returns their number.
    pub(crate) fn compact(&mut self) -> usize {
        let mut dropped = 0;
        while matches!(self.slots.front(), Some(Slot { state: State::Acked { .. }, .. })) {
            self.slots.pop_front();
            dropped += 1;
        }
        dropped
    }

    /// Returns the unacknowledged packets, oldest first.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Packet<T>> {
        self.slots.iter().filter_map(|slot| match &slot.state {
            State::Sent(packet) => Some(packet),
            State::Acked { .. } => None,
        })
    }

    /// Returns the unacknowledged packets within `orders`, with their orders, oldest first.
    pub(crate) fn range(&self, orders: Range<u64>) -> impl DoubleEndedIterator<Item = (u64, &Packet<T>)> {
        let start = self.index(orders.start);
        let end = self.index(orders.end).max(start);
        self.slots.range(start..end).filter_map(|slot| match &slot.state {
            State::Sent(packet) => Some((slot.order, packet)),
            State::Acked { .. } => None,
        })
    }

    /// Returns mutable references to the unacknowledged packets, oldest first.
    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Packet<T>> {
        self.slots.iter_mut().filter_map(|slot| match &mut slot.state {
            State::Sent(packet) => Some(packet),
            State::Acked { .. } => None,
        })
    }
}

#[cfg(test)]
mod tests;
