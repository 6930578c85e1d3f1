//! Decides when the next attempt to reach a server begins while earlier ones have not come through (RFC 8305
//! §5). Knows no socket and no clock.
//!
//! One attempt at a time is enough as long as the server answers: the next one begins when nothing at all was
//! heard for a while, or at once when an earlier one has failed. Whoever hears something waits anew, as the
//! answer may be a long one.

use std::time::Duration;

use anabranch_wire::Time;

/// Time for which the server may stay silent before the next attempt begins: the Connection Attempt Delay
/// that RFC 8305 §8 recommends.
pub const ATTEMPT_DELAY: Duration = Duration::from_millis(250);
/// Most attempts to begin one connection, those that have failed included.
pub const MAX_ATTEMPTS: usize = 8;

/// Limits on the attempts of [`Endpoint::connect_any`](crate::Endpoint::connect_any).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RacePolicy {
    delay: Duration,
    max_attempts: usize,
}

impl RacePolicy {
    /// Returns the time for which the server may stay silent before the next attempt begins.
    pub const fn delay(&self) -> Duration {
        self.delay
    }

    /// Attempts to make at most; no more than [`MAX_ATTEMPTS`] are made in any case.
    pub const fn max_attempts(&self) -> usize {
        self.max_attempts
    }

    /// Waits so long for a silent server before the next attempt.
    #[must_use]
    pub const fn with_delay(mut self, delay: Duration) -> Self {
        self.delay = delay;
        self
    }

    /// Makes so many attempts at most.
    #[must_use]
    pub const fn with_max_attempts(mut self, max_attempts: usize) -> Self {
        self.max_attempts = max_attempts;
        self
    }
}

impl Default for RacePolicy {
    fn default() -> Self {
        Self { delay: ATTEMPT_DELAY, max_attempts: MAX_ATTEMPTS }
    }
}

/// The attempts of one connection, which are numbered in the order in which they begin.
#[derive(Clone, Debug)]
pub(crate) struct Race {
    delay: Duration,
    begun: usize,
    attempts: usize,
    /// Time at which the next attempt begins unless something is heard until then.
    next: Time,
    /// Bytes that had been heard in all when that was decided.
    heard: u64,
}

impl Race {
    /// Creates the race of a connection with this number of candidates; the first attempt is due at once.
    pub(crate) fn new(now: Time, candidates: usize, policy: RacePolicy) -> Self {
        let attempts = candidates.min(policy.max_attempts).min(MAX_ATTEMPTS);
        Self { delay: policy.delay, begun: 0, attempts, next: now, heard: 0 }
    }

    /// Returns the attempt that is to begin now, if there is one. `heard` is the number of bytes that all
    /// attempts have received so far.
    pub(crate) fn due(&mut self, now: Time, heard: u64) -> Option<usize> {
        if self.begun == self.attempts || now < self.next {
            return None;
        }
        self.next = now + self.delay;
        // Silence is counted from the last look, so that a word buys between one delay and two.
        if std::mem::replace(&mut self.heard, heard) < heard {
            return None;
        }
        self.begun += 1;
        Some(self.begun - 1)
    }

    /// Makes the next attempt due at once, since one has failed or cannot even send. `heard` is the number of
    /// bytes that the remaining attempts have received.
    pub(crate) fn on_failed(&mut self, now: Time, heard: u64) {
        self.next = self.next.min(now);
        self.heard = heard;
    }

    /// Returns the time at which to ask again; `None` once every attempt has begun.
    pub(crate) fn next(&self) -> Option<Time> {
        (self.begun < self.attempts).then_some(self.next)
    }
}

#[cfg(test)]
mod tests;
