//! BBR version 1 (draft-cardwell-iccrg-bbr-congestion-control-00), as Linux and picoquic used it for years.
//! Pacing rate and window depend on the largest delivery rate of ten rounds and the smallest round-trip time
//! of ten seconds. The response to losses is a type parameter. Section numbers are those of the draft.

mod policer;

use core::fmt::Debug;
use core::time::Duration;

use anabranch_wire::Time;

use self::policer::Policer;
use super::jitter::Jitter;
use super::plateau::Plateau;
use super::rounds::Rounds;
use super::{Acked, Congested, Controller, Departure, LostPacket, Sibling, Start, State};
use crate::rate::{bytes_in, per_second};

/// Unit of gains, which are in thousandths.
const UNIT: u64 = 1000;
/// 2/ln 2: the smallest gain with which the delivery rate can double each round (§4.3.2.1, BBRHighGain).
const HIGH_GAIN: u64 = 2885;
/// Inverse of `HIGH_GAIN`. With this gain, one round drains the queue that Startup built (§4.3.3).
const DRAIN_GAIN: u64 = UNIT * UNIT / HIGH_GAIN;
/// Pacing gains of ProbeBW, each for one minimum round-trip time (§4.3.4.1).
const CYCLE: [u64; 8] = [1250, 750, UNIT, UNIT, UNIT, UNIT, UNIT, UNIT];
/// Window in ProbeBW, in thousandths of a bandwidth-delay product (§4.3.4.3).
const PROBE_WINDOW: u64 = 2000;
/// Number of rounds for which a delivery rate is valid (§4.1.1.5, BtlBwFilterLen).
const BANDWIDTH_ROUNDS: usize = 10;
/// Time for which a minimum round-trip time is valid; afterwards ProbeRTT measures it anew (§4.1.2.3,
/// RTpropFilterLen).
const MIN_RTT_WINDOW: Duration = Duration::from_secs(10);
/// Time that ProbeRTT keeps the queue empty (§4.3.5, ProbeRTTDuration).
const PROBE_RTT_DURATION: Duration = Duration::from_millis(200);
/// Minimum window in packets, and the window during ProbeRTT (§4.2.3.3, BBRMinPipeCwnd).
const MIN_PIPE_PACKETS: u64 = 4;
/// Maximum number of bytes of one send (§4.2.2).
const MAX_QUANTUM: u64 = 64 * 1024;

/// Response to losses before congestion is persistent.
pub trait LossResponse: Clone + Debug + Default + Send + Sync + 'static {
    /// `true` if a loss is followed by a round of packet conservation, in which only as many bytes are sent as
    /// are delivered (§4.2.3.4).
    const CONSERVES: bool;

    /// Records the loss of a packet of `bytes` bytes.
    fn on_lost(&mut self, _bytes: u64) {}

    /// Records an acknowledgment. `cruising` is `true` in ProbeBW. Returns whether a rate limit was lifted.
    fn on_acked(&mut self, _ack: &Acked<'_>, _round_start: bool, _cruising: bool) -> bool {
        false
    }

    /// Returns the rate in bytes per second that replaces the measured bandwidth, if there is one.
    fn rate_limit(&self) -> Option<u64> {
        None
    }
}

/// Response that the draft specifies: one round of packet conservation.
#[derive(Clone, Debug, Default)]
pub struct Conserving;

impl LossResponse for Conserving {
    const CONSERVES: bool = true;
}

/// No response to losses.
#[derive(Clone, Debug, Default)]
pub struct Blind;

impl LossResponse for Blind {
    const CONSERVES: bool = false;
}

/// Response with packet conservation and detection of policers.
pub(super) type Policed = Policer;

/// BBR version 1.
#[derive(Clone, Debug)]
pub struct Bbr1<L: LossResponse = Conserving> {
    state: State,
    window: u64,
    initial_window: u64,
    pacing_rate: u64,
    /// `true` if the pacing rate is based on a measured round-trip time.
    has_rtt: bool,
    mtu: u64,
    jitter: Jitter,
    delivered: u64,
    rounds: Rounds,
    bandwidth: RecentMax,
    plateau: Plateau,
    min_rtt: Duration,
    min_rtt_stamp: Time,
    cycle_index: usize,
    cycle_stamp: Time,
    lost_since_ack: bool,
    loss_response: L,
    probe_rtt_done: Option<Time>,
    probe_rtt_round_done: bool,
    /// Window before ProbeRTT or packet conservation reduced it.
    prior_window: u64,
    /// `true` during packet conservation, which lasts one round after a loss or persistent congestion.
    conserving: bool,
    idle_restart: bool,
}

