//! BBR version 3 (draft-ietf-ccwg-bbr). A model of the path, its bandwidth and round-trip time, determines
//! the pacing rate and the window.
//!
//! The module `model` updates the model of the path, and `phase` the phase of the controller. This module
//! derives the pacing rate and the window from both. Section numbers are those of draft-ietf-ccwg-bbr-02.

mod model;
mod phase;

use core::time::Duration;

use anabranch_wire::Time;

use self::model::{Bounds, MaxBandwidth, RecentMax};
use self::phase::AckPhase;
use super::jitter::Jitter;
use super::plateau::Plateau;
use super::rounds::Rounds;
use super::{Acked, Congested, Controller, Departure, LostPacket, Sibling, Start, State};
use crate::rate::{bytes_in, per_second};

/// Unit of gains, which are in thousandths.
const UNIT: u64 = 1000;
/// 4·ln 2: the smallest pacing gain with which the delivery rate can double each round (§2.4).
const STARTUP_PACING: u64 = 2773;
const STARTUP_WINDOW: u64 = 2000;
/// Smallest number of windows for which a round trip has time in Startup, as in other controllers' slow start.
const STARTUP_WINDOWS: u64 = 2;
const DRAIN_PACING: u64 = 350;
const DEFAULT_WINDOW: u64 = 2000;
/// Minimum window in packets, so that acknowledgments continue to arrive (§2.7, MinPipeCwnd).
const MIN_PIPE_PACKETS: u64 = 4;
/// Ratio of the pacing rate to the estimated bandwidth, in thousandths. It is 1 % below one, so that the
/// queue drains (§2.4).
const PACING_MARGIN: u64 = 990;
/// Maximum number of bytes of one send (§5.6.3).
const MAX_QUANTUM: u64 = 64 * 1024;

/// BBR version 3.
#[derive(Clone, Debug)]
pub struct Bbr {
    state: State,
    window: u64,
    initial_window: u64,
    pacing_rate: u64,
    /// `true` if the pacing rate is based on a measured round-trip time.
    has_rtt: bool,
    mtu: u64,
    jitter: Jitter,

    rounds: Rounds,
    round_start: bool,
    /// `true` if the window limited sending, for this round and for the last one.
    window_limited: [bool; 2],

    max_bandwidth: MaxBandwidth,
    /// Estimated bandwidth in bytes per second, limited by the short-term bound.
    bandwidth: u64,
    bounds: Bounds,
    min_rtt: Duration,
    min_rtt_stamp: Time,
    extra_acked: RecentMax,
    extra_acked_start: Time,
    extra_acked_delivered: u64,

    /// Largest delivery rate and largest number of delivered bytes of the current loss round, for the
    /// short-term bounds.
    latest_bandwidth: u64,
    latest_inflight: u64,
    loss_round: Rounds,
    loss_in_round: bool,
    losses_in_round: u32,
    lost_since_ack: bool,

    plateau: Plateau,
    ack_phase: AckPhase,
    /// `true` if losses are attributed to a probe for bandwidth.
    probing_sample: bool,
    cycle_stamp: Time,
    probe_wait: Duration,
    rounds_since_probe: u64,
    probe_up_bytes: u64,
    probe_up_rounds: u32,
    probe_up_acked: u64,

    probe_rtt_min: Duration,
    probe_rtt_stamp: Time,
    probe_rtt_expired: bool,
    probe_rtt_done: Option<Time>,
    probe_rtt_round_done: bool,
    prior_window: u64,
    idle_restart: bool,
    saved: Saved,
}

/// State that a congestion event may change and that is restored if the event was spurious (§5.5.11.2).
#[derive(Clone, Copy, Debug)]
struct Saved {
    state: State,
    bounds: Bounds,
    plateau: Plateau,
}

