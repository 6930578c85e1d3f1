//! Users' own experiments: a TOML file of points × variants × repetitions, with what the built-in ones can
//! do. `docs/lab-plans.md` describes the format, `examples/plans/` has plans to begin with.
//!
//! Everything is checked while it is read: a fault is one line with file, line, and what may stand there.

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

/// Bytes that a plan file may have.
const MAX_PLAN_BYTES: u64 = 16 << 20;

/// Error in a plan, in one line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{file}{}: {message}", .line.map(|line| format!(", line {line}")).unwrap_or_default())]
pub struct PlanError {
    /// The plan's file, or another file that it names.
    pub file: String,
    /// The line, from 1 on, if it is the fault of one.
    pub line: Option<usize>,
    /// Description of the fault and of the permitted values.
    pub message: String,
}

/// Reads a plan. Files that it names are looked for in its folder.
///
/// # Errors
/// If it cannot be read, or anything in it is unknown, impossible or missing.
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

/// Reads a plan from text; `file` names it in errors, and `folder` is where files that it names are.
///
/// # Errors
/// As [`read`].
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

/// A plan file.
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
