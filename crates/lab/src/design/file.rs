//! Designs from CSV files, one row for each point.

use std::collections::BTreeSet;
use std::path::Path;

use super::columns::Columns;
use super::error::DesignError;
use super::{Point, QueueRule};

/// Reads the points of a CSV file. Its columns are `run` and, for each path from 0 on, `rate_mbps_0`,
/// `owd_ms_0` and either `queue_packets_0` or `queuing_delay_ms_0` (see
/// [`PathDesign::queue_of_delay`](super::PathDesign::queue_of_delay)). Optional columns are `loss_percent_0`,
/// `jitter_ms_0`, `reorder_percent_0`, `reorder_ms_0`, `trace_0` (the name of a CSV file of changes) and,
/// instead of a rate, `mahimahi_0` (the name of a trace). With the prefix `up_` each of them sets the value
/// of the direction to the server, if it differs. An empty cell counts as absent. The named files are
/// searched for in the folder of this file. Other columns are ignored.
///
/// # Errors
/// Fails if the file cannot be read, or if a column or a value is invalid.
pub fn read(path: &Path) -> Result<Vec<Point>, DesignError> {
    read_with(path, QueueRule::default())
}

/// Reads the points of a CSV file whose queuing delays are interpreted by `rule`.
///
/// # Errors
/// Fails like [`read`].
pub fn read_with(path: &Path, rule: QueueRule) -> Result<Vec<Point>, DesignError> {
    let name = path.display().to_string();
    match std::fs::File::open(path) {
        Ok(file) => parse_with(&name, file, rule),
        Err(error) => Err(DesignError::File { file: name, error: error.into() }),
    }
}

/// Parses points from text. `file` is its name in errors.
///
/// # Errors
/// Fails like [`read`].
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
