//! BLEST (Ferlin et al., IFIP Networking 2016): blocking estimation.

use anabranch_wire::Time;

use super::{PathView, Pick, Scheduler, Work, fastest};

/// Fixed-point scale of λ: 1000 stands for 1.
const ONE: u64 = 1_000;
/// Step by which λ is corrected (the paper's δλ).
const STEP: u64 = ONE / 100;
/// Maximum value of λ.
const MAX_LAMBDA: u64 = 4 * ONE;

/// Scheduler that sends a packet on a slower path only if the fastest path still has enough room in the send
/// window while that packet is in flight. Otherwise the slow path's data would block the fast path
/// (head-of-line blocking in the receive window).
#[derive(Clone, Debug)]
pub(crate) struct Blest {
    /// Correction λ of the estimate. It grows when the send window was exhausted despite the estimate, and
    /// shrinks when it was not.
    lambda: u64,
    /// `true` if the send window was exhausted since the last correction.
    blocked: bool,
    /// Time of the next correction of λ. Corrections are made once per round trip of the slower path.
    due: Time,
}

impl Default for Blest {
    fn default() -> Self {
        Self { lambda: ONE, blocked: false, due: Time::ZERO }
    }
}

impl Scheduler for Blest {
    fn pick(&mut self, now: Time, work: &Work, paths: &[PathView]) -> Pick {
        self.blocked |= work.credit == 0;
        let Some(open) = fastest(paths) else { return Pick::wait() };
        let Some(best) = work.awaited(open, paths) else { return Pick::on(open.id) };
        self.adapt(now, open);
        // `sent` is the number of bytes that the fast path sends while a packet travels on the slow one. The
        // fast path's window grows by one packet per round trip.
        let rounds = open.smoothed_rtt.as_micros() as u64 / (best.smoothed_rtt.as_micros() as u64).max(1);
        let packets = best.window / best.mtu.max(1);
        let sent = (packets + rounds.saturating_sub(1) / 2).saturating_mul(rounds).saturating_mul(best.mtu);
        let room = work.send_window.saturating_sub(open.in_flight + open.mtu);
        if sent.saturating_mul(self.lambda) / ONE > room { Pick::wait() } else { Pick::packet_on(open.id) }
    }
}

impl Blest {
    fn adapt(&mut self, now: Time, slow: &PathView) {
        if now < self.due {
            return;
        }
        self.due = now + slow.smoothed_rtt;
        let blocked = std::mem::take(&mut self.blocked);
        self.lambda = if blocked { self.lambda + STEP } else { self.lambda - STEP };
        self.lambda = self.lambda.clamp(ONE, MAX_LAMBDA);
    }
}
