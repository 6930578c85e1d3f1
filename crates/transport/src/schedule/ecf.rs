//! ECF (Lim et al., CoNEXT 2017): earliest completion first.

use anabranch_wire::Time;

use super::{PathView, Pick, Scheduler, Work, fastest};

/// Time by which waiting may take longer once it has begun, in quarters of the slower path's time: the
/// paper's hysteresis β of 0.25.
const BETA: u128 = 1;

/// Scheduler that waits for the fastest path if all queued data arrives sooner that way than with a packet on
/// the slower path now.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ecf {
    waiting: bool,
}

impl Scheduler for Ecf {
    fn pick(&mut self, _: Time, work: &Work, paths: &[PathView]) -> Pick {
        let Some(open) = fastest(paths) else { return Pick::wait() };
        let Some(best) = work.awaited(open, paths) else { return Pick::on(open.id) };
        let (fast, slow) = (best.smoothed_rtt.as_nanos(), open.smoothed_rtt.as_nanos());
        let margin = best.rtt_variation.max(open.rtt_variation).as_nanos();
        let queued = u128::from(work.queued());
        let patience = if self.waiting { 4 + BETA } else { 4 };
        // Time until the fast path has delivered the queue: one round trip until its window has room, and
        // then as many as the queue needs, at least one, as in the authors' implementation.
        let fast_ends = fast + time(queued, best.window, fast);
        if 4 * fast_ends >= patience * (slow + margin) {
            self.waiting = false;
            return Pick::packet_on(open.id);
        }
        // Waiting also requires that the slow path alone would not finish before two round trips of the fast
        // one.
        if time(queued, open.window, slow) < 2 * fast + margin {
            return Pick::packet_on(open.id);
        }
        self.waiting = true;
        Pick::wait()
    }
}

/// Returns the time in nanoseconds that `queued` bytes take at one window per round trip; at least one round
/// trip.
fn time(queued: u128, window: u64, round_trip: u128) -> u128 {
    round_trip * queued.max(u128::from(window)) / u128::from(window.max(1))
}
