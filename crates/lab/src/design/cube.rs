//! Points of the unit cube, which designs are made of before anybody says what their coordinates mean.

use crate::random::{Rng, Seed};

/// Coordinates from 0 to 1.
pub type Coordinates = Vec<f64>;

/// Points that a generated design may have, and candidates that it may choose from.
pub const MAX_GENERATED: usize = 10_000;
/// Parameters that a generated design may vary.
pub const MAX_DIMENSIONS: usize = 64;

/// Returns the square of the Euclidean distance.
pub(super) fn distance_squared(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| (a - b) * (a - b)).sum()
}

/// Returns the smallest distance between two of `points`; infinite if there are not two.
pub fn smallest_distance(points: &[Coordinates]) -> f64 {
    let pairs = points.iter().enumerate().flat_map(|(at, a)| points[at + 1..].iter().map(move |b| (a, b)));
    pairs.map(|(a, b)| distance_squared(a, b)).fold(f64::INFINITY, f64::min).sqrt()
}

/// Returns `count` evenly distributed points.
pub(super) fn uniform(seed: Seed, count: usize, dimensions: usize) -> Vec<Coordinates> {
    let mut rng: Rng = seed.rng("design/uniform");
    (0..count).map(|_| (0..dimensions).map(|_| rng.unit()).collect()).collect()
}
