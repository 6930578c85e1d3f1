//! Packet number spaces: the numbers of outgoing packets, and the packets that an acknowledgment covers.
//!
//! Only [`Numbering`] knows the relation between packet numbers and paths. Each path has its own recovery,
//! which sees only an *order*: the position of a packet in the sequence of its path's packets.

mod per_path;
mod received;
mod single;

use std::iter::Cloned;
use std::ops::{Range, RangeInclusive};
use std::slice;

use anabranch_recovery::{EcnFinding, SharedEcn};
use anabranch_wire::{AckRanges, Ecn, EcnCounts, PathId, SpaceId, Time, Writer};

use self::per_path::PerPath;
pub(crate) use self::received::{AckForm, Gap, MAX_RANGES, Numbers, Receipt, Received};
use self::single::{Ranges, RunOrders, Single};
use crate::acknowledge::AckRule;
use crate::config::AckConfig;
use crate::random::Random;
use crate::space::received::Packets;
use crate::token::Tokens;

/// A packet's number on the wire and its order on its path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Numbered {
    /// Packet number.
    pub(crate) number: u64,
    /// Position among the packets of its path, by which `Recovery` counts.
    pub(crate) order: u64,
}

/// Minimum number of packets between two skipped numbers, on average.
const MIN_SKIP_INTERVAL: u64 = 64;

/// A sequence of packet numbers.
#[derive(Debug, Default)]
pub(crate) struct NumberSequence {
    next: u64,
    largest_acked: Option<u64>,
    /// Next number to skip, which is never sent; `None` until the first packets are sent.
    skip_at: Option<u64>,
}

impl NumberSequence {
    /// Skips a number now and then, on average twice in `window_packets` if the window is large, to detect a
    /// peer that acknowledges packets it did not receive (RFC 9000 §21.4). Skips none if `window_packets` is
    /// `None`.
    fn skip_if_due(&mut self, random: &mut Random, window_packets: Option<u64>) {
        let Some(window_packets) = window_packets else { return };
        match self.skip_at {
            Some(at) if at > self.next => return,
            Some(at) if at == self.next => self.next += 1,
            _ => {}
        }
        let span = window_packets.max(MIN_SKIP_INTERVAL);
        self.skip_at = Some(self.next + MIN_SKIP_INTERVAL / 2 + random.below(span));
    }
}

/// Relation between packet numbers and paths for 0-RTT and 1-RTT packets.
#[derive(Debug)]
pub(crate) enum Numbering {
    /// Each path has its own numbers.
    PerPath(PerPath),
    /// All paths share one sequence of numbers.
    Single(Box<Single>),
}

impl Numbering {
    /// Creates the numbering in which each path has its own numbers.
    pub(crate) fn per_path() -> Self {
        Self::PerPath(PerPath::default())
    }

    /// Lets all paths share the number sequence of path 0, which has sent `marked` packets with ECT(0). No
    /// other path may exist yet, and nothing may have been received.
    pub(crate) fn share(&mut self, config: &AckConfig, marked: u64) {
        if let Self::PerPath(inner) = self {
            let before = std::mem::take(inner);
            *self = Self::Single(Box::new(Single::new(before, Numbers::shared(config), marked)));
        }
    }

    /// Returns whether all paths share one sequence of numbers.
    pub(crate) fn is_single(&self) -> bool {
        matches!(self, Self::Single(_))
    }

    /// Returns the next number on `path`, which [`Self::commit`] uses up. `window_packets` is the path's
    /// congestion window in packets and determines how often a number is skipped; with `None` no number is
    /// skipped.
    pub(crate) fn next(
        &mut self,
        path: PathId,
        random: &mut Random,
        window_packets: Option<u64>,
    ) -> Numbered {
        match self {
            Self::PerPath(inner) => inner.next(path, random, window_packets),
            Self::Single(inner) => inner.next(path, random, window_packets),
        }
    }

    /// Uses up the number that [`Self::next`] returned. `marked` is `true` if its packet has ECT(0).
    pub(crate) fn commit(&mut self, path: PathId, marked: bool) {
        match self {
            Self::PerPath(inner) => inner.commit(path),
            Self::Single(inner) => {
                inner.commit(path);
                if marked {
                    inner.ecn.on_sent();
                }
            }
        }
    }

    /// Returns the number of packet numbers beyond the largest acknowledged one that the encoding of `number`
    /// must distinguish (RFC 9000 §17.1).
    pub(crate) fn unacked(&self, path: PathId, number: u64) -> u64 {
        match self {
            Self::PerPath(inner) => anabranch_wire::unacked_numbers(number, inner.largest_acked(path)),
            Self::Single(inner) => inner.unacked(number),
        }
    }

    /// Records that the peer acknowledged `largest` among the packets of `path`.
    pub(crate) fn on_acked(&mut self, path: PathId, largest: u64) {
        match self {
            Self::PerPath(inner) => inner.on_acked(path, largest),
            Self::Single(inner) => inner.on_acked(largest),
        }
    }

