//! Request for the peer's acknowledgment frequency (draft-ietf-quic-ack-frequency).

use std::time::Duration;

use anabranch_recovery::{Controller as _, Recovery, State};

use crate::config::FrequencyRule;
use crate::token::Tokens;

/// Minimum and maximum acknowledgment threshold that this endpoint requests, in packets. A lower one would
/// save little; a higher one would disturb pacing.
const ACK_THRESHOLD_RANGE: (u64, u64) = (2, 32);

/// Minimum delay that [`FrequencyRule::Adaptive`] requests, unless the peer's `max_ack_delay` is shorter. A peer
/// that is busy with many connections takes milliseconds to respond, and an ACK that waits for its response
/// needs no packet of its own.
const MIN_DELAY: Duration = Duration::from_millis(5);

/// Maximum delay that [`FrequencyRule::Study2022`] requests.
#[cfg(feature = "research")]
const MAX_DELAY_2022: Duration = Duration::from_millis(10);

/// Content of an ACK_FREQUENCY frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AckRequest {
    pub(crate) threshold: u64,
    pub(crate) max_ack_delay_us: u64,
}

impl AckRequest {
    /// Computes the request from the state of one path.
    pub(crate) fn of(recovery: &Recovery<Tokens>, rule: FrequencyRule) -> Self {
        let packets = recovery.window() / u64::from(recovery.mtu()).max(1);
        let micros = |time: Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        let threshold =
            |share: u64| (packets / share).clamp(ACK_THRESHOLD_RANGE.0, ACK_THRESHOLD_RANGE.1) - 1;
        match rule {
            // An ACK for each quarter of the window or of the round-trip time keeps the acknowledgment clock
            // running. Slow start needs finer samples to notice that round-trip times increase (RFC 9406).
            FrequencyRule::Adaptive => {
                let starting =
                    matches!(recovery.congestion().state(), State::SlowStart | State::ConservativeSlowStart);
                Self {
                    threshold: threshold(if starting { 16 } else { 4 }),
                    max_ack_delay_us: micros((recovery.rtt().smoothed() / 4).max(MIN_DELAY)),
                }
            }
            #[cfg(feature = "research")]
            FrequencyRule::Study2022 => Self {
                threshold: threshold(4),
                max_ack_delay_us: micros((recovery.rtt().min() / 4).min(MAX_DELAY_2022)),
            },
        }
    }

    pub(crate) fn is_far_from(&self, other: &Self) -> bool {
        let far = |a: u64, b: u64| a > b * 2 || b > a * 2;
        far(self.threshold, other.threshold) || far(self.max_ack_delay_us, other.max_ack_delay_us)
    }
}

#[cfg(test)]
mod tests {
    use anabranch_recovery::{Algorithm, Config, InitialWindow};
    use anabranch_wire::Time;

    use super::*;

    /// Returns the request for a path in slow start with a window of `packets` packets and a round-trip time
    /// of `rtt` milliseconds.
    fn asks(rule: FrequencyRule, packets: u32, rtt: u64) -> (u64, u64) {
        let config = Config::default()
            .with_initial_window(InitialWindow::Packets(packets))
            .with_congestion(Algorithm::Cubic);
        let mut recovery = Recovery::<Tokens>::new(&config, Time::ZERO);
        recovery.on_round_trip(Time::from_millis(rtt), Duration::from_millis(rtt));
        let request = AckRequest::of(&recovery, rule);
        (request.threshold, request.max_ack_delay_us)
    }

    #[test]
    fn what_is_asked_for() {
        use FrequencyRule::{Adaptive, Study2022};
        assert_eq!(asks(Adaptive, 64, 100), (3, 25_000));
        assert_eq!(asks(Adaptive, 64, 4), (3, 5_000));
        assert_eq!(asks(Study2022, 64, 100), (15, 10_000));
        assert_eq!(asks(Study2022, 64, 20), (15, 5_000));
        assert_eq!(asks(Study2022, 4, 20), (1, 5_000));
        assert_eq!(asks(Study2022, 1_000, 20), (31, 5_000));
    }
}
