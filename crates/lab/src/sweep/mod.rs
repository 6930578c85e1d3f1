//! Many runs on many threads, written down as they finish.
//!
//! A directory of results has a journal with a line for each finished run. A sweep that ended early, for
//! whatever reason, goes on where it was; what it does not find in the journal, it runs.

mod benefit;
mod journal;
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
pub use self::manifest::Missing;
pub use self::merge::{Merged, merge};

/// Held by whoever writes to a directory.
const LOCK: &str = "lock";

/// Options of a sweep: its directory and the way in which it runs.
#[derive(Clone, Debug, Default)]
pub struct SweepOptions {
    /// The directory of the results; it is made if it is not there.
    pub dir: PathBuf,
    /// Options of each run.
    pub run: RunOptions,
    /// Threads; 0 for as many as there are processors.
    pub threads: usize,
    /// `true` to add to existing runs of another version of the program.
    pub force: bool,
    /// Part of the runs that is to be done here.
    pub shard: Shard,
    /// Names of the only variants to run; the usual ones without this.
    pub variants: Option<Vec<String>>,
    /// Numbers of the only points to run.
    pub points: Option<Vec<u64>>,
}

/// One of `of` parts of equal size, from 0 on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Shard {
    /// Index of the part.
    pub index: usize,
    /// Number of parts.
    pub of: usize,
}

impl Default for Shard {
    fn default() -> Self {
        Self { index: 0, of: 1 }
    }
}

/// Is told how a sweep goes on.
pub trait Progress: Sync {
    /// Reports that the sweep begins: of `runs` runs, `done` were found in the journal.
    fn begin(&self, _runs: usize, _done: usize) {}

    /// Reports that a run is finished and written down. [`ControlFlow::Break`] ends the sweep when the runs
    /// under way are finished, too.
    fn finished(&self, _row: &Row) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }
}

/// Nobody is told.
impl Progress for () {}

/// Reason that a sweep was not completed, in one line.
#[derive(Debug, thiserror::Error)]
pub enum SweepError {
    /// A file cannot be written or read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Another process writes there.
    #[error("{}: another process is writing its results there", .0.display())]
    InUse(PathBuf),
    /// The directory has results of something else.
    #[error("{}: has runs of something else: {differences}", dir.display())]
    Other {
        /// The directory.
        dir: PathBuf,
        /// Properties of its journal that differ from those of the requested runs.
        differences: String,
    },
    /// The directory has results of another version of the program.
    #[error("{}: has runs of something else: {differences}", dir.display())]
    OtherVersion {
        /// The directory.
        dir: PathBuf,
        /// Version of its runs, and the version that was to continue them.
        differences: String,
    },
    /// Runs that are missing from a merge.
    #[error("{0}")]
    Incomplete(Missing),
    /// There is no such variant.
    #[error("unknown variant `{name}`: use some of {known}")]
    UnknownVariant {
        /// The name.
        name: String,
        /// Those that there are.
        known: String,
    },
    /// There is no such point.
    #[error("unknown point {point}: this design has {known}")]
    UnknownPoint {
        /// The number.
        point: u64,
        /// Those that there are.
        known: String,
    },
    /// There is no such part.
    #[error("shard {index}/{of} does not exist: the first is 0/{of}", index = .0.index, of = .0.of)]
    Shard(Shard),
    /// Threads cannot be started.
    #[error("cannot start threads: {0}")]
    Threads(String),
    /// It was told to stop.
    #[error("stopped with {done} of {runs} runs done")]
    Stopped {
        /// Runs in the journal.
        done: usize,
        /// Runs that were wanted.
        runs: usize,
    },
}

/// Runs all jobs of the experiment that are asked for and not done yet, and writes the results of everything
/// that is in the directory. Gives its rows in the order of jobs.
///
/// # Errors
/// If something is wrong with the options, the directory or the disk; runs that fail are no error but rows.
pub fn sweep(
    experiment: &Experiment,
    options: &SweepOptions,
    progress: &dyn Progress,
) -> Result<Vec<Row>, SweepError> {
    let asked = Manifest::of(experiment, options)?;
    let jobs: Vec<Job> = asked.jobs().collect();
    let _lock = lock(&options.dir)?;
    let (journal, found) = Journal::open(&options.dir, &Header::of(experiment, &options.run), options.force)?;
    let done = found.done;
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
    // Runs of very different lengths are handed out one by one.
    let ended = pool.install(|| left.par_iter().with_max_len(1).try_for_each(one));
    let done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    match ended {
        Ok(()) => finish(&options.dir, &journal, done),
        Err(Ended::Failed(error)) => Err(error),
        // Runs that were under way on other threads have ended, too.
        Err(Ended::Told) => {
            let there: BTreeSet<Job> = done.iter().map(|run| run.job).collect();
            let done = jobs.iter().filter(|job| there.contains(*job)).count();
            Err(SweepError::Stopped { done, runs: jobs.len() })
        }
    }
}

/// Reason that no more runs begin.
enum Ended {
    /// [`Progress::finished`] said so.
    Told,
    Failed(SweepError),
}

/// Writes the results of what is done.
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

/// Makes the directory and keeps others out of it as long as the file is open.
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
        // Some network file systems have no locks; it is up to the user then.
        Err(TryLockError::Error(_)) => Ok(file),
    }
}
