//! `anabranch lab figures`: figures of results, and a page that shows them.

use std::path::{Path, PathBuf};

use anabranch_lab::record::Row;
use anabranch_lab::report::{self, Written};
use anabranch_lab::store::{self, StoreError};
use clap::Args;

use super::stacks;
use crate::exit::{Result, say};

/// Draw the published figures from results, and write a page for exploring them
///
/// `lab run` does so at its end; this command does it again, for merged or copied results.
#[derive(Args, Debug)]
pub(crate) struct Figures {
    /// Directory of results, or of those of `lab run compare`, whose stacks are drawn beside each other
    dir: PathBuf,
}

pub(super) fn run(options: &Figures) -> Result {
    if !options.dir.join(store::PARQUET).exists() {
        let compared = stacks::read(&options.dir)?;
        if !compared.is_empty() {
            return stacks::finish(&compared, &options.dir, false);
        }
    }
    let rows = store::read(&options.dir)?;
    say(described(&draw(&options.dir, &rows)?))
}

/// Draws all figures for which `dir` has results.
pub(super) fn draw(dir: &Path, rows: &[Row]) -> std::result::Result<Written, StoreError> {
    report::write(dir, rows, &store::timelines(dir)?)
}

/// Returns a few lines that name the written files.
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