    /// Removes the numbers of a closed path.
    pub(crate) fn forget(&mut self, path: PathId) {
        match self {
            Self::PerPath(inner) => inner.forget(path),
            Self::Single(inner) => inner.forget(path),
        }
    }

    /// Returns the path ID for the nonce of packets on `path` (RFC 10069 §4). It is path 0 if the paths share
    /// their numbers, because each number is then used only once.
    pub(crate) fn nonce_path(&self, path: PathId) -> PathId {
        match self {
            Self::PerPath(_) => path,
            Self::Single(_) => PathId::ZERO,
        }
    }

    /// Returns the path whose packets an ACK frame acknowledges; `None` if there may be several. `path` is
    /// the path ID in the frame, `None` for a plain ACK frame.
    pub(crate) fn acked_path(&self, path: Option<PathId>) -> Option<PathId> {
        match self {
            Self::PerPath(_) => Some(path.unwrap_or(PathId::ZERO)),
            Self::Single(_) => None,
        }
    }

    /// Returns the ranges of a plain ACK frame that no earlier frame has reported, in descending order.
    pub(crate) fn news(&self, ranges: AckRanges<'_>) -> Ranges {
        match self {
            Self::PerPath(_) => ranges.collect(),
            Self::Single(inner) => inner.news(ranges),
        }
    }

    /// Returns a number in `news` that was never sent, if the numbering knows of one. With separate number
    /// spaces, the path's `Recovery` checks this instead.
    pub(crate) fn unsent(&self, news: &[RangeInclusive<u64>]) -> Option<u64> {
        match self {
            Self::PerPath(_) => None,
            Self::Single(inner) => inner.unsent(news.iter().cloned()),
        }
    }

    /// Returns the orders of those packets of `path` whose numbers are in `news`, in descending ranges.
    pub(crate) fn orders<'a>(&'a self, path: PathId, news: &'a [RangeInclusive<u64>]) -> OrderRanges<'a> {
        let news = news.iter().cloned();
        match self {
            Self::PerPath(_) => OrderRanges::Numbers(news),
            Self::Single(inner) => OrderRanges::Runs(inner.orders(path, news)),
        }
    }

    /// Returns the largest order of `path` in a plain ACK frame.
    pub(crate) fn largest_named(&self, path: PathId, mut ranges: AckRanges<'_>) -> Option<u64> {
        match self {
            Self::PerPath(_) => ranges.next().map(|range| *range.end()),
            Self::Single(inner) => inner.orders(path, ranges).next().map(|range| *range.end()),
        }
    }

    /// Records that the packets with these numbers have been acknowledged.
    pub(crate) fn on_named(&mut self, news: &[RangeInclusive<u64>]) {
        if let Self::Single(inner) = self {
            inner.on_named(news);
        }
    }

    /// Returns the path on which packet `number` of a plain ACK was sent; `None` if it is no longer
    /// remembered.
    pub(crate) fn path_of(&self, number: u64) -> Option<PathId> {
        match self {
            Self::PerPath(_) => Some(PathId::ZERO),
            Self::Single(inner) => inner.path_of(number),
        }
    }

    /// Returns the smallest number of these packets, which are given by path and order. A number that is no
    /// longer remembered counts as 0.
    pub(crate) fn first_of(&self, packets: impl Iterator<Item = (PathId, u64)>) -> Option<u64> {
        packets.map(|(path, order)| self.known_number(path, order).unwrap_or(0)).min()
    }

    /// Returns the order of the first packet on `path` whose number is at least `number`, if it is
    /// remembered; otherwise the order of the next packet to be sent.
    pub(crate) fn order_from(&self, path: PathId, number: u64) -> u64 {
        match self {
            Self::PerPath(_) => number,
            Self::Single(inner) => inner.order_from(path, number),
        }
    }

    /// Removes the mapping of numbers to paths for packets that are acknowledged or permanently lost.
    /// `done_below` returns the order below which this is true of all packets of a path; `None` if the path
    /// is closed.
    pub(crate) fn forget_done(&mut self, done_below: impl Fn(PathId) -> Option<u64>) {
        if let Self::Single(inner) = self {
            inner.forget_done(done_below);
        }
    }

    /// Returns the number of the packet at `order` on `path`, for observers; the order itself if the number
    /// is no longer remembered.
    pub(crate) fn number_of(&self, path: PathId, order: u64) -> u64 {
        match self {
            Self::PerPath(_) => order,
            Self::Single(inner) => inner.number_of(path, order).unwrap_or(order),
        }
    }

    /// Returns the number like [`Self::number_of`], but `None` if it is no longer remembered.
    pub(crate) fn known_number(&self, path: PathId, order: u64) -> Option<u64> {
        match self {
            Self::PerPath(_) => Some(order),
            Self::Single(inner) => inner.number_of(path, order),
        }
    }

