//! Path validation: outstanding challenges and pending responses (RFC 9000 §8.2).

use std::collections::VecDeque;
use std::time::Duration;

use anabranch_wire::{ConnectionId, Time};

use crate::datagram_io::FourTuple;

/// Maximum number of pending responses of a path. A newer one replaces the oldest, because a peer that floods
/// challenges needs a response only to the newest.
pub(crate) const MAX_PATH_RESPONSES: usize = 4;

/// Maximum number of unanswered challenges of one validation that are remembered. A validation with a
/// deadline then sends no more; one without a deadline drops the oldest.
const MAX_CHALLENGES: usize = 8;

/// Maximum time between two challenges on a failing path, unless its probe timeout is longer. A path that
/// works again is used again at most this much later. Until then the challenges cost 24 kbit/s.
pub(crate) const MAX_PROBE_INTERVAL: Duration = Duration::from_millis(400);

/// Deadline that is never reached.
const END_OF_TIME: Time = Time::from_nanos(u64::MAX);

/// Consequence of a successful validation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// The path already uses this four-tuple. Success removes the amplification limit.
    Confirm,
    /// The path migrates to this four-tuple (client migration, preferred address).
    Move {
        /// Sequence number of the peer's connection ID for the new four-tuple.
        sequence: u64,
    },
    /// The path is silent. It migrates to this four-tuple if a response arrives there before any packet
    /// arrives on the path's own four-tuple.
    Rescue {
        /// Sequence number of the peer's connection ID for the new four-tuple.
        sequence: u64,
    },
    /// The path has just left this four-tuple. If the peer responds there, an attacker may have forged the
    /// migration (RFC 9000 §9.3.3).
    Previous,
    /// The four-tuple is validated again with full-size datagrams, which the amplification limit forbade
    /// before.
    Size,
    /// The path is failing, and other paths replace it. Success shows that it works again.
    Life,
}

/// A validation in progress.
#[derive(Debug)]
pub(crate) struct Validation {
    /// Addresses under test.
    pub(crate) tuple: FourTuple,
    /// Peer's connection ID for these addresses.
    pub(crate) dcid: ConnectionId,
    /// Consequence of success.
    pub(crate) purpose: Purpose,
    /// Data of the sent challenges, with their send times.
    challenges: Vec<([u8; 8], Time)>,
    /// Time at which the next challenge is to be sent.
    next: Time,
    /// Time at which the validation fails.
    pub(crate) deadline: Time,
    /// Time from the next challenge to the one after it. It doubles with each challenge up to `max_interval`.
    interval: Duration,
    max_interval: Duration,
    /// `true` if the newest challenge was sent in a full-size datagram. Otherwise another validation must
    /// confirm the MTU.
    pub(crate) padded: bool,
}

impl Validation {
    /// Creates a validation that begins now. The interval between challenges is initially `pto` and doubles
    /// each time. The validation fails after three times the longer of `pto` and `unknown_pto`, the PTO of an
    /// unknown path (RFC 9000 §8.2.4).
    pub(crate) fn new(
        now: Time,
        tuple: FourTuple,
        dcid: ConnectionId,
        purpose: Purpose,
        pto: Duration,
        unknown_pto: Duration,
    ) -> Self {
        Self {
            tuple,
            dcid,
            purpose,
            challenges: Vec::new(),
            next: now,
            deadline: now + pto.max(unknown_pto) * 3,
            interval: pto,
            max_interval: Duration::MAX,
            padded: false,
        }
    }

    /// Creates a validation that probes a failing path. The interval is initially `pto` and doubles up to
    /// `max_interval`, or stays `pto` if that is longer. The validation has no deadline.
    pub(crate) fn of_life(
        now: Time,
        tuple: FourTuple,
        dcid: ConnectionId,
        pto: Duration,
        max_interval: Duration,
    ) -> Self {
        let max_interval = max_interval.max(pto);
        Self { max_interval, deadline: END_OF_TIME, ..Self::new(now, tuple, dcid, Purpose::Life, pto, pto) }
    }

    /// Creates a validation that probes other addresses for a silent path, like [`Self::of_life`].
    pub(crate) fn of_rescue(
        now: Time,
        tuple: FourTuple,
        dcid: ConnectionId,
        sequence: u64,
        (interval, max_interval): (Duration, Duration),
    ) -> Self {
        let purpose = Purpose::Rescue { sequence };
        Self { purpose, ..Self::of_life(now, tuple, dcid, interval, max_interval) }
    }

    /// Makes the next challenge due at once.
    pub(crate) fn hurry(&mut self, now: Time) {
        self.next = self.next.min(now);
    }

    /// Returns whether a challenge must be sent.
    pub(crate) fn challenge_due(&self, now: Time) -> bool {
        now >= self.next && self.may_ask()
    }

    fn may_ask(&self) -> bool {
        self.deadline == END_OF_TIME || self.challenges.len() < MAX_CHALLENGES
    }

    /// Records that a challenge with `data` is sent.
    pub(crate) fn on_sent(&mut self, now: Time, data: [u8; 8], padded: bool) {
        if self.challenges.len() == MAX_CHALLENGES {
            self.challenges.remove(0);
        }
        self.challenges.push((data, now));
        self.padded = padded;
        self.next = now + self.interval;
        self.interval = self.interval.saturating_mul(2).min(self.max_interval);
    }

    /// Returns the sequence number of the connection ID that was reserved for this validation only.
    pub(crate) fn taken(&self) -> Option<u64> {
        match self.purpose {
            Purpose::Move { sequence } | Purpose::Rescue { sequence } => Some(sequence),
            _ => None,
        }
    }

    /// Returns the send time of the challenge that `data` answers; `None` if it answers none.
    pub(crate) fn answered_by(&self, data: [u8; 8]) -> Option<Time> {
        self.challenges.iter().find(|(challenge, _)| *challenge == data).map(|(_, sent)| *sent)
    }

    /// Returns the newest challenge.
    #[cfg(test)]
    pub(crate) fn newest(&self) -> Option<[u8; 8]> {
        self.challenges.last().map(|(challenge, _)| *challenge)
    }

    /// Returns whether the deadline has passed.
    pub(crate) fn has_failed(&self, now: Time) -> bool {
        now >= self.deadline
    }

    /// Returns the time of the next challenge or of the deadline, whichever comes first.
    pub(crate) fn timeout(&self) -> Time {
        if self.may_ask() { self.next.min(self.deadline) } else { self.deadline }
    }
}

/// A PATH_RESPONSE that must be sent on the four-tuple on which its challenge arrived (RFC 9000 §8.2.2).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Response {
    pub(crate) tuple: FourTuple,
    pub(crate) data: [u8; 8],
    /// Size of the datagram with the challenge. Up to three times as many bytes may be sent to an unvalidated
    /// address.
    pub(crate) received: usize,
}

/// Pending responses, limited in number.
#[derive(Debug, Default)]
pub(crate) struct Responses(VecDeque<Response>);

impl Responses {
    pub(crate) fn push(&mut self, response: Response) {
        if self.0.len() == MAX_PATH_RESPONSES {
            self.0.pop_front();
        }
        self.0.push_back(response);
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the responses, oldest first.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Response> {
        self.0.iter()
    }

    /// Removes and returns the oldest response for `tuple`.
    pub(crate) fn pop_for(&mut self, tuple: &FourTuple) -> Option<Response> {
        let at = self.0.iter().position(|response| response.tuple == *tuple)?;
        self.0.remove(at)
    }
}

#[cfg(test)]
mod tests;
