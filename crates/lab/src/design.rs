//! Designs of experiments from files: one row per point, with rate, delay and queue of each path.

use core::time::Duration;
use std::path::Path;

use crate::fluid::FluidPath;
use crate::link::{Delay, Limit, LinkSpec, Queue, Rate};

/// Largest UDP payload on a link with an MTU of 1500 bytes that charges 28 of them for IPv4 and UDP.
pub const MAX_UDP_PAYLOAD: usize = 1472;
/// Paths that a point may have.
pub const MAX_PATHS: usize = 8;

/// A point of a design: links in parallel between two hosts.
#[derive(Clone, Debug, PartialEq)]
pub struct Point {
    /// Its number in the file.
    pub run: u64,
    /// Its paths; the first one carries the handshake.
    pub paths: Vec<PathDesign>,
}

/// A path of a point, the same in both directions.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PathDesign {
    /// Megabits (10⁶ bits) per second on the wire.
    pub rate_mbps: f64,
    /// One-way delay in milliseconds.
    pub owd_ms: f64,
    /// Packets that the queue in front of the transmitter holds.
    pub queue_packets: usize,
}

/// What is wrong with a design, in one line.
#[derive(Debug, thiserror::Error)]
pub enum DesignError {
    /// The file cannot be read, or is no CSV.
    #[error("{file}: {error}")]
    File {
        /// The file's name.
        file: String,
        /// What happened.
        error: csv::Error,
    },
    /// A column is not there.
    #[error("{file}: column `{column}` is missing")]
    MissingColumn {
        /// The file's name.
        file: String,
        /// The column's name.
        column: String,
    },
    /// A value makes no sense.
    #[error("{file}, line {line}: `{value}` in column `{column}` is not {expected}")]
    Value {
        /// The file's name.
        file: String,
        /// Its line, the header being the first.
        line: u64,
        /// The column's name.
        column: String,
        /// What stands there.
        value: String,
        /// What should.
        expected: &'static str,
    },
    /// There is nothing to run.
    #[error("{file}: no points")]
    Empty {
        /// The file's name.
        file: String,
    },
}

impl PathDesign {
    /// The link: serialization behind a drop-tail queue counted in packets, then a constant delay, both ways.
    pub fn link(&self) -> LinkSpec {
        let bits = (self.rate_mbps * 1e6).round() as u64;
        LinkSpec::default()
            .both(Queue::new(Rate::constant(bits), Limit::Packets(self.queue_packets)))
            .both(Delay(Duration::from_nanos((self.owd_ms * 1e6).round() as u64)))
            .mtu(MAX_UDP_PAYLOAD)
    }

    /// The path in the fluid model.
    pub fn fluid(&self) -> FluidPath {
        FluidPath { bits_per_second: self.rate_mbps * 1e6, delay: self.owd_ms / 1e3 }
    }
}

impl Point {
    /// Its links.
    pub fn links(&self) -> Vec<LinkSpec> {
        self.paths.iter().map(PathDesign::link).collect()
    }

    /// Its paths in the fluid model.
    pub fn fluid(&self) -> Vec<FluidPath> {
        self.paths.iter().map(PathDesign::fluid).collect()
    }
}

/// Reads the points of a CSV file with the columns `run` and, for each path from 0 on, `rate_mbps_0`, `owd_ms_0` and
/// `queue_packets_0`. Other columns are ignored.
///
/// # Errors
/// If the file cannot be read, or a column or a value is not as it must be.
pub fn read(path: &Path) -> Result<Vec<Point>, DesignError> {
    let name = path.display().to_string();
    match std::fs::File::open(path) {
        Ok(file) => parse(&name, file),
        Err(error) => Err(DesignError::File { file: name, error: error.into() }),
    }
}

/// Reads points from text; `file` names it in errors.
///
/// # Errors
/// As [`read`].
pub fn parse(file: &str, text: impl std::io::Read) -> Result<Vec<Point>, DesignError> {
    let fault = |error| DesignError::File { file: file.to_owned(), error };
    let mut reader = csv::ReaderBuilder::new().trim(csv::Trim::All).from_reader(text);
    let columns = Columns::find(file, reader.headers().map_err(fault)?)?;
    let mut points = Vec::new();
    for record in reader.records() {
        points.push(columns.point(file, &record.map_err(fault)?)?);
    }
    if points.is_empty() {
        return Err(DesignError::Empty { file: file.to_owned() });
    }
    Ok(points)
}

/// Where the columns are: `run`, then three for each path.
struct Columns {
    run: usize,
    paths: Vec<[(String, usize); 3]>,
}

