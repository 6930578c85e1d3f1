//! Designs from CSV files: one row per point.

use std::collections::BTreeSet;
use std::path::Path;

use super::columns::Columns;
use super::error::DesignError;
use super::{Point, QueueRule};

/// Reads the points of a CSV file with the columns `run` and, for each path from 0 on, `rate_mbps_0`,
/// `owd_ms_0` and either `queue_packets_0` or `queuing_delay_ms_0` (see
/// [`PathDesign::queue_of_delay`](super::PathDesign::queue_of_delay)). `loss_percent_0`, `jitter_ms_0`,
/// `reorder_percent_0`, `reorder_ms_0`, `trace_0` (a CSV file of changes) and, in place of a rate,
/// `mahimahi_0` (a trace) may be there, and each with `up_` before its name for the way to the server where
/// that differs; an empty cell says nothing. Files are looked for beside this one. Other columns are ignored.
///
/// # Errors
/// If the file cannot be read, or a column or a value is not as it must be.
pub fn read(path: &Path) -> Result<Vec<Point>, DesignError> {
    read_with(path, QueueRule::default())
}

/// Reads the points of a CSV file whose queuing delays mean what `rule` says.
///
/// # Errors
/// As [`read`].
pub fn read_with(path: &Path, rule: QueueRule) -> Result<Vec<Point>, DesignError> {
    let name = path.display().to_string();
    match std::fs::File::open(path) {
        Ok(file) => parse_with(&name, file, rule),
        Err(error) => Err(DesignError::File { file: name, error: error.into() }),
    }
}

/// Reads points from text; `file` names it in errors.
///
/// # Errors
/// As [`read`].
pub fn parse(file: &str, text: impl std::io::Read) -> Result<Vec<Point>, DesignError> {
    parse_with(file, text, QueueRule::default())
}

fn parse_with(file: &str, text: impl std::io::Read, rule: QueueRule) -> Result<Vec<Point>, DesignError> {
    let fault = |error| DesignError::File { file: file.to_owned(), error };
    let mut reader = csv::ReaderBuilder::new().trim(csv::Trim::All).from_reader(text);
    let columns = Columns::find(file, reader.headers().map_err(fault)?)?;
    let mut points = Vec::new();
    let mut numbers = BTreeSet::new();
    for record in reader.records() {
        let record = record.map_err(fault)?;
        let point = columns.point(file, &record, rule)?;
        if !numbers.insert(point.run) {
            return Err(columns.wrong_number(file, &record, "a number of its own"));
        }
        points.push(point);
    }
    if points.is_empty() {
        return Err(DesignError::Empty { file: file.to_owned(), of: "points" });
    }
    Ok(points)
}

#[cfg(test)]
mod tests;
