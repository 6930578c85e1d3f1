//! Packet number spaces: which number a packet gets, and which packets an acknowledgment means.
//!
//! [`Numbering`] is the only place that knows how packet numbers and paths relate. Recovery lives per path and only sees
//! an *order*: the position of a packet in its path's own line.

mod per_path;
mod received;

use std::ops::RangeInclusive;

use anabranch_wire::{AckRanges, PathId};

use self::per_path::PerPath;
pub(crate) use self::received::{AckPolicy, Received, Told};
use crate::random::Random;

/// A packet's number on the wire and its place in its path's order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Numbered {
    /// Packet number.
    pub(crate) number: u64,
    /// In-path order, what `Recovery` counts in.
    pub(crate) order: u64,
}

/// Fewest packets between two skipped numbers.
const MIN_SKIP_INTERVAL: u64 = 64;

/// One line of packet numbers.
#[derive(Debug, Default)]
pub(crate) struct Line {
    next: u64,
    largest_acked: Option<u64>,
    /// The number that will never be sent; `None` until the first packets are out.
    skip_at: Option<u64>,
}

impl Line {
    /// Leaves out a number now and then, about once a window, so that a peer that acknowledges what it did not receive is
    /// found out (RFC 9000 §21.4).
    fn skip_if_due(&mut self, random: &mut Random, window_packets: u64) {
        match self.skip_at {
            Some(at) if at > self.next => return,
            Some(at) if at == self.next => self.next += 1,
            _ => {}
        }
        let span = window_packets.max(MIN_SKIP_INTERVAL);
        self.skip_at = Some(self.next + MIN_SKIP_INTERVAL / 2 + random.below(span));
    }
}

/// How packet numbers and paths relate for 0-RTT and 1-RTT packets.
#[derive(Debug)]
pub(crate) enum Numbering {
    /// Each path has its own numbers.
    PerPath(PerPath),
}

impl Numbering {
    /// Numbers per path.
    pub(crate) fn per_path() -> Self {
        Self::PerPath(PerPath::default())
    }

    /// The next number on `path`, not used up until [`Self::commit`]. `window_packets` is the path's congestion window
    /// in packets and sets how often a number is skipped.
    pub(crate) fn next(&mut self, path: PathId, random: &mut Random, window_packets: u64) -> Numbered {
        match self {
            Self::PerPath(inner) => inner.next(path, random, window_packets),
        }
    }

    /// The number that [`Self::next`] gave is on its way.
    pub(crate) fn commit(&mut self, path: PathId) {
        match self {
            Self::PerPath(inner) => inner.commit(path),
        }
    }

    /// Base for the length of an encoded packet number (RFC 9000 §17.1).
    pub(crate) fn largest_acked(&self, path: PathId) -> Option<u64> {
        match self {
            Self::PerPath(inner) => inner.largest_acked(path),
        }
    }

    /// The peer acknowledged `largest` among the packets of `path`.
    pub(crate) fn on_acked(&mut self, path: PathId, largest: u64) {
        match self {
            Self::PerPath(inner) => inner.on_acked(path, largest),
        }
    }

    /// The path is gone, and its numbers with it.
    pub(crate) fn forget(&mut self, path: PathId) {
        match self {
            Self::PerPath(inner) => inner.forget(path),
        }
    }

    /// The path ID that goes into the nonce of packets on `path` (RFC 10069 §4).
    pub(crate) fn nonce_path(&self, path: PathId) -> PathId {
        match self {
            Self::PerPath(_) => path,
        }
    }

    /// Splits the ranges of an ACK frame (for `path`, or path 0 if it is a plain ACK) into in-path orders.
    pub(crate) fn resolve<'a>(
        &self,
        path: Option<PathId>,
        ranges: AckRanges<'a>,
    ) -> (PathId, OrderRanges<'a>) {
        match self {
            Self::PerPath(_) => (path.unwrap_or(PathId::ZERO), OrderRanges(ranges)),
        }
    }

    /// The packet number of the packet at `order` on `path`, for observers.
    pub(crate) fn number_of(&self, _path: PathId, order: u64) -> u64 {
        match self {
            Self::PerPath(_) => order,
        }
    }
}

/// Ranges of in-path orders, descending.
#[derive(Clone, Debug)]
pub(crate) struct OrderRanges<'a>(AckRanges<'a>);

impl Iterator for OrderRanges<'_> {
    type Item = RangeInclusive<u64>;

    fn next(&mut self) -> Option<RangeInclusive<u64>> {
        self.0.next()
    }
}
