//! Search for more bandwidth: BBR's estimate that the pipe is full (draft-ietf-ccwg-bbr-02 §5.3.1.2).

/// Growth per round, in thousandths, below which the bandwidth stands still (25 %).
const PLATEAU_GROWTH: u64 = 1250;
/// Rounds it must stand still.
const PLATEAU_ROUNDS: u32 = 3;

/// Watches the bandwidth from round to round.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Plateau {
    bandwidth: u64,
    rounds: u32,
    /// The bandwidth stands still since the last reset: full_bw_now.
    pub(super) now: bool,
    /// It has stood still once: full_bw_reached.
    pub(super) reached: bool,
}

impl Plateau {
    /// Starts to watch afresh from `bandwidth`.
    pub(super) fn reset(&mut self, bandwidth: u64) {
        *self = Self { bandwidth, reached: self.reached, ..Self::default() };
    }

    /// Ends a round with the delivery rate `rate`.
    pub(super) fn update(&mut self, rate: u64) {
        if rate >= self.bandwidth.saturating_mul(PLATEAU_GROWTH) / 1000 {
            self.reset(rate);
            return;
        }
        self.rounds += 1;
        self.now = self.rounds >= PLATEAU_ROUNDS;
        self.reached |= self.now;
    }
}
