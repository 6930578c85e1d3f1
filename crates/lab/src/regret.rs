//! Regret of schedulers: the time that each loses at a point compared with the best scheduler at this point.

use std::collections::BTreeMap;

use anabranch_transport::MultipathConfig;
use anabranch_transport::schedule::Algorithm;

use crate::record::Row;
use crate::stats::{Sample, median};

/// Regret at one point.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Case {
    /// The experiment's name.
    pub experiment: String,
    /// Part of the variant's name before that of the scheduler; may be empty. Only variants of the same group
    /// are compared.
    pub group: String,
    /// Number of the point.
    pub point: u64,
    /// Time beyond that of the best scheduler, as a share of the best scheduler's time.
    pub regret: f64,
    /// Name of the best scheduler.
    pub best: &'static str,
}

/// Regret of a scheduler at all points where at least two schedulers completed their runs.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Regret {
    /// Name of the scheduler.
    pub scheduler: &'static str,
    /// Cases in the order of experiments, groups and points.
    pub cases: Vec<Case>,
}

impl Regret {
    /// Returns the regret of all cases.
    pub fn values(&self) -> Vec<f64> {
        self.cases.iter().map(|case| case.regret).collect()
    }

    /// Returns the regret of all cases as a sample.
    pub fn sample(&self) -> Sample {
        self.values().into_iter().collect()
    }

    /// Returns the case with the largest regret.
    pub fn worst(&self) -> Option<&Case> {
        self.cases.iter().max_by(|one, other| one.regret.total_cmp(&other.regret))
    }
}

/// Returns the regret of each scheduler in `rows`. The library's default is the first one, and the others are
/// in the order of their registration. A variant belongs to the scheduler with which its name ends. The time
/// of a run is the mean delay of its answers, or the transfer time if it had no requests. The time of a point
/// is the median over its repetitions.
pub fn of(rows: &[Row]) -> Vec<Regret> {
    let mut times: BTreeMap<(&str, &str, u64), BTreeMap<&'static str, Vec<f64>>> = BTreeMap::new();
    for row in rows.iter().filter(|row| row.failure.is_empty()) {
        if let Some(((group, scheduler), time)) = scheduler(&row.variant).zip(time(row)) {
            let point = times.entry((&row.experiment, group, row.point)).or_default();
            point.entry(scheduler).or_default().push(time);
        }
    }
    let mut cases: BTreeMap<&str, Vec<Case>> = BTreeMap::new();
    for ((experiment, group, point), times) in &times {
        let medians: Vec<(&'static str, f64)> =
            times.iter().filter_map(|(name, times)| Some((*name, median(times)?))).collect();
        let Some((best, least)) = medians.iter().copied().min_by(|one, other| one.1.total_cmp(&other.1))
        else {
            continue;
        };
        for (scheduler, time) in medians.iter().filter(|_| medians.len() > 1 && least > 0.0) {
            cases.entry(scheduler).or_default().push(Case {
                experiment: (*experiment).to_owned(),
                group: (*group).to_owned(),
                point: *point,
                regret: time / least - 1.0,
                best,
            });
        }
    }
    let default = MultipathConfig::default().scheduler().name();
    let names =
        core::iter::once(default).chain(Algorithm::NAMES.iter().copied().filter(|name| *name != default));
    names.filter_map(|scheduler| Some(Regret { scheduler, cases: cases.remove(scheduler)? })).collect()
}

/// Returns the part of the name of `variant` before the scheduler, and the scheduler with which the name
/// ends.
fn scheduler(variant: &str) -> Option<(&str, &'static str)> {
    let ends = |name: &&&'static str| {
        variant.strip_suffix(**name).is_some_and(|group| group.is_empty() || group.ends_with('-'))
    };
    let name = Algorithm::NAMES.iter().filter(ends).max_by_key(|name| name.len())?;
    Some((variant.strip_suffix(*name)?.trim_end_matches('-'), name))
}

fn time(row: &Row) -> Option<f64> {
    let delays: Sample = row.request_delays_s.iter().copied().collect();
    delays.mean().or(row.transfer_time_s)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(variant: &str, point: u64, time: f64) -> Row {
        Row { variant: variant.to_owned(), point, transfer_time_s: Some(time), ..Row::default() }
    }

    #[test]
    fn each_point_is_compared_with_its_best_scheduler() {
        let rows = [
            row("min-rtt", 0, 2.0),
            row("confluence", 0, 3.0),
            row("confluence", 0, 3.0),
            row("confluence", 0, 9.0),
            row("min-rtt", 1, 4.0),
            row("confluence", 1, 2.0),
            // Variants of another group or without a scheduler are not compared with these rows. Failed runs
            // are left out.
            row("open-min-rtt", 1, 1.0),
            row("quic-path-0", 1, 1.0),
            Row { failure: "gave up".to_owned(), ..row("blest", 1, 0.1) },
        ];
        let found = of(&rows);
        let shown: Vec<_> = found.iter().map(|one| (one.scheduler, one.values())).collect();
        assert_eq!(shown, [("confluence", vec![0.5, 0.0]), ("min-rtt", vec![0.0, 1.0])]);
        let worst = found[0].worst().unwrap();
        assert_eq!((worst.point, worst.best), (0, "min-rtt"));
    }

    #[test]
    fn answers_are_compared_by_their_mean_delay() {
        let row = |variant: &str, delays: &[f64]| Row {
            variant: variant.to_owned(),
            request_delays_s: delays.to_vec(),
            // Requests are made at fixed times, so that the last answer comes at about the same time.
            transfer_time_s: Some(5.0),
            ..Row::default()
        };
        let found = of(&[row("a-redundant", &[0.1, 0.3]), row("a-ecf", &[0.1, 0.1])]);
        let regret = found.iter().find(|one| one.scheduler == "redundant").unwrap();
        assert!((regret.cases[0].regret - 1.0).abs() < 1e-9, "{regret:?}");
        assert_eq!((regret.cases[0].group.as_str(), regret.cases[0].best), ("a", "ecf"));
        assert_eq!(of(&[row("ecf", &[0.1])]), [], "alone it is compared with nothing");
    }

    #[test]
    fn the_longest_name_counts() {
        assert_eq!(scheduler("min-rtt-duplicate"), Some(("", "min-rtt-duplicate")));
        assert_eq!(scheduler("open-min-rtt"), Some(("open", "min-rtt")));
        assert_eq!(scheduler("unweighted"), None);
    }
}
