//! Random numbers from one seed, with an independent stream for each user of randomness.

use std::hash::Hasher;

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};
use siphasher::sip::SipHasher13;

/// Seed of a whole simulation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seed(pub u64);

impl Seed {
    /// Returns the random number generator of the user called `label`.
    ///
    /// Each label has its own stream. So a new user in a simulation leaves the random numbers of the other
    /// users unchanged.
    pub fn rng(self, label: &str) -> Rng {
        let mut hasher = SipHasher13::new();
        hasher.write(label.as_bytes());
        let mut rng = ChaCha8Rng::seed_from_u64(self.0);
        rng.set_stream(hasher.finish());
        Rng(rng)
    }
}

/// A reproducible source of random numbers.
#[derive(Clone, Debug)]
pub struct Rng(ChaCha8Rng);

impl Rng {
    /// Returns 64 random bits.
    pub fn bits(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// Returns a number uniformly distributed from 0.0 to 1.0, excluding 1.0.
    pub fn unit(&mut self) -> f64 {
        const SCALE: f64 = 1.0 / (1u64 << 53) as f64;
        (self.bits() >> 11) as f64 * SCALE
    }

    /// Returns `true` with probability `probability`.
    pub fn chance(&mut self, probability: f64) -> bool {
        self.unit() < probability
    }

    /// Returns a number uniformly distributed in `0..bound`; 0 if `bound` is 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        // Multiply-and-shift. Its bias is at most bound / 2^64, which is negligible in a simulation.
        ((u128::from(self.bits()) * u128::from(bound)) >> 64) as u64
    }

    /// Returns a number uniformly distributed from `low` to `high`, both inclusive.
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high.saturating_sub(low).saturating_add(1))
    }

    /// Returns a random element of `choices`.
    ///
    /// # Panics
    /// Panics if `choices` is empty.
    pub fn pick<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len() as u64) as usize]
    }

    /// Returns 32 random bytes, for seeds of other generators.
    pub fn bytes(&mut self) -> [u8; 32] {
        let mut bytes = [0; 32];
        self.0.fill_bytes(&mut bytes);
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_have_streams_of_their_own() {
        let seed = Seed(7);
        let draw = |label| {
            let mut rng = seed.rng(label);
            [rng.bits(), rng.bits()]
        };
        assert_eq!(draw("a"), draw("a"));
        assert_ne!(draw("a"), draw("b"));
        assert_ne!(draw("a"), [Seed(8).rng("a").bits(), 0]);
    }

    #[test]
    fn draws_stay_in_their_ranges() {
        let mut rng = Seed(1).rng("ranges");
        let mut seen = [false; 3];
        for _ in 0..1000 {
            assert!((0.0..1.0).contains(&rng.unit()));
            seen[rng.between(5, 7) as usize - 5] = true;
        }
        assert_eq!(seen, [true; 3]);
        assert_eq!(rng.below(0), 0);
        assert!(!rng.chance(0.0) && rng.chance(1.0));
    }
}
