//! A bound on how often a handshake is acknowledged in packets of their own.
//!
//! RFC 9000 §13.2.1 wants Initial and Handshake packets acknowledged at once, which a peer can turn into work
//! without end: it answers each acknowledgment with another PING. No handshake needs more than the first few.

use std::time::Duration;

use anabranch_wire::Time;

/// Packets with nothing but acknowledgments that may leave one after another in one space of the handshake.
pub(crate) const MAX_PROMPT_ACKS: u32 = 64;

/// Interval at which one more acknowledgment may leave after that: `max_ack_delay` (RFC 9000 §18.2, the
/// default).
const INTERVAL: Duration = Duration::from_millis(25);

/// The bound for one space.
#[derive(Debug, Default)]
pub(crate) struct AckBudget {
    /// Time at which all of the budget is there again.
    full_at: Time,
    /// Time at which an acknowledgment may leave that is held back.
    held_until: Option<Time>,
}

impl AckBudget {
    /// Returns the time at which the next acknowledgment may leave, which lies in the past if it may leave
    /// now.
    fn next(&self) -> Time {
        let rest = self.full_at.saturating_since(Time::ZERO);
        Time::ZERO + rest.saturating_sub(INTERVAL * (MAX_PROMPT_ACKS - 1))
    }

    /// Returns whether an acknowledgment may leave now.
    pub(crate) fn allows(&self, now: Time) -> bool {
        self.next() <= now
    }

    /// Counts an acknowledgment that leaves and carries nothing else.
    pub(crate) fn on_sent(&mut self, now: Time) {
        self.full_at = self.full_at.max(now) + INTERVAL;
    }

    /// Holds a due acknowledgment until there is budget for it.
    pub(crate) fn hold(&mut self) {
        self.held_until = Some(self.next());
    }

    /// Returns the time at which held acknowledgments are tried again.
    pub(crate) fn held_until(&self) -> Option<Time> {
        self.held_until
    }

    /// Releases held acknowledgments if their time has come.
    pub(crate) fn release(&mut self, now: Time) {
        self.held_until = self.held_until.filter(|until| *until > now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(ms: u64) -> Time {
        Time::from_millis(ms)
    }

    #[test]
    fn a_burst_leaves_at_once_and_then_one_each_interval() {
        let mut budget = AckBudget::default();
        let burst = (0..1_000)
            .take_while(|_| {
                budget.allows(at(7)) && {
                    budget.on_sent(at(7));
                    true
                }
            })
            .count();
        assert_eq!(burst, MAX_PROMPT_ACKS as usize);
        budget.hold();
        assert_eq!(budget.held_until(), Some(at(32)));
        budget.release(at(31));
        assert_eq!(budget.held_until(), Some(at(32)));
        budget.release(at(32));
        assert_eq!(budget.held_until(), None);
        assert!(!budget.allows(at(31)) && budget.allows(at(32)));
        budget.on_sent(at(32));
        assert!(!budget.allows(at(56)) && budget.allows(at(57)));
        let later = (0..1_000).take_while(|_| {
            budget.allows(at(9_000)) && {
                budget.on_sent(at(9_000));
                true
            }
        });
        assert_eq!(later.count(), MAX_PROMPT_ACKS as usize);
    }
}