impl<L: LossResponse> Bbr1<L> {
    /// Creates the controller of a new path.
    pub fn new(start: &Start) -> Self {
        // §4.2.1: a round-trip time of one millisecond is assumed before the first sample. The window limits
        // the rate.
        let nominal = per_second(start.window, Duration::from_millis(1));
        Self {
            state: State::Startup,
            window: start.window,
            initial_window: start.window,
            pacing_rate: nominal * HIGH_GAIN / UNIT,
            has_rtt: false,
            mtu: start.mtu,
            jitter: Jitter::new(start.seed),
            delivered: 0,
            rounds: Rounds::default(),
            bandwidth: RecentMax::default(),
            plateau: Plateau::default(),
            min_rtt: Duration::MAX,
            min_rtt_stamp: start.now,
            cycle_index: 0,
            cycle_stamp: start.now,
            lost_since_ack: false,
            loss_response: L::default(),
            probe_rtt_done: None,
            probe_rtt_round_done: false,
            prior_window: 0,
            conserving: false,
            idle_restart: false,
        }
    }

    /// Returns the rate at which the path delivers, in bytes per second.
    fn bandwidth(&self) -> u64 {
        self.loss_response.rate_limit().unwrap_or_else(|| self.bandwidth.get())
    }

    fn pacing_gain(&self) -> u64 {
        match self.state {
            State::Startup => HIGH_GAIN,
            State::Drain => DRAIN_GAIN,
            State::ProbeRtt => UNIT,
            _ if self.loss_response.rate_limit().is_some() => UNIT,
            _ => CYCLE[self.cycle_index],
        }
    }

    fn window_gain(&self) -> u64 {
        match self.state {
            State::Startup | State::Drain => HIGH_GAIN,
            State::ProbeRtt => UNIT,
            _ => PROBE_WINDOW,
        }
    }

    fn min_pipe(&self) -> u64 {
        MIN_PIPE_PACKETS * self.mtu
    }

    /// Returns the target bytes in flight: `gain` times the bandwidth-delay product, with an allowance for
    /// batches at both endpoints (§4.2.3.2).
    fn inflight(&self, gain: u64) -> u64 {
        if self.min_rtt == Duration::MAX {
            return self.initial_window;
        }
        let product = bytes_in(self.bandwidth(), self.min_rtt).saturating_mul(gain) / UNIT;
        product.saturating_add(3 * self.quantum())
    }

    /// Returns the number of bytes to send at once (§4.2.2): one or two packets on slow paths, and the bytes
    /// of one millisecond on fast ones.
    fn quantum(&self) -> u64 {
        const SLOW: u64 = 150_000; // 1.2 Mbit/s
        const FAST: u64 = 3_000_000; // 24 Mbit/s
        match self.pacing_rate {
            ..SLOW => self.mtu,
            SLOW..FAST => 2 * self.mtu,
            FAST.. => bytes_in(self.pacing_rate, Duration::from_millis(1)).min(MAX_QUANTUM),
        }
    }

    /// Updates the bandwidth (§4.1.1). Returns whether a new round begins.
    fn measure(&mut self, ack: &Acked<'_>) -> bool {
        self.mtu = ack.mtu;
        self.delivered = ack.delivered;
        if let Some(rtt) = ack.rtt_sample
            && !self.has_rtt
        {
            self.has_rtt = true;
            let nominal = per_second(self.window, rtt.max(Duration::from_micros(1)));
            self.pacing_rate = nominal.saturating_mul(HIGH_GAIN) / UNIT;
        }
        let round_start = self.rounds.on_acked(ack.sample.prior_delivered, ack.delivered);
        if let Some(rate) = ack.sample.rate
            && (rate >= self.bandwidth.get() || !ack.sample.app_limited)
        {
            self.bandwidth.update(self.rounds.count(), rate);
        }
        round_start
    }

