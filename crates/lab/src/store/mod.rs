//! Results in a directory: `runs.parquet` and `runs.csv` with a row for each run, `timelines.jsonl` with what
//! it did over time.
//!
//! A file gets its name only once it is whole, and is the same to the byte whenever the rows are.

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

/// Rows, in columns and compressed.
pub const PARQUET: &str = "runs.parquet";
/// The same as text, lists with `;` between their values.
pub const CSV: &str = "runs.csv";
/// A [`RunTimeline`] in each line.
pub const TIMELINES: &str = "timelines.jsonl";

/// A file of results cannot be written or read.
#[derive(Debug, thiserror::Error)]
#[error("{}: {what}", file.display())]
pub struct StoreError {
    /// The file.
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
    /// The variant's name.
    pub variant: String,
    /// The point's number.
    pub point: u64,
    /// Number of the repetition.
    pub repetition: u32,
    /// Timeline of the run.
    pub timeline: Timeline,
}

/// Writes rows in both forms.
///
/// # Errors
/// If a file cannot be written.
pub fn write(dir: &Path, rows: &[Row]) -> Result<(), StoreError> {
    atomically(&dir.join(PARQUET), |file| parquet::write(file, rows).map_err(io::Error::other))?;
    atomically(&dir.join(CSV), |file| csv::write(file, rows))
}

/// Writes timelines, one after the other.
///
/// # Errors
/// If the file cannot be written, or a timeline is an error.
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
/// If there are none, or they cannot be read.
pub fn read(dir: &Path) -> Result<Vec<Row>, StoreError> {
    let name = dir.join(PARQUET);
    let file = File::open(&name).map_err(|error| StoreError::new(&name, error))?;
    parquet::read(file).map_err(|error| StoreError::new(&name, error))
}

/// Reads the timelines in a directory, in the order of its rows.
///
/// # Errors
/// If there are none, or they cannot be read.
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

/// Has `fill` write a new file, which takes the place of `name` when it is whole.
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
        // What is there of it helps nobody, least of all on a full disk.
        let _ = fs::remove_file(&part);
        StoreError::new(name, error)
    })
}
