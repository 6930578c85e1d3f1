//! BBR's model of the path, updated by acknowledgments and losses (draft-ietf-ccwg-bbr-02 §5.5).

use core::time::Duration;

use anabranch_wire::Time;

use super::{Bbr, UNIT};
use crate::congestion::{Acked, LostPacket, State};
use crate::rate::bytes_in;

/// Loss rate, in thousandths, above which too many bytes are in flight (§2.7, BBR.LossThresh, 2 %).
pub(super) const LOSS_THRESHOLD: u64 = 20;
/// Factor by which a loss reduces a bound (§2.7, BBR.Beta), in thousandths.
pub(super) const BETA: u64 = 700;
/// Time for which a minimum round-trip time is valid (§2.7, BBR.MinRTTFilterLen).
const MIN_RTT_WINDOW: Duration = Duration::from_secs(10);
/// Interval between measurements of the round-trip time with an empty queue (§2.7, BBR.ProbeRTTInterval).
const PROBE_RTT_INTERVAL: Duration = Duration::from_secs(5);
/// Half of the length of the extra-acked filter, in rounds (§2.5, BBR.ExtraAckedFilterLen is 10).
const EXTRA_ACKED_ROUNDS: u64 = 5;

/// Largest delivery rates of the current and the previous probing cycle (§5.5.4, MaxBwFilterLen 2).
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct MaxBandwidth([u64; 2]);

impl MaxBandwidth {
    pub(super) fn get(&self) -> u64 {
        self.0[0].max(self.0[1])
    }

    fn update(&mut self, rate: u64) {
        self.0[0] = self.0[0].max(rate);
    }

    /// Ends a cycle (§5.5.6). A cycle without samples does not replace the previous one.
    pub(super) fn advance(&mut self) {
        if self.0[0] > 0 {
            self.0 = [0, self.0[0]];
        }
    }
}

/// Maximum over the last five to ten rounds.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RecentMax {
    values: [u64; 2],
    since: u64,
}

impl RecentMax {
    pub(super) fn get(&self) -> u64 {
        self.values[0].max(self.values[1])
    }

    fn update(&mut self, round: u64, value: u64) {
        if round - self.since >= EXTRA_ACKED_ROUNDS {
            self.values = [0, self.values[0]];
            self.since = round;
        }
        self.values[0] = self.values[0].max(value);
    }
}

/// Bounds set by losses; `u64::MAX` if there is none.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    /// Maximum number of bytes in flight in the long term, found by probing: inflight_longterm.
    pub(super) long_term: u64,
    /// Maximum bandwidth until the next probe: bw_shortterm.
    pub(super) short_bandwidth: u64,
    /// Maximum number of bytes in flight until the next probe: inflight_shortterm.
    pub(super) short_inflight: u64,
}

impl Default for Bounds {
    fn default() -> Self {
        Self { long_term: u64::MAX, short_bandwidth: u64::MAX, short_inflight: u64::MAX }
    }
}

impl Bounds {
    pub(super) fn reset_short_term(&mut self) {
        self.short_bandwidth = u64::MAX;
        self.short_inflight = u64::MAX;
    }
}

/// Returns whether the loss rate, `lost` of `in_flight` bytes, exceeds the threshold (§5.5.10.1).
pub(super) fn too_high(lost: u64, in_flight: u64) -> bool {
    lost > in_flight * LOSS_THRESHOLD / UNIT
}

/// Returns the bytes in flight at which the loss rate crossed the threshold, interpolated within the lost
/// packet (§5.5.10.2).
pub(super) fn inflight_at_loss(packet: &LostPacket) -> u64 {
    let before = packet.in_flight.saturating_sub(packet.bytes);
    let lost_before = packet.lost_since.saturating_sub(packet.bytes);
    let allowed = before * LOSS_THRESHOLD / UNIT;
    before + allowed.saturating_sub(lost_before) * UNIT / (UNIT - LOSS_THRESHOLD)
}

