//! Bottleneck: a drop-tail queue in front of a transmitter of limited rate.

use std::collections::VecDeque;

use anabranch_wire::{Ecn, Time};

use super::{Element, Lost, Next, Rate};
use crate::packet::Packet;

/// Bytes of IPv4 and UDP headers around each datagram's payload.
const IPV4_UDP: u32 = 28;

/// Maximum length of a queue, in packets or bytes. The packet in transmission does not count, as in ns-3.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// Number of packets, regardless of their size.
    Packets(usize),
    /// Number of bytes, including headers.
    Bytes(u64),
}

impl Limit {
    /// Returns whether a further packet of `size` bytes stays within the limit if `packets` packets with
    /// `bytes` bytes already wait.
    fn allows(self, packets: usize, bytes: u64, size: u64) -> bool {
        match self {
            Self::Packets(limit) => packets < limit,
            Self::Bytes(limit) => bytes + size <= limit,
        }
    }
}

/// Transmitter of limited rate behind a drop-tail queue.
#[derive(Clone, Debug)]
pub struct Queue {
    rate: Rate,
    limit: Limit,
    mark: Option<Limit>,
    overhead: u32,
    /// Packets that waited at the last arrival: the time at which the transmission of each begins, and its
    /// size.
    waiting: VecDeque<(Time, u64)>,
    waiting_bytes: u64,
    /// Time at which the transmitter has sent everything accepted so far.
    free_at: Time,
}

impl Queue {
    /// Creates a transmitter of `rate` with a queue of `limit`. On the wire each datagram is 28 bytes larger
    /// than its payload.
    pub fn new(rate: Rate, limit: Limit) -> Self {
        Self {
            rate,
            limit,
            mark: None,
            overhead: IPV4_UDP,
            waiting: VecDeque::new(),
            waiting_bytes: 0,
            free_at: Time::ZERO,
        }
    }

    /// Sets the number of header bytes that each datagram has on the wire in addition to its payload.
    pub fn overhead(mut self, bytes: u32) -> Self {
        self.overhead = bytes;
        self
    }

    /// Sets the threshold for CE marks. A packet that would make the queue longer than `threshold` is marked
    /// if it is ECN-capable (RFC 3168).
    pub fn mark_above(mut self, threshold: Limit) -> Self {
        self.mark = Some(threshold);
        self
    }

    /// Returns the transmission rate.
    pub(super) fn rate(&self) -> &Rate {
        &self.rate
    }

    /// Removes the packets whose transmission has begun by `at`.
    fn advance(&mut self, at: Time) {
        while let Some(&(begins, size)) = self.waiting.front() {
            if begins > at {
                break;
            }
            self.waiting_bytes -= size;
            self.waiting.pop_front();
        }
    }
}

impl Element for Queue {
    fn push(&mut self, at: Time, mut packet: Packet, next: &mut Next<'_>) {
        self.advance(at);
        let size = packet.payload.len() as u64 + u64::from(self.overhead);
        let begins = self.free_at.max(at);
        if begins > at {
            if !self.limit.allows(self.waiting.len(), self.waiting_bytes, size) {
                next.lose(packet, Lost::Overflow);
                return;
            }
            let marked = |mark: Limit| !mark.allows(self.waiting.len(), self.waiting_bytes, size);
            if packet.ecn.is_some() && self.mark.is_some_and(marked) {
                packet.ecn = Some(Ecn::Ce);
            }
            self.waiting.push_back((begins, size));
            self.waiting_bytes += size;
            next.waiting(self.waiting.len());
        }
        self.free_at = self.rate.finish(begins, size);
        next.push(self.free_at, packet);
    }
}
