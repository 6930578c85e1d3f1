//! Schedule of the attempts to reach a server (RFC 8305 §5). It uses no sockets and no clock.
//!
//! One attempt at a time is enough while the server responds. The next attempt begins when nothing has been
//! received for a while, or at once when an earlier one has failed. Received data restarts the wait, since
//! the response may be long.

use std::time::Duration;

use anabranch_wire::Time;

/// Time without received data after which the next attempt begins: the Connection Attempt Delay that RFC 8305
/// §8 recommends.
pub const ATTEMPT_DELAY: Duration = Duration::from_millis(250);
/// Maximum number of attempts for one connection, including failed ones.
pub const MAX_ATTEMPTS: usize = 8;

/// Limits on the attempts of [`Endpoint::connect_any`](crate::Endpoint::connect_any).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RacePolicy {
    delay: Duration,
    max_attempts: usize,
}

impl RacePolicy {
    /// Returns the time without received data after which the next attempt begins.
    pub const fn delay(&self) -> Duration {
        self.delay
    }

    /// Returns the maximum number of attempts; [`MAX_ATTEMPTS`] limits it in any case.
    pub const fn max_attempts(&self) -> usize {
        self.max_attempts
    }

    /// Sets the time without received data after which the next attempt begins.
    #[must_use]
    pub const fn with_delay(mut self, delay: Duration) -> Self {
        self.delay = delay;
        self
    }

    /// Sets the maximum number of attempts.
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

/// Attempts of one connection, numbered in the order in which they begin.
#[derive(Clone, Debug)]
pub(crate) struct Race {
    delay: Duration,
    begun: usize,
    attempts: usize,
    /// Time at which the next attempt begins unless something is received first.
    next: Time,
    /// Total number of bytes that had been received when `next` was set.
    heard: u64,
}

impl Race {
    /// Creates the race of a connection with `candidates` candidates. The first attempt is due at once.
    pub(crate) fn new(now: Time, candidates: usize, policy: RacePolicy) -> Self {
        let attempts = candidates.min(policy.max_attempts).min(MAX_ATTEMPTS);
        Self { delay: policy.delay, begun: 0, attempts, next: now, heard: 0 }
    }

    /// Returns the index of the attempt that is due now, if there is one. `heard` is the number of bytes that
    /// all attempts have received so far.
    pub(crate) fn due(&mut self, now: Time, heard: u64) -> Option<usize> {
        if self.begun == self.attempts || now < self.next {
            return None;
        }
        self.next = now + self.delay;
        // Silence is measured between checks, so received data delays the next attempt by one to two delays.
        if std::mem::replace(&mut self.heard, heard) < heard {
            return None;
        }
        self.begun += 1;
        Some(self.begun - 1)
    }

    /// Makes the next attempt due at once, because one has failed or cannot send. `heard` is the number of
    /// bytes that the remaining attempts have received.
    pub(crate) fn on_failed(&mut self, now: Time, heard: u64) {
        self.next = self.next.min(now);
        self.heard = heard;
    }

    /// Returns the time at which [`Race::due`] must be called again; `None` once every attempt has begun.
    pub(crate) fn next(&self) -> Option<Time> {
        (self.begun < self.attempts).then_some(self.next)
    }
}

#[cfg(test)]
mod tests;
