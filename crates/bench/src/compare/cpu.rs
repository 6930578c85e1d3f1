//! CPU time of stacks. The lab's results have no columns for it, since they must not depend on the machine.
//! So runs are repeated here one at a time, with a process for each end, also for the library's own ends.

use std::env;

use anabranch_lab::experiment::{Experiment, Job};
use anabranch_lab::guest::Programs;
use anabranch_lab::profile::{Settings, Variant};
use anabranch_lab::run::{self, RunOptions};

use super::{Best, guest};
use crate::Error;
use crate::child::Cost;

/// Repeats the best run of each stack at `count` points, and records the CPU time of its two processes.
pub(super) fn measure(experiment: &Experiment, all: &mut [Best], count: usize) -> Result<(), Error> {
    let points = spread(all.iter().map(|one| one.point).collect(), count);
    for one in all.iter_mut().filter(|one| points.contains(&one.point)) {
        one.cpu = cpu(experiment, one)?;
    }
    Ok(())
}

/// Returns `count` of the points, evenly spread over the ascending order of their numbers. Returns all points
/// if there are fewer.
fn spread(mut points: Vec<u64>, count: usize) -> Vec<u64> {
    points.sort_unstable();
    points.dedup();
    let count = count.min(points.len());
    (0..count).map(|index| points[index * points.len() / count]).collect()
}

/// Returns the CPU seconds of both ends; `None` if the stack cannot run here as processes, or if the run
/// fails.
fn cpu(experiment: &Experiment, one: &Best) -> Result<Option<f64>, Error> {
    let variant = experiment.variants.iter().find(|variant| variant.name == one.variant);
    let point = experiment.points.iter().position(|point| point.run == one.point);
    let Some((variant, point)) = variant.zip(point) else { return Ok(None) };
    let Some(variant) = as_processes(variant)? else { return Ok(None) };
    let alone = Experiment { variants: vec![variant], ..experiment.clone() };
    let before = Cost::of_children()?;
    let finished = run::run(&alone, Job { variant: 0, point, repetition: 0 }, &RunOptions::default());
    let after = Cost::of_children()?;
    if !finished.row.failure.is_empty() {
        eprintln!("no CPU time of {}, point {}: {}", one.stack, one.point, finished.row.failure);
        return Ok(None);
    }
    Ok(Some(after.cpu - before.cpu))
}

/// Returns the variant with a process at each end. Returns `None` for Linux, because a kernel in user mode
/// has other costs than a real one, and for programs that are not built.
fn as_processes(variant: &Variant) -> Result<Option<Variant>, Error> {
    let name = variant.name.clone();
    if variant.external().is_some() {
        return Ok(None);
    }
    if let Some(programs) = &variant.settings.guest {
        return Ok(programs.missing().is_empty().then(|| variant.clone()));
    }
    let program = env::current_exe()?.display().to_string();
    let own = guest::arguments(&variant.settings)?;
    let command: Vec<&str> =
        std::iter::once(program.as_str()).chain(own.iter().map(String::as_str)).collect();
    let Settings { multipath, paths, .. } = variant.settings.clone();
    let settings =
        Settings { guest: Some(Programs::both(&command)), multipath, paths, ..Settings::default() };
    Ok(Some(Variant { name, settings }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_are_spread_over_the_design() {
        assert_eq!(spread((0..95).chain(0..95).collect(), 3), [0, 31, 63]);
        assert_eq!(spread(vec![7, 3], 5), [3, 7]);
        assert_eq!(spread(vec![7, 3], 0), [] as [u64; 0]);
        assert_eq!(spread(Vec::new(), 3), [] as [u64; 0]);
    }
}
