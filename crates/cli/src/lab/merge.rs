//! `anabranch lab merge`: results of several directories in one.

use std::path::PathBuf;

use anabranch_lab::sweep::merge;
use clap::Args;

use super::summary;
use crate::exit::{Result, note, say};

/// Bring the results of several directories together, as shards leave them
///
/// Runs that the shards were told to run must be there; if not, nothing is written, and the exit status is
/// 12.
#[derive(Args, Debug)]
pub(crate) struct Merge {
    /// Directories with results of the same experiment
    #[arg(value_name = "DIR", required = true)]
    dirs: Vec<PathBuf>,
    /// Folder for all results
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// Take what is there, even if runs are missing
    #[arg(long)]
    partial: bool,
    /// Bring results of different versions of this program together; each row names its own
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
