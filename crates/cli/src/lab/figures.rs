//! `anabranch lab figures`: pictures and a page of results.

use std::path::{Path, PathBuf};

use anabranch_lab::record::Row;
use anabranch_lab::report::{self, Written};
use anabranch_lab::store::{self, StoreError};
use clap::Args;

use crate::exit::{Result, say};

/// Draw the published figures from results, and write a page to look into them
///
/// `lab run` does so at its end; this does it again, for results that were merged or gathered elsewhere.
#[derive(Args, Debug)]
pub(crate) struct Figures {
    /// Directory of results
    dir: PathBuf,
}

pub(super) fn run(options: &Figures) -> Result {
    let rows = store::read(&options.dir)?;
    say(described(&draw(&options.dir, &rows)?))
}

/// Draws what `dir` has results for.
pub(super) fn draw(dir: &Path, rows: &[Row]) -> std::result::Result<Written, StoreError> {
    report::write(dir, rows, &store::timelines(dir)?)
}

/// Describes in a few lines where to look.
pub(super) fn described(written: &Written) -> String {
    let mut text = format!("report: {}", written.page.display());
    if !written.figures.is_empty() {
        let folder = written.page.with_file_name(report::FIGURES);
        text += &format!("\nfigures: {} in {}", written.figures.join(", "), folder.display());
    }
    if !written.missing.is_empty() {
        text += &format!("\nno runs for: {}", written.missing.join(", "));
    }
    text
}
