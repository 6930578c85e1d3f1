//! NewReno (RFC 9002 §7.3, Appendix B).

use anabranch_wire::Time;

use super::{Acked, Congested, Controller, MIN_WINDOW_PACKETS, Sibling, Start, State};

/// NewReno: halve on congestion, otherwise one packet more per round trip.
#[derive(Clone, Debug)]
pub struct NewReno {
    window: u64,
    ssthresh: u64,
    /// Bytes acknowledged in congestion avoidance that have not grown the window yet.
    credit: u64,
    recovering: bool,
    /// Window and threshold before the last congestion event.
    saved: (u64, u64),
}

impl NewReno {
    /// A controller of a fresh path.
    pub fn new(start: &Start) -> Self {
        Self {
            window: start.window,
            ssthresh: u64::MAX,
            credit: 0,
            recovering: false,
            saved: (start.window, u64::MAX),
        }
    }
}

impl Controller for NewReno {
    fn on_acked(&mut self, ack: &Acked<'_>, _siblings: &[Sibling]) {
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
        // RFC 9002 §7.3.3: at most one packet for each window acknowledged.
        self.credit += ack.growth;
        if self.credit >= self.window {
            self.credit -= self.window;
            self.window += ack.mtu;
        }
    }

    fn on_congestion(&mut self, event: &Congested, _siblings: &[Sibling]) {
        self.saved = (self.window, self.ssthresh);
        // RFC 9002 §7.3.2, kLossReductionFactor of one half.
        self.window = (self.window / 2).max(MIN_WINDOW_PACKETS * event.mtu);
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
