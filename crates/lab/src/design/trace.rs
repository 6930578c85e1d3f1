//! Traces of a link over time, read from files. Traces of Mahimahi list the times at which packets may leave.
//! CSV tables list rates, delays and losses.

use core::time::Duration;
use std::path::Path;
use std::sync::Arc;

use anabranch_wire::Time;

use super::error::DesignError;
use super::{Change, MAX_CHANGES};
use crate::link::Rate;

/// Number of bits that one Mahimahi delivery opportunity carries: a packet of 1500 bytes.
const OPPORTUNITY: u64 = 1500 * 8;
/// Maximum size of a trace file in bytes.
const MAX_TRACE_BYTES: u64 = 64 << 20;
/// Maximum duration of a trace in milliseconds, about twelve days.
const MAX_TRACE_MS: u64 = 1 << 30;

/// Rate over time that repeats at its end, as in `mm-link`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RateTrace {
    /// Numbers of packets of 1500 bytes that may leave in a millisecond. Each entry has a millisecond and its
    /// number of packets; milliseconds without a packet have no entry.
    opportunities: Arc<[(u64, u64)]>,
    /// Milliseconds after which the trace repeats.
    period: u64,
}

impl RateTrace {
    /// Reads a trace file of Mahimahi (Netravali et al., USENIX ATC 2015). Each line is the millisecond at
    /// which one packet of 1500 bytes may leave; the numbers must not descend. The trace repeats after the
    /// last of them.
    ///
    /// # Errors
    /// Fails if the file cannot be read, or if a line is not such a number.
    pub fn read(path: &Path) -> Result<Self, DesignError> {
        let name = path.display().to_string();
        Self::parse(&name, &text(path)?)
    }

    /// Parses a trace from text. `file` is its name in errors.
    ///
    /// # Errors
    /// Fails like [`RateTrace::read`].
    pub fn parse(file: &str, text: &str) -> Result<Self, DesignError> {
        let mut opportunities: Vec<(u64, u64)> = Vec::new();
        let mut period = 0;
        for (line, value) in (1..).zip(text.lines()) {
            let value = value.trim();
            if value.is_empty() {
                continue;
            }
            let wrong = |expected| DesignError::Line {
                file: file.to_owned(),
                line,
                value: value.to_owned(),
                expected,
            };
            let at: u64 = value
                .parse()
                .ok()
                .filter(|at| *at <= MAX_TRACE_MS)
                .ok_or_else(|| wrong("a number of milliseconds"))?;
            if at < period {
                return Err(wrong("a time that is not before that of the line above"));
            }
            period = at;
            // A packet that may leave at this time is transmitted in the millisecond before.
            let begins = at.saturating_sub(1);
            match opportunities.last_mut() {
                Some((same, packets)) if *same == begins => *packets += 1,
                _ => opportunities.push((begins, 1)),
            }
        }
        if period == 0 {
            return Err(DesignError::Empty { file: file.to_owned(), of: "times above 0" });
        }
        Ok(Self { opportunities: opportunities.into(), period })
    }

    /// Returns the mean rate in megabits per second.
    pub fn mean_mbps(&self) -> f64 {
        let packets: u64 = self.opportunities.iter().map(|(_, packets)| packets).sum();
        (packets * OPPORTUNITY) as f64 / self.period as f64 / 1e3
    }

    /// Returns the rate in each millisecond, repeated without end.
    pub(super) fn rate(&self) -> Rate {
        let mut steps = Vec::new();
        let mut free_from = 0;
        for (begins, packets) in self.opportunities.iter() {
            if *begins > free_from {
                steps.push((Time::from_millis(free_from), 0));
            }
            steps.push((Time::from_millis(*begins), packets * OPPORTUNITY * 1000));
            free_from = begins + 1;
        }
        if free_from < self.period {
            steps.push((Time::from_millis(free_from), 0));
        }
        Rate::repeating(steps, Duration::from_millis(self.period))
    }
}

