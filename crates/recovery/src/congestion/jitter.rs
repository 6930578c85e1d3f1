//! Seeded jitter: flows with different seeds do not probe at the same time, and equal seeds give equal runs.

/// Xorshift generator.
#[derive(Clone, Debug)]
pub(super) struct Jitter(u64);

impl Jitter {
    pub(super) fn new(seed: u64) -> Self {
        Self((seed ^ 0x9e37_79b9_7f4a_7c15).max(1))
    }

    /// Returns the next number below `bound`.
    pub(super) fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }
}