    /// Advances the state machine (§4.3).
    fn advance_phase(&mut self, ack: &Acked<'_>, round_start: bool) {
        let lost = core::mem::take(&mut self.lost_since_ack);
        if self.is_probe_bw() && self.is_phase_over(ack, lost) {
            self.next_phase(ack.now);
        }
        if round_start && !self.plateau.reached && !ack.sample.app_limited {
            self.plateau.update(self.bandwidth.get());
        }
        if self.state == State::Startup && self.plateau.reached {
            self.state = State::Drain;
        }
        if self.state == State::Drain && ack.in_flight <= self.inflight(UNIT) {
            self.start_probe_bw(ack.now);
        }
        let expired = self.measure_rtt(ack);
        self.check_probe_rtt(ack, expired, round_start);
    }

    fn is_probe_bw(&self) -> bool {
        matches!(self.state, State::ProbeBwUp | State::ProbeBwDown | State::ProbeBwCruise)
    }

    /// Starts the probing cycle at a random phase other than the one that drains the queue (§4.3.4.2).
    fn start_probe_bw(&mut self, now: Time) {
        let last = CYCLE.len() - 1;
        self.cycle_index = last - usize::try_from(self.jitter.below(7)).unwrap_or(0);
        self.next_phase(now);
    }

    fn next_phase(&mut self, now: Time) {
        self.cycle_stamp = now;
        self.cycle_index = (self.cycle_index + 1) % CYCLE.len();
        self.state = match self.cycle_index {
            0 => State::ProbeBwUp,
            1 => State::ProbeBwDown,
            _ => State::ProbeBwCruise,
        };
    }

    /// Returns whether the phase is over. Probing lasts until the higher rate has filled the path or caused a
    /// loss; draining ends early when the queue is empty (§4.3.4.3).
    fn is_phase_over(&self, ack: &Acked<'_>, lost: bool) -> bool {
        let is_full_length = ack.now - self.cycle_stamp > self.min_rtt;
        match self.state {
            State::ProbeBwUp => is_full_length && (lost || ack.prior_in_flight >= self.inflight(CYCLE[0])),
            State::ProbeBwDown => is_full_length || ack.prior_in_flight <= self.inflight(UNIT),
            _ => is_full_length,
        }
    }

    /// Updates the minimum round-trip time (§4.1.2.3). Returns whether the previous one had expired.
    fn measure_rtt(&mut self, ack: &Acked<'_>) -> bool {
        let expired = ack.now > self.min_rtt_stamp + MIN_RTT_WINDOW;
        if let Some(rtt) = ack.rtt_sample
            && (rtt <= self.min_rtt || expired)
        {
            self.min_rtt = rtt;
            self.min_rtt_stamp = ack.now;
        }
        expired
    }

    /// Enters and ends ProbeRTT. It is due when no sample has confirmed the minimum round-trip time for a
    /// while (§4.3.5).
    fn check_probe_rtt(&mut self, ack: &Acked<'_>, expired: bool, round_start: bool) {
        if self.state != State::ProbeRtt && expired && !self.idle_restart {
            self.save_window();
            self.state = State::ProbeRtt;
            self.probe_rtt_done = None;
        }
        if self.state == State::ProbeRtt {
            match self.probe_rtt_done {
                None if ack.in_flight <= self.min_pipe() => {
                    self.probe_rtt_done = Some(ack.now + PROBE_RTT_DURATION);
                    self.probe_rtt_round_done = false;
                    self.rounds.start(ack.delivered);
                }
                None => {}
                Some(done) => {
                    self.probe_rtt_round_done |= round_start;
                    if self.probe_rtt_round_done && ack.now > done {
                        self.end_probe_rtt(ack.now);
                    }
                }
            }
        }
        if ack.sample.delivered > 0 {
            self.idle_restart = false;
        }
    }

    fn end_probe_rtt(&mut self, now: Time) {
        self.min_rtt_stamp = now;
        self.window = self.window.max(self.prior_window);
        if self.plateau.reached {
            self.start_probe_bw(now);
        } else {
            self.state = State::Startup;
        }
    }

    /// Saves the window before it is reduced. If it is reduced already, the larger of the saved and the
    /// current window is kept (§4.2.3.4, BBRSaveCwnd).
    fn save_window(&mut self) {
        let is_cut = self.conserving || self.state == State::ProbeRtt;
        self.prior_window = if is_cut { self.prior_window.max(self.window) } else { self.window };
    }

