//! Users' own experiments. A plan is a TOML file of points × variants × repetitions that can use all features
//! of the built-in experiments. `docs/lab-plans.md` describes the format, and `examples/plans/` has plans to
//! start from.
//!
//! A plan is checked completely while it is read. An error is one line with the file, the line number and the
//! valid values.

mod check;
mod generate;
mod path;
mod points;
#[cfg(test)]
mod tests;
mod variants;
mod workload;

use core::time::Duration;
use std::path::Path;

use serde::Deserialize;
use toml::Spanned;

use crate::experiment::{ALL_VARIANTS, Experiment, MAX_REPETITIONS};
use check::Source;

/// Maximum size of a plan file in bytes.
const MAX_PLAN_BYTES: u64 = 16 << 20;

/// Error in a plan, formatted in one line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{file}{}: {message}", .line.map(|line| format!(", line {line}")).unwrap_or_default())]
pub struct PlanError {
    /// The plan's file, or a file that the plan names.
    pub file: String,
    /// Line number, from 1 on; `None` if the fault is not in a line.
    pub line: Option<usize>,
    /// Description of the fault and of the valid values.
    pub message: String,
}

/// Reads a plan. Files that it names are searched for in its folder.
///
/// # Errors
/// Fails if the file cannot be read, or if anything in it is unknown, invalid or missing.
pub fn read(path: &Path) -> Result<Experiment, PlanError> {
    let file = path.display().to_string();
    let fault = |message: String| PlanError { file: file.clone(), line: None, message };
    let length = std::fs::metadata(path).map_err(|error| fault(error.to_string()))?.len();
    if length > MAX_PLAN_BYTES {
        return Err(fault(format!("{length} bytes are more than the {MAX_PLAN_BYTES} of a plan")));
    }
    let text = std::fs::read_to_string(path).map_err(|error| fault(error.to_string()))?;
    parse(&file, &text, path.parent().unwrap_or(Path::new("")))
}

/// Parses a plan from text. `file` is its name in errors, and `folder` is the folder of the files that it
/// names.
///
/// # Errors
/// Fails like [`read`].
pub fn parse(file: &str, text: &str, folder: &Path) -> Result<Experiment, PlanError> {
    let source = Source { file, text, folder };
    let plan: Plan = toml::from_str(text).map_err(|error| source.syntax(&error))?;
    let name = source.name(&plan.name)?;
    let (points, from) = points::points(&source, plan.points)?;
    let about = plan.about.unwrap_or_else(|| name.clone()).replace('\n', " ");
    let whole = |value: &Option<Spanned<f64>>, what, default: u64, highest: u64| {
        value.as_ref().map_or(Ok(default), |value| source.whole(value, what, 1, highest))
    };
    Ok(Experiment {
        name,
        about: format!("{about}; points: {from}"),
        workload: workload::workload(&source, plan.workload)?,
        variants: variants::variants(&source, plan.variant)?,
        points,
        usual: ALL_VARIANTS,
        repetitions: whole(&plan.repetitions, "repetitions", 1, u64::from(MAX_REPETITIONS))? as u32,
        deadline: Duration::from_secs(whole(&plan.deadline_s, "deadline_s", 1000, 1_000_000)?),
    })
}

/// Contents of a plan file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Plan {
    name: Spanned<String>,
    about: Option<String>,
    repetitions: Option<Spanned<f64>>,
    deadline_s: Option<Spanned<f64>>,
    workload: Spanned<workload::Text>,
    points: Spanned<points::Text>,
    variant: Spanned<Vec<variants::Text>>,
}
