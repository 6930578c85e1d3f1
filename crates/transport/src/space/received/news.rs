//! News first: acknowledgments ordered by what the peer has not heard yet, rather than by packet numbers.
//!
//! Where paths share one line of packet numbers, the newest arrivals are not the highest numbers: what a slow
//! path brings lies far below what a fast one brought in the meantime, behind as many holes as packets are
//! under way. An ACK frame of few ranges that names the highest numbers never comes down to them, and their
//! sender calls them lost.
//!
//! [`News`] therefore remembers arrivals in the order in which they came, and how many frames named each.
//!
//! - A frame names what no frame has named yet, then what one has, then what two have; the earlier arrival
//!   first. What [`MAX_REPEATS`] frames named is left out, so frames stay short, and the loss of one or two
//!   of them harms nothing.
//! - What was told often enough but is not known to be heard is told again as far as ranges are free, at most
//!   [`REPEATS`] of them in one frame, in turn. So the peer hears of everything even after an outage of its
//!   acknowledgments.
//! - An arrival is told first by an ACK of its own path, because a round trip is measured only on news (RFC
//!   9002 §5.1). Frames of other paths go around it.
//! - News that fills half of a frame makes an ACK leave at once ([`News::is_pressing`]), whatever threshold
//!   was asked for. So the first frame after an arrival names it, and the second, however few ranges a frame
//!   may have.

use std::collections::VecDeque;
use std::ops::Range;

use anabranch_wire::PathId;
use smallvec::SmallVec;

use super::Chosen;
use crate::ranges::RangeSet;

/// Frames that name an arrival before it makes way for others.
pub(super) const MAX_REPEATS: u32 = 3;

/// Arrivals in one frame at most that were told often enough already.
const REPEATS: usize = 2;

/// Frames for which other paths leave the first telling to the arrival's own path, which may have fallen
/// silent.
const PATIENCE: u32 = 128;

/// Arrivals remembered before [`MAX_REPEATS`] frames named them; the oldest give way.
pub(super) const MAX_NEWS: usize = 512;

/// Arrivals remembered after that; the oldest give way.
pub(super) const MAX_OLD_NEWS: usize = 128;

/// Newest arrivals that another one may continue.
const JOINED: usize = 4;

/// Packet numbers in a row that arrived on one path.
#[derive(Clone, Debug)]
struct Arrival {
    numbers: Range<u64>,
    path: PathId,
    /// The frame that told it first; before that, the one that was next when it arrived.
    frame: u32,
    /// Bit `n`: frame `frame + n` told it.
    named: u32,
}

impl Arrival {
    fn was_told_by(&self, frame: u32) -> bool {
        self.named.checked_shr(frame.wrapping_sub(self.frame)).is_some_and(|told| told & 1 == 1)
    }
}

/// Arrivals that the peer is not known to have heard of, in order of arrival.
#[derive(Debug, Default)]
pub(super) struct News {
    /// Receipt by fewer than [`MAX_REPEATS`] frames.
    fresh: VecDeque<Arrival>,
    /// Receipt by more, the one told longest ago in front.
    old: VecDeque<Arrival>,
    /// Serial number of the next frame, which begins anew after the last one.
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

    /// Returns whether the arrivals on `path` that no frame has named fill half of a frame of `max_ranges`.
    pub(super) fn is_pressing(&self, path: PathId, max_ranges: usize) -> bool {
        let limit = (max_ranges / 2).max(1);
        self.unnamed(path).take(limit).count() == limit
    }

    /// Returns whether there is an arrival on `path` that no frame has named.
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
                // Packets that fell behind the horizon meanwhile are in no part.
                chosen.extend(part(received, &secrets, arrival.numbers.start, largest));
            }
        }
        chosen.sort_unstable_by_key(|range| std::cmp::Reverse(range.start));
        chosen
    }

    /// Returns whether frames of `path` leave the arrival to a frame of its own path.
    fn is_secret(&self, arrival: &Arrival, path: PathId) -> bool {
        arrival.named == 0 && arrival.path != path && self.frame.wrapping_sub(arrival.frame) < PATIENCE
    }

    /// Records that the frame with this serial number is sent with these ranges.
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
                // What other news crowded out for so long counts as told anew.
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

    /// Moves what was told often enough to the old news.
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

    /// Drops the arrivals named by the frame with this serial number, which the peer has acknowledged.
    pub(super) fn on_heard(&mut self, frame: u32) {
        let unheard = |arrival: &Arrival| !arrival.was_told_by(frame);
        self.fresh.retain(unheard);
        self.old.retain(unheard);
    }
}

/// Returns the largest part of `received` that holds `number`, but no number above `largest` and no secret.
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