impl Bbr {
    /// Creates the controller of a new path.
    pub fn new(start: &Start) -> Self {
        // §5.6.2: a round-trip time of one millisecond is assumed before the first sample. The window limits
        // the rate.
        let nominal = per_second(start.window, Duration::from_millis(1));
        Self {
            state: State::Startup,
            window: start.window,
            initial_window: start.window,
            pacing_rate: nominal * STARTUP_PACING / UNIT,
            has_rtt: false,
            mtu: start.mtu,
            jitter: Jitter::new(start.seed),
            rounds: Rounds::default(),
            round_start: false,
            window_limited: [false; 2],
            max_bandwidth: MaxBandwidth::default(),
            bandwidth: 0,
            bounds: Bounds::default(),
            min_rtt: Duration::MAX,
            min_rtt_stamp: start.now,
            extra_acked: RecentMax::default(),
            extra_acked_start: start.now,
            extra_acked_delivered: 0,
            latest_bandwidth: 0,
            latest_inflight: 0,
            loss_round: Rounds::default(),
            loss_in_round: false,
            losses_in_round: 0,
            lost_since_ack: false,
            plateau: Plateau::default(),
            ack_phase: AckPhase::Init,
            probing_sample: false,
            cycle_stamp: start.now,
            probe_wait: Duration::ZERO,
            rounds_since_probe: 0,
            probe_up_bytes: u64::MAX,
            probe_up_rounds: 0,
            probe_up_acked: 0,
            probe_rtt_min: Duration::MAX,
            probe_rtt_stamp: start.now,
            probe_rtt_expired: false,
            probe_rtt_done: None,
            probe_rtt_round_done: false,
            prior_window: 0,
            idle_restart: false,
            saved: Saved { state: State::Startup, bounds: Bounds::default(), plateau: Plateau::default() },
        }
    }

    /// Restarts the controller after an outage (§5.2.1, BBROnInit). Without a restart, the window would be
    /// limited by bounds that the outage's losses set and by rates measured across the outage. Only probing
    /// raises these, and random losses can prevent that permanently. The window is that of §5.6.4.4.
    fn restart(&mut self, now: Time, mtu: u64) {
        let window = MIN_PIPE_PACKETS * mtu;
        let fresh = Self::new(&Start { now, window, mtu, rtt: Duration::ZERO, seed: 0 });
        *self = Self { jitter: self.jitter.clone(), initial_window: self.initial_window, ..fresh };
    }

    /// Returns the phase's pacing gain (§5.1, figure of gains).
    fn pacing_gain(&self) -> u64 {
        match self.state {
            State::Startup => STARTUP_PACING,
            State::Drain => DRAIN_PACING,
            State::ProbeBwDown => 900,
            State::ProbeBwUp => 1250,
            _ => UNIT,
        }
    }

    /// Returns the phase's window gain (§5.1, figure of gains).
    fn window_gain(&self) -> u64 {
        match self.state {
            State::Startup | State::Drain => STARTUP_WINDOW,
            State::ProbeBwUp => 2250,
            State::ProbeRtt => 500,
            _ => DEFAULT_WINDOW,
        }
    }

    fn min_pipe(&self) -> u64 {
        MIN_PIPE_PACKETS * self.mtu
    }

    /// Returns `gain` times the bandwidth-delay product of `bandwidth` (§5.6.4.2).
    fn bdp(&self, bandwidth: u64, gain: u64) -> u64 {
        if self.min_rtt == Duration::MAX {
            return self.initial_window * gain / UNIT;
        }
        bytes_in(bandwidth, self.min_rtt).saturating_mul(gain) / UNIT
    }

    /// Returns the target bytes in flight: `gain` times the bandwidth-delay product, with an allowance for
    /// batches at both endpoints (§5.6.4.2).
    fn inflight(&self, bandwidth: u64, gain: u64) -> u64 {
        self.with_quantization(self.bdp(bandwidth, gain))
    }

    fn with_quantization(&self, inflight: u64) -> u64 {
        let quantum = bytes_in(self.pacing_rate, Duration::from_millis(1)).clamp(2 * self.mtu, MAX_QUANTUM);
        let extra = if self.state == State::ProbeBwUp { 2 * self.mtu } else { 0 };
        inflight.max(3 * quantum).max(self.min_pipe()) + extra
    }

    /// Returns the long-term bound minus headroom for other flows (§5.6.4.7).
    fn with_headroom(&self) -> u64 {
        match self.bounds.long_term {
            u64::MAX => u64::MAX,
            bound => bound.saturating_sub((bound * 15 / 100).max(self.mtu)).max(self.min_pipe()),
        }
    }

    /// Sets the pacing rate (§5.6.2).
    fn set_pace(&mut self, gain: u64) {
        let rate = self.bandwidth.saturating_mul(gain) / UNIT * PACING_MARGIN / UNIT;
        if rate > 0 && (self.plateau.reached || rate > self.pacing_rate) {
            self.pacing_rate = rate;
        }
    }

