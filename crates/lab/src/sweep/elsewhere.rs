//! Runs of the same experiment in other directories, taken over instead of repeated.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use super::SweepError;
use super::journal::{Done, Found, Header, Journal};
use crate::experiment::{Experiment, Job};
use crate::run::RunOptions;

/// Maximum depth of directories below a root that are searched.
const MAX_DEPTH: usize = 3;
/// Maximum number of directories that a search looks into.
const MAX_LOOKED_AT: usize = 2000;

/// Returns the directories below `roots` that have runs of this experiment, with the same points, variants,
/// workload and deadline. The runs must have been made by this version of the program and of its engines.
pub fn find(roots: &[PathBuf], experiment: &Experiment, run: &RunOptions) -> Vec<PathBuf> {
    let all: Vec<usize> = (0..experiment.variants.len()).collect();
    let header = Header::of(experiment, run, &all);
    let mut found = Vec::new();
    let mut left: Vec<(PathBuf, usize)> = roots.iter().map(|root| (root.clone(), 0)).collect();
    let mut seen = BTreeSet::new();
    while let Some((dir, depth)) = left.pop() {
        let is_new = fs::canonicalize(&dir).is_ok_and(|dir| seen.insert(dir));
        if !is_new || seen.len() > MAX_LOOKED_AT {
            continue;
        }
        if Journal::is_in(&dir) {
            found.extend(matching(&dir, &header).map(|_| dir));
        } else if depth < MAX_DEPTH {
            let entries = fs::read_dir(&dir).into_iter().flatten().flatten().map(|entry| entry.path());
            left.extend(entries.filter(|path| path.is_dir()).map(|path| (path, depth + 1)));
        }
    }
    found.sort();
    found
}

/// Returns the journal of a directory if its runs are those of `header`.
fn matching(dir: &Path, header: &Header) -> Option<(Journal, Found)> {
    let (journal, found) = Journal::look(dir).ok()?;
    found.must_be_of(header, false, dir).ok().map(|()| (journal, found))
}

/// Copies those of the `wanted` runs that are not `done` from the journals of other directories.
pub(super) fn take_over(
    dirs: &[PathBuf],
    header: &Header,
    wanted: &[Job],
    journal: &Journal,
    done: &mut Vec<Done>,
) -> Result<(), SweepError> {
    let there: BTreeSet<Job> = done.iter().map(|run| run.job).collect();
    let mut missing: BTreeSet<Job> = wanted.iter().copied().filter(|job| !there.contains(job)).collect();
    for (from, found) in dirs.iter().filter_map(|dir| matching(dir, header)) {
        for run in found.done {
            if missing.remove(&run.job) {
                done.push(journal.copy(&from, &run)?);
            }
        }
    }
    Ok(())
}
