//! BBR's phases: Startup, Drain, the probing cycle, and ProbeRTT (draft-ietf-ccwg-bbr-02 §5.3).

use core::time::Duration;

use anabranch_wire::Time;

use super::{Bbr, UNIT, model};
use crate::congestion::{Acked, State};

/// Number of loss bursts in one round that end Startup (§5.3.1.3, BBR.StartupFullLossCnt).
const STARTUP_LOSSES: u32 = 6;
/// Time that ProbeRTT keeps the queue empty (§2.7, BBR.ProbeRTTDuration).
const PROBE_RTT_DURATION: Duration = Duration::from_millis(200);
/// Maximum number of rounds between probes, for coexistence with Reno flows (§5.3.3.5.1).
const MAX_RENO_ROUNDS: u64 = 63;

/// Part of the probing cycle to which the acknowledgments now arriving belong (§5.3.3.6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AckPhase {
    Init,
    Refilling,
    ProbeStarting,
    ProbeFeedback,
    ProbeStopping,
}

impl Bbr {
    /// Advances the state machine (§5.2.3).
    pub(super) fn advance_phase(&mut self, ack: &Acked<'_>, loss_round_start: bool) {
        if self.round_start && !self.plateau.now && !ack.sample.app_limited {
            self.plateau.update(ack.sample.rate.unwrap_or(0));
        }
        self.check_startup(ack, loss_round_start);
        if self.state == State::Drain && ack.in_flight <= self.inflight(self.bandwidth, UNIT) {
            self.start_down(ack.now, ack.delivered);
        }
        if self.plateau.reached {
            self.adapt_long_term(ack);
            self.advance_cycle(ack);
        }
        self.measure_rtt(ack);
        self.check_probe_rtt(ack);
        if loss_round_start {
            self.loss_in_round = false;
            self.losses_in_round = 0;
        }
    }

    /// Ends Startup when the bandwidth stops growing, or when the losses of a round show that the path is
    /// full (§5.3.1).
    fn check_startup(&mut self, ack: &Acked<'_>, loss_round_start: bool) {
        if self.state != State::Startup {
            return;
        }
        let lossy = loss_round_start
            && self.losses_in_round >= STARTUP_LOSSES
            && model::too_high(ack.sample.lost, ack.sample.in_flight);
        if lossy && !self.plateau.reached {
            self.plateau.reached = true;
            self.bounds.long_term = self.bdp(self.max_bandwidth.get(), UNIT).max(self.latest_inflight);
        }
        if self.plateau.reached {
            self.state = State::Drain;
        }
    }

    pub(super) fn is_probe_bw(&self) -> bool {
        matches!(
            self.state,
            State::ProbeBwDown | State::ProbeBwCruise | State::ProbeBwRefill | State::ProbeBwUp
        )
    }

    /// Advances the probing cycle (§5.3.3): Down, Cruise, Refill, Up.
    fn advance_cycle(&mut self, ack: &Acked<'_>) {
        let phase = self.state;
        match phase {
            State::ProbeBwDown | State::ProbeBwCruise if self.is_time_to_probe(ack.now) => {
                self.start_refill(ack.delivered);
            }
            State::ProbeBwDown if self.is_time_to_cruise(ack.in_flight) => {
                self.state = State::ProbeBwCruise;
            }
            State::ProbeBwRefill if self.round_start => {
                self.probing_sample = true;
                self.start_up(ack.sample.rate.unwrap_or(0), ack.delivered);
            }
            State::ProbeBwUp if self.is_time_to_go_down(ack) => self.start_down(ack.now, ack.delivered),
            _ => {}
        }
    }

    /// Returns whether it is time to probe: after two to three seconds, or after as many rounds as Reno would
    /// need for the same growth (§5.3.3.5).
    fn is_time_to_probe(&self, now: Time) -> bool {
        let packets = self.bdp(self.bandwidth, UNIT).min(self.window) / self.mtu;
        now > self.cycle_stamp + self.probe_wait || self.rounds_since_probe >= packets.min(MAX_RENO_ROUNDS)
    }

    fn is_time_to_cruise(&self, in_flight: u64) -> bool {
        in_flight <= self.with_headroom() && in_flight <= self.inflight(self.max_bandwidth.get(), UNIT)
    }

    fn is_time_to_go_down(&mut self, ack: &Acked<'_>) -> bool {
        if self.is_window_limited() && self.window >= self.bounds.long_term {
            // The bound, and not the path, limits the bandwidth, so probing continues.
            self.plateau.reset(ack.sample.rate.unwrap_or(0));
            return false;
        }
        self.plateau.now
    }

    fn is_window_limited(&self) -> bool {
        self.window_limited[0] || self.window_limited[1]
    }

    /// Enters ProbeBW_DOWN: sends below the estimate, so that the queue drains and other flows get capacity
    /// (§5.3.3.1).
    pub(super) fn start_down(&mut self, now: Time, delivered: u64) {
        // §5.5.10.3, BBRResetCongestionSignals.
        self.loss_in_round = false;
        self.losses_in_round = 0;
        self.latest_bandwidth = 0;
        self.latest_inflight = 0;
        self.probe_up_bytes = u64::MAX;
        // §5.3.3.5: randomized, so that flows do not synchronize their probes.
        self.rounds_since_probe = self.jitter.below(2);
        self.probe_wait = Duration::from_millis(2000 + self.jitter.below(1000));
        self.cycle_stamp = now;
        self.ack_phase = AckPhase::ProbeStopping;
        self.rounds.start(delivered);
        self.state = State::ProbeBwDown;
    }

