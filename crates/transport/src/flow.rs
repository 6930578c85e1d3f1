//! Flow-control credit (RFC 9000 §4): what we let the peer send, and what it lets us send.

use std::time::Duration;

use anabranch_wire::Time;

use crate::named::named;

named! {
    /// Growth of receive windows from their initial sizes to their maxima.
    WindowRule, "rule of receive windows" {
        /// To eight times what the application has consumed in a round trip once that is more than a sixth,
        /// and so that late data of one path does not hold up the others.
        Adaptive = "adaptive";
        /// The same, to four times once it is more than a quarter, which holds a sender up that doubles its
        /// rate; to repeat what was measured with it.
        Fourfold = "fourfold";
        /// As the stack of the 2022 study of packet number spaces: once more than half of what the limit has
        /// ever allowed was consumed (of a stream) or received (on the connection), the limit triples; if the
        /// round trip takes longer than 100 ms, it is multiplied by one more than the hundreds of
        /// milliseconds in that.
        #[cfg(feature = "research")]
        Study2022 = "2022";
    }
}

impl WindowRule {
    /// Returns whether limits move in leaps, as those of the stack of 2022 did.
    const fn leaps(self) -> bool {
        !matches!(self, Self::Adaptive | Self::Fourfold)
    }
}

/// Up to this round trip the stack of 2022 tripled its limits.
const STUDY_RTT: Duration = Duration::from_millis(100);

/// Longer round trips than this gave no more.
const STUDY_MAX_RTT: Duration = Duration::from_millis(610);

/// The peer sent more than it was allowed to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Overrun;

/// Round trips at the current rate: the number that a window spans at least, and the number to which it grows
/// if it does not. A sender in slow start doubles its rate in each round trip. A new limit takes one round
/// trip to take effect, and another round trip passes until the next limit does. So twice and four times the
/// bytes consumed in the last round trip have to fit. The rest is for late data.
const ROUND_TRIPS: (u64, u64) = (6, 8);

/// The same of [`WindowRule::Fourfold`].
const FOURFOLD: (u64, u64) = (4, 4);

/// Round trips count as no shorter than this: within less, bursts say little about a rate.
const MIN_RTT: Duration = Duration::from_millis(1);

/// Credit that this end gives, for one stream or for the connection, in bytes.
///
/// The limit moves once the application has consumed half a window. The window grows, up to a maximum, with
/// what the application has consumed in the last round trip ([`ROUND_TRIPS`]), and the limit with it at once.
#[derive(Clone, Debug)]
pub(crate) struct ReceiveCredit {
    window: u64,
    max_window: u64,
    /// Highest offset that the peer may use, as already sent or being sent to it.
    limit: u64,
    /// Limit to send next under the rule of 2022, which moves the limit in leaps.
    next_limit: u64,
    received: u64,
    consumed: u64,
    /// Start of the round trip whose consumption counts; `consumed_before` is the number of bytes consumed by
    /// then.
    since: Time,
    consumed_before: u64,
    due: bool,
    rule: WindowRule,
}

impl ReceiveCredit {
    /// Creates a credit of `window` bytes, given to the peer by a transport parameter at `now`.
    pub(crate) fn new(rule: WindowRule, window: u64, max_window: u64, now: Time) -> Self {
        let max_window = max_window.max(window);
        Self {
            rule,
            window,
            max_window,
            limit: window,
            next_limit: window,
            received: 0,
            consumed: 0,
            since: now,
            consumed_before: 0,
            due: false,
        }
    }

    /// Returns the highest offset that the peer may use.
    pub(crate) fn limit(&self) -> u64 {
        self.limit
    }

    /// Returns the number of bytes by which the limit may exceed the bytes consumed.
    pub(crate) fn window(&self) -> u64 {
        self.window
    }

    /// Returns the highest offset that the peer has used.
    pub(crate) fn received(&self) -> u64 {
        self.received
    }

