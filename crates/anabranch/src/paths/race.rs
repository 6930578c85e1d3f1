//! Decides when the next attempt to reach a server begins while earlier ones have not come through (RFC 8305 §5). Knows no
//! socket and no clock.
//!
//! One attempt at a time is enough as long as the server answers: the next one begins when nothing at all was heard for a
//! while, or at once when an earlier one has failed. Whoever hears something waits anew, as the answer may be a long one.

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
mod tests {
    use super::*;

    fn at(millis: u64) -> Time {
        Time::ZERO + Duration::from_millis(millis)
    }

    fn race(candidates: usize) -> Race {
        let mut race = Race::new(at(0), candidates, RacePolicy::default());
        assert_eq!((race.next(), race.due(at(0), 0)), (Some(at(0)), Some(0)));
        race
    }

    #[test]
    fn silence_begins_one_attempt_after_the_other() {
        let mut race = race(3);
        assert_eq!((race.due(at(249), 0), race.next()), (None, Some(at(250))));
        assert_eq!((race.due(at(250), 0), race.next()), (Some(1), Some(at(500))));
        // Who asks late does not catch up: each attempt has its head start.
        assert_eq!((race.due(at(700), 0), race.next()), (Some(2), None));
        assert_eq!(race.due(at(9000), 0), None, "there is no other way");
    }

    #[test]
    fn a_word_from_the_server_buys_time_and_silence_after_it_does_not() {
        let mut race = race(3);
        assert_eq!((race.due(at(250), 1200), race.next()), (None, Some(at(500))));
        assert_eq!((race.due(at(500), 1260), race.next()), (None, Some(at(750))));
        assert_eq!((race.due(at(750), 1260), race.next()), (Some(1), Some(at(1000))));
        assert_eq!(race.due(at(1000), 1261), None, "whoever of them was heard");
    }

    #[test]
    fn a_failure_begins_the_next_attempt_at_once() {
        let mut race = race(4);
        race.on_failed(at(10), 0);
        assert_eq!((race.next(), race.due(at(10), 0)), (Some(at(10)), Some(1)));
        assert_eq!(race.next(), Some(at(260)));
        // What the failed one had heard is no sign of life any longer, in neither direction.
        assert_eq!(race.due(at(260), 5000), None);
        race.on_failed(at(300), 100);
        assert_eq!(race.due(at(300), 100), Some(2));
        assert_eq!(race.due(at(550), 101), None);
        // One that comes when the next is overdue does not put it off.
        race.on_failed(at(900), 101);
        assert_eq!((race.next(), race.due(at(900), 101), race.next()), (Some(at(800)), Some(3), None));
    }

    #[test]
    fn attempts_are_bounded_and_the_delay_is_configurable() {
        let begun = |candidates, policy| {
            let mut race = Race::new(at(0), candidates, policy);
            std::iter::from_fn(|| race.next().and_then(|next| race.due(next, 0).map(|_| next))).last()
        };
        let quick = RacePolicy { delay: Duration::from_millis(10), ..RacePolicy::default() };
        assert_eq!(begun(1000, quick), Some(at(10 * (MAX_ATTEMPTS as u64 - 1))));
        assert_eq!(begun(1000, RacePolicy { max_attempts: usize::MAX, ..quick }), begun(1000, quick));
        assert_eq!(begun(1000, RacePolicy { max_attempts: 2, ..quick }), Some(at(10)));
        assert_eq!(begun(1, RacePolicy::default()), Some(at(0)));
        assert_eq!(begun(0, RacePolicy::default()), None);
    }
}