    /// Enters ProbeBW_REFILL: fills the pipe for one round, so that the following probe measures the path
    /// (§5.3.3.3).
    fn start_refill(&mut self, delivered: u64) {
        self.bounds.reset_short_term();
        self.probe_up_rounds = 0;
        self.probe_up_acked = 0;
        self.ack_phase = AckPhase::Refilling;
        self.rounds.start(delivered);
        self.state = State::ProbeBwRefill;
    }

    /// Enters ProbeBW_UP: sends above the estimate, to test whether the delivery rate grows (§5.3.3.4).
    fn start_up(&mut self, rate: u64, delivered: u64) {
        self.ack_phase = AckPhase::ProbeStarting;
        self.rounds.start(delivered);
        self.plateau.reset(rate);
        self.state = State::ProbeBwUp;
        self.raise_slope();
    }

    /// Doubles the growth rate of the long-term bound in each round of a probe (§5.3.3.6).
    fn raise_slope(&mut self) {
        let growth = self.mtu << self.probe_up_rounds;
        self.probe_up_rounds = (self.probe_up_rounds + 1).min(30);
        self.probe_up_bytes = (self.window / growth).max(1) * self.mtu;
    }

    /// Raises the long-term bound while a probe causes no excessive loss, and otherwise lowers it (§5.3.3.6).
    fn adapt_long_term(&mut self, ack: &Acked<'_>) {
        if self.round_start && self.ack_phase == AckPhase::ProbeStarting {
            self.ack_phase = AckPhase::ProbeFeedback;
        }
        if self.round_start && self.ack_phase == AckPhase::ProbeStopping {
            self.probing_sample = false;
            self.ack_phase = AckPhase::Init;
            if self.is_probe_bw() && !ack.sample.app_limited {
                self.max_bandwidth.advance();
            }
        }
        let sample = &ack.sample;
        if model::too_high(sample.lost, sample.in_flight) {
            if self.probing_sample {
                self.lower_long_term(ack.now, sample.in_flight, sample.app_limited, ack.delivered);
            }
        } else if self.bounds.long_term != u64::MAX {
            self.bounds.long_term = self.bounds.long_term.max(sample.in_flight);
            if self.state == State::ProbeBwUp {
                self.raise_long_term(ack);
            }
        }
    }

    fn raise_long_term(&mut self, ack: &Acked<'_>) {
        if !self.is_window_limited() || self.window < self.bounds.long_term {
            return;
        }
        self.probe_up_acked += ack.bytes;
        let steps = self.probe_up_acked / self.probe_up_bytes;
        self.probe_up_acked %= self.probe_up_bytes;
        self.bounds.long_term = self.bounds.long_term.saturating_add(steps * self.mtu);
        if self.round_start {
            self.raise_slope();
        }
    }

    /// Returns the window during ProbeRTT (§5.6.4.5).
    pub(super) fn probe_rtt_window(&self) -> u64 {
        self.bdp(self.bandwidth, 500).max(self.min_pipe())
    }

    /// Enters and ends ProbeRTT. It is due when no sample has confirmed the minimum round-trip time for a
    /// while (§5.3.4.3).
    fn check_probe_rtt(&mut self, ack: &Acked<'_>) {
        if self.state != State::ProbeRtt && self.probe_rtt_expired && !self.idle_restart {
            self.prior_window = self.window;
            self.state = State::ProbeRtt;
            self.probe_rtt_done = None;
            self.ack_phase = AckPhase::ProbeStopping;
            self.rounds.start(ack.delivered);
        }
        if self.state == State::ProbeRtt {
            if self.probe_rtt_done.is_none() && ack.in_flight <= self.probe_rtt_window() {
                self.probe_rtt_done = Some(ack.now + PROBE_RTT_DURATION);
                self.probe_rtt_round_done = false;
                self.rounds.start(ack.delivered);
            } else if self.probe_rtt_done.is_some() {
                self.probe_rtt_round_done |= self.round_start;
                if self.probe_rtt_round_done {
                    self.end_probe_rtt(ack.now, ack.delivered);
                }
            }
        }
        if ack.sample.delivered > 0 {
            self.idle_restart = false;
        }
    }

    /// Ends ProbeRTT if it has lasted long enough (§5.3.4.4).
    pub(super) fn end_probe_rtt(&mut self, now: Time, delivered: u64) {
        if self.probe_rtt_done.is_none_or(|done| now <= done) {
            return;
        }
        self.probe_rtt_stamp = now;
        self.window = self.window.max(self.prior_window);
        self.bounds.reset_short_term();
        if self.plateau.reached {
            self.start_down(now, delivered);
            self.state = State::ProbeBwCruise;
        } else {
            self.state = State::Startup;
        }
    }

    /// Restores bounds and phase after spurious losses (§5.5.11.2).
    pub(super) fn undo(&mut self, _now: Time) {
        let saved = self.saved;
        let bounds = &mut self.bounds;
        bounds.long_term = bounds.long_term.max(saved.bounds.long_term);
        bounds.short_bandwidth = bounds.short_bandwidth.max(saved.bounds.short_bandwidth);
        bounds.short_inflight = bounds.short_inflight.max(saved.bounds.short_inflight);
        if self.state == State::ProbeRtt || self.state == saved.state {
            self.plateau.reset(0);
            return;
        }
        match saved.state {
            State::Startup => {
                self.plateau = saved.plateau;
                self.plateau.reset(0);
                self.state = State::Startup;
            }
            State::ProbeBwUp => {
                self.probing_sample = true;
                self.ack_phase = AckPhase::ProbeStarting;
                self.plateau.reset(0);
                self.state = State::ProbeBwUp;
                self.raise_slope();
            }
            _ => self.plateau.reset(0),
        }
    }
}