    /// Validates the ECN counts of an ACK that newly acknowledged `marked` packets with ECT(0), on paths that
    /// share their numbers.
    pub(crate) fn judge_ecn(&mut self, marked: u64, counts: Option<EcnCounts>) -> EcnFinding {
        match self {
            Self::PerPath(_) => EcnFinding::Nothing,
            Self::Single(inner) => inner.ecn.on_ack(marked, counts),
        }
    }

    /// Returns whether the shared ECN counts failed validation. If they did, no path may mark packets.
    pub(crate) fn has_ecn_failed(&self) -> bool {
        matches!(self, Self::Single(inner) if SharedEcn::has_failed(&inner.ecn))
    }
}

/// Receiving half of the numbering. In its functions, `received` is the state of the path. The numbers in
/// `received` are used only if each path has its own.
impl Numbering {
    fn numbers_mut<'a>(&'a mut self, received: &'a mut Received) -> &'a mut Numbers {
        match self {
            Self::PerPath(_) => &mut received.numbers,
            Self::Single(inner) => &mut inner.received,
        }
    }

    /// Returns the set of received numbers that a path uses. `received` is `None` for a path without state.
    #[inline]
    pub(crate) fn numbers_of<'a>(&'a self, received: Option<&'a Received>) -> Option<&'a Numbers> {
        match self {
            Self::PerPath(_) => received.map(|received| &received.numbers),
            Self::Single(inner) => Some(&inner.received),
        }
    }

    /// Returns whether `number` was received before on the path.
    pub(crate) fn is_duplicate(&self, received: &Received, number: u64) -> bool {
        self.numbers_of(Some(received)).is_some_and(|numbers| numbers.is_duplicate(number))
    }

    /// Records packets with consecutive numbers that were received on the path. They must not be duplicates,
    /// and all their frames must have been processed.
    #[inline]
    pub(crate) fn on_received(
        &mut self,
        received: &mut Received,
        now: Time,
        came: Range<u64>,
        ack_eliciting: bool,
        ecn: Option<Ecn>,
        policy: &AckRule,
    ) {
        let Received { numbers, ack } = received;
        let numbers = match self {
            Self::PerPath(_) => numbers,
            Self::Single(inner) => &mut inner.received,
        };
        received::receive(numbers, ack, now, Packets { numbers: came, ack_eliciting, ecn }, policy);
    }

    /// Writes the ACK of a path, as a PATH_ACK if `multipath` and the path has its own numbers. Returns the
    /// number of its ranges.
    pub(crate) fn write_ack(
        &mut self,
        received: &mut Received,
        now: Time,
        w: &mut Writer<'_>,
        multipath: bool,
        exponent: u64,
        tokens: &mut Tokens,
    ) -> usize {
        let form = AckForm { space: SpaceId::Data, multipath, ack_delay_exponent: exponent };
        match self {
            Self::PerPath(_) => received.write_ack(now, w, form, tokens),
            Self::Single(inner) => {
                let (numbers, ack) = (&mut inner.received, &mut received.ack);
                ack.write_ack(now, w, AckForm { multipath: false, ..form }, numbers, tokens)
            }
        }
    }

    /// Records that the peer acknowledged an ACK of the path. `received` is `None` if the path is closed.
    pub(crate) fn on_ack_acked(&mut self, received: Option<&mut Received>, receipt: Receipt) {
        match (self, received) {
            (Self::Single(inner), _) => inner.received.on_ack_acked(receipt),
            (Self::PerPath(_), Some(received)) => received.numbers.on_ack_acked(receipt),
            (Self::PerPath(_), None) => {}
        }
    }

    /// Records that a packet of the current key phase was received on the path.
    pub(crate) fn note_phase(&mut self, received: &mut Received, number: u64) {
        self.numbers_mut(received).note_phase(number);
    }

    /// Begins a key phase for the path.
    pub(crate) fn begin_phase(&mut self, received: &mut Received) {
        self.numbers_mut(received).begin_phase();
    }
}

/// Ranges in a slice.
type Listed<'a> = Cloned<slice::Iter<'a, RangeInclusive<u64>>>;

/// Ranges of orders on one path, descending.
#[derive(Clone, Debug)]
pub(crate) enum OrderRanges<'a> {
    /// Ranges of numbers that equal the orders.
    Numbers(Listed<'a>),
    /// Ranges of numbers that are mapped to orders.
    Runs(RunOrders<'a, Listed<'a>>),
}

impl Iterator for OrderRanges<'_> {
    type Item = RangeInclusive<u64>;

    fn next(&mut self) -> Option<RangeInclusive<u64>> {
        match self {
            Self::Numbers(ranges) => ranges.next(),
            Self::Runs(runs) => runs.next(),
        }
    }
}
