//! BLEST (Ferlin et al., IFIP Networking 2016): blocking estimation.

use anabranch_wire::Time;

use super::{PathView, Pick, Scheduler, Work, fastest};

/// Scale of λ: 1000 is 1.
const ONE: u64 = 1_000;
/// Most that λ can become.
const MAX_LAMBDA: u64 = 4 * ONE;

/// Uses a slower path only if what the fastest one will send during the slower one's round trip still fits the peer's flow
/// control beside it; otherwise the slow data would hold up the window.
#[derive(Clone, Debug)]
pub(crate) struct Blest {
    /// Corrects the estimate: grows when the sender was blocked all the same, shrinks when it was not.
    lambda: u64,
}

impl Default for Blest {
    fn default() -> Self {
        Self { lambda: ONE }
    }
}

impl Scheduler for Blest {
    fn pick(&mut self, _: Time, work: &Work, paths: &[PathView]) -> Pick {
        let Some(open) = fastest(paths) else { return Pick::wait() };
        let best = paths.iter().filter(|path| path.has_rtt).min_by_key(|path| path.smoothed_rtt);
        let Some(best) = best.filter(|best| best.id != open.id && !best.has_room()) else {
            return Pick::on(open.id);
        };
        self.adapt(work);
        // What the fast path sends while a packet travels on the slow one: its window grows by a packet each round.
        let rounds = open.smoothed_rtt.as_micros() as u64 / (best.smoothed_rtt.as_micros() as u64).max(1);
        let packets = best.window / best.mtu.max(1);
        let sent = (packets + rounds.saturating_sub(1) / 2).saturating_mul(rounds).saturating_mul(best.mtu);
        let window = work.credit.saturating_add(work.queued).saturating_sub(open.mtu);
        if sent.saturating_mul(self.lambda) / ONE > window { Pick::wait() } else { Pick::on(open.id) }
    }
}

impl Blest {
    fn adapt(&mut self, work: &Work) {
        let blocked = work.credit == 0;
        self.lambda = if blocked { self.lambda + ONE / 100 } else { self.lambda - ONE / 100 };
        self.lambda = self.lambda.clamp(ONE, MAX_LAMBDA);
    }
}
