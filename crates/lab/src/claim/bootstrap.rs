//! Uncertainty of a verdict by the percentile bootstrap: the claim is judged again for many sets of points,
//! each drawn with replacement from the points that were run. Paired values stay pairs, since all variants of
//! an experiment get the same points.

use super::{Claim, Finding, Results};
use crate::random::{Rng, Seed};
use crate::stats::{RESAMPLED_SETS, Sample};

/// Minimum number of points of an experiment. Fewer points say nothing about other points of the same kind.
const MIN_POINTS: usize = 20;
const SEED: Seed = Seed(2022);

/// Uncertainty of a finding.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Spread {
    /// 95 % interval of each value.
    pub(super) intervals: Vec<[f64; 2]>,
    /// Share of the resampled sets of points that give the same answer as all points, 0 to 1.
    pub(super) agreement: f64,
}

/// Returns the uncertainty of `finding`, which the claim derives from `results`; `None` if there are too few
/// points.
pub(super) fn spread(claim: &Claim, results: &Results, finding: &Finding) -> Option<Spread> {
    if claim.needs.iter().any(|need| results.points(need.experiment).len() < MIN_POINTS) {
        return None;
    }
    let mut rng: Rng = SEED.rng(claim.id);
    let mut values = vec![Vec::with_capacity(RESAMPLED_SETS); finding.values.len()];
    let (mut judged, mut agreeing) = (0_usize, 0_usize);
    for _ in 0..RESAMPLED_SETS {
        let Some(drawn) = (claim.judge)(&results.resampled(&mut rng)) else { continue };
        judged += 1;
        agreeing += usize::from(drawn.holds == finding.holds);
        values.iter_mut().zip(drawn.values).for_each(|(all, value)| all.push(value));
    }
    let interval = |values: Vec<f64>| {
        let sample: Sample = values.into_iter().collect();
        sample.middle_95().unwrap_or([f64::NAN; 2])
    };
    (judged > 0).then(|| Spread {
        intervals: values.into_iter().map(interval).collect(),
        agreement: agreeing as f64 / judged as f64,
    })
}
