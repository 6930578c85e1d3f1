//! Flow control credit (RFC 9000 §4) that this endpoint grants to the peer, and that the peer grants to this
//! endpoint.

use std::time::Duration;

use anabranch_wire::Time;

use crate::named::named;

named! {
    /// Growth rule of receive windows, from the initial size to the maximum.
    WindowRule, "rule of receive windows" {
        /// Grows the window to eight times the bytes that the application consumes in a round trip, once
        /// these bytes exceed a sixth of the window. The surplus keeps late data of one path from blocking
        /// the other paths.
        Adaptive = "adaptive";
        /// Grows the window to four times the bytes consumed in a round trip, once these bytes exceed a
        /// quarter of the window. This rule blocks a sender that doubles its rate; it exists to repeat older
        /// measurements.
        Fourfold = "fourfold";
        /// Rule of the stack of the 2022 study of packet number spaces. The limit triples once more than half
        /// of all credit ever granted has been consumed (on a stream) or received (on the connection). If the
        /// round trip exceeds 100 ms, the factor is one more than the round trip in units of 100 ms.
        #[cfg(feature = "research")]
        Study2022 = "2022";
    }
}

impl WindowRule {
    /// Returns whether limits are multiplied, as in the stack of the 2022 study, instead of following the
    /// bytes consumed.
    const fn leaps(self) -> bool {
        !matches!(self, Self::Adaptive | Self::Fourfold)
    }
}

/// Maximum round-trip time at which the stack of the 2022 study tripled its limits.
const STUDY_RTT: Duration = Duration::from_millis(100);

/// Round-trip time above which the factor of the 2022 study no longer increases.
const STUDY_MAX_RTT: Duration = Duration::from_millis(610);

/// Error: the peer exceeded a flow control limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Overrun;

/// Size of a window as a multiple of the bytes consumed in the last round trip: the minimum, and the size to
/// which a smaller window grows. A sender in slow start doubles its rate in each round trip. A new limit
/// takes effect at the sender one round trip later, and the next limit another round trip after that. The
/// window must therefore hold two and four times the bytes of the last round trip, six times in total. The
/// rest of the larger size is for late data.
const ROUND_TRIPS: (u64, u64) = (6, 8);

/// Minimum and target size of [`WindowRule::Fourfold`]; see [`ROUND_TRIPS`].
const FOURFOLD: (u64, u64) = (4, 4);

/// Minimum time over which the rate of consumption is measured, even if the round trip is shorter. Over a
/// shorter time, bursts would distort the rate.
const MIN_RTT: Duration = Duration::from_millis(1);

/// Flow control credit that this endpoint grants, for one stream or for the connection, in bytes.
///
/// A new limit is due once the application has consumed half a window. The window grows, up to a maximum,
/// with the bytes that the application consumes in a round trip ([`ROUND_TRIPS`]); a new limit is then due at
/// once.
#[derive(Clone, Debug)]
pub(crate) struct ReceiveCredit {
    window: u64,
    max_window: u64,
    /// Highest offset that the peer may use, already announced or about to be announced.
    limit: u64,
    /// Limit to announce next. Only the rule of 2022 computes it in advance.
    next_limit: u64,
    received: u64,
    consumed: u64,
    /// Start of the round trip in which consumption is measured. `consumed_before` is the number of bytes
    /// that had been consumed by then.
    since: Time,
    consumed_before: u64,
    due: bool,
    rule: WindowRule,
}

impl ReceiveCredit {
    /// Creates a credit of `window` bytes, granted to the peer by a transport parameter at `now`.
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

    /// Returns the number of bytes that the peer may still use; `None` under the rule of 2022. That rule must
    /// process the bytes of each packet separately, so a train of packets cannot be counted at once.
    pub(crate) fn left(&self) -> Option<u64> {
        self.slides().then_some(self.limit - self.received)
    }

    /// Returns the number of bytes that were received but not consumed.
    pub(crate) fn outstanding(&self) -> u64 {
        self.received - self.consumed
    }

    /// Records that the peer has used the credit up to `offset`. Returns the number of newly used bytes.
    #[inline]
    pub(crate) fn receive(&mut self, offset: u64) -> Result<u64, Overrun> {
        if offset > self.limit {
            return Err(Overrun);
        }
        let new = offset.saturating_sub(self.received);
        self.received += new;
        Ok(new)
    }

