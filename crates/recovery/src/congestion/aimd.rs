//! Additive increase and multiplicative decrease of the window (AIMD): NewReno and the coupled controllers.
//! They differ in the amount of the increase.

use core::iter::once;
use core::marker::PhantomData;

use anabranch_wire::Time;

use super::{Acked, Congested, Controller, MIN_WINDOW_PACKETS, Sibling, Start, State};
use crate::rate::per_second;

/// Fixed-point 1 of the fractions in this module. It stands for one packet for each window acknowledged, or
/// for the connection's total rate.
pub(super) const ONE: u64 = 1 << 30;

/// Rule for a controller's increase in congestion avoidance and its decrease on congestion.
pub trait Rule: core::fmt::Debug + Send {
    /// `true` if the rule uses `siblings`.
    const COUPLED: bool = true;

    /// Returns the packets to add for each window acknowledged, in units of [`ONE`]. NewReno adds one. The
    /// result is at most one and greater than minus one.
    fn increase(own: &Sibling, siblings: &[Sibling]) -> i64;

    /// Returns the window in bytes after a congestion event (RFC 9002 §7.3.2, kLossReductionFactor of one
    /// half).
    fn reduced(own: &Sibling, _siblings: &[Sibling]) -> u64 {
        own.window / 2
    }
}

/// Controller that applies the rule `R`. Slow start is not coupled between paths.
#[derive(Clone, Debug)]
pub struct Aimd<R> {
    window: u64,
    ssthresh: u64,
    /// Bytes acknowledged in congestion avoidance, multiplied by the rule's increase, that have not yet
    /// changed the window.
    credit: i128,
    recovering: bool,
    /// Window and threshold before the last congestion event.
    saved: (u64, u64),
    rule: PhantomData<R>,
}

impl<R: Rule> Aimd<R> {
    /// Creates the controller of a new path.
    pub fn new(start: &Start) -> Self {
        Self {
            window: start.window,
            ssthresh: u64::MAX,
            credit: 0,
            recovering: false,
            saved: (start.window, u64::MAX),
            rule: PhantomData,
        }
    }

    /// Grows the window, or reduces it if `increase` is negative, by at most one packet for each window
    /// acknowledged (RFC 9002 §7.3.3). The window changes by whole packets, so that no part of it is
    /// unusable.
    fn avoid_congestion(&mut self, growth: u64, mtu: u64, increase: i64) {
        let packet = i128::from(self.window) * i128::from(ONE);
        self.credit += i128::from(growth) * i128::from(increase);
        if self.credit >= packet {
            self.credit -= packet;
            self.window += mtu;
        } else if self.credit <= -packet {
            self.credit += packet;
            self.window = self.window.saturating_sub(mtu).max(MIN_WINDOW_PACKETS * mtu);
            // A path whose traffic moves to another path does not return to slow start.
            self.ssthresh = self.ssthresh.min(self.window);
        }
    }
}

impl<R: Rule> Controller for Aimd<R> {
    fn is_coupled(&self) -> bool {
        R::COUPLED
    }

    fn on_acked(&mut self, ack: &Acked<'_>, siblings: &[Sibling]) {
        if ack.growth == 0 {
            return;
        }
        self.recovering = false;
        // RFC 9002 §7.8: an underutilised window does not grow.
        if !ack.utilised {
            return;
        }
        if self.window < self.ssthresh {
            self.window += ack.growth;
            return;
        }
        self.avoid_congestion(ack.growth, ack.mtu, R::increase(&ack.own, siblings));
    }

    fn on_congestion(&mut self, event: &Congested, siblings: &[Sibling]) {
        self.saved = (self.window, self.ssthresh);
        self.window = R::reduced(&event.own, siblings).max(MIN_WINDOW_PACKETS * event.mtu);
        self.ssthresh = self.window;
        self.credit = 0;
        self.recovering = true;
    }

    fn on_spurious(&mut self, _now: Time) {
        let (window, ssthresh) = self.saved;
        self.window = self.window.max(window);
        self.ssthresh = self.ssthresh.max(ssthresh);
        self.recovering = false;
    }

    fn on_persistent_congestion(&mut self, _now: Time, mtu: u64) {
        self.window = MIN_WINDOW_PACKETS * mtu;
        self.credit = 0;
        self.recovering = false;
    }

    fn window(&self) -> u64 {
        self.window
    }

    fn ssthresh(&self) -> Option<u64> {
        (self.ssthresh != u64::MAX).then_some(self.ssthresh)
    }

    fn state(&self) -> State {
        if self.recovering {
            State::Recovery
        } else if self.window < self.ssthresh {
            State::SlowStart
        } else {
            State::CongestionAvoidance
        }
    }
}

/// Returns all paths of the connection, beginning with `own`.
pub(super) fn paths<'a>(
    own: &'a Sibling,
    siblings: &'a [Sibling],
) -> impl Iterator<Item = &'a Sibling> + Clone {
    once(own).chain(siblings)
}

/// Returns the total rate of all paths in bytes per second: the sum of window / rtt.
pub(super) fn total_rate(own: &Sibling, siblings: &[Sibling]) -> u128 {
    paths(own, siblings).map(|path| u128::from(rate(path))).sum()
}

/// Returns the share of `path` in the rate `total`, in units of [`ONE`].
pub(super) fn share(path: &Sibling, total: u128) -> u64 {
    let share = u128::from(rate(path)) * u128::from(ONE) / total.max(1);
    u64::try_from(share).unwrap_or(ONE).min(ONE)
}

fn rate(path: &Sibling) -> u64 {
    per_second(path.window, path.smoothed_rtt)
}

#[cfg(test)]
mod tests;
