//! Sweeps: many runs on many threads, recorded as they finish.
//!
//! A directory of results has a journal with a line for each finished run. A sweep that ended early can be
//! continued: it runs only those jobs that the journal does not contain.

mod benefit;
mod elsewhere;
mod journal;
mod look;
mod manifest;
mod merge;
#[cfg(test)]
mod tests;

use core::ops::ControlFlow;
use std::collections::BTreeSet;
use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use crate::experiment::{Experiment, Job};
use crate::record::Row;
use crate::run::{self, RunOptions};
use crate::store::{self, RunTimeline, StoreError};

use self::journal::{Done, Header, Journal};
use self::manifest::Manifest;

pub(crate) use self::benefit::aggregation_benefit;
pub use self::elsewhere::find;
pub use self::look::{Present, look};
pub use self::manifest::Missing;
pub use self::merge::{Merged, merge};

/// Name of the lock file, which is locked by the process that writes to a directory.
const LOCK: &str = "lock";

/// Options of a sweep.
#[derive(Clone, Debug, Default)]
pub struct SweepOptions {
    /// Directory of the results, which is created if it does not exist.
    pub dir: PathBuf,
    /// Options of each run.
    pub run: RunOptions,
    /// Number of threads; 0 for the number of processors.
    pub threads: usize,
    /// `true` to add runs to those of another version of the program.
    pub force: bool,
    /// Part of the runs that this sweep executes.
    pub shard: Shard,
    /// Names of the variants to run; `None` for the usual ones.
    pub variants: Option<Vec<String>>,
    /// Names of the requested variants that this machine cannot run. Their runs are not made and do not count
    /// as missing here, but they count in the division into shards.
    pub left_out: Vec<String>,
    /// Numbers of the points to run; `None` for all.
    pub points: Option<Vec<u64>>,
    /// Other directories, from which runs of the same experiment and version are copied instead of being
    /// repeated.
    pub also: Vec<PathBuf>,
}

/// One of `of` equal parts of the runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Shard {
    /// Index of the part, from 0 on.
    pub index: usize,
    /// Number of parts.
    pub of: usize,
}

impl Default for Shard {
    fn default() -> Self {
        Self { index: 0, of: 1 }
    }
}

/// Receiver of a sweep's progress.
pub trait Progress: Sync {
    /// Reports the start of the sweep: `done` of `runs` runs were found in the journal.
    fn begin(&self, _runs: usize, _done: usize) {}

    /// Reports a finished run that has been recorded. [`ControlFlow::Break`] ends the sweep as soon as the
    /// active runs are finished, too.
    fn finished(&self, _row: &Row) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }
}

/// Receiver that ignores all reports.
impl Progress for () {}

/// Reason that a sweep was not completed, formatted in one line.
#[derive(Debug, thiserror::Error)]
pub enum SweepError {
    /// A file cannot be read or written.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Another process writes to the directory.
    #[error("{}: another process is writing its results there", .0.display())]
    InUse(PathBuf),
    /// The directory has results of another experiment.
    #[error("{}: has runs of something else: {differences}", dir.display())]
    Other {
        /// Path of the directory.
        dir: PathBuf,
        /// Differences between the directory's journal and the requested runs.
        differences: String,
    },
    /// The directory has results of another version of the program or of an engine.
    #[error("{}: has runs of something else: {differences}", dir.display())]
    OtherVersion {
        /// Path of the directory.
        dir: PathBuf,
        /// Version of its runs, and the version that should continue them.
        differences: String,
    },
    /// Runs are missing from a merge.
    #[error("{0}")]
    Incomplete(Missing),
    /// A variant does not exist.
    #[error("unknown variant `{name}`: use some of {known}")]
    UnknownVariant {
        /// Name of the unknown variant.
        name: String,
        /// Names of the known variants.
        known: String,
    },
    /// A point does not exist.
    #[error("unknown point {point}: this design has {known}")]
    UnknownPoint {
        /// Number of the unknown point.
        point: u64,
        /// Numbers of the known points.
        known: String,
    },
    /// A shard does not exist.
    #[error("shard {index}/{of} does not exist: the first is 0/{of}", index = .0.index, of = .0.of)]
    Shard(Shard),
    /// The threads cannot be started.
    #[error("cannot start threads: {0}")]
    Threads(String),
    /// The sweep was told to stop.
    #[error("stopped with {done} of {runs} runs done")]
    Stopped {
        /// Number of runs in the journal.
        done: usize,
        /// Number of requested runs.
        runs: usize,
    },
}

