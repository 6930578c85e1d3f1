//! CUBIC (RFC 9438) with HyStart++ (RFC 9406), and a variant with the parameters of another sender. The
//! arithmetic uses only integers, so that equal inputs give equal windows on every machine.

use core::fmt::Debug;
use core::time::Duration;

use anabranch_wire::Time;

use super::exit::{Exit, Growth};
use super::hystart::HyStart;
#[cfg(feature = "research")]
use super::rise::RttRise;
use super::{Acked, Congested, Controller, MIN_WINDOW_PACKETS, Sibling, Start, State};

/// C of RFC 9438 §5.1: 0.4 packets per cubed second.
const C: (i128, i128) = (4, 10);
/// Cubed milliseconds in a cubed second; times here are in whole milliseconds.
const MS3: i128 = 1_000_000_000;

/// Parameters that differ between senders with a cubic curve.
pub trait Shape: Debug + Clone {
    /// β: factor by which a congestion event reduces the window.
    const BETA: (u64, u64);
    /// α of RFC 9438 §4.3: 3(1 − β)/(1 + β), with which the average window equals Reno's.
    const ALPHA: (u64, u64);
    /// Rule that ends the first slow start before packets are lost.
    type Exit: Exit;
    /// `true` if losses of packets that were in flight when [`Self::Exit`] ended slow start do not reduce the
    /// window further.
    const EXIT_COVERS_FLIGHT: bool = false;
}

/// Parameters of RFC 9438 §4.6 (β of 0.7), with HyStart++.
#[derive(Clone, Debug)]
pub struct Rfc9438;

impl Shape for Rfc9438 {
    const BETA: (u64, u64) = (7, 10);
    const ALPHA: (u64, u64) = (9, 17);
    type Exit = HyStart;
}

/// Parameters of the sender in the 2017 study of Multipath QUIC, on one path: it takes the bandwidth of two flows. With N
/// flows, β is (N − 1 + 0.7)/N and α is 3N²(1 − β)/(1 + β).
#[cfg(feature = "research")]
#[derive(Clone, Debug)]
pub struct Study2017;

#[cfg(feature = "research")]
impl Shape for Study2017 {
    const BETA: (u64, u64) = (85, 100);
    const ALPHA: (u64, u64) = (36, 37);
    type Exit = HyStart;
}

/// Parameters of the sender in the 2022 study of packet number spaces: β is 7/8, and slow start ends when the
/// round-trip time has risen.
#[cfg(feature = "research")]
#[derive(Clone, Debug)]
pub struct Study2022;

#[cfg(feature = "research")]
impl Shape for Study2022 {
    const BETA: (u64, u64) = (7, 8);
    const ALPHA: (u64, u64) = (1, 5);
    type Exit = RttRise;
    const EXIT_COVERS_FLIGHT: bool = true;
}

/// Parameters of [`Study2022`], with a response to the losses that follow the end of slow start.
#[cfg(feature = "research")]
#[derive(Clone, Debug)]
pub struct Study2022Strict;

#[cfg(feature = "research")]
impl Shape for Study2022Strict {
    const BETA: (u64, u64) = Study2022::BETA;
    const ALPHA: (u64, u64) = Study2022::ALPHA;
    type Exit = RttRise;
}

/// CUBIC as specified in RFC 9438.
pub(super) type Cubic = CubicLike<Rfc9438>;

/// Controller whose window grows along a cubic curve with its plateau at the window of the last congestion
/// event.
#[derive(Clone, Debug)]
pub struct CubicLike<S: Shape> {
    curve: Curve,
    exit: Option<S::Exit>,
    /// Time at which `exit` ended slow start.
    exited: Option<Time>,
    recovering: bool,
    /// Curve before the last congestion event.
    saved: Curve,
    last_acked: Time,
}