/// Reads the changes of a path from a CSV file. The column `at_s` must ascend. The other columns are any of
/// `rate_mbps`, `owd_ms` and `loss_percent`; an empty cell leaves the parameter unchanged.
///
/// # Errors
/// Fails if the file cannot be read, or if a column or a value is invalid.
pub fn read_changes(path: &Path) -> Result<Vec<Change>, DesignError> {
    let name = path.display().to_string();
    parse_changes(&name, &text(path)?)
}

/// Parses changes of a path from text. `file` is its name in errors.
///
/// # Errors
/// Fails like [`read_changes`].
pub fn parse_changes(file: &str, text: &str) -> Result<Vec<Change>, DesignError> {
    const COLUMNS: [&str; 4] = ["at_s", "rate_mbps", "owd_ms", "loss_percent"];
    const EXPECTED: [&str; 4] = [
        "a time from 0 to 1000000",
        "a rate from 0 to 1000000",
        "a delay from 0 to 100000",
        "a share from 0 to 100",
    ];
    const HIGHEST: [f64; 4] = [1e6, 1e6, 1e5, 100.0];
    let fault = |error| DesignError::File { file: file.to_owned(), error };
    let mut reader = csv::ReaderBuilder::new().trim(csv::Trim::All).from_reader(text.as_bytes());
    let header = reader.headers().map_err(fault)?.clone();
    if let Some(column) = header.iter().find(|name| !COLUMNS.contains(name)) {
        return Err(DesignError::UnknownColumn {
            file: file.to_owned(),
            column: column.to_owned(),
            known: COLUMNS.join(", "),
        });
    }
    let places = COLUMNS.map(|column| header.iter().position(|name| name == column));
    if places[0].is_none() || places[1..].iter().all(Option::is_none) {
        let column = if places[0].is_none() { "at_s" } else { "rate_mbps" };
        return Err(DesignError::MissingColumn { file: file.to_owned(), column: column.to_owned() });
    }
    let mut changes: Vec<Change> = Vec::new();
    for record in reader.records() {
        let record = record.map_err(fault)?;
        let line = record.position().map_or(0, csv::Position::line);
        let wrong = |column: usize, value: &str, expected| DesignError::Value {
            file: file.to_owned(),
            line,
            column: COLUMNS[column].to_owned(),
            value: value.to_owned(),
            expected,
        };
        let cell = |column: usize| match places[column]
            .map(|place| &record[place])
            .filter(|value| !value.is_empty())
        {
            None => Ok(None),
            Some(value) => {
                let number =
                    value.parse::<f64>().ok().filter(|number| (0.0..=HIGHEST[column]).contains(number));
                number.map(Some).ok_or_else(|| wrong(column, value, EXPECTED[column]))
            }
        };
        let at = Duration::from_secs_f64(cell(0)?.ok_or_else(|| wrong(0, "", EXPECTED[0]))?);
        if changes.last().is_some_and(|earlier| earlier.at > at) {
            return Err(wrong(0, &record[places[0].unwrap_or_default()], "in order of time"));
        }
        changes.push(Change { at, rate_mbps: cell(1)?, owd_ms: cell(2)?, loss_percent: cell(3)? });
        if changes.len() > MAX_CHANGES {
            return Err(DesignError::TooLong {
                file: file.to_owned(),
                most: MAX_CHANGES as u64,
                what: "changes",
            });
        }
    }
    if changes.is_empty() {
        return Err(DesignError::Empty { file: file.to_owned(), of: "changes" });
    }
    Ok(changes)
}

/// Reads a file's text. Fails if the file exceeds [`MAX_TRACE_BYTES`].
fn text(path: &Path) -> Result<String, DesignError> {
    let name = || path.display().to_string();
    let fault = |error: std::io::Error| DesignError::File { file: name(), error: error.into() };
    if std::fs::metadata(path).map_err(fault)?.len() > MAX_TRACE_BYTES {
        return Err(DesignError::TooLong { file: name(), most: MAX_TRACE_BYTES, what: "bytes" });
    }
    std::fs::read_to_string(path).map_err(fault)
}

#[cfg(test)]
mod tests;