    /// Sets the window (§5.6.4).
    fn set_window(&mut self, ack: &Acked<'_>) {
        let cap = self.bdp(self.bandwidth, self.window_gain()).saturating_add(self.extra_acked.get());
        let target = self.with_quantization(cap);
        if self.plateau.reached {
            self.window = (self.window + ack.bytes).min(target);
        } else if self.window < target || ack.delivered < self.initial_window {
            self.window += ack.bytes;
        }
        self.window = self.window.max(self.min_pipe());
        if self.state == State::ProbeRtt {
            self.window = self.window.min(self.probe_rtt_window());
        }
        let bound = match self.state {
            State::ProbeBwDown | State::ProbeBwRefill | State::ProbeBwUp => self.bounds.long_term,
            State::ProbeBwCruise | State::ProbeRtt => self.with_headroom(),
            _ => u64::MAX,
        };
        self.window = self.window.min(bound.min(self.bounds.short_inflight).max(self.min_pipe()));
    }

    /// Raises the pacing rate in Startup so that a window takes at most half a round trip. The estimated
    /// bandwidth is that of the previous round, in which the window was half as large, so that with the
    /// draft's rate alone a window takes nearly three quarters of a round trip. The last packets of a short
    /// response would leave that much later.
    fn raise_startup_pace(&mut self, ack: &Acked<'_>) {
        if self.state == State::Startup && !self.plateau.reached && self.has_rtt {
            let rtt = ack.rtt.smoothed().max(Duration::from_micros(1));
            self.pacing_rate = self.pacing_rate.max(per_second(STARTUP_WINDOWS * self.window, rtt));
        }
    }

    /// Replaces the initial pacing rate, based on an assumed round-trip time, when the first sample is
    /// available.
    fn first_pace(&mut self, ack: &Acked<'_>) {
        if !self.has_rtt
            && let Some(rtt) = ack.rtt_sample
        {
            self.has_rtt = true;
            let nominal = per_second(self.window, rtt.max(Duration::from_micros(1)));
            self.pacing_rate = nominal.saturating_mul(STARTUP_PACING) / UNIT;
        }
    }
}

impl Controller for Bbr {
    fn on_sent(&mut self, packet: &Departure) {
        if packet.in_flight + packet.bytes + self.mtu > self.window {
            self.window_limited[0] = true;
        }
        // §5.4.1: a restart from idle must not build a queue.
        if packet.in_flight == 0 && packet.app_limited {
            self.idle_restart = true;
            self.extra_acked_start = packet.now;
            if self.is_probe_bw() {
                self.set_pace(UNIT);
            } else if self.state == State::ProbeRtt {
                self.end_probe_rtt(packet.now, packet.delivered);
            }
        }
    }

    fn on_short_queue(&mut self, now: Time) {
        self.confirm_min_rtt(now);
    }

    fn on_acked(&mut self, ack: &Acked<'_>, _siblings: &[Sibling]) {
        self.mtu = ack.mtu;
        self.first_pace(ack);
        // §5.2.3: update the model, then the phase, then the pacing rate and the window.
        let loss_round_start = self.measure(ack);
        self.advance_phase(ack, loss_round_start);
        if loss_round_start {
            self.latest_bandwidth = ack.sample.rate.unwrap_or(0);
            self.latest_inflight = ack.sample.delivered;
        }
        self.bandwidth = self.max_bandwidth.get().min(self.bounds.short_bandwidth);
        self.set_pace(self.pacing_gain());
        self.set_window(ack);
        self.raise_startup_pace(ack);
    }

    fn on_lost(&mut self, packet: &LostPacket) {
        self.note_loss(packet.delivered);
        self.lost_since_ack = true;
        if self.probing_sample && model::too_high(packet.lost_since, packet.in_flight) {
            let inflight = model::inflight_at_loss(packet);
            self.lower_long_term(packet.now, inflight, packet.app_limited, packet.delivered);
        }
    }

    fn on_congestion(&mut self, event: &Congested, _siblings: &[Sibling]) {
        self.saved = Saved { state: self.state, bounds: self.bounds, plateau: self.plateau };
        // The draft does not specify ECN. A CE mark lowers the short-term bounds as a loss does.
        if event.ce {
            self.note_loss(event.delivered);
        }
    }

    fn on_spurious(&mut self, now: Time) {
        self.loss_in_round = false;
        self.undo(now);
    }

    fn on_persistent_congestion(&mut self, now: Time, mtu: u64) {
        self.restart(now, mtu);
    }

    fn window(&self) -> u64 {
        self.window
    }

    fn pacing_rate(&self) -> Option<u64> {
        Some(self.pacing_rate)
    }

    fn state(&self) -> State {
        self.state
    }
}

#[cfg(test)]
mod tests;
