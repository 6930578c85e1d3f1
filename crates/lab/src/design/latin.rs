//! Latin hypercubes. The range of every parameter is divided into as many equal strata as there are points,
//! and each stratum contains exactly one point.

use super::cube::{Coordinates, smallest_distance};
use crate::random::{Rng, Seed};

/// Latin hypercube design: the best of several random cubes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Latin {
    /// Number of points, and of strata in each dimension.
    pub count: usize,
    /// Number of dimensions of the cube.
    pub dimensions: usize,
    /// Number of cubes that are drawn. The one with the largest minimum distance between its points is used
    /// (maximin).
    pub draws: usize,
}

impl Latin {
    /// Returns the points of the best cube.
    pub fn points(&self, seed: Seed) -> Vec<Coordinates> {
        let mut rng = seed.rng("design/latin");
        let mut best = (f64::NEG_INFINITY, Vec::new());
        for _ in 0..self.draws.max(1) {
            let cube = self.draw(&mut rng);
            let distance = smallest_distance(&cube);
            if distance > best.0 {
                best = (distance, cube);
            }
        }
        best.1
    }

    /// Draws one cube: a permutation of the strata for each dimension, and a position within each stratum.
    fn draw(&self, rng: &mut Rng) -> Vec<Coordinates> {
        let mut points = vec![Vec::with_capacity(self.dimensions); self.count];
        for _ in 0..self.dimensions {
            let mut strata: Vec<usize> = (0..self.count).collect();
            for end in (1..strata.len()).rev() {
                strata.swap(end, rng.below(end as u64 + 1) as usize);
            }
            for (point, stratum) in points.iter_mut().zip(strata) {
                point.push((stratum as f64 + rng.unit()) / self.count as f64);
            }
        }
        points
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_stratum_holds_one_point() {
        for seed in 0..40 {
            let mut rng = Seed(seed).rng("designs");
            let latin = Latin {
                count: rng.between(1, 60) as usize,
                dimensions: rng.between(1, 8) as usize,
                draws: rng.between(0, 4) as usize,
            };
            let points = latin.points(Seed(seed));
            for dimension in 0..latin.dimensions {
                let stratum = |point: &Coordinates| (point[dimension] * latin.count as f64) as usize;
                let mut strata: Vec<usize> = points.iter().map(stratum).collect();
                strata.sort_unstable();
                assert_eq!(strata, (0..latin.count).collect::<Vec<_>>(), "{latin:?}");
            }
        }
    }

    #[test]
    fn of_several_draws_the_one_with_points_far_apart_counts() {
        let distance = |draws| {
            let latin = Latin { count: 20, dimensions: 3, draws };
            smallest_distance(&latin.points(Seed(5)))
        };
        assert!(distance(50) > distance(1), "{} with fifty, {} with one", distance(50), distance(1));
    }

    #[test]
    fn a_seed_gives_the_same_cube_again() {
        let latin = Latin { count: 9, dimensions: 4, draws: 3 };
        assert_eq!(latin.points(Seed(1)), latin.points(Seed(1)));
        assert_ne!(latin.points(Seed(1)), latin.points(Seed(2)));
    }
}