/// Runs all requested jobs of the experiment that are not in the journal. Then writes the results of all runs
/// in the directory and returns their rows in the order of jobs.
///
/// # Errors
/// Fails if the options are invalid or the directory cannot be used. A failed run is not an error but a row.
pub fn sweep(
    experiment: &Experiment,
    options: &SweepOptions,
    progress: &dyn Progress,
) -> Result<Vec<Row>, SweepError> {
    let asked = Manifest::of(experiment, options)?;
    let jobs: Vec<Job> = asked.jobs().collect();
    let _lock = lock(&options.dir)?;
    let header = Header::of(experiment, &options.run, &asked.variants());
    let (journal, found) = Journal::open(&options.dir, &header, options.force)?;
    let mut done = found.done;
    elsewhere::take_over(&options.also, &header, &jobs, &journal, &mut done)?;
    if !found.asked.contains(&asked) {
        journal.ask(&asked)?;
    }
    if let Some(qlog) = &options.run.qlog {
        fs::create_dir_all(qlog).map_err(|error| StoreError::new(qlog, error))?;
    }
    let there: BTreeSet<Job> = done.iter().map(|run| run.job).collect();
    let left: Vec<Job> = jobs.iter().copied().filter(|job| !there.contains(job)).collect();
    progress.begin(jobs.len(), jobs.len() - left.len());
    let done = Mutex::new(done);
    let one = |job: &Job| {
        let finished = run::run(experiment, *job, &options.run);
        let run = journal.append(*job, finished).map_err(Ended::Failed)?;
        let told = progress.finished(&run.row);
        let mut done = done.lock().unwrap_or_else(PoisonError::into_inner);
        done.push(run);
        match told {
            ControlFlow::Continue(()) => Ok(()),
            ControlFlow::Break(()) => Err(Ended::Told),
        }
    };
    let pool = rayon::ThreadPoolBuilder::new().num_threads(options.threads).build();
    let pool = pool.map_err(|error| SweepError::Threads(error.to_string()))?;
    // Runs are assigned to threads one at a time, because their durations differ widely.
    let ended = pool.install(|| left.par_iter().with_max_len(1).try_for_each(one));
    let done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    match ended {
        Ok(()) => finish(&options.dir, &journal, done),
        Err(Ended::Failed(error)) => Err(error),
        // The runs that were active on other threads have ended by now, too.
        Err(Ended::Told) => {
            let there: BTreeSet<Job> = done.iter().map(|run| run.job).collect();
            let done = jobs.iter().filter(|job| there.contains(*job)).count();
            Err(SweepError::Stopped { done, runs: jobs.len() })
        }
    }
}

/// Reason that no further runs are started.
enum Ended {
    /// [`Progress::finished`] returned [`ControlFlow::Break`].
    Told,
    Failed(SweepError),
}

/// Writes the results of the finished runs.
fn finish(dir: &Path, journal: &Journal, mut done: Vec<Done>) -> Result<Vec<Row>, SweepError> {
    done.sort_by_key(|run| run.job);
    benefit::fill(&mut done);
    let timeline = |run: &Done| {
        let Row { variant, point, repetition, .. } = run.row.clone();
        Ok::<_, io::Error>(RunTimeline { variant, point, repetition, timeline: journal.timeline(run)? })
    };
    store::write_timelines(dir, done.iter().map(timeline))?;
    let rows: Vec<Row> = done.into_iter().map(|run| run.row).collect();
    store::write(dir, &rows)?;
    Ok(rows)
}

/// Creates the directory and locks it against other processes until the returned file is closed.
fn lock(dir: &Path) -> Result<File, SweepError> {
    let name = dir.join(LOCK);
    let opened = fs::create_dir_all(dir).map_err(|error| StoreError::new(dir, error)).and_then(|()| {
        let file = File::options().write(true).create(true).truncate(false).open(&name);
        file.map_err(|error| StoreError::new(&name, error))
    });
    let file = opened?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(SweepError::InUse(dir.to_owned())),
        // Some network file systems have no locks. On these the user must prevent concurrent sweeps.
        Err(TryLockError::Error(_)) => Ok(file),
    }
}
