//! BBR's estimate that the pipe is full: the bandwidth has stopped growing (draft-ietf-ccwg-bbr-02 §5.3.1.2).

/// Factor, in thousandths, by which the bandwidth must grow in a round to count as growing (25 %).
const PLATEAU_GROWTH: u64 = 1250;
/// Number of rounds without growth after which the pipe counts as full.
const PLATEAU_ROUNDS: u32 = 3;

/// Bandwidth, and the number of rounds in which it has not grown.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Plateau {
    bandwidth: u64,
    rounds: u32,
    /// `true` if the bandwidth has stopped growing since the last reset: full_bw_now.
    pub(super) now: bool,
    /// `true` if the bandwidth has ever stopped growing: full_bw_reached.
    pub(super) reached: bool,
}

impl Plateau {
    /// Restarts the estimate at `bandwidth`.
    pub(super) fn reset(&mut self, bandwidth: u64) {
        *self = Self { bandwidth, reached: self.reached, ..Self::default() };
    }

    /// Ends a round whose delivery rate was `rate`.
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