/// State that a congestion event changes and that is restored if the event was spurious.
#[derive(Clone, Copy, Debug)]
struct Curve {
    window: u64,
    ssthresh: u64,
    /// Window at the last congestion event, W_max; 0 if there was none.
    max: u64,
    /// Window just before the last congestion event, cwnd_prior.
    prior: u64,
    epoch: Option<Epoch>,
}

/// One period of congestion avoidance.
#[derive(Clone, Copy, Debug)]
struct Epoch {
    start: Time,
    /// Time from the start to the plateau in milliseconds, K.
    k: i128,
    /// Window at the plateau, in bytes.
    origin: u64,
    /// Window that Reno would have, W_est, in bytes.
    reno: u64,
    /// Remainders of the growth of the window and of W_est that are less than a byte, multiplied by the window.
    credit: u64,
    reno_credit: u64,
}

impl<S: Shape> CubicLike<S> {
    /// Creates the controller of a new path.
    pub fn new(start: &Start) -> Self {
        let curve = Curve { window: start.window, ssthresh: u64::MAX, max: 0, prior: 0, epoch: None };
        Self {
            curve,
            exit: Some(S::Exit::default()),
            exited: None,
            recovering: false,
            saved: curve,
            last_acked: start.now,
        }
    }

    fn slow_start(&mut self, ack: &Acked<'_>) {
        let curve = &mut self.curve;
        let Some(exit) = &mut self.exit else {
            curve.window += ack.growth;
            return;
        };
        match exit.on_acked(ack) {
            Growth::By(bytes) => curve.window += bytes,
            Growth::Done => {
                curve.window = exit.window_after(curve.window).max(MIN_WINDOW_PACKETS * ack.mtu);
                curve.ssthresh = curve.window;
                self.exit = None;
                self.exited = Some(ack.now);
            }
        }
    }
}

impl Curve {
    /// Begins congestion avoidance at the current window (RFC 9438 §4.2).
    fn start_epoch(&self, now: Time, mtu: u64) -> Epoch {
        // K = cbrt((W_max − cwnd_epoch) / C) with windows in packets.
        let deficit = self.max.saturating_sub(self.window);
        let cubed = i128::from(deficit) * MS3 * C.1 / (C.0 * i128::from(mtu));
        Epoch {
            start: now,
            k: cube_root(cubed),
            origin: self.max.max(self.window),
            reno: self.window,
            credit: 0,
            reno_credit: 0,
        }
    }

    /// Grows the window in congestion avoidance (RFC 9438 §4.2 to §4.5).
    fn avoid(&mut self, ack: &Acked<'_>, alpha: (u64, u64)) {
        let mut epoch = self.epoch.unwrap_or_else(|| self.start_epoch(ack.now, ack.mtu));
        let elapsed = ack.now - epoch.start;
        epoch.grow_reno(ack, self.window, self.prior, alpha);
        if epoch.cubic(elapsed, ack.mtu) < epoch.reno {
            // RFC 9438 §4.3: the Reno-friendly region.
            self.window = self.window.max(epoch.reno);
        } else {
            // RFC 9438 §4.4, §4.5: the window grows towards the cubic window of one round trip later, but by
            // at most half of itself.
            let target = epoch.cubic(elapsed + ack.rtt.smoothed(), ack.mtu);
            let target = target.clamp(self.window, self.window + self.window / 2);
            let growth = u128::from(epoch.credit) + u128::from(target - self.window) * u128::from(ack.growth);
            let window = u128::from(self.window);
            epoch.credit = u64::try_from(growth % window).unwrap_or(0);
            self.window += u64::try_from(growth / window).unwrap_or(0);
        }
        self.epoch = Some(epoch);
    }
}

impl Epoch {
    /// Returns the cubic window in bytes, W_cubic, `elapsed` after the start (RFC 9438 §4.2, Figure 1).
    fn cubic(&self, elapsed: Duration, mtu: u64) -> u64 {
        let t = i128::try_from(elapsed.as_millis()).unwrap_or(i128::from(u32::MAX)) - self.k;
        let offset = C.0 * i128::from(mtu) * t * t * t / (C.1 * MS3);
        u64::try_from(i128::from(self.origin) + offset).unwrap_or(0)
    }