    /// Returns the bytes that the peer may still use; `None` under the rule of 2022, where the limit depends
    /// on each intermediate step.
    pub(crate) fn left(&self) -> Option<u64> {
        self.slides().then_some(self.limit - self.received)
    }

    /// Returns the bytes received that have not been consumed.
    pub(crate) fn outstanding(&self) -> u64 {
        self.received - self.consumed
    }

    /// Takes the peer's use of the credit up to `offset` into account and returns how much of it is new.
    #[inline]
    pub(crate) fn receive(&mut self, offset: u64) -> Result<u64, Overrun> {
        if offset > self.limit {
            return Err(Overrun);
        }
        let new = offset.saturating_sub(self.received);
        self.received += new;
        Ok(new)
    }

    /// Counts `n` received bytes that have left the buffer; returns whether the peer should be sent a new
    /// limit.
    #[inline]
    pub(crate) fn consume(&mut self, n: u64, now: Time, rtt: Duration) -> bool {
        self.consumed += n;
        debug_assert!(self.consumed <= self.received, "consumed more than was received");
        self.due |= match self.rule {
            WindowRule::Adaptive | WindowRule::Fourfold => {
                self.grow(now, rtt.max(MIN_RTT)) || self.limit - self.consumed <= self.window / 2
            }
            #[cfg(feature = "research")]
            WindowRule::Study2022 => self.multiply(self.consumed, rtt),
        };
        self.due
    }

    /// Moves the next limit by the bytes received, as the rule of 2022 allows. Returns whether the peer
    /// should be sent a new limit.
    pub(crate) fn multiply_by_received(&mut self, rtt: Duration) -> bool {
        let grows = self.rule.leaps() && self.multiply(self.received, rtt);
        self.due |= grows;
        grows
    }

    /// Moves the limit that the peer is told next if more than half of it was `used`. It may use no more
    /// before it is told: buffers have the limit that was granted.
    fn multiply(&mut self, used: u64, rtt: Duration) -> bool {
        let before = self.next_limit;
        if used <= before / 2 {
            return false;
        }
        let more = if rtt <= STUDY_RTT {
            before.saturating_mul(2)
        } else {
            let more = u128::from(before) * rtt.min(STUDY_MAX_RTT).as_micros() / STUDY_RTT.as_micros();
            u64::try_from(more).unwrap_or(u64::MAX)
        };
        self.window = (before - self.consumed).saturating_add(more).min(self.max_window);
        let limit = self.consumed.saturating_add(self.window).min(anabranch_wire::MAX_VARINT);
        self.next_limit = limit.max(before);
        limit > before
    }

    /// Grows the window once a round trip, by the bytes that the peer may send until the new limit reaches
    /// it. Returns whether the window was too small.
    fn grow(&mut self, now: Time, rtt: Duration) -> bool {
        let elapsed = now.saturating_since(self.since);
        if elapsed < rtt {
            return false;
        }
        let consumed = u128::from(self.consumed - self.consumed_before);
        let in_round_trip = consumed * rtt.as_nanos() / elapsed.as_nanos().max(1);
        let in_round_trip = u64::try_from(in_round_trip).unwrap_or(u64::MAX);
        (self.since, self.consumed_before) = (now, self.consumed);
        let (least, wanted) = if self.rule == WindowRule::Fourfold { FOURFOLD } else { ROUND_TRIPS };
        let grows = in_round_trip.saturating_mul(least) > self.window && self.window < self.max_window;
        if grows {
            self.window = in_round_trip.saturating_mul(wanted).min(self.max_window);
        }
        grows
    }

    /// Returns whether the limit moves with the bytes consumed, rather than in leaps.
    fn slides(&self) -> bool {
        !self.rule.leaps()
    }

    /// Returns whether the peer has used more than half of its window and no new limit is due.
    pub(crate) fn is_tight(&self) -> bool {
        self.slides() && !self.due && self.limit - self.received < self.window / 2
    }

