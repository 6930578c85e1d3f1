//! Reading of the results in a directory, without running a sweep. The version of the program that made them
//! does not matter.

use std::collections::BTreeSet;

use super::journal::{Done, Header, Journal};
use super::manifest::Manifest;
use super::{SweepError, SweepOptions, benefit};
use crate::experiment::{Experiment, Job};
use crate::record::Row;

/// Runs of an experiment that a directory has.
#[derive(Clone, Debug, Default)]
pub struct Present {
    /// Rows of all runs that the directory has, in the order of jobs.
    pub rows: Vec<Row>,
    /// Number of requested runs that the directory does not have.
    pub missing: usize,
}

/// Reads the runs in the directory of `options` and counts the requested ones that are missing there. Nothing
/// is written, and runs of any version count.
///
/// # Errors
/// Fails if the options are invalid, or if the directory has a journal of another experiment or one that
/// cannot be read.
pub fn look(experiment: &Experiment, options: &SweepOptions) -> Result<Present, SweepError> {
    let asked = Manifest::of(experiment, options)?;
    let mut done: Vec<Done> = Vec::new();
    if Journal::is_in(&options.dir) {
        let (_, found) = Journal::look(&options.dir)?;
        found.must_be_of(&Header::of(experiment, &options.run, &asked.variants()), true, &options.dir)?;
        done = found.done;
    }
    done.sort_by_key(|run| run.job);
    benefit::fill(&mut done);
    let there: BTreeSet<Job> = done.iter().map(|run| run.job).collect();
    let missing = asked.jobs().filter(|job| !there.contains(job)).count();
    Ok(Present { rows: done.into_iter().map(|run| run.row).collect(), missing })
}
