//! Columns of a design's CSV file: the parameters of each path, and those of its direction to the server
//! (`up_…`) if they differ.

use std::path::Path;

use super::error::{DesignError, wrong};
use super::trace::{RateTrace, read_changes};
use super::{Change, MAX_NUMBER, MAX_PATHS, PathDesign, Point, QueueRule};

/// Name and index of a column.
type Column = (String, usize);

/// Indices of the columns: `run`, then those of each path.
pub(super) struct Columns {
    run: usize,
    paths: Vec<[Direction; 2]>,
}

/// Columns of one direction of a path; absent ones are `None`.
#[derive(Default)]
struct Direction {
    rate: Option<Column>,
    delay: Option<Column>,
    queue: Option<Column>,
    queuing: Option<Column>,
    loss: Option<Column>,
    jitter: Option<Column>,
    reorder: Option<Column>,
    held_back: Option<Column>,
    mahimahi: Option<Column>,
    trace: Option<Column>,
}

/// One line of a file.
struct Record<'a> {
    file: &'a str,
    record: &'a csv::StringRecord,
    rule: QueueRule,
}

/// A parsed direction, with the queuing delay from which its queue was computed.
struct Read {
    design: PathDesign,
    queuing: Option<f64>,
}

impl Columns {
    pub(super) fn find(file: &str, header: &csv::StringRecord) -> Result<Self, DesignError> {
        let at = |column: String| Some((header.iter().position(|name| name == column)?, column));
        let at = |column| at(column).map(|(index, column)| (column, index));
        let missing = |column: String| DesignError::MissingColumn { file: file.to_owned(), column };
        let direction = |prefix: &str, path: usize| {
            let at = |name: &str| at(format!("{prefix}{name}_{path}"));
            Direction {
                rate: at("rate_mbps"),
                delay: at("owd_ms"),
                queue: at("queue_packets"),
                queuing: at("queuing_delay_ms"),
                loss: at("loss_percent"),
                jitter: at("jitter_ms"),
                reorder: at("reorder_percent"),
                held_back: at("reorder_ms"),
                mahimahi: at("mahimahi"),
                trace: at("trace"),
            }
        };
        let mut paths = Vec::new();
        for path in 0..MAX_PATHS {
            let down = direction("", path);
            // A path with one of these columns must have all of them.
            if path > 0 && !down.is_there() {
                break;
            }
            let needed = [
                ("rate_mbps", down.rate.is_some() || down.mahimahi.is_some()),
                ("owd_ms", down.delay.is_some()),
                ("queue_packets", down.queue.is_some() || down.queuing.is_some()),
            ];
            if let Some((name, _)) = needed.iter().find(|(_, there)| !there) {
                return Err(missing(format!("{name}_{path}")));
            }
            paths.push([down, direction("up_", path)]);
        }
        let (_, run) = at("run".to_owned()).ok_or_else(|| missing("run".to_owned()))?;
        Ok(Self { run, paths })
    }

    /// Returns the error for an invalid value in the column `run`.
    pub(super) fn wrong_number(
        &self,
        file: &str,
        record: &csv::StringRecord,
        expected: &'static str,
    ) -> DesignError {
        wrong(file, record, "run", self.run, expected)
    }

    pub(super) fn point(
        &self,
        file: &str,
        record: &csv::StringRecord,
        rule: QueueRule,
    ) -> Result<Point, DesignError> {
        let run = record[self.run].parse().ok().filter(|run| *run <= MAX_NUMBER);
        let run = run.ok_or_else(|| self.wrong_number(file, record, "a number from 0 to 4294967295"))?;
        let line = Record { file, record, rule };
        let paths = self.paths.iter().map(|[down, up]| {
            let down = line.direction(down, None)?;
            let own = up.all().into_iter().flatten().any(|(_, index)| !record[*index].is_empty());
            let up = own.then(|| line.direction(up, Some(&down))).transpose()?;
            Ok(PathDesign { up: up.map(|up| Box::new(up.design)), ..down.design })
        });
        Ok(Point { run, paths: paths.collect::<Result<_, _>>()? })
    }
}

impl Direction {
    fn all(&self) -> [Option<&Column>; 10] {
        let numbers = [&self.rate, &self.delay, &self.queue, &self.queuing, &self.loss, &self.jitter];
        let [rate, delay, queue, queuing, loss, jitter] = numbers.map(Option::as_ref);
        let others = [&self.reorder, &self.held_back, &self.mahimahi, &self.trace];
        let [reorder, held_back, mahimahi, trace] = others.map(Option::as_ref);
        [rate, delay, queue, queuing, loss, jitter, reorder, held_back, mahimahi, trace]
    }

    fn is_there(&self) -> bool {
        let named = [&self.rate, &self.mahimahi, &self.delay, &self.queue, &self.queuing];
        named.into_iter().any(Option::is_some)
    }
}

