//! Frequency of acknowledgments that either end asks for (draft-ietf-quic-ack-frequency).

use std::time::Duration;

use crate::config::FrequencyRule;
use crate::connection::connection::Connection;
use crate::connection::parts::AckRequest;
use crate::error::{TransportError, violation};
use crate::path::Path;

/// Longest acknowledgment delay that may be asked for (RFC 9000 §18.2).
const MAX_ACK_DELAY_LIMIT: Duration = Duration::from_millis(1 << 14);

/// The shortest delay that probe timeouts allow for, unless the peer's `max_ack_delay` is shorter: where
/// round trips are short, what a busy host adds is longer than what it was asked for.
const MIN_COUNTED_DELAY: Duration = Duration::from_millis(5);

impl Connection {
    /// Asks for rarer acknowledgments as the window of the main path grows, if the peer lets us. The peer
    /// counts packets and time for each path, but knows one request for all of them.
    pub(super) fn review_ack_frequency(&mut self) {
        if !self.config.ack.frequency || !self.handshake.progress.confirmed {
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
        // Longer than the peer's own `max_ack_delay` only if that is part of the rule; probe timeouts then
        // have to wait.
        let max = match self.config.ack.frequency_rule {
            FrequencyRule::Adaptive => max,
            #[cfg(feature = "research")]
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

    /// Returns the longest time that the peer may hold an ACK back on purpose, once its transport parameters
    /// are known: the requested delay, or, as long as the request may not have arrived, the longer of that
    /// and its `max_ack_delay` (draft-ietf-quic-ack-frequency, “Computation of Probe Timeout Period”).
    pub(super) fn peer_ack_delay(&self) -> Option<Duration> {
        let max = Duration::from_millis(self.handshake.peer_parameters.as_ref()?.max_ack_delay);
        let Some(request) = self.pending.ack_requested else { return Some(max) };
        let requested = Duration::from_micros(request.max_ack_delay_us);
        let follows =
            self.pending.ack_request_acked && self.config.ack.frequency_rule.shortens_probe_timeouts();
        Some(if follows { requested.max(MIN_COUNTED_DELAY.min(max)) } else { requested.max(max) })
    }

    /// Notes that an ACK_FREQUENCY frame was acknowledged: after the newest one, probe timeouts need not wait
    /// for longer than it says.
    pub(super) fn on_ack_frequency_acked(&mut self, sequence: u64) {
        if sequence != self.pending.ack_frequency_sequence {
            return;
        }
        self.pending.ack_request_acked = true;
        let Some(delay) = self.peer_ack_delay() else { return };
        let open = |path: &&mut Path| path.recovery.rtt().has_sample();
        self.paths.list.iter_mut().filter(open).for_each(|path| path.recovery.set_peer_max_ack_delay(delay));
    }

    /// Takes over the peer's request (draft-ietf-quic-ack-frequency §4).
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
        self.acks.requested.threshold = threshold.saturating_add(1);
        self.acks.requested.max_delay = delay;
        self.acks.requested.reordering_threshold = reordering_threshold;
        Ok(())
    }
}
