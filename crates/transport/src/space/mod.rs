//! Packet number spaces: which number a packet gets, and which packets an acknowledgment means.
//!
//! [`Numbering`] is the only place that knows how packet numbers and paths relate. Recovery lives per path
//! and only sees an *order*: the position of a packet in its path's own line.

mod per_path;
mod received;
mod single;

use std::iter::Cloned;
use std::ops::{Range, RangeInclusive};
use std::slice;

use anabranch_recovery::{EcnFinding, SharedEcn};
use anabranch_wire::{AckRanges, Ecn, EcnCounts, PathId, SpaceId, Time, Writer};

use self::per_path::PerPath;
pub(crate) use self::received::{AckForm, MAX_RANGES, Numbers, Receipt, Received};
use self::single::{Ranges, RunOrders, Single};
use crate::acknowledge::AckRule;
use crate::config::AckConfig;
use crate::random::Random;
use crate::space::received::Packets;
use crate::token::Tokens;

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
pub(crate) struct NumberSequence {
    next: u64,
    largest_acked: Option<u64>,
    /// The number that will never be sent; `None` until the first packets are out.
    skip_at: Option<u64>,
}

impl NumberSequence {
    /// Leaves out a number now and then, about once in `window_packets`, so that a peer that acknowledges
    /// what it did not receive is found out (RFC 9000 §21.4); none without them.
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

/// Relation of packet numbers to paths for 0-RTT and 1-RTT packets.
#[derive(Debug)]
pub(crate) enum Numbering {
    /// Each path has its own numbers.
    PerPath(PerPath),
    /// All paths share one line of numbers.
    Single(Box<Single>),
}

impl Numbering {
    /// Creates packet numbers of each path's own.
    pub(crate) fn per_path() -> Self {
        Self::PerPath(PerPath::default())
    }

    /// Shares the numbers of path 0 among all paths from now on; `marked` of its packets have left with
    /// ECT(0). There must be no other path yet, and nothing received.
    pub(crate) fn share(&mut self, config: &AckConfig, marked: u64) {
        if let Self::PerPath(inner) = self {
            let before = std::mem::take(inner);
            *self = Self::Single(Box::new(Single::new(before, Numbers::shared(config), marked)));
        }
    }

    /// Returns whether all paths share one line of numbers.
    pub(crate) fn is_single(&self) -> bool {
        matches!(self, Self::Single(_))
    }

    /// Returns the next number on `path`, not used up until [`Self::commit`]. `window_packets` is the path's
    /// congestion window in packets and sets how often a number is skipped; without it none is.
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

    /// Uses up the number that [`Self::next`] returned, in a packet with ECT(0) if `marked`.
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

    /// Returns how many packet numbers the encoding of `number` has to distinguish beyond those that the peer
    /// has acknowledged (RFC 9000 §17.1).
    pub(crate) fn unacked(&self, path: PathId, number: u64) -> u64 {
        match self {
            Self::PerPath(inner) => anabranch_wire::unacked_numbers(number, inner.largest_acked(path)),
            Self::Single(inner) => inner.unacked(number),
        }
    }

    /// Notes that the peer acknowledged `largest` among the packets of `path`.
    pub(crate) fn on_acked(&mut self, path: PathId, largest: u64) {
        match self {
            Self::PerPath(inner) => inner.on_acked(path, largest),
            Self::Single(inner) => inner.on_acked(largest),
        }
    }

    /// Forgets the numbers of a path that is gone.
    pub(crate) fn forget(&mut self, path: PathId) {
        match self {
            Self::PerPath(inner) => inner.forget(path),
            Self::Single(inner) => inner.forget(path),
        }
    }

    /// Returns the path ID that is used in the nonce of packets on `path` (RFC 10069 §4). It is path 0 where
    /// the paths share their numbers, because each number is then used only once.
    pub(crate) fn nonce_path(&self, path: PathId) -> PathId {
        match self {
            Self::PerPath(_) => path,
            Self::Single(_) => PathId::ZERO,
        }
    }

    /// Returns the path whose packets an ACK frame acknowledges; `None` if it may be several. `path` is the
    /// frame's path, `None` for a plain ACK frame.
    pub(crate) fn acked_path(&self, path: Option<PathId>) -> Option<PathId> {
        match self {
            Self::PerPath(_) => Some(path.unwrap_or(PathId::ZERO)),
            Self::Single(_) => None,
        }
    }

    /// Returns the ranges that a plain ACK frame names and no earlier one has named, descending.
    pub(crate) fn news(&self, ranges: AckRanges<'_>) -> Ranges {
        match self {
            Self::PerPath(_) => ranges.collect(),
            Self::Single(inner) => inner.news(ranges),
        }
    }

    /// Returns one of these numbers that was never sent, as far as this is known here and not to the path's
    /// `Recovery`.
    pub(crate) fn unsent(&self, news: &[RangeInclusive<u64>]) -> Option<u64> {
        match self {
            Self::PerPath(_) => None,
            Self::Single(inner) => inner.unsent(news.iter().cloned()),
        }
    }

    /// Returns these numbers as in-path orders of `path`, in descending ranges; numbers of other paths are
    /// left out.
    pub(crate) fn orders<'a>(&'a self, path: PathId, news: &'a [RangeInclusive<u64>]) -> OrderRanges<'a> {
        let news = news.iter().cloned();
        match self {
            Self::PerPath(_) => OrderRanges::Numbers(news),
            Self::Single(inner) => OrderRanges::Runs(inner.orders(path, news)),
        }
    }

