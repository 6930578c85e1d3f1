//! Range order "news first": an ACK frame reports first the arrivals that no earlier frame has reported,
//! instead of the highest packet numbers.
//!
//! If paths share packet numbers, the newest arrivals do not have the highest numbers. The packets of a slow
//! path have much lower numbers than those that a fast path delivered in the meantime, and as many gaps lie
//! between them as packets are in flight. An ACK frame with few ranges that reports the highest numbers never
//! includes the packets of the slow path, and the sender declares them lost.
//!
//! [`News`] therefore remembers packets in the order of their arrival, and the number of frames that reported
//! each.
//!
//! - A frame reports first the arrivals that no frame has reported yet, then those that one frame has
//!   reported, then those that two have; the earlier arrival first. Arrivals that [`MAX_REPEATS`] frames have
//!   reported are left out. Frames therefore stay short, and the loss of one or two of them does no harm.
//! - Arrivals that [`MAX_REPEATS`] frames have reported, but that the peer is not known to have learned of,
//!   are reported again in turn if ranges are free, at most [`REPEATS`] of them in one frame. The peer
//!   therefore learns of every packet, even if no ACK reached it for a while.
//! - An arrival is first reported in an ACK of its own path, because RTT samples are taken only from newly
//!   acknowledged packets (RFC 9002 §5.1). Until then, frames of other paths leave it out.
//! - If unreported arrivals fill half of a frame, an ACK is sent at once ([`News::is_pressing`]), even if the
//!   peer asked for a higher threshold. Each of the path's first two frames after an arrival therefore
//!   reports it, however few ranges a frame may have.

use std::collections::VecDeque;
use std::ops::Range;

use anabranch_wire::PathId;
use smallvec::SmallVec;

use super::Chosen;
use crate::ranges::RangeSet;

/// Number of frames that report an arrival before others take its place.
pub(super) const MAX_REPEATS: u32 = 3;

/// Maximum number of arrivals in one frame that have already been reported [`MAX_REPEATS`] times.
const REPEATS: usize = 2;

/// Number of frames during which other paths leave the first report of an arrival to the arrival's own path.
/// Afterwards any path reports it, because its own path may have fallen silent.
const PATIENCE: u32 = 128;

/// Maximum number of remembered arrivals that fewer than [`MAX_REPEATS`] frames have reported. The oldest are
/// dropped first.
pub(super) const MAX_NEWS: usize = 512;

/// Maximum number of remembered arrivals that at least [`MAX_REPEATS`] frames have reported. The oldest are
/// dropped first.
pub(super) const MAX_OLD_NEWS: usize = 128;

/// Number of newest arrivals that a packet with an adjacent number may join.
const JOINED: usize = 4;

/// Consecutive packet numbers that arrived on one path.
#[derive(Clone, Debug)]
struct Arrival {
    numbers: Range<u64>,
    path: PathId,
    /// Serial number of the first frame that reported the arrival. Until it is reported, the serial number of
    /// the frame that was next when it arrived.
    frame: u32,
    /// Bit `n` is set if frame `frame + n` reported the arrival.
    named: u32,
}

impl Arrival {
    fn was_told_by(&self, frame: u32) -> bool {
        self.named.checked_shr(frame.wrapping_sub(self.frame)).is_some_and(|told| told & 1 == 1)
    }
}

/// Arrivals that the peer is not known to have learned of, in order of arrival.
#[derive(Debug, Default)]
pub(super) struct News {
    /// Arrivals that fewer than [`MAX_REPEATS`] ACK frames have reported.
    fresh: VecDeque<Arrival>,
    /// Arrivals that at least [`MAX_REPEATS`] frames have reported, the one whose last report is oldest in
    /// front.
    old: VecDeque<Arrival>,
    /// Serial number of the next frame; it wraps around.
    frame: u32,
}

impl News {
    /// Records an ack-eliciting packet that arrived on `path`.
    pub(super) fn on_packet(&mut self, path: PathId, number: u64) {
        let newest = self.fresh.iter_mut().rev().take(JOINED).take_while(|arrival| arrival.named == 0);
        for arrival in newest.filter(|arrival| arrival.path == path) {
            if arrival.numbers.end == number {
                arrival.numbers.end += 1;
                return;
            }
            if arrival.numbers.start == number + 1 {
                arrival.numbers.start = number;
                return;
            }
        }
        if self.fresh.len() == MAX_NEWS {
            self.fresh.pop_front();
        }
        self.fresh.push_back(Arrival { numbers: number..number + 1, path, frame: self.frame, named: 0 });
    }

    /// Returns whether the unreported arrivals on `path` fill half of a frame of `max_ranges`.
    pub(super) fn is_pressing(&self, path: PathId, max_ranges: usize) -> bool {
        let limit = (max_ranges / 2).max(1);
        self.unnamed(path).take(limit).count() == limit
    }

