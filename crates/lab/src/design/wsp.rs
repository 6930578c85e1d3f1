//! WSP (Wootton, Sergent, Phan-Tan-Luu): points that fill a space of many dimensions evenly, chosen from
//! random candidates.

use super::cube::{Coordinates, distance_squared, uniform};
use crate::random::Seed;

/// Halvings of the spacing that is looked for; it is known to a thousandth of the cube's diagonal then.
const BISECTIONS: usize = 10;

/// WSP design: the number of candidates and of dimensions, and the minimum distance between the candidates
/// that stay.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Wsp {
    /// Points to choose from, evenly distributed in the unit cube.
    pub candidates: usize,
    /// Dimensions of the cube; a design may use only the first ones.
    pub dimensions: usize,
    /// Two chosen points are farther apart than this.
    pub spacing: f64,
}

impl Wsp {
    /// The design of both published studies of 2022: about 95 of 120 candidates stay.
    pub const CCR22: Self = Self { candidates: 120, dimensions: 20, spacing: 1.2 };

    /// Returns the chosen points, in the order in which they were chosen.
    pub fn points(&self, seed: Seed) -> Vec<Coordinates> {
        let candidates = uniform(seed, self.candidates, self.dimensions);
        self.choose(&candidates).into_iter().map(|index| candidates[index].clone()).collect()
    }

    /// Returns exactly `count` points out of so many `candidates`, as far apart as bisection finds a spacing
    /// that leaves as many; fewer only if there are fewer candidates.
    pub fn of_count(count: usize, candidates: usize, dimensions: usize, seed: Seed) -> Vec<Coordinates> {
        // No spacing at all leaves every candidate, the diagonal of the cube one.
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

    /// Returns the indices of the `candidates` that stay. The first is the one nearest to the centre; all
    /// those within the spacing of it are deleted. Then the nearest of those that are left is chosen, and so
    /// on. Of equally near candidates, the earlier one is chosen.
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
        // The centre's nearest, then what lies nearest to that, without what is too close; nothing is left
        // out in the end.
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
