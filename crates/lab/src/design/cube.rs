//! Points of the unit cube, of which generated designs consist. Factors map their coordinates to values of
//! parameters.

use crate::random::{Rng, Seed};

/// Coordinates of a point, each from 0 to 1.
pub type Coordinates = Vec<f64>;

/// Maximum number of points of a generated design, and of its candidates.
pub const MAX_GENERATED: usize = 10_000;
/// Maximum number of parameters that a generated design varies.
pub const MAX_DIMENSIONS: usize = 64;

/// Returns the square of the Euclidean distance.
pub(super) fn distance_squared(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| (a - b) * (a - b)).sum()
}

/// Returns the minimum distance between two of `points`; infinite for fewer than two points.
pub fn smallest_distance(points: &[Coordinates]) -> f64 {
    let pairs = points.iter().enumerate().flat_map(|(at, a)| points[at + 1..].iter().map(move |b| (a, b)));
    pairs.map(|(a, b)| distance_squared(a, b)).fold(f64::INFINITY, f64::min).sqrt()
}

/// Returns `count` uniformly distributed points.
pub(super) fn uniform(seed: Seed, count: usize, dimensions: usize) -> Vec<Coordinates> {
    let mut rng: Rng = seed.rng("design/uniform");
    (0..count).map(|_| (0..dimensions).map(|_| rng.unit()).collect()).collect()
}