impl Columns {
    fn find(file: &str, header: &csv::StringRecord) -> Result<Self, DesignError> {
        let at = |column: &str| header.iter().position(|name| name == column);
        let needed = |column: String| match at(&column) {
            Some(index) => Ok((column, index)),
            None => Err(DesignError::MissingColumn { file: file.to_owned(), column }),
        };
        let names = |path| ["rate_mbps", "owd_ms", "queue_packets"].map(|name| format!("{name}_{path}"));
        // A path that has one of its columns must have all.
        let more =
            (0..MAX_PATHS).take_while(|&path| path == 0 || names(path).iter().any(|name| at(name).is_some()));
        let paths = more.map(|path| {
            let [rate, delay, queue] = names(path);
            Ok([needed(rate)?, needed(delay)?, needed(queue)?])
        });
        Ok(Self { run: needed("run".to_owned())?.1, paths: paths.collect::<Result<_, _>>()? })
    }

    fn point(&self, file: &str, record: &csv::StringRecord) -> Result<Point, DesignError> {
        let line = record.position().map_or(0, csv::Position::line);
        let wrong = |column: &str, index, expected| DesignError::Value {
            file: file.to_owned(),
            line,
            column: column.to_owned(),
            value: record[index].to_owned(),
            expected,
        };
        let number = |(column, index): &(String, usize), lowest: f64, highest: f64, expected| {
            let value = record[*index].parse::<f64>().ok().filter(|value| (lowest..=highest).contains(value));
            value.ok_or_else(|| wrong(column, *index, expected))
        };
        let run = record[self.run].parse().map_err(|_| wrong("run", self.run, "a number from 0 on"))?;
        let paths = self.paths.iter().map(|[rate, delay, queue]| {
            Ok(PathDesign {
                rate_mbps: number(rate, 1e-3, 1e6, "a rate from 0.001 to 1000000")?,
                owd_ms: number(delay, 0.0, 1e5, "a delay from 0 to 100000")?,
                queue_packets: number(queue, 1.0, 1e7, "a number of packets from 1 to 10000000")? as usize,
            })
        });
        Ok(Point { run, paths: paths.collect::<Result<_, _>>()? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: &str = "run,rate_mbps_0,owd_ms_0,queue_packets_0,rate_mbps_1,owd_ms_1,queue_packets_1";

    fn error(text: &str) -> String {
        parse("d.csv", text.as_bytes()).unwrap_err().to_string()
    }

    #[test]
    fn every_path_that_has_columns_is_read() {
        let points = parse("d.csv", format!("{HEADER}\n7,21,29,199,79.5,71,1837\n").as_bytes()).unwrap();
        let path = |rate_mbps, owd_ms, queue_packets| PathDesign { rate_mbps, owd_ms, queue_packets };
        assert_eq!(points, [Point { run: 7, paths: vec![path(21.0, 29.0, 199), path(79.5, 71.0, 1837)] }]);
        assert_eq!(points[0].fluid()[1], FluidPath { bits_per_second: 79_500_000.0, delay: 0.071 });
        let single = parse("d.csv", &b"owd_ms_0,run,rate_mbps_0,queue_packets_0,x\n1,2,3,4,5\n"[..]).unwrap();
        assert_eq!(single, [Point { run: 2, paths: vec![path(3.0, 1.0, 4)] }]);
    }

    #[test]
    fn what_is_wrong_is_said_in_one_line() {
        assert_eq!(error("run,rate_mbps_0,owd_ms_0\n0,1,1\n"), "d.csv: column `queue_packets_0` is missing");
        assert_eq!(error("rate_mbps_0,owd_ms_0,queue_packets_0\n1,1,1\n"), "d.csv: column `run` is missing");
        assert_eq!(
            error("run,rate_mbps_0,owd_ms_0,queue_packets_0,owd_ms_1\n0,1,1,1,1\n"),
            "d.csv: column `rate_mbps_1` is missing"
        );
        assert_eq!(
            error(&format!("{HEADER}\n0,1,1,1,fast,1,1\n")),
            "d.csv, line 2: `fast` in column `rate_mbps_1` is not a rate from 0.001 to 1000000"
        );
        assert_eq!(
            error(&format!("{HEADER}\n0,1,1,1,1,1,1\n1,1,-1,1,1,1,1\n")),
            "d.csv, line 3: `-1` in column `owd_ms_0` is not a delay from 0 to 100000"
        );
        assert_eq!(error(&format!("{HEADER}\n")), "d.csv: no points");
        assert!(error(&format!("{HEADER}\n0,1\n")).lines().count() == 1);
        assert!(error(&format!("{HEADER}\n0,nan,1,1,1,1,1\n")).contains("`nan`"));
        assert!(
            read(Path::new("/no/such/file.csv")).unwrap_err().to_string().starts_with("/no/such/file.csv: ")
        );
    }
}
