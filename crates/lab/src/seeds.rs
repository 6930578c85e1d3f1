//! Runs of many seeds on all cores.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, PoisonError};
use std::thread;

/// Report of one seed's run.
pub trait SeedReport: Send {
    /// Creates the report of a seed whose run failed with `fault`.
    fn failed(seed: u64, fault: String) -> Self;

    /// Returns the seed.
    fn seed(&self) -> u64;

    /// Returns the violations of invariants; empty if the run passed.
    fn faults(&self) -> &[String];
}

/// Implements [`SeedReport`] for a report with the fields `seed` and `faults`.
macro_rules! seed_report {
    ($report:ty) => {
        impl $crate::seeds::SeedReport for $report {
            fn failed(seed: u64, fault: String) -> Self {
                Self { seed, faults: vec![fault], ..Self::default() }
            }

            fn seed(&self) -> u64 {
                self.seed
            }

            fn faults(&self) -> &[String] {
                &self.faults
            }
        }
    };
}
pub(crate) use seed_report;

/// Runs all `seeds` and returns their reports, sorted by seed. `tell` is called with each report when its run
/// ends. A panic counts as a failure of its seed; the other seeds still run.
pub fn sweep<R: SeedReport>(
    seeds: impl Iterator<Item = u64> + Send,
    run: impl Fn(u64) -> R + Sync,
    tell: impl Fn(&R) + Sync,
) -> Vec<R> {
    let seeds = Mutex::new(seeds);
    let next = || seeds.lock().unwrap_or_else(PoisonError::into_inner).next();
    let reports = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                while let Some(seed) = next() {
                    let report = catch_unwind(AssertUnwindSafe(|| run(seed)))
                        .unwrap_or_else(|_| R::failed(seed, "panicked".to_owned()));
                    tell(&report);
                    reports.lock().unwrap_or_else(PoisonError::into_inner).push(report);
                }
            });
        }
    });
    let mut reports = reports.into_inner().unwrap_or_else(PoisonError::into_inner);
    reports.sort_by_key(R::seed);
    reports
}

/// Prints the seed and the faults of a failed run to standard output.
pub fn tell_faults<R: SeedReport>(report: &R) {
    if !report.faults().is_empty() {
        println!("seed {} failed:\n  {}", report.seed(), report.faults().join("\n  "));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Default, PartialEq)]
    struct Halved {
        seed: u64,
        faults: Vec<String>,
        half: u64,
    }

    seed_report!(Halved);

    #[test]
    fn every_seed_has_a_report_though_some_panic() {
        let told = Mutex::new(0);
        let run = |seed: u64| {
            assert!(seed.is_multiple_of(2), "odd");
            Halved { seed, faults: Vec::new(), half: seed / 2 }
        };
        let reports = sweep([8, 3, 4, 6].into_iter(), run, |_| *told.lock().unwrap() += 1);
        let failed: Vec<_> = reports.iter().map(|report| (report.seed, report.faults.len())).collect();
        assert_eq!(failed, [(3, 1), (4, 0), (6, 0), (8, 0)]);
        assert_eq!(reports[0].faults, ["panicked"]);
        assert_eq!(*told.lock().unwrap(), 4);
    }
}
