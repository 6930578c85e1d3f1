//! `anabranch lab`: experiments in simulated time, published ones and others.

mod claims;
mod compare;
mod engines;
mod figures;
mod judged;
mod left;
#[cfg(target_os = "linux")]
mod linux;
mod list;
mod measured;
mod merge;
mod regret;
mod run;
mod share;
mod side_by_side;
mod stacks;
mod summary;
mod watch;

use anabranch_lab::run::RunOptions;
use anabranch_lab::store::StoreError;
use anabranch_lab::sweep::SweepError;
use clap::Subcommand;

use crate::exit::{Exit, Failure, Result};

/// Repeat published experiments, or run others, in simulated time
///
/// Real endpoints exchange real packets over simulated links, as fast as the processors allow. Equal seeds
/// give equal results.
#[derive(Subcommand, Debug)]
pub(crate) enum Lab {
    Run(run::Run),
    Claims(claims::Claims),
    Compare(compare::Compare),
    Figures(figures::Figures),
    #[cfg(target_os = "linux")]
    #[command(subcommand)]
    Linux(linux::Command),
    List(list::List),
    Merge(merge::Merge),
}

/// Returns options with the engines that are ready, and with the version of this program, as rows and
/// journals state it: its commit, and a hash of its sources.
fn version() -> RunOptions {
    RunOptions {
        commit: env!("ANABRANCH_COMMIT").to_owned(),
        sources: env!("ANABRANCH_SOURCES").to_owned(),
        engines: engines::ready(),
        ..RunOptions::default()
    }
}

/// Hint on how to continue a stopped sweep.
const RESUME: &str = "the same command goes on where it stopped";
/// Remedy for missing runs.
const COMPLETE: &str = "give the commands that ran these shards again, or take what is there with --partial";

pub(crate) fn run(command: Lab) -> Result {
    match command {
        Lab::Run(options) => run::run(options),
        Lab::Claims(options) => claims::run(&options),
        Lab::Compare(options) => compare::run(&options),
        Lab::Figures(options) => figures::run(&options),
        #[cfg(target_os = "linux")]
        Lab::Linux(command) => linux::run(&command),
        Lab::List(options) => list::run(&options),
        Lab::Merge(options) => merge::run(&options),
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        Self::new(Exit::Io, error)
    }
}

impl From<SweepError> for Failure {
    fn from(error: SweepError) -> Self {
        let (exit, remedy) = match error {
            SweepError::Store(_) | SweepError::Threads(_) => (Exit::Io, None),
            SweepError::InUse(_) => (Exit::Io, Some("name another directory with --out, or wait")),
            SweepError::Other { .. } => {
                (Exit::Usage, Some("name another directory with --out, or remove this one"))
            }
            SweepError::OtherVersion { .. } => (
                Exit::Usage,
                Some("name another directory with --out, remove this one, or mix both with --force"),
            ),
            SweepError::Stopped { .. } => (Exit::Interrupted, Some(RESUME)),
            SweepError::Incomplete(_) => (Exit::Incomplete, Some(COMPLETE)),
            _ => (Exit::Usage, None),
        };
        let failure = Self::new(exit, error);
        remedy.into_iter().fold(failure, Self::or)
    }
}