    /// Records that `n` received bytes have left the buffer. Returns whether a new limit should be announced
    /// to the peer.
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

    /// Raises the next limit according to the bytes received, if the rule of 2022 applies. Returns whether a
    /// new limit should be announced to the peer.
    pub(crate) fn multiply_by_received(&mut self, rtt: Duration) -> bool {
        let grows = self.rule.leaps() && self.multiply(self.received, rtt);
        self.due |= grows;
        grows
    }

    /// Raises the limit to announce next if more than half of it was `used`. The peer may use the new credit
    /// only once the limit is announced, because buffers are sized to the announced limit.
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

    /// Adapts the window to the bytes consumed in the last round trip, at most once per round trip; see
    /// [`ROUND_TRIPS`]. Returns whether the window was too small.
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

    /// Returns whether the limit follows the bytes consumed, instead of being multiplied.
    fn slides(&self) -> bool {
        !self.rule.leaps()
    }

    /// Returns whether less than half a window of credit is left to the peer, and no new limit is due.
    pub(crate) fn is_tight(&self) -> bool {
        self.slides() && !self.due && self.limit - self.received < self.window / 2
    }

    /// Doubles the window, up to its maximum. The caller uses this if the application reads in time, but late
    /// data, perhaps of a slow path, leaves the peer without credit: the window must span that data too.
    /// Returns whether a new limit should be announced to the peer.
    pub(crate) fn widen(&mut self) -> bool {
        let wider = self.window.saturating_mul(2).min(self.max_window);
        let grows = wider > self.window;
        self.window = wider;
        self.due |= grows;
        grows
    }

    /// Returns whether a new limit would grant the peer any more credit.
    pub(crate) fn can_grant(&self) -> bool {
        self.slides() && self.consumed + self.window > self.limit
    }

    /// Returns whether the peer has used all its credit although more could be granted. A new limit must then
    /// not wait until half a window is consumed: data of another stream that the application does not read
    /// may occupy the rest of the window forever.
    pub(crate) fn is_starved(&self) -> bool {
        self.received == self.limit && self.can_grant()
    }

    /// Returns the limit to announce to the peer now; it never decreases.
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

/// Flow control credit that the peer grants, for one stream or for the connection, in bytes.
#[derive(Clone, Debug, Default)]
pub(crate) struct SendCredit {
    limit: u64,
    used: u64,
    /// `true` if the application tried to write more than the limit allowed.
    wanted: bool,
    /// Limit reported by the last *_BLOCKED frame. One frame for each limit is enough (RFC 9000 §4.1).
    reported: Option<u64>,
}

impl SendCredit {
    /// Creates a credit up to offset `limit`.
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

    /// Consumes `n` bytes of the available credit.
    pub(crate) fn take(&mut self, n: u64) {
        self.used += n;
    }

    /// Restores `n` bytes of credit that were consumed for data that will never be sent.
    pub(crate) fn give_back(&mut self, n: u64) {
        self.used -= n;
    }

    /// Raises the limit to `limit` and returns whether that is an increase. A lower limit that arrives late
    /// has no effect.
    pub(crate) fn raise(&mut self, limit: u64) -> bool {
        if limit <= self.limit {
            return false;
        }
        self.limit = limit;
        self.wanted = false;
        true
    }

    /// Resets the limit to 0: 0-RTT was rejected, and the limit was a remembered one. The bytes used still
    /// count.
    pub(crate) fn restart(&mut self) {
        self.limit = 0;
        self.reported = None;
    }

    /// Records that the application wants more credit than is available.
    pub(crate) fn want_more(&mut self) {
        self.wanted = true;
    }

    /// Returns whether a *_BLOCKED frame must report the current limit. The caller sends the frame once all
    /// data up to the limit has been sent.
    pub(crate) fn should_report(&self) -> bool {
        self.wanted && self.reported != Some(self.limit)
    }

    /// Returns the limit to report in a *_BLOCKED frame; `None` if the peer has raised it since.
    pub(crate) fn report(&mut self) -> Option<u64> {
        self.wanted.then(|| *self.reported.insert(self.limit))
    }

    /// Returns whether a lost *_BLOCKED frame must be sent again, because its limit still blocks the
    /// application.
    pub(crate) fn report_again(&self) -> bool {
        self.wanted && self.reported == Some(self.limit)
    }
}

#[cfg(test)]
mod tests;