impl Record<'_> {
    /// Returns a cell's column and text; `None` if the text is empty.
    fn cell<'a>(&'a self, column: &'a Option<Column>) -> Option<(&'a Column, &'a str)> {
        let column = column.as_ref()?;
        Some((column, &self.record[column.1])).filter(|(_, text)| !text.is_empty())
    }

    fn number(
        &self,
        column: &Option<Column>,
        lowest: f64,
        highest: f64,
        expected: &'static str,
    ) -> Result<Option<f64>, DesignError> {
        let Some(((name, index), text)) = self.cell(column) else { return Ok(None) };
        let value = text.parse::<f64>().ok().filter(|value| (lowest..=highest).contains(value));
        value.map(Some).ok_or_else(|| wrong(self.file, self.record, name, *index, expected))
    }

    /// Returns the error for a cell that is not `expected`. The error names the first of `columns` that
    /// exists.
    fn empty(&self, columns: [&Option<Column>; 2], expected: &'static str) -> DesignError {
        let nowhere = (String::new(), 0);
        let (name, index) = columns.into_iter().flatten().next().unwrap_or(&nowhere);
        wrong(self.file, self.record, name, *index, expected)
    }

    /// Reads a direction. Missing values are taken from `other`, the opposite direction, if it is given.
    fn direction(&self, columns: &Direction, other: Option<&Read>) -> Result<Read, DesignError> {
        let beside = other.map(|other| &other.design);
        let as_other = |of: fn(&PathDesign) -> f64| beside.map(of);
        let folder = Path::new(self.file).parent().unwrap_or(Path::new(""));
        let rate = self.number(&columns.rate, 1e-3, 1e6, "a rate from 0.001 to 1000000")?;
        let mahimahi = self.cell(&columns.mahimahi).map(|(_, file)| RateTrace::read(&folder.join(file)));
        let (rate_mbps, trace) = match (rate, mahimahi.transpose()?) {
            (Some(_), Some(_)) => {
                return Err(self.empty([&columns.mahimahi, &None], "empty, as a rate is given beside it"));
            }
            (Some(rate), None) => (rate, None),
            (None, Some(trace)) => (trace.mean_mbps(), Some(trace)),
            (None, None) => {
                let rate = beside.map(|other| (other.rate_mbps, other.trace.clone()));
                rate.ok_or_else(|| {
                    self.empty([&columns.rate, &columns.mahimahi], "a rate from 0.001 to 1000000")
                })?
            }
        };
        let owd = self.number(&columns.delay, 0.0, 1e5, "a delay from 0 to 100000")?;
        let owd_ms = owd.or(as_other(|other| other.owd_ms));
        let owd_ms = owd_ms.ok_or_else(|| self.empty([&columns.delay, &None], "a delay from 0 to 100000"))?;
        let (queue_packets, queuing) = self.queue(columns, other, rate_mbps, owd_ms)?;
        let loss = self.number(&columns.loss, 0.0, 100.0, "a share from 0 to 100")?;
        let jitter = self.number(&columns.jitter, 0.0, 1e4, "a time from 0 to 10000")?;
        let (reorder_percent, reorder_ms) = self.reordering(columns, beside)?;
        let changes = match (self.cell(&columns.trace), beside) {
            (Some((_, file)), _) => read_changes(&folder.join(file))?,
            (None, Some(other)) => {
                let own = [rate.is_some() || trace.is_some(), owd.is_some(), loss.is_some()];
                other.changes.iter().map(|change| change.without(own)).collect()
            }
            (None, None) => Vec::new(),
        };
        if trace.is_some() && changes.iter().any(|change: &Change| change.rate_mbps.is_some()) {
            return Err(self.empty(
                [&columns.trace, &columns.mahimahi],
                "a trace without rates, as `mahimahi` has them",
            ));
        }
        let design = PathDesign {
            rate_mbps,
            owd_ms,
            queue_packets,
            loss_percent: loss.or(as_other(|other| other.loss_percent)).unwrap_or_default(),
            changes,
            jitter_ms: jitter.or(as_other(|other| other.jitter_ms)).unwrap_or_default(),
            reorder_percent,
            reorder_ms,
            trace,
            up: None,
        };
        Ok(Read { design, queuing })
    }

    /// Returns the length of the queue in packets, and the queuing delay from which it was computed, if any.
    fn queue(
        &self,
        columns: &Direction,
        other: Option<&Read>,
        rate_mbps: f64,
        owd_ms: f64,
    ) -> Result<(usize, Option<f64>), DesignError> {
        const PACKETS: &str = "a number of packets from 1 to 10000000";
        let delay = self.number(&columns.queuing, 0.0, 1e5, "a delay from 0 to 100000")?;
        let packets = self.number(&columns.queue, 1.0, 1e7, PACKETS)?;
        let of_delay = |delay| (self.rule.packets(rate_mbps, owd_ms, delay), Some(delay));
        match (delay, packets, other) {
            (Some(delay), _, _) => Ok(of_delay(delay)),
            (None, Some(packets), _) => Ok((packets as usize, None)),
            (None, None, Some(Read { queuing: Some(delay), .. })) => Ok(of_delay(*delay)),
            (None, None, Some(other)) => Ok((other.design.queue_packets, None)),
            (None, None, None) => Err(self.empty([&columns.queuing, &columns.queue], PACKETS)),
        }
    }

    /// Returns the percentage of packets that are held back, and the maximum time for which they are held
    /// back, in milliseconds.
    fn reordering(&self, columns: &Direction, other: Option<&PathDesign>) -> Result<(f64, f64), DesignError> {
        let share = self.number(&columns.reorder, 0.0, 100.0, "a share from 0 to 100")?;
        let held_back = self.number(&columns.held_back, 0.0, 1e4, "a time from 0 to 10000")?;
        let share = share.or(other.map(|other| other.reorder_percent)).unwrap_or_default();
        let held_back = held_back.or(other.map(|other| other.reorder_ms)).unwrap_or_default();
        if (share > 0.0) != (held_back > 0.0) {
            let expected = "together with the other one of `reorder_percent` and `reorder_ms`";
            return Err(self.empty([&columns.reorder, &columns.held_back], expected));
        }
        Ok((share, held_back))
    }
}
