//! Acknowledgments of 1-RTT packets: when they are due, and how many were sent.

use anabranch_wire::Time;

use crate::acknowledge::{AckArrival, AckRule, AckStrategy};
use crate::config::AckConfig;
use crate::path::{AckStats, Path};

/// Exponent of the delays in this end's ACK frames (RFC 9000 §18.2, `ack_delay_exponent`): the default.
pub(crate) const ACK_DELAY_EXPONENT: u64 = 3;

/// Acknowledgment rule, strategy and counters.
#[derive(Debug)]
pub(crate) struct Acks {
    /// Rule of the configuration, or of the peer's latest ACK_FREQUENCY frame.
    pub(crate) requested: AckRule,
    strategy: Option<Box<dyn AckStrategy>>,
    pub(crate) stats: AckStats,
}

impl Acks {
    /// Creates the rule and the strategy that `config` selects.
    pub(crate) fn new(config: &AckConfig) -> Self {
        let requested =
            AckRule { threshold: config.threshold, max_delay: config.max_delay, reordering_threshold: 1 };
        Self { requested, strategy: config.timing.build(), stats: AckStats::default() }
    }

    /// Returns the rule for `packets` ack-eliciting packets that have just arrived on `path`.
    #[inline]
    pub(crate) fn rule(&mut self, now: Time, path: &Path, packets: u64) -> AckRule {
        match &mut self.strategy {
            Some(strategy) if packets > 0 => Self::ask(&mut **strategy, self.requested, now, path, packets),
            _ => self.requested,
        }
    }

    /// Returns the strategy's rule, with its delay limited to the requested one, which the peer expects.
    fn ask(
        strategy: &mut dyn AckStrategy,
        requested: AckRule,
        now: Time,
        path: &Path,
        packets: u64,
    ) -> AckRule {
        let rtt = path.recovery.rtt();
        let arrival = AckArrival {
            path: path.id,
            packets,
            unacked: u64::from(path.received.ack.unacked()),
            smoothed_rtt: rtt.has_sample().then(|| rtt.smoothed()),
            requested,
        };
        let rule = strategy.rule(now, &arrival);
        AckRule {
            threshold: rule.threshold.max(1),
            max_delay: rule.max_delay.min(requested.max_delay),
            ..rule
        }
    }
}
