//! `anabranch lab merge`: merges results of several directories.

use std::path::PathBuf;

use anabranch_lab::sweep::merge;
use clap::Args;

use super::summary;
use crate::exit::{Result, note, say};

/// Merge the results of several directories, such as those of shards
///
/// All runs that were requested from the shards must be present. Otherwise nothing is written, and the exit
/// status is 12.
#[derive(Args, Debug)]
pub(crate) struct Merge {
    /// Directories with results of the same experiment
    #[arg(value_name = "DIR", required = true)]
    dirs: Vec<PathBuf>,
    /// Directory for the merged results
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// Accept results with missing runs
    #[arg(long)]
    partial: bool,
    /// Merge results of different versions of this program; each row names its own
    #[arg(long)]
    force: bool,
}

pub(super) fn run(options: &Merge) -> Result {
    let merged = merge(&options.dirs, &options.out, options.partial, options.force)?;
    if merged.missing.runs > 0 {
        note(format_args!("anabranch: {}", merged.missing));
    }
    say(summary::table(&summary::of(&merged.rows)))?;
    say(format_args!("results: {}", options.out.display()))
}
