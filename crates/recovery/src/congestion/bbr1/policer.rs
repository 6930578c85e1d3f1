//! Detection of token-bucket policers for BBR version 1, as in Linux (`tcp_bbr.c`, “long-term bandwidth
//! sampling”) and in the sender of the 2022 study.
//!
//! A policer drops packets that exceed its rate. The sender assumes a policer after two consecutive intervals
//! between losses in which many bytes were lost and the delivery rates were nearly equal. It then paces at
//! that rate for [`LIMITED_ROUNDS`] rounds.

use anabranch_wire::Time;

use super::{Acked, LossResponse};
use crate::rate::per_second;

/// Minimum length of an interval in rounds.
const MIN_ROUNDS: u32 = 4;
/// Maximum length of an interval in rounds.
pub(super) const MAX_ROUNDS: u32 = 4 * MIN_ROUNDS;
/// Minimum number of lost bytes, for each 256 delivered bytes, with which an interval counts.
const LOST_OF_256: u64 = 50;
/// Divisor of the earlier rate that gives the maximum difference of two rates that agree.
const CLOSE_DIVISOR: u64 = 8;
/// Difference, in bytes per second, up to which two rates agree in any case.
const CLOSE_RATE: u64 = 500;
/// Number of rounds in ProbeBW for which the rate of a policer is used.
const LIMITED_ROUNDS: u32 = 48;

/// Detector of a policer.
#[derive(Clone, Debug, Default)]
pub struct Policer {
    interval: Option<Interval>,
    /// Rate of the previous interval with many losses, in bytes per second.
    earlier_rate: Option<u64>,
    /// Assumed rate of the policer in bytes per second, if one was detected.
    limit: Option<u64>,
    /// Number of rounds in ProbeBW since `limit` was set.
    limited_rounds: u32,
    lost: u64,
    lost_since_ack: bool,
}

/// Interval between two losses.
#[derive(Clone, Copy, Debug)]
struct Interval {
    start: Time,
    delivered: u64,
    lost: u64,
    rounds: u32,
}

impl Policer {
    fn begin(&mut self, ack: &Acked<'_>) {
        self.interval =
            Some(Interval { start: ack.now, delivered: ack.delivered, lost: self.lost, rounds: 0 });
    }

    /// Resets everything but the counter of lost bytes.
    fn reset(&mut self) {
        *self = Self { lost: self.lost, ..Self::default() };
    }

    /// Counts a round under the limit if `counts` is `true`. Lifts the limit after [`LIMITED_ROUNDS`] such
    /// rounds. Returns whether it was lifted.
    fn age(&mut self, counts: bool) -> bool {
        self.limited_rounds += u32::from(counts);
        let is_over = self.limited_rounds >= LIMITED_ROUNDS;
        if is_over {
            self.reset();
        }
        is_over
    }

    /// Ends `interval` if enough bytes were lost in it, and compares its rate with that of the previous
    /// interval. Sets the limit if the rates agree.
    fn end(&mut self, interval: Interval, ack: &Acked<'_>) {
        let (lost, delivered) = (self.lost - interval.lost, ack.delivered - interval.delivered);
        let elapsed = ack.now - interval.start;
        if delivered == 0 || lost * 256 < LOST_OF_256 * delivered || elapsed.as_millis() == 0 {
            return;
        }
        let rate = per_second(delivered, elapsed);
        let agrees = |earlier: &u64| {
            let difference = rate.abs_diff(*earlier);
            difference * CLOSE_DIVISOR <= *earlier || difference <= CLOSE_RATE
        };
        if let Some(earlier) = self.earlier_rate.filter(agrees) {
            self.limit = Some(earlier.midpoint(rate));
            self.limited_rounds = 0;
        } else {
            self.earlier_rate = Some(rate);
            self.begin(ack);
        }
    }
}

impl LossResponse for Policer {
    const CONSERVES: bool = true;

    fn on_lost(&mut self, bytes: u64) {
        self.lost += bytes;
        self.lost_since_ack = true;
    }

    fn on_acked(&mut self, ack: &Acked<'_>, round_start: bool, cruising: bool) -> bool {
        let lost = core::mem::take(&mut self.lost_since_ack);
        if self.limit.is_some() {
            return self.age(round_start && cruising);
        }
        let Some(mut interval) = self.interval else {
            if lost {
                self.begin(ack);
            }
            return false;
        };
        interval.rounds += u32::from(round_start);
        self.interval = Some(interval);
        if ack.sample.app_limited || interval.rounds > MAX_ROUNDS {
            self.reset();
        } else if interval.rounds >= MIN_ROUNDS && lost {
            self.end(interval, ack);
        }
        false
    }

    fn rate_limit(&self) -> Option<u64> {
        self.limit
    }
}