    /// Returns whether `path` has an arrival that no frame has reported.
    pub(super) fn has_unnamed(&self, path: PathId) -> bool {
        self.unnamed(path).next().is_some()
    }

    fn unnamed(&self, path: PathId) -> impl Iterator<Item = &Arrival> {
        self.fresh.iter().rev().filter(move |arrival| arrival.named == 0 && arrival.path == path)
    }

    /// Returns the ranges of the next ACK frame of `path`, whose largest received number is `largest`. They
    /// are at most `max_ranges` parts of `received`, and the first of them ends at `largest`.
    pub(super) fn choose(
        &self,
        received: &RangeSet,
        path: PathId,
        largest: u64,
        max_ranges: usize,
    ) -> Chosen {
        let secrets: SmallVec<[Range<u64>; 8]> = self
            .fresh
            .iter()
            .filter(|other| self.is_secret(other, path))
            .map(|other| other.numbers.clone())
            .collect();
        let mut chosen = Chosen::new();
        chosen.extend(part(received, &secrets, largest, largest));
        let often = |named: u32| self.fresh.iter().filter(move |arrival| arrival.named.count_ones() == named);
        let fresh = (0..MAX_REPEATS).flat_map(often).filter(|arrival| !self.is_secret(arrival, path));
        let wanted = fresh.chain(self.old.iter().take(REPEATS));
        for arrival in wanted.filter(|arrival| arrival.numbers.start <= largest) {
            if chosen.len() >= max_ranges {
                break;
            }
            if !covers(&chosen, &arrival.numbers) {
                // For packets below the horizon, `part` returns `None`.
                chosen.extend(part(received, &secrets, arrival.numbers.start, largest));
            }
        }
        chosen.sort_unstable_by_key(|range| std::cmp::Reverse(range.start));
        chosen
    }

    /// Returns whether frames of `path` leave the first report of the arrival to a frame of its own path.
    fn is_secret(&self, arrival: &Arrival, path: PathId) -> bool {
        arrival.named == 0 && arrival.path != path && self.frame.wrapping_sub(arrival.frame) < PATIENCE
    }

    /// Records that the frame with serial number `frame` is sent with these ranges.
    pub(super) fn on_named(&mut self, ranges: &[Range<u64>], frame: u32) {
        self.frame = frame.wrapping_add(1);
        for _ in 0..self.old.len().min(REPEATS) {
            let Some(mut arrival) = self.old.pop_front() else { break };
            if covers(ranges, &arrival.numbers) {
                (arrival.frame, arrival.named) = (frame, 1);
            }
            self.old.push_back(arrival);
        }
        let mut told_enough = false;
        for arrival in &mut self.fresh {
            if covers(ranges, &arrival.numbers) {
                if arrival.named == 0 {
                    arrival.frame = frame;
                }
                // `named` covers only 32 frames. An arrival that was first reported earlier counts as newly
                // reported.
                match 1_u32.checked_shl(frame.wrapping_sub(arrival.frame)) {
                    Some(bit) => arrival.named |= bit,
                    None => (arrival.frame, arrival.named) = (frame, 1),
                }
                told_enough |= arrival.named.count_ones() >= MAX_REPEATS;
            }
        }
        if told_enough {
            self.retire();
        }
    }

    /// Moves arrivals that were reported often enough to the old news.
    fn retire(&mut self) {
        let Self { fresh, old, .. } = self;
        fresh.retain(|arrival| {
            let enough = arrival.named.count_ones() >= MAX_REPEATS;
            if enough {
                if old.len() == MAX_OLD_NEWS {
                    old.pop_front();
                }
                old.push_back(arrival.clone());
            }
            !enough
        });
    }

    /// Handles the peer's acknowledgment of the frame with serial number `frame`: removes the arrivals that
    /// it reported.
    pub(super) fn on_heard(&mut self, frame: u32) {
        let unheard = |arrival: &Arrival| !arrival.was_told_by(frame);
        self.fresh.retain(unheard);
        self.old.retain(unheard);
    }
}

/// Returns the largest part of `received` that contains `number`, but no number above `largest` and none of
/// the `secrets`.
fn part(received: &RangeSet, secrets: &[Range<u64>], number: u64, largest: u64) -> Option<Range<u64>> {
    let mut part = received.range_of(number)?;
    part.end = part.end.min(largest + 1);
    for secret in secrets {
        if secret.end <= number {
            part.start = part.start.max(secret.end);
        } else if secret.start > number {
            part.end = part.end.min(secret.start);
        }
    }
    Some(part)
}

fn covers(ranges: &[Range<u64>], numbers: &Range<u64>) -> bool {
    ranges.iter().any(|range| range.start <= numbers.start && numbers.end <= range.end)
}

#[cfg(test)]
mod tests;
