//! Rate limit for ACK-only packets during the handshake.
//!
//! RFC 9000 §13.2.1 requires an immediate ACK for Initial and Handshake packets. A peer could cause endless
//! work by answering each ACK with another PING, but a handshake needs only a few ACK-only packets.

use std::time::Duration;

use anabranch_wire::Time;

/// Maximum number of ACK-only packets sent in a burst, in each packet number space of the handshake.
pub(crate) const MAX_PROMPT_ACKS: u32 = 64;

/// Interval at which further ACK-only packets may be sent: the default `max_ack_delay` (RFC 9000 §18.2).
const INTERVAL: Duration = Duration::from_millis(25);

/// Rate limit of one packet number space.
#[derive(Debug, Default)]
pub(crate) struct AckBudget {
    /// Time at which the whole budget is available again.
    full_at: Time,
    /// Time at which a delayed ACK may be sent.
    held_until: Option<Time>,
}

impl AckBudget {
    /// Returns the time at which the next ACK-only packet may be sent; it is in the past if one may be sent
    /// now.
    fn next(&self) -> Time {
        let rest = self.full_at.saturating_since(Time::ZERO);
        Time::ZERO + rest.saturating_sub(INTERVAL * (MAX_PROMPT_ACKS - 1))
    }

    /// Returns whether an ACK-only packet may be sent now.
    pub(crate) fn allows(&self, now: Time) -> bool {
        self.next() <= now
    }

    /// Counts a sent ACK-only packet.
    pub(crate) fn on_sent(&mut self, now: Time) {
        self.full_at = self.full_at.max(now) + INTERVAL;
    }

    /// Delays a due ACK until the budget allows it.
    pub(crate) fn hold(&mut self) {
        self.held_until = Some(self.next());
    }

    /// Returns the time at which delayed ACKs are tried again.
    pub(crate) fn held_until(&self) -> Option<Time> {
        self.held_until
    }

    /// Ends the delay of ACKs if it has expired by `now`.
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
