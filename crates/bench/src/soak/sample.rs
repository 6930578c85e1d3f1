//! Memory, tasks and descriptors of this process over time.

use std::fmt;
use std::time::Duration;

use anabranch_workloads::counting::{self, CLASSES};
use serde_json::{Value, json};
use tokio::runtime::Runtime;

use crate::Error;

/// Number of parts of a run of which each gives one point of the slope. The median of a part is hardly moved by a connection whose
/// CONNECTION_CLOSE was lost, which keeps its memory for the idle timeout.
const PARTS: usize = 12;
/// Number of blocks' sizes that are shown.
const SHOWN: usize = 4;

/// State of the process at one time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sample {
    /// Bytes that Rust code has allocated and not freed.
    pub(super) live: f64,
    /// The same bytes by the size of their blocks.
    by_size: [usize; CLASSES],
    /// Bytes that the allocator has handed out, to C code as well. What it keeps beyond these is free, but resident.
    in_all: f64,
    /// Resident memory, in bytes.
    resident: f64,
    pub(super) tasks: usize,
    pub(super) descriptors: usize,
    /// Connections of the server.
    connections: usize,
}

impl Sample {
    pub(super) fn take(runtime: &Runtime, connections: usize) -> Result<Self, Error> {
        let status = std::fs::read_to_string("/proc/self/status")?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).ok_or("no VmRSS")?;
        let kib: f64 = line.trim().trim_end_matches("kB").trim().parse()?;
        let by_size = counting::live_by_size();
        Ok(Self {
            live: by_size.iter().sum::<usize>() as f64,
            by_size,
            in_all: counting::in_all() as f64,
            resident: kib * 1024.0,
            tasks: runtime.metrics().num_alive_tasks(),
            descriptors: std::fs::read_dir("/proc/self/fd")?.count(),
            connections,
        })
    }
}

impl fmt::Display for Sample {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [live, in_all, resident] =
            [self.live, self.in_all, self.resident].map(|bytes| bytes / 1_048_576.0);
        write!(f, "{live:.2} MiB live, {in_all:.2} with C code's, {resident:.2} resident")?;
        write!(f, ", {} connections", self.connections)?;
        write!(f, "; KiB in blocks below 16 bytes, 32, 64 …:")?;
        self.by_size.iter().skip(4).try_for_each(|bytes| write!(f, " {}", bytes / 1_024))
    }
}

/// Samples of a run, in the order of time.
#[derive(Debug, Default)]
pub(super) struct Samples(Vec<(Duration, Sample)>);

impl Samples {
    pub(super) fn add(&mut self, at: Duration, sample: Sample) {
        self.0.push((at, sample));
    }

    /// Returns the slopes after `warm_up` of live memory, of that with C code's, and of resident memory, in bytes an hour: by least
    /// squares through the medians of [`PARTS`] parts.
    pub(super) fn slopes(&self, warm_up: Duration) -> [f64; 3] {
        let medians = self.medians(warm_up);
        [1, 2, 3].map(|memory| slope(&medians.iter().map(|part| (part[0], part[memory])).collect::<Vec<_>>()))
    }

    /// Returns the medians of [`PARTS`] parts after `warm_up`: time in hours, and in bytes live memory, that with C code's, and resident
    /// memory.
    pub(super) fn medians(&self, warm_up: Duration) -> Vec<[f64; 4]> {
        let after: Vec<_> = self.0.iter().filter(|(at, _)| *at >= warm_up).collect();
        let parts = after.chunks(after.len().div_ceil(PARTS).max(1));
        let medians = |part: &[&(Duration, Sample)]| {
            let median = |column: &dyn Fn(&(Duration, Sample)) -> f64| {
                crate::report::median(&part.iter().map(|sample| column(sample)).collect::<Vec<_>>())
            };
            [
                median(&|(at, _)| at.as_secs_f64() / 3_600.0),
                median(&|(_, sample)| sample.live),
                median(&|(_, sample)| sample.in_all),
                median(&|(_, sample)| sample.resident),
            ]
        };
        parts.map(medians).collect()
    }

    /// Describes which blocks' memory has changed most from the first sample after `warm_up` to the last one.
    pub(super) fn changes(&self, warm_up: Duration) -> String {
        let mut after = self.0.iter().filter(|(at, _)| *at >= warm_up);
        let Some((_, first)) = after.next() else { return String::new() };
        let (_, last) = after.next_back().unwrap_or(&self.0[0]);
        let mut changes: Vec<_> = (0..CLASSES)
            .map(|class| (last.by_size[class] as f64 - first.by_size[class] as f64, class))
            .filter(|(change, _)| *change != 0.0)
            .collect();
        changes.sort_by(|a, b| b.0.abs().total_cmp(&a.0.abs()));
        changes.truncate(SHOWN);
        let named = changes
            .iter()
            .map(|(change, class)| format!("{:+.0} KiB below {}", change / 1024.0, 1_u64 << class));
        named.collect::<Vec<_>>().join(", ")
    }

    pub(super) fn json(&self) -> Vec<Value> {
        let row = |(at, sample): &(Duration, Sample)| {
            json!({
                "seconds": at.as_secs(),
                "live_bytes": sample.live,
                "live_bytes_by_size": sample.by_size,
                "allocated_bytes": sample.in_all,
                "resident_bytes": sample.resident,
                "tasks": sample.tasks,
                "descriptors": sample.descriptors,
                "connections": sample.connections,
            })
        };
        self.0.iter().map(row).collect()
    }
}

/// Returns the slope of the line through these points by least squares; zero for fewer than two.
fn slope(points: &[(f64, f64)]) -> f64 {
    let count = points.len() as f64;
    let mean = |of: fn(&(f64, f64)) -> f64| points.iter().map(of).sum::<f64>() / count;
    let (x, y) = (mean(|point| point.0), mean(|point| point.1));
    let above: f64 = points.iter().map(|point| (point.0 - x) * (point.1 - y)).sum();
    let below: f64 = points.iter().map(|point| (point.0 - x).powi(2)).sum();
    if below > 0.0 { above / below } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_leak_is_a_slope_and_a_peak_is_none() {
        let sample = |live: f64| Sample {
            live,
            by_size: [0; CLASSES],
            in_all: live,
            resident: 1e6,
            tasks: 1,
            descriptors: 1,
            connections: 1,
        };
        let mut samples = Samples::default();
        for minute in 0..120_u32 {
            // Growth ends with the warm-up. Afterwards, 6,000 bytes are lost each minute, and every tenth sample has a peak.
            let lost = if minute < 30 { 1e5 * f64::from(minute) } else { 3e6 + 6e3 * f64::from(minute - 30) };
            let peak = if minute % 10 == 0 { 5e6 } else { 0.0 };
            samples.add(Duration::from_secs(60 * u64::from(minute)), sample(lost + peak));
        }
        let [live, in_all, resident] = samples.slopes(Duration::from_secs(1_800));
        assert!((live - 360_000.0).abs() < 10_000.0, "{live}");
        assert_eq!(in_all, live);
        assert_eq!(resident, 0.0);
    }
}