impl Bbr {
    /// Updates bandwidth, bounds and aggregation from an acknowledgment. Returns whether a new loss round
    /// begins.
    pub(super) fn measure(&mut self, ack: &Acked<'_>) -> bool {
        let rate = ack.sample.rate.unwrap_or(0);
        // §5.5.3, §5.5.4.
        self.latest_bandwidth = self.latest_bandwidth.max(rate);
        self.latest_inflight = self.latest_inflight.max(ack.sample.delivered);
        let loss_round_start = self.loss_round.on_acked(ack.sample.prior_delivered, ack.delivered);
        self.round_start = self.rounds.on_acked(ack.sample.prior_delivered, ack.delivered);
        if self.round_start {
            self.rounds_since_probe += 1;
            self.window_limited = [false, self.window_limited[0]];
        }
        if rate > 0 && (rate >= self.max_bandwidth.get() || !ack.sample.app_limited) {
            self.max_bandwidth.update(rate);
        }
        if core::mem::take(&mut self.lost_since_ack) {
            self.losses_in_round += 1;
        }
        if loss_round_start {
            self.adapt_short_term();
        }
        self.measure_aggregation(ack);
        loss_round_start
    }

    /// Lowers the short-term bounds after a round with losses (§5.5.10.3).
    fn adapt_short_term(&mut self) {
        let probing = matches!(self.state, State::Startup | State::ProbeBwRefill | State::ProbeBwUp);
        if !self.loss_in_round || probing {
            return;
        }
        let bounds = &mut self.bounds;
        let bandwidth = bounds.short_bandwidth.min(self.max_bandwidth.get());
        let inflight = bounds.short_inflight.min(self.window);
        bounds.short_bandwidth = self.latest_bandwidth.max(bandwidth / UNIT * BETA);
        bounds.short_inflight = self.latest_inflight.max(inflight * BETA / UNIT);
    }

    /// Measures ACK aggregation: the bytes acknowledged beyond those expected from the bandwidth. The window
    /// includes them, so that it covers the gaps between ACKs (§5.5.9).
    fn measure_aggregation(&mut self, ack: &Acked<'_>) {
        let expected = bytes_in(self.bandwidth, ack.now - self.extra_acked_start);
        let mut ahead = self.extra_acked_delivered.saturating_sub(expected);
        if self.extra_acked_delivered <= expected {
            self.extra_acked_delivered = 0;
            self.extra_acked_start = ack.now;
            ahead = 0;
        }
        self.extra_acked_delivered += ack.bytes;
        let extra = (ahead + ack.bytes).min(self.window);
        self.extra_acked.update(self.rounds.count(), extra);
    }

    /// Updates the minimum round-trip time (§5.3.4.3).
    pub(super) fn measure_rtt(&mut self, ack: &Acked<'_>) {
        let now = ack.now;
        self.probe_rtt_expired = now > self.probe_rtt_stamp + PROBE_RTT_INTERVAL;
        if let Some(rtt) = ack.rtt_sample
            && (rtt < self.probe_rtt_min || self.probe_rtt_expired)
        {
            self.probe_rtt_min = rtt;
            self.probe_rtt_stamp = now;
        }
        if self.probe_rtt_min < self.min_rtt || now > self.min_rtt_stamp + MIN_RTT_WINDOW {
            self.min_rtt = self.probe_rtt_min;
            self.min_rtt_stamp = self.probe_rtt_stamp;
        }
    }

    /// Confirms the minimum round-trip time, so that the window need not be reduced to measure it (§5.3.4.3).
    pub(super) fn confirm_min_rtt(&mut self, now: Time) {
        self.probe_rtt_stamp = now;
        self.min_rtt_stamp = now;
    }

    /// Records a loss or a CE mark in the current round (§5.5.10.3, BBRNoteLoss).
    pub(super) fn note_loss(&mut self, delivered: u64) {
        if !self.loss_in_round {
            self.loss_round.start(delivered);
        }
        self.loss_in_round = true;
    }

    /// Lowers the long-term bound because a probe had too many bytes in flight (§5.5.10.1,
    /// BBRHandleInflightTooHigh).
    pub(super) fn lower_long_term(&mut self, now: Time, inflight: u64, app_limited: bool, delivered: u64) {
        self.probing_sample = false;
        if !app_limited {
            let target = self.bdp(self.bandwidth, UNIT).min(self.window);
            self.bounds.long_term = inflight.max(target * BETA / UNIT);
        }
        if self.state == State::ProbeBwUp {
            self.start_down(now, delivered);
        }
    }
}
