//! Full factorial designs: every combination of the levels of all parameters.

use super::cube::{Coordinates, MAX_GENERATED};

/// Returns one point for each combination of levels; the last parameter changes fastest. Levels are evenly
/// spaced from 0 to 1; a single level lies at 0.5. Returns `None` if there would be more than
/// [`MAX_GENERATED`] points.
pub fn factorial(levels: &[usize]) -> Option<Vec<Coordinates>> {
    let count = levels.iter().try_fold(1_usize, |count, levels| count.checked_mul(*levels))?;
    (count <= MAX_GENERATED).then(|| (0..count).map(|number| combination(number, levels)).collect())
}

/// Returns combination `number`, interpreted in a mixed radix: each digit has its own base.
fn combination(mut number: usize, levels: &[usize]) -> Coordinates {
    let mut point = vec![0.5; levels.len()];
    for (coordinate, &levels) in point.iter_mut().zip(levels).rev() {
        if levels > 1 {
            *coordinate = (number % levels) as f64 / (levels - 1) as f64;
        }
        number /= levels;
    }
    point
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Seed;

    #[test]
    fn levels_are_combined_in_order() {
        let points = factorial(&[2, 1, 3]).unwrap();
        let expected = [[0.0, 0.0], [0.0, 0.5], [0.0, 1.0], [1.0, 0.0], [1.0, 0.5], [1.0, 1.0]];
        assert_eq!(points, expected.map(|[first, last]| vec![first, 0.5, last]));
        assert_eq!(factorial(&[]).unwrap(), [Vec::<f64>::new()], "nothing varies: one point");
    }

    #[test]
    fn every_combination_is_there_once() {
        for seed in 0..40 {
            let mut rng = Seed(seed).rng("designs");
            let levels: Vec<usize> = (0..rng.between(1, 5)).map(|_| rng.between(1, 5) as usize).collect();
            let points = factorial(&levels).unwrap();
            assert_eq!(points.len(), levels.iter().product::<usize>());
            for (dimension, &levels) in levels.iter().enumerate() {
                let of = |level: usize| {
                    let value = if levels == 1 { 0.5 } else { level as f64 / (levels - 1) as f64 };
                    points.iter().filter(|point| point[dimension] == value).count()
                };
                assert!((0..levels).all(|level| of(level) == points.len() / levels));
            }
            let mut different = points.clone();
            different.sort_by(|a, b| a.partial_cmp(b).unwrap());
            different.dedup();
            assert_eq!(different.len(), points.len());
        }
    }

    #[test]
    fn too_many_points_are_refused() {
        assert!(factorial(&[100, 100]).is_some_and(|points| points.len() == MAX_GENERATED));
        assert_eq!(factorial(&[100, 101]), None);
        assert_eq!(factorial(&[usize::MAX, 2]), None);
        assert_eq!(factorial(&[3, 0]), Some(Vec::new()));
    }
}
