//! WSP designs (Wootton, Sergent, Phan-Tan-Luu): points that fill a space of many dimensions evenly, chosen
//! from random candidates.

use super::cube::{Coordinates, distance_squared, uniform};
use crate::random::Seed;

/// Number of bisections in the search for a spacing, which is then exact to a thousandth of the cube's
/// diagonal.
const BISECTIONS: usize = 10;

/// WSP design: the number of candidates and dimensions, and the minimum distance between chosen points.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Wsp {
    /// Number of candidates, uniformly distributed in the unit cube.
    pub candidates: usize,
    /// Number of dimensions of the cube. A design may use only the first ones.
    pub dimensions: usize,
    /// Minimum distance between chosen points.
    pub spacing: f64,
}

impl Wsp {
    /// Design of both published studies of 2022. It chooses about 95 of 120 candidates.
    pub const CCR22: Self = Self { candidates: 120, dimensions: 20, spacing: 1.2 };

    /// Returns the chosen points, in the order in which they were chosen.
    pub fn points(&self, seed: Seed) -> Vec<Coordinates> {
        let candidates = uniform(seed, self.candidates, self.dimensions);
        self.choose(&candidates).into_iter().map(|index| candidates[index].clone()).collect()
    }

    /// Returns exactly `count` points chosen from `candidates` random ones, or fewer if there are fewer
    /// candidates. Bisection finds the largest spacing that leaves at least `count` points.
    pub fn of_count(count: usize, candidates: usize, dimensions: usize, seed: Seed) -> Vec<Coordinates> {
        // With spacing zero all candidates remain; with the cube's diagonal only one.
        let (mut enough, mut too_wide) = (0.0, (dimensions as f64).sqrt());
        for _ in 0..BISECTIONS {
            let spacing = f64::midpoint(enough, too_wide);
            let wsp = Self { candidates, dimensions, spacing };
            match wsp.points(seed).len() >= count {
                true => enough = spacing,
                false => too_wide = spacing,
            }
        }
        let mut points = Self { candidates, dimensions, spacing: enough }.points(seed);
        points.truncate(count);
        points
    }

    /// Returns the indices of the chosen `candidates`. The first is the one nearest to the centre. After each
    /// choice all candidates within the spacing are removed, and the nearest remaining one is chosen next. Of
    /// equally near candidates, the earlier one is chosen.
    pub fn choose(&self, candidates: &[Coordinates]) -> Vec<usize> {
        let spacing = self.spacing * self.spacing;
        let mut left: Vec<usize> = (0..candidates.len()).collect();
        let mut chosen = Vec::new();
        let mut here = vec![0.5; self.dimensions];
        loop {
            let distance = |index: usize| distance_squared(&here, &candidates[index]);
            let nearest = left.iter().copied().min_by(|a, b| distance(*a).total_cmp(&distance(*b)));
            let Some(nearest) = nearest else { return chosen };
            here.clone_from(&candidates[nearest]);
            chosen.push(nearest);
            left.retain(|&index| distance_squared(&here, &candidates[index]) > spacing);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::design::cube::smallest_distance;

    #[test]
    fn chosen_points_are_apart_and_every_candidate_is_near_one() {
        for seed in 0..40 {
            let mut rng = Seed(seed).rng("designs");
            let wsp = Wsp {
                candidates: rng.between(1, 150) as usize,
                dimensions: rng.between(1, 20) as usize,
                spacing: rng.unit() * 1.5,
            };
            let candidates = uniform(Seed(seed), wsp.candidates, wsp.dimensions);
            let chosen = wsp.choose(&candidates);
            let points = wsp.points(Seed(seed));
            assert_eq!(points, chosen.iter().map(|index| candidates[*index].clone()).collect::<Vec<_>>());
            assert!(smallest_distance(&points) > wsp.spacing, "{wsp:?}");
            for candidate in &candidates {
                let near =
                    points.iter().any(|point| distance_squared(point, candidate).sqrt() <= wsp.spacing);
                assert!(near || points.contains(candidate), "{wsp:?} leaves {candidate:?} uncovered");
            }
        }
    }

    #[test]
    fn each_point_is_the_nearest_one_left() {
        let wsp = Wsp { candidates: 0, dimensions: 1, spacing: 0.1 };
        let line = |places: &[f64]| places.iter().map(|place| vec![*place]).collect::<Vec<_>>();
        // The first choice is nearest to the centre, each later one nearest to the one before, without
        // candidates that are too close. In the end no candidate remains.
        assert_eq!(wsp.choose(&line(&[0.0, 0.48, 0.55, 0.7, 1.0, 0.36])), [1, 5, 3, 4, 0]);
        assert_eq!(wsp.choose(&line(&[0.6, 0.4])), [0, 1]);
        assert_eq!(wsp.choose(&[]), [0; 0]);
    }

    #[test]
    fn a_spacing_is_found_for_a_number_of_points() {
        let points = Wsp::of_count(253, 1000, 8, Seed(2017));
        assert_eq!(points.len(), 253);
        assert!(smallest_distance(&points) > 0.5, "{}", smallest_distance(&points));
        assert_eq!(Wsp::of_count(5, 3, 2, Seed(1)).len(), 3);
    }

    #[test]
    fn a_seed_gives_the_same_design_again() {
        let wsp = Wsp::CCR22;
        assert_eq!(wsp.points(Seed(1)), wsp.points(Seed(1)));
        assert_ne!(wsp.points(Seed(1)), wsp.points(Seed(2)));
        for seed in 0..20 {
            let count = wsp.points(Seed(seed)).len();
            assert!((80..=115).contains(&count), "{count} points of seed {seed}");
        }
    }
}
