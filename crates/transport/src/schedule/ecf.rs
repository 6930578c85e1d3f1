//! ECF (Lim et al., CoNEXT 2017): earliest completion first.

use anabranch_wire::Time;

use super::{PathView, Pick, Scheduler, Work, fastest};

/// Hysteresis: how much longer waiting may take once it has begun, in quarters (the paper's β is 0.25).
const BETA: u128 = 1;

/// Waits for the fastest path if everything queued arrives sooner that way than with a packet on the slower path now.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ecf {
    waiting: bool,
}

impl Scheduler for Ecf {
    fn pick(&mut self, _: Time, work: &Work, paths: &[PathView]) -> Pick {
        let Some(open) = fastest(paths) else { return Pick::wait() };
        let best = paths.iter().filter(|path| path.has_rtt).min_by_key(|path| path.smoothed_rtt);
        let Some(best) = best.filter(|best| best.id != open.id && !best.has_room()) else {
            return Pick::on(open.id);
        };
        let (fast, slow) = (best.smoothed_rtt.as_nanos(), open.smoothed_rtt.as_nanos());
        let margin = best.rtt_variation.max(open.rtt_variation).as_nanos();
        let queued = u128::from(work.queued);
        // Rounds times 4, so that quarters are whole numbers.
        let rounds = 4 + 4 * queued / u128::from(best.window.max(1));
        let patience = if self.waiting { 4 + BETA } else { 4 };
        let fast_ends_first = rounds * fast < patience * (slow + margin);
        let slow_is_late = queued * slow / u128::from(open.window.max(1)) >= 2 * fast + margin;
        if fast_ends_first && (self.waiting || slow_is_late || queued <= u128::from(open.window)) {
            self.waiting = true;
            return Pick::wait();
        }
        self.waiting = false;
        Pick::on(open.id)
    }
}
