//! How often either end wants acknowledgments (draft-ietf-quic-ack-frequency).

use std::time::Duration;

use anabranch_recovery::{Controller as _, Recovery, State};

use super::connection::Connection;
use crate::config::FrequencyRule;
use crate::error::TransportError;
use crate::error::violation;
use crate::path::Path;
use crate::token::Tokens;

/// Longest acknowledgment delay that may be asked for (RFC 9000 §18.2).
const MAX_ACK_DELAY_LIMIT: Duration = Duration::from_millis(1 << 14);

/// Bounds of the acknowledgment threshold that this end asks for: enough packets to matter, few enough for pacing.
const ACK_THRESHOLD_RANGE: (u64, u64) = (2, 32);

/// The shortest delay that probe timeouts allow for, unless the peer's `max_ack_delay` is shorter: where round trips are short, what a
/// busy host adds is longer than what it was asked for.
const MIN_COUNTED_DELAY: Duration = Duration::from_millis(5);

/// Longest delay that [`FrequencyRule::Study2022`] asks for.
const MAX_DELAY_2022: Duration = Duration::from_millis(10);

/// What this end asks of the peer's acknowledgments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct AckRequest {
    pub(super) threshold: u64,
    pub(super) max_ack_delay_us: u64,
}

impl AckRequest {
    /// What one path wants.
    fn of(recovery: &Recovery<Tokens>, rule: FrequencyRule) -> Self {
        let packets = recovery.window() / u64::from(recovery.mtu()).max(1);
        let quarter_of = |time: Duration| u64::try_from(time.as_micros() / 4).unwrap_or(u64::MAX);
        let threshold =
            |share: u64| (packets / share).clamp(ACK_THRESHOLD_RANGE.0, ACK_THRESHOLD_RANGE.1) - 1;
        match rule {
            // A quarter of the window and of the round trip keep the acknowledgment clock running; slow start has to see its
            // round trips in more detail to notice when they grow (RFC 9406).
            FrequencyRule::Adaptive => {
                let starting =
                    matches!(recovery.congestion().state(), State::SlowStart | State::ConservativeSlowStart);
                Self {
                    threshold: threshold(if starting { 16 } else { 4 }),
                    max_ack_delay_us: quarter_of(recovery.rtt().smoothed()),
                }
            }
            FrequencyRule::Study2022 => Self {
                threshold: threshold(4),
                max_ack_delay_us: quarter_of(recovery.rtt().min().min(MAX_DELAY_2022 * 4)),
            },
        }
    }

    fn is_far_from(&self, other: &Self) -> bool {
        let far = |a: u64, b: u64| a > b * 2 || b > a * 2;
        far(self.threshold, other.threshold) || far(self.max_ack_delay_us, other.max_ack_delay_us)
    }
}

impl Connection {
    /// Asks for rarer acknowledgments as the window of the main path grows, if the peer lets us. The peer counts packets and
    /// time for each path, but knows one request for all of them.
    pub(super) fn review_ack_frequency(&mut self) {
        if !self.config.ack.frequency || !self.handshake.confirmed {
            return;
        }
        let parameters = self.handshake.peer_parameters.as_ref();
        let Some((min, max)) = parameters.and_then(|p| Some((p.min_ack_delay?, p.max_ack_delay * 1000)))
        else {
            return;
        };
        let main = self.paths.list.main();
        if !main.recovery.rtt().has_sample() {
            return;
        }
        let mut request = AckRequest::of(&main.recovery, self.config.ack.frequency_rule);
        // Longer than the peer's own `max_ack_delay` only if that is part of the rule; probe timeouts then have to wait.
        let max = match self.config.ack.frequency_rule {
            FrequencyRule::Adaptive => max,
            FrequencyRule::Study2022 => u64::MAX,
        };
        request.max_ack_delay_us = request.max_ack_delay_us.clamp(min, max.max(min));
        if self.pending.ack_requested.is_none_or(|old| request.is_far_from(&old)) {
            self.pending.ack_requested = Some(request);
            self.pending.ack_request_acked = false;
            self.pending.ack_frequency = Some(request);
            self.pending.ack_frequency_sequence += 1;
            let delay = Duration::from_micros(request.max_ack_delay_us);
            self.paths.list.iter_mut().for_each(|path| path.recovery.allow_ack_delay(delay));
        }
    }

    /// The longest time that the peer may hold an ACK back on purpose, once its transport parameters are known: what it follows, or,
    /// as long as it may not have been asked yet, the longer of that and its `max_ack_delay` (draft-ietf-quic-ack-frequency,
    /// “Computation of Probe Timeout Period”).
    pub(super) fn peer_ack_delay(&self) -> Option<Duration> {
        let max = Duration::from_millis(self.handshake.peer_parameters.as_ref()?.max_ack_delay);
        let Some(request) = self.pending.ack_requested else { return Some(max) };
        let requested = Duration::from_micros(request.max_ack_delay_us);
        let follows =
            self.pending.ack_request_acked && self.config.ack.frequency_rule.shortens_probe_timeouts();
        Some(if follows { requested.max(MIN_COUNTED_DELAY.min(max)) } else { requested.max(max) })
    }

    /// The peer has an ACK_FREQUENCY frame: if it is the newest, probe timeouts need not wait for longer than it says.
    pub(super) fn on_ack_frequency_acked(&mut self, sequence: u64) {
        if sequence != self.pending.ack_frequency_sequence {
            return;
        }
        self.pending.ack_request_acked = true;
        let Some(delay) = self.peer_ack_delay() else { return };
        let open = |path: &&mut Path| path.recovery.rtt().has_sample();
        self.paths.list.iter_mut().filter(open).for_each(|path| path.recovery.set_peer_max_ack_delay(delay));
    }

    /// The peer's request (draft-ietf-quic-ack-frequency §4).
    pub(super) fn on_ack_frequency(
        &mut self,
        sequence: u64,
        threshold: u64,
        max_ack_delay_us: u64,
        reordering_threshold: u64,
    ) -> Result<(), TransportError> {
        let delay = Duration::from_micros(max_ack_delay_us);
        let min = self.handshake.local_parameters.as_ref().and_then(|parameters| parameters.min_ack_delay);
        let Some(min) = min else { return Err(violation("ACK_FREQUENCY without negotiation")) };
        if max_ack_delay_us < min || delay >= MAX_ACK_DELAY_LIMIT {
            return Err(violation("requested acknowledgment delay is out of bounds"));
        }
        if self.pending.ack_frequency_received.is_some_and(|newest| sequence <= newest) {
            return Ok(());
        }
        self.pending.ack_frequency_received = Some(sequence);
        // The threshold counts packets that need no acknowledgment; ours, the one that triggers it.
        self.ack_policy.threshold = threshold.saturating_add(1);
        self.ack_policy.max_delay = delay;
        self.ack_policy.reordering_threshold = reordering_threshold;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use anabranch_recovery::{Algorithm, Config, InitialWindow};
    use anabranch_wire::Time;

    use super::*;

    /// What a path with a window of so many packets asks for in slow start, its round-trip time being `rtt`.
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
        assert_eq!(asks(Study2022, 64, 100), (15, 10_000));
        assert_eq!(asks(Study2022, 64, 20), (15, 5_000));
        assert_eq!(asks(Study2022, 4, 20), (1, 5_000));
        assert_eq!(asks(Study2022, 1_000, 20), (31, 5_000));
    }
}