    /// Doubles the window, up to its maximum. The peer is held back not by the application but by late data,
    /// perhaps on a slower path. The window has to span that data too. Returns whether the peer should be
    /// sent a new limit.
    pub(crate) fn widen(&mut self) -> bool {
        let wider = self.window.saturating_mul(2).min(self.max_window);
        let grows = wider > self.window;
        self.window = wider;
        self.due |= grows;
        grows
    }

    /// Returns whether the peer would gain from a new limit, however little.
    pub(crate) fn can_grant(&self) -> bool {
        self.slides() && self.consumed + self.window > self.limit
    }

    /// Returns whether the peer has used all its credit while some could be given. Waiting for half a window
    /// might then take forever: the rest may be held by data of another stream, which the application does
    /// not read.
    pub(crate) fn is_starved(&self) -> bool {
        self.received == self.limit && self.can_grant()
    }

    /// Returns the limit to send to the peer now; it never shrinks.
    pub(crate) fn grant(&mut self) -> u64 {
        self.due = false;
        if self.slides() {
            let limit = self.consumed.saturating_add(self.window);
            self.next_limit = self.limit.max(limit).min(anabranch_wire::MAX_VARINT);
        }
        self.limit = self.next_limit;
        self.limit
    }
}

/// Credit that the peer gives, for one stream or for the connection, in bytes.
#[derive(Clone, Debug, Default)]
pub(crate) struct SendCredit {
    limit: u64,
    used: u64,
    /// The application wanted to write more than the limit allowed.
    wanted: bool,
    /// Limit that a *_BLOCKED frame last named; one frame per limit is enough (RFC 9000 §4.1).
    reported: Option<u64>,
}

impl SendCredit {
    /// Creates a credit up to `limit`.
    pub(crate) fn new(limit: u64) -> Self {
        Self { limit, ..Self::default() }
    }

    /// Returns the highest offset that may be used.
    pub(crate) fn limit(&self) -> u64 {
        self.limit
    }

    /// Returns the bytes used so far.
    pub(crate) fn used(&self) -> u64 {
        self.used
    }

    /// Returns the bytes that may still be used.
    pub(crate) fn available(&self) -> u64 {
        self.limit.saturating_sub(self.used)
    }

    /// Uses `n` of the available bytes.
    pub(crate) fn take(&mut self, n: u64) {
        self.used += n;
    }

    /// Gives back `n` bytes that were taken and will never be sent.
    pub(crate) fn give_back(&mut self, n: u64) {
        self.used -= n;
    }

    /// Takes the peer's new limit and returns whether it is an increase. Old limits that arrive late change
    /// nothing.
    pub(crate) fn raise(&mut self, limit: u64) -> bool {
        if limit <= self.limit {
            return false;
        }
        self.limit = limit;
        self.wanted = false;
        true
    }

    /// Forgets the limit (0-RTT was refused and the remembered one with it), but not what has been used.
    pub(crate) fn restart(&mut self) {
        self.limit = 0;
        self.reported = None;
    }

    /// Notes that the application wants more credit than is available.
    pub(crate) fn want_more(&mut self) {
        self.wanted = true;
    }

    /// Returns whether a *_BLOCKED frame is due once all that the limit allows has been sent.
    pub(crate) fn should_report(&self) -> bool {
        self.wanted && self.reported != Some(self.limit)
    }

    /// Returns the limit that a *_BLOCKED frame names now; `None` if the peer has raised it meanwhile.
    pub(crate) fn report(&mut self) -> Option<u64> {
        self.wanted.then(|| *self.reported.insert(self.limit))
    }

    /// Returns whether a lost *_BLOCKED frame still holds.
    pub(crate) fn report_again(&self) -> bool {
        self.wanted && self.reported == Some(self.limit)
    }
}

#[cfg(test)]
mod tests;
