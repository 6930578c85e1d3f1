//! Invariants of lab plans: any text is a plan or an error in one line that names a line of the text, and the runs
//! of a plan are bounded.

use std::path::Path;

use anabranch_lab::experiment::MAX_REPETITIONS;
use anabranch_lab::plan::parse;

pub(crate) fn run(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    // No file is in this folder, so a plan that names one is an error.
    match parse("plan.toml", text, Path::new("/nonexistent")) {
        Ok(experiment) => {
            assert!((1..=MAX_REPETITIONS).contains(&experiment.repetitions));
            assert!(!experiment.name.is_empty() && !experiment.points.is_empty());
            assert!(!experiment.variants.is_empty() && !experiment.about.contains('\n'));
        }
        Err(error) => {
            assert!(!error.message.is_empty());
            assert!(error.line.is_none_or(|line| (1..=text.split('\n').count()).contains(&line)));
            assert!(!error.to_string().contains('\n'), "{error}");
        }
    }
}