    /// Returns the largest order of `path` that a plain ACK frame names.
    pub(crate) fn largest_named(&self, path: PathId, mut ranges: AckRanges<'_>) -> Option<u64> {
        match self {
            Self::PerPath(_) => ranges.next().map(|range| *range.end()),
            Self::Single(inner) => inner.orders(path, ranges).next().map(|range| *range.end()),
        }
    }

    /// Notes that the packets with these numbers have been acknowledged.
    pub(crate) fn on_named(&mut self, news: &[RangeInclusive<u64>]) {
        if let Self::Single(inner) = self {
            inner.on_named(news);
        }
    }

    /// Returns the path on which packet `number` of a plain ACK was sent; `None` once that is forgotten.
    pub(crate) fn path_of(&self, number: u64) -> Option<PathId> {
        match self {
            Self::PerPath(_) => Some(PathId::ZERO),
            Self::Single(inner) => inner.path_of(number),
        }
    }

    /// Returns the smallest number among packets given by path and order. Packets whose numbers are forgotten
    /// come before all others.
    pub(crate) fn first_of(&self, packets: impl Iterator<Item = (PathId, u64)>) -> Option<u64> {
        packets.map(|(path, order)| self.known_number(path, order).unwrap_or(0)).min()
    }

    /// Returns the order of the first packet on `path` whose number is at least `number`, as far as that is
    /// remembered. If there is none, the order belongs to a packet still to be sent.
    pub(crate) fn order_from(&self, path: PathId, number: u64) -> u64 {
        match self {
            Self::PerPath(_) => number,
            Self::Single(inner) => inner.order_from(path, number),
        }
    }

    /// Forgets which path numbers belong to of which nothing is open any more: `done_below` tells the oldest
    /// order of a path that may still change, `None` if the path is gone.
    pub(crate) fn forget_done(&mut self, done_below: impl Fn(PathId) -> Option<u64>) {
        if let Self::Single(inner) = self {
            inner.forget_done(done_below);
        }
    }

    /// Returns the packet number of the packet at `order` on `path`, for observers; returns the order itself
    /// once the number is forgotten.
    pub(crate) fn number_of(&self, path: PathId, order: u64) -> u64 {
        match self {
            Self::PerPath(_) => order,
            Self::Single(inner) => inner.number_of(path, order).unwrap_or(order),
        }
    }

    /// Returns the same as [`Self::number_of`], but `None` once the number is forgotten.
    pub(crate) fn known_number(&self, path: PathId, order: u64) -> Option<u64> {
        match self {
            Self::PerPath(_) => Some(order),
            Self::Single(inner) => inner.number_of(path, order),
        }
    }

    /// Judges the counts of an ACK that newly acknowledged `marked` packets with ECT(0) on paths that share
    /// their numbers.
    pub(crate) fn judge_ecn(&mut self, marked: u64, counts: Option<EcnCounts>) -> EcnFinding {
        match self {
            Self::PerPath(_) => EcnFinding::Nothing,
            Self::Single(inner) => inner.ecn.on_ack(marked, counts),
        }
    }

    /// Returns whether no path may mark packets because the ECN counts for all of them were wrong.
    pub(crate) fn has_ecn_failed(&self) -> bool {
        matches!(self, Self::Single(inner) if SharedEcn::has_failed(&inner.ecn))
    }
}

/// The receiving half: `received` is what the path keeps, whose numbers are in use only if they are its own.
impl Numbering {
    fn numbers_mut<'a>(&'a mut self, received: &'a mut Received) -> &'a mut Numbers {
        match self {
            Self::PerPath(_) => &mut received.numbers,
            Self::Single(inner) => &mut inner.received,
        }
    }

    /// Returns the set of received numbers that a path uses; `received` is `None` for a path of which nothing
    /// is known yet.
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

    /// Records packets with consecutive numbers that were received on the path. They are no duplicates, and
    /// all their frames have been processed.
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

    /// Writes the ACK of a path; as a PATH_ACK if `multipath` and the numbers are the path's own. The number
    /// of its ranges.
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

    /// Takes note that the peer acknowledged an ACK of the path; `received` is `None` if the path is gone.
    pub(crate) fn on_ack_acked(&mut self, received: Option<&mut Received>, receipt: Receipt) {
        match (self, received) {
            (Self::Single(inner), _) => inner.received.on_ack_acked(receipt),
            (Self::PerPath(_), Some(received)) => received.numbers.on_ack_acked(receipt),
            (Self::PerPath(_), None) => {}
        }
    }

    /// Notes that a packet of the current key phase was received on the path.
    pub(crate) fn note_phase(&mut self, received: &mut Received, number: u64) {
        self.numbers_mut(received).note_phase(number);
    }

    /// Begins a key phase for the path.
    pub(crate) fn begin_phase(&mut self, received: &mut Received) {
        self.numbers_mut(received).begin_phase();
    }
}

/// Ranges from a list.
type Listed<'a> = Cloned<slice::Iter<'a, RangeInclusive<u64>>>;

/// Ranges of in-path orders, descending.
#[derive(Clone, Debug)]
pub(crate) enum OrderRanges<'a> {
    /// Numbers are orders.
    Numbers(Listed<'a>),
    /// Numbers are looked up.
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