    /// Begins a round of packet conservation with a window of `window` bytes (§4.2.3.4).
    fn conserve(&mut self, window: u64) {
        self.save_window();
        self.conserving = true;
        self.rounds.start(self.delivered);
        self.window = window;
    }

    /// Ends packet conservation (§4.2.3.4, BBRRestoreCwnd).
    fn restore_window(&mut self) {
        self.conserving = false;
        self.window = self.window.max(self.prior_window);
    }

    /// Sets the pacing rate (§4.2.1). It does not decrease until the pipe has been full once.
    fn set_pace(&mut self, gain: u64) {
        let rate = self.bandwidth().saturating_mul(gain) / UNIT;
        if rate > 0 && (self.plateau.reached || rate > self.pacing_rate) {
            self.pacing_rate = rate;
        }
    }

    /// Sets the window (§4.2.3.6).
    fn set_window(&mut self, ack: &Acked<'_>, round_start: bool) {
        if self.conserving && round_start {
            self.restore_window();
        }
        let target = self.inflight(self.window_gain());
        if self.conserving {
            self.window = self.window.max(ack.in_flight + ack.bytes);
        } else if self.plateau.reached {
            self.window = (self.window + ack.bytes).min(target);
        } else if self.window < target || ack.delivered < self.initial_window {
            self.window += ack.bytes;
        }
        self.window = self.window.max(self.min_pipe());
        if self.state == State::ProbeRtt {
            self.window = self.window.min(self.min_pipe());
        }
    }
}

impl<L: LossResponse> Controller for Bbr1<L> {
    fn on_sent(&mut self, packet: &Departure) {
        // §4.3.4.4: a restart from idle must not build a queue.
        if packet.in_flight == 0 && packet.app_limited {
            self.idle_restart = true;
            if self.is_probe_bw() {
                self.set_pace(UNIT);
            }
        }
    }

    fn on_acked(&mut self, ack: &Acked<'_>, _siblings: &[Sibling]) {
        let round_start = self.measure(ack);
        if self.loss_response.on_acked(ack, round_start, self.is_probe_bw()) && self.is_probe_bw() {
            self.start_probe_bw(ack.now);
        }
        self.advance_phase(ack, round_start);
        self.set_pace(self.pacing_gain());
        self.set_window(ack, round_start);
    }

    fn on_lost(&mut self, packet: &LostPacket) {
        self.lost_since_ack = true;
        self.loss_response.on_lost(packet.bytes);
        if L::CONSERVES && self.conserving {
            self.window = self.window.saturating_sub(packet.bytes).max(self.min_pipe());
        }
    }

    /// Begins packet conservation if a packet was lost.
    fn on_congestion(&mut self, event: &Congested, _siblings: &[Sibling]) {
        if L::CONSERVES && !event.ce {
            self.conserve((event.in_flight + event.mtu).max(self.min_pipe()));
        }
    }

    fn on_spurious(&mut self, _now: Time) {
        if L::CONSERVES && self.conserving {
            self.restore_window();
        }
    }

    /// Reduces the window as TCP does after a retransmission timeout (§4.2.3.4). The window is restored after
    /// a round of packet conservation.
    fn on_persistent_congestion(&mut self, _now: Time, mtu: u64) {
        self.conserve(MIN_PIPE_PACKETS * mtu);
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

/// Maximum over the ten rounds up to the newest round with a sample.
#[derive(Clone, Copy, Debug, Default)]
struct RecentMax {
    /// Maxima of the rounds, indexed by round number modulo their count.
    rounds: [u64; BANDWIDTH_ROUNDS],
    newest: u64,
}

impl RecentMax {
    fn get(&self) -> u64 {
        self.rounds.into_iter().max().unwrap_or(0)
    }

    fn update(&mut self, round: u64, value: u64) {
        let passed = usize::try_from(round - self.newest).unwrap_or(usize::MAX).min(BANDWIDTH_ROUNDS);
        for n in 0..passed {
            *self.slot(round - n as u64) = 0;
        }
        self.newest = round;
        let slot = self.slot(round);
        *slot = value.max(*slot);
    }

    fn slot(&mut self, round: u64) -> &mut u64 {
        &mut self.rounds[(round % BANDWIDTH_ROUNDS as u64) as usize]
    }
}

#[cfg(test)]
mod tests;