    /// Grows W_est (RFC 9438 §4.3, Figure 4) by α packets per window, or by one packet per window once it has
    /// reached cwnd_prior.
    fn grow_reno(&mut self, ack: &Acked<'_>, window: u64, prior: u64, alpha: (u64, u64)) {
        let alpha = if self.reno >= prior { (1, 1) } else { alpha };
        let credit = self.reno_credit + alpha.0 * ack.mtu * ack.growth / alpha.1;
        self.reno += credit / window;
        self.reno_credit = credit % window;
    }
}

impl<S: Shape> Controller for CubicLike<S> {
    fn on_acked(&mut self, ack: &Acked<'_>, _siblings: &[Sibling]) {
        let since = ack.now - self.last_acked;
        self.last_acked = ack.now;
        if ack.growth == 0 {
            return;
        }
        self.recovering = false;
        if !ack.utilised {
            // RFC 9438 §5.8: time during which the sender was application limited does not count.
            if let Some(epoch) = &mut self.curve.epoch {
                epoch.start += since;
            }
            return;
        }
        if self.curve.window < self.curve.ssthresh {
            self.slow_start(ack);
        } else {
            self.curve.avoid(ack, S::ALPHA);
        }
    }

    fn on_congestion(&mut self, event: &Congested, _siblings: &[Sibling]) {
        self.saved = self.curve;
        if S::EXIT_COVERS_FLIGHT && self.exited.is_some_and(|exited| event.sent_time <= exited) {
            return;
        }
        self.exit = None;
        let (window, beta) = (self.curve.window, S::BETA);
        // RFC 9438 §4.7, fast convergence: a flow whose window shrinks releases bandwidth for new flows.
        let max = if window < self.curve.max { window * (beta.1 + beta.0) / (2 * beta.1) } else { window };
        let reduced = (window * beta.0 / beta.1).max(MIN_WINDOW_PACKETS * event.mtu);
        self.curve = Curve { window: reduced, ssthresh: reduced, max, prior: window, epoch: None };
        self.recovering = true;
    }

    fn on_spurious(&mut self, _now: Time) {
        // RFC 9438 §4.9.2, except that later growth is kept.
        let window = self.curve.window.max(self.saved.window);
        self.curve = Curve { window, ..self.saved };
        self.recovering = false;
    }

    fn on_persistent_congestion(&mut self, _now: Time, mtu: u64) {
        self.curve.window = MIN_WINDOW_PACKETS * mtu;
        // RFC 9438 §4.8: the next congestion avoidance begins its curve at the window where slow start ends.
        self.curve.max = 0;
        self.curve.epoch = None;
        self.recovering = false;
    }

    fn window(&self) -> u64 {
        self.curve.window
    }

    fn ssthresh(&self) -> Option<u64> {
        (self.curve.ssthresh != u64::MAX).then_some(self.curve.ssthresh)
    }

    fn state(&self) -> State {
        if self.recovering {
            State::Recovery
        } else if self.curve.window >= self.curve.ssthresh {
            State::CongestionAvoidance
        } else if self.exit.as_ref().is_some_and(Exit::is_conservative) {
            State::ConservativeSlowStart
        } else {
            State::SlowStart
        }
    }
}

/// Returns the largest integer whose cube is at most `value`.
fn cube_root(value: i128) -> i128 {
    let mut root = 0;
    // Windows below 2^50 bytes have a K of less than 2^25 ms.
    for bit in (0..25).rev() {
        let candidate = root | 1 << bit;
        if candidate * candidate * candidate <= value {
            root = candidate;
        }
    }
    root
}

#[cfg(test)]
mod tests;
