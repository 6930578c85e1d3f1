//! Results in a directory: `runs.parquet` and `runs.csv` with a row for each run, and `timelines.jsonl` with
//! the course of each run over time.
//!
//! A file is renamed to its name only when it is complete. Equal rows give byte-identical files.

mod column;
mod csv;
mod parquet;
#[cfg(test)]
mod tests;

use std::fmt::Display;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::record::{Row, Timeline};

pub use self::column::{COLUMNS, Column, Kind, Value, markdown};

/// Name of the file of rows in compressed columns.
pub const PARQUET: &str = "runs.parquet";
/// Name of the file of rows as text. The values of a list are separated by `;`.
pub const CSV: &str = "runs.csv";
/// Name of the file of timelines, one [`RunTimeline`] in each line.
pub const TIMELINES: &str = "timelines.jsonl";

/// Error of reading or writing a file of results.
#[derive(Debug, thiserror::Error)]
#[error("{}: {what}", file.display())]
pub struct StoreError {
    /// Path of the file.
    pub file: PathBuf,
    /// Description of the fault.
    pub what: String,
}

impl StoreError {
    pub(crate) fn new(file: &Path, what: impl Display) -> Self {
        Self { file: file.to_owned(), what: what.to_string() }
    }
}

/// Course of one run over time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RunTimeline {
    /// Name of the variant.
    pub variant: String,
    /// Number of the point.
    pub point: u64,
    /// Number of the repetition.
    pub repetition: u32,
    /// Timeline of the run.
    pub timeline: Timeline,
}

/// Writes the rows in both formats.
///
/// # Errors
/// Fails if a file cannot be written.
pub fn write(dir: &Path, rows: &[Row]) -> Result<(), StoreError> {
    atomically(&dir.join(PARQUET), |file| parquet::write(file, rows).map_err(io::Error::other))?;
    atomically(&dir.join(CSV), |file| csv::write(file, rows))
}

/// Writes the timelines, one in each line.
///
/// # Errors
/// Fails if the file cannot be written, or if a timeline is an error.
pub fn write_timelines(
    dir: &Path,
    timelines: impl IntoIterator<Item = io::Result<RunTimeline>>,
) -> Result<(), StoreError> {
    atomically(&dir.join(TIMELINES), |file| {
        timelines.into_iter().try_for_each(|timeline| {
            serde_json::to_writer(&mut *file, &timeline?)?;
            file.write_all(b"\n")
        })
    })
}

/// Reads the rows in a directory.
///
/// # Errors
/// Fails if the file does not exist or cannot be read.
pub fn read(dir: &Path) -> Result<Vec<Row>, StoreError> {
    let name = dir.join(PARQUET);
    let file = File::open(&name).map_err(|error| StoreError::new(&name, error))?;
    parquet::read(file).map_err(|error| StoreError::new(&name, error))
}

/// Reads the timelines in a directory, in the order of its rows.
///
/// # Errors
/// Fails if the file does not exist or cannot be read.
pub fn timelines(dir: &Path) -> Result<Vec<RunTimeline>, StoreError> {
    let name = dir.join(TIMELINES);
    let file = File::open(&name).map_err(|error| StoreError::new(&name, error))?;
    let parse = |line: io::Result<String>| serde_json::from_str(&line?).map_err(io::Error::from);
    BufReader::new(file)
        .lines()
        .zip(1..)
        .map(|(line, number)| {
            parse(line).map_err(|error| StoreError::new(&name, format!("line {number}: {error}")))
        })
        .collect()
}

/// Creates a new file with `fill`, and renames it to `name` when it is complete.
fn atomically(
    name: &Path,
    fill: impl FnOnce(&mut BufWriter<File>) -> io::Result<()>,
) -> Result<(), StoreError> {
    let mut part = name.as_os_str().to_owned();
    part.push(".part");
    let part = PathBuf::from(part);
    let written = File::create(&part).and_then(|file| {
        let mut file = BufWriter::new(file);
        fill(&mut file)?;
        file.into_inner().map_err(io::IntoInnerError::into_error)?.sync_all()?;
        fs::rename(&part, name)
    });
    written.map_err(|error| {
        // An incomplete file is useless, and wastes space on a full disk.
        let _ = fs::remove_file(&part);
        StoreError::new(name, error)
    })
}
