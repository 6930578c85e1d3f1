//! Traces: what a link did over time, from files. Mahimahi's say when packets may leave; tables say rate,
//! delay and loss.

use core::time::Duration;
use std::path::Path;
use std::sync::Arc;

use anabranch_wire::Time;

use super::error::DesignError;
use super::{Change, MAX_CHANGES};
use crate::link::Rate;

/// Bits that an opportunity of Mahimahi carries: a packet of 1500 bytes.
const OPPORTUNITY: u64 = 1500 * 8;
/// Bytes of a trace file.
const MAX_TRACE_BYTES: u64 = 64 << 20;
/// Milliseconds that a trace lasts, about twelve days.
const MAX_TRACE_MS: u64 = 1 << 30;

/// A rate over time that begins again at its end, as `mm-link` plays it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RateTrace {
    /// Packets of 1500 bytes that may leave by the end of a millisecond, where there are any: the millisecond
    /// and their number.
    opportunities: Arc<[(u64, u64)]>,
    /// Milliseconds until it begins again.
    period: u64,
}

impl RateTrace {
    /// Reads a file of Mahimahi (Netravali et al., USENIX ATC 2015): in each line the millisecond, not less
    /// than the one before, at which a packet of 1500 bytes may leave. The last one is also the time after
    /// which the trace begins again.
    ///
    /// # Errors
    /// If it cannot be read, or a line is no such number.
    pub fn read(path: &Path) -> Result<Self, DesignError> {
        let name = path.display().to_string();
        Self::parse(&name, &text(path)?)
    }

    /// Parses a trace from text; `file` names it in errors.
    ///
    /// # Errors
    /// As [`RateTrace::read`].
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
            // What may leave at its time is on its way in the millisecond before.
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

    /// Megabits per second in the mean.
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

/// Reads changes of a path from a CSV file: the column `at_s`, in order, and any of `rate_mbps`, `owd_ms` and
/// `loss_percent`; an empty cell leaves what was.
///
/// # Errors
/// If it cannot be read, or a column or a value is not as it must be.
pub fn read_changes(path: &Path) -> Result<Vec<Change>, DesignError> {
    let name = path.display().to_string();
    parse_changes(&name, &text(path)?)
}

/// Parses changes of a path from text; `file` names it in errors.
///
/// # Errors
/// As [`read_changes`].
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

/// Reads a file's text if it is not too long.
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
