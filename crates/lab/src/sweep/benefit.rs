//! Experimental aggregation benefit of 2017: the gain of several paths over the best single one.

use std::collections::BTreeMap;

use super::journal::Done;
use crate::profile::Wire;

/// Sets the benefit of each multipath run for which each of its paths was also run alone, at the same point
/// and in the same repetition. For external stacks, the engine and the setup must be the same, too. If
/// several variants ran a path alone, the first one counts. `done` must be in the order of jobs.
pub(super) fn fill(done: &mut [Done]) {
    let mut alone = BTreeMap::new();
    for run in done.iter() {
        if let ([path], Some(time)) = (&run.paths[..], time(run)) {
            alone.entry((family(run), run.job.point, run.job.repetition, *path)).or_insert(time);
        }
    }
    for run in done.iter_mut().filter(|run| run.paths.len() > 1) {
        let family = family(run);
        let single =
            |path: &usize| alone.get(&(family.clone(), run.job.point, run.job.repetition, *path)).copied();
        let singles: Option<Vec<f64>> = run.paths.iter().map(single).collect();
        run.row.eben = time(run).zip(singles).and_then(|(time, singles)| aggregation_benefit(time, &singles));
    }
}

/// Returns the family of a run. Only runs of one family can be compared. The family is empty for this library
/// with any wire image. Otherwise it is the engine with its setup.
fn family(run: &Done) -> String {
    let wire = &run.row.wire;
    if wire.parse::<Wire>().is_ok() { String::new() } else { wire.clone() }
}

fn time(run: &Done) -> Option<f64> {
    run.row.transfer_time_s.filter(|time| run.row.failure.is_empty() && *time > 0.0)
}

/// Computes (G_m − G_max)/(ΣG_i − G_max) if G_m ≥ G_max, else (G_m − G_max)/G_max, where G is the goodput.
/// Times suffice because the transfers have the same size.
pub(crate) fn aggregation_benefit(time: f64, singles: &[f64]) -> Option<f64> {
    let goodputs = singles.iter().map(|time| 1.0 / time);
    let (sum, best) = goodputs.fold((0.0, 0.0_f64), |(sum, best), one| (sum + one, best.max(one)));
    let gain = 1.0 / time - best;
    let of = if gain >= 0.0 { sum - best } else { best };
    (of > 0.0).then(|| gain / of)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_benefit_is_1_for_all_paths_together_0_for_the_best_and_less_below() {
        // The goodputs are 4 and 1.
        let singles = [0.25, 1.0];
        assert_eq!(aggregation_benefit(0.2, &singles), Some(1.0));
        assert_eq!(aggregation_benefit(0.25, &singles), Some(0.0));
        assert_eq!(aggregation_benefit(0.5, &singles), Some(-0.5));
        assert_eq!(aggregation_benefit(1.0 / 4.5, &singles), Some(0.5));
        assert_eq!(aggregation_benefit(1.0, &[]), None);
    }
}
