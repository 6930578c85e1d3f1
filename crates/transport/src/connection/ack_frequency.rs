//! Requests for less frequent acknowledgments in ACK_FREQUENCY frames, sent by this endpoint or by the peer
//! (draft-ietf-quic-ack-frequency).

use std::time::Duration;

use crate::config::FrequencyRule;
use crate::connection::connection::Connection;
use crate::connection::parts::AckRequest;
use crate::error::{TransportError, violation};
use crate::path::Path;

/// Exclusive maximum of a requested acknowledgment delay (RFC 9000 §18.2).
const MAX_ACK_DELAY_LIMIT: Duration = Duration::from_millis(1 << 14);

impl Connection {
    /// Requests less frequent acknowledgments as the congestion window of the main path grows, if the peer
    /// supports ACK_FREQUENCY. One request applies to all paths, but the peer counts packets and measures the
    /// delay on each path separately.
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
        // Only `FrequencyRule::Study2022` may request a delay above the peer's `max_ack_delay`. Probe
        // timeouts then allow for the longer delay.
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

    /// Returns the maximum deliberate delay of the peer's ACKs for which probe timeouts allow; `None` until
    /// the peer's transport parameters are known. It is the longer of the requested delay and the peer's
    /// `max_ack_delay` (draft-ietf-quic-ack-frequency, “Computation of Probe Timeout Period”). Once the
    /// request is acknowledged, and if the rule shortens probe timeouts, it is the requested delay.
    pub(super) fn peer_ack_delay(&self) -> Option<Duration> {
        let max = Duration::from_millis(self.handshake.peer_parameters.as_ref()?.max_ack_delay);
        let Some(request) = self.pending.ack_requested else { return Some(max) };
        let requested = Duration::from_micros(request.max_ack_delay_us);
        let follows =
            self.pending.ack_request_acked && self.config.ack.frequency_rule.shortens_probe_timeouts();
        Some(if follows { requested } else { requested.max(max) })
    }

    /// Handles the acknowledgment of an ACK_FREQUENCY frame. If the frame was the newest one, updates the
    /// delay for which probe timeouts allow ([`Self::peer_ack_delay`]).
    pub(super) fn on_ack_frequency_acked(&mut self, sequence: u64) {
        if sequence != self.pending.ack_frequency_sequence {
            return;
        }
        self.pending.ack_request_acked = true;
        let Some(delay) = self.peer_ack_delay() else { return };
        let open = |path: &&mut Path| path.recovery.rtt().has_sample();
        self.paths.list.iter_mut().filter(open).for_each(|path| path.recovery.set_peer_max_ack_delay(delay));
    }

    /// Handles the peer's ACK_FREQUENCY frame (draft-ietf-quic-ack-frequency §4).
    pub(super) fn on_ack_frequency(
        &mut self,
        sequence: u64,
        threshold: u64,
        max_ack_delay_us: u64,
        reordering_threshold: u64,
    ) -> Result<(), TransportError> {
        let delay = Duration::from_micros(max_ack_delay_us);
        if max_ack_delay_us < self.min_ack_delay() || delay >= MAX_ACK_DELAY_LIMIT {
            return Err(violation("requested acknowledgment delay is out of bounds"));
        }
        if self.pending.ack_frequency_received.is_some_and(|newest| sequence <= newest) {
            return Ok(());
        }
        self.pending.ack_frequency_received = Some(sequence);
        // The frame's threshold counts the packets that do not trigger an ACK. The threshold of `AckRule`
        // includes the packet that does.
        self.acks.requested.threshold = threshold.saturating_add(1);
        self.acks.requested.max_delay = delay;
        self.acks.requested.reordering_threshold = reordering_threshold;
        Ok(())
    }
}
