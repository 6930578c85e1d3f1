//! Client time, in milliseconds, to process 2.5 MB of HTTP/3 content in 80 responses: from received packets
//! to content that the application has read. No sockets are used.
//!
//! As in the reference's own benchmark, the packets arrive in batches of 157, and each sample uses a new
//! connection. Every stack runs in a separate process: once with glibc's default malloc settings, and once
//! with settings that retain freed memory.

use std::path::Path;
use std::process::Command;

use clap::Args;
use serde_json::json;

use super::peer::said;
use super::{Wire, floor};
use crate::Error;
use crate::report::{Report, median, minimum, rounded};
use crate::stacks::Identity;

/// Number of packets in which our own server sends the responses.
const PACKETS: usize = 1_922;

/// Number of connections in one run of one stack.
const SAMPLES: usize = 25;

/// Settings with which glibc's malloc retains memory: it uses no separate mappings and returns nothing to the
/// system.
const RETAINED: [(&str, &str); 2] =
    [("MALLOC_MMAP_THRESHOLD_", "33554432"), ("MALLOC_TRIM_THRESHOLD_", "4294967296")];

/// Stack that is measured.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Stack {
    /// Header unmasking and AEAD decryption alone, of the same number of VReverso packets.
    Floor,
    Anabranch(Wire),
    Quiceh(Wire),
}

/// A stack under test, with one of the two allocator settings.
#[derive(Clone, Copy)]
pub(super) struct Subject {
    pub(super) stack: Stack,
    pub(super) retained: bool,
}

/// Returns the name of the allocator setting.
pub(super) fn allocator(retained: bool) -> &'static str {
    if retained { "retained" } else { "default" }
}

impl Subject {
    fn name(self) -> String {
        match self.stack {
            Stack::Floor => String::from("floor-reverso"),
            Stack::Anabranch(wire) => format!("anabranch-{}", wire.name()),
            Stack::Quiceh(wire) => format!("quiceh-{}", wire.name()),
        }
    }

    /// Runs the subject once and returns the median of its samples, in milliseconds.
    pub(super) fn measure(self, quiceh: &Path, identity: &Identity) -> Result<f64, Error> {
        let mut command = match self.stack {
            Stack::Floor => {
                let samples: Result<Vec<f64>, Error> =
                    (0..SAMPLES).map(|_| floor::measure_reverso_once(PACKETS)).collect();
                return Ok(median(&samples?));
            }
            Stack::Anabranch(wire) => {
                let mut command = Command::new(std::env::current_exe()?);
                command.args(["pages", "--json", "-", "--wire", wire.name()]);
                command
            }
            Stack::Quiceh(wire) => {
                let mut command = Command::new(quiceh);
                command.args(["pages", "--wire", wire.name()]).args(identity.flags());
                command
            }
        };
        command.args(["--samples", &SAMPLES.to_string()]);
        if self.retained {
            command.envs(RETAINED);
        }
        Ok(said(&mut command)?["ms"].as_f64().ok_or("a run gave no ms")?)
    }
}

/// Measures all subjects in every round and adds the results to `report`. Omits quiceh if it is `None`.
pub(super) fn add(
    report: &mut Report,
    rounds: u32,
    quiceh: Option<&Path>,
    identity: &Identity,
) -> Result<(), Error> {
    let wires = [Wire::V1, Wire::Reverso];
    let mut stacks = vec![Stack::Floor];
    stacks.extend(wires.map(Stack::Anabranch));
    if quiceh.is_some() {
        stacks.extend(wires.map(Stack::Quiceh));
    }
    let both = |stack| [false, true].map(|retained| Subject { stack, retained });
    let mut subjects: Vec<Subject> = stacks.into_iter().flat_map(both).collect();
    // The lower bound allocates nothing while it is timed, so it is measured with one allocator setting only.
    subjects.retain(|subject| subject.stack != Stack::Floor || !subject.retained);
    let mut samples: Vec<Vec<f64>> = vec![Vec::new(); subjects.len()];
    for round in 0..rounds as usize {
        eprintln!("HTTP/3, round {} of {rounds}", round + 1);
        for turn in 0..subjects.len() {
            let index = (turn + round) % subjects.len();
            samples[index].push(subjects[index].measure(quiceh.unwrap_or(Path::new("")), identity)?);
        }
    }
    let rows = subjects.iter().zip(&samples).map(|(subject, samples)| {
        json!({
            "name": subject.name(), "allocator": allocator(subject.retained),
            "ms": rounded(median(samples)), "min_ms": rounded(minimum(samples)),
        })
    });
    report.json["http3"] = rows.collect();
    for (subject, samples) in subjects.iter().zip(&samples) {
        let mut line = vec![String::from("–"); report.columns.len()];
        line[0] = format!("{}, HTTP/3, {} malloc", subject.name(), allocator(subject.retained));
        line[2] = format!("{:.2} ms", median(samples));
        line[3] = format!("{:.2} ms", minimum(samples));
        report.rows.push(line);
    }
    Ok(())
}

#[derive(Args)]
pub(crate) struct Options {
    /// Number of connections
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..))]
    samples: u32,
    /// Wire format of packets
    #[arg(long, value_enum, default_value_t = Wire::V1)]
    wire: Wire,
}

/// Measures our own stack in this process. The programs of the other stacks print the same report.
pub(crate) fn run(options: &Options) -> Result<Report, Error> {
    let samples = anabranch_workloads::pages::measure(options.wire.version(), options.samples)?;
    let name = format!("anabranch-{}", options.wire.name());
    let (middle, least) = (median(&samples), minimum(&samples));
    Ok(Report {
        title: String::from("2.5 MB over HTTP/3 in 80 answers, ms"),
        columns: vec!["stack", "median", "minimum"],
        rows: vec![vec![name.clone(), format!("{middle:.2}"), format!("{least:.2}")]],
        json: json!({
            "name": name, "samples": options.samples, "ms": rounded(middle), "min_ms": rounded(least),
        }),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_answers_arrive() {
        for wire in [Wire::V1, Wire::Reverso] {
            let result = run(&Options { samples: 1, wire }).unwrap();
            assert!(result.json["ms"].as_f64().unwrap() > 0.0);
        }
    }
}
