//! Results of several directories, brought together.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::journal::Journal;
use super::{SweepError, finish, lock};
use crate::experiment::Job;
use crate::record::Row;

/// What came together.
#[derive(Clone, Debug)]
pub struct Merged {
    /// All rows, in the order of jobs.
    pub rows: Vec<Row>,
    /// Runs of the experiment that are in none of the directories.
    pub missing: usize,
}

/// Adds the runs of `dirs`, which must be of the same experiment and commit, to those in `out`, and writes the results. A run
/// that is there twice is taken once: both are the same.
///
/// # Errors
/// If a directory has no journal or one of something else, or a file cannot be read or written.
pub fn merge(dirs: &[PathBuf], out: &Path) -> Result<Merged, SweepError> {
    let parts = dirs.iter().map(|dir| Journal::look(dir)).collect::<Result<Vec<_>, _>>()?;
    let Some((_, header, _)) = parts.first() else { return Ok(Merged { rows: Vec::new(), missing: 0 }) };
    let _lock = lock(out)?;
    for ((_, other, _), dir) in parts.iter().zip(dirs) {
        if other != header {
            let (found, wanted) = (other.describe(), header.describe());
            return Err(SweepError::Other { dir: dir.clone(), found, wanted });
        }
    }
    let (journal, mut done) = Journal::open(out, header)?;
    let runs = header.runs;
    let mut there: BTreeSet<Job> = done.iter().map(|run| run.job).collect();
    for (from, _, part) in &parts {
        for run in part {
            if there.insert(run.job) {
                done.push(journal.copy(from, run)?);
            }
        }
    }
    let rows = finish(out, &journal, done)?;
    Ok(Merged { missing: runs.saturating_sub(rows.len()), rows })
}
