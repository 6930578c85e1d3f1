//! Nanoseconds per packet in the receive path: header mask, decryption, frames, reassembly, and reading by
//! the application.
//!
//! Sending, acknowledging and the harness are not timed. Just before a measurement, a batch is copied into
//! one buffer, as a kernel does. The application reads the data without inspecting it.

pub(crate) mod floor;
mod ours;
pub(crate) mod pages;
mod peer;
pub(crate) mod ratios;

use std::path::{Path, PathBuf};

use anabranch_wire::Version;
use anabranch_workloads::PACKET_LEN;
use clap::Args;
use serde_json::json;

use crate::Error;
use crate::report::{Report, median, minimum, rounded};
use crate::stacks::Identity;

/// Approximate number of packets in one measurement. A tenth of it is received before, as a warm-up.
const PACKETS: usize = 60_000;

#[derive(Args)]
pub(crate) struct Options {
    /// Number of rounds; each stack runs once in each round, in rotated order
    #[arg(long, default_value_t = 9, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Number of datagrams in a batch; may be repeated
    #[arg(long = "batch", default_values_t = [10, 50, 150])]
    batches: Vec<usize>,
    /// Measure only our stack and the lower bound
    #[arg(long)]
    alone: bool,
    /// Measure only this row, by its name in the report; may be repeated
    #[arg(long, value_name = "STACK")]
    only: Vec<String>,
    /// Program of the quiche peer
    #[arg(long, value_name = "PROGRAM", default_value_os_t = crate::stacks::peer("quiche"))]
    quiche: PathBuf,
    /// Program of the quiceh peer
    #[arg(long, value_name = "PROGRAM", default_value_os_t = crate::stacks::peer("quiceh"))]
    quiceh: PathBuf,
    /// Omit HTTP/3
    #[arg(long)]
    no_http3: bool,
}

impl Options {
    /// Returns whether a peer is measured; prints the name of one that is not built.
    fn has(&self, program: &Path) -> bool {
        let built = program.is_file();
        if !built && !self.alone {
            eprintln!("skipped: {} is not built", program.display());
        }
        built && !self.alone
    }
}

/// Result of one run of one stack.
#[derive(Clone, Copy)]
pub(crate) struct Sample {
    /// Nanoseconds per packet from the received datagrams to bytes that the application has read.
    pub(crate) ns_per_packet: f64,
    /// Nanoseconds to create the ACK packets for a batch, divided by the number of packets received.
    pub(crate) ack_ns_per_packet: Option<f64>,
    /// Copies and allocations for the stream's bytes; for our stack only.
    pub(crate) bytes: Option<Bytes>,
}

/// Numbers of received bytes that were copied or restored, and number of allocations.
#[derive(Clone, Copy)]
pub(crate) struct Bytes {
    pub(crate) copied: u64,
    pub(crate) restored: u64,
    pub(crate) allocations_per_packet: f64,
}

/// Subject of a measurement. All subjects are measured in each round.
#[derive(Clone, Copy, PartialEq)]
enum Subject {
    Floor,
    FloorReverso,
    Anabranch(Wire, usize),
    Quiche(usize),
    Quiceh(Wire, usize),
}

/// Wire format of packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Wire {
    /// QUIC version 1
    V1,
    /// QUIC VReverso
    Reverso,
}

impl Wire {
    const fn version(self) -> Version {
        match self {
            Self::V1 => Version::V1,
            Self::Reverso => Version::REVERSO,
        }
    }

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::V1 => "v1",
            Self::Reverso => "reverso",
        }
    }
}

impl Subject {
    fn name(self) -> &'static str {
        match self {
            Self::Floor => "floor",
            Self::FloorReverso => "floor-reverso",
            Self::Anabranch(Wire::V1, _) => "anabranch-v1",
            Self::Anabranch(Wire::Reverso, _) => "anabranch-reverso",
            Self::Quiche(_) => "quiche",
            Self::Quiceh(Wire::V1, _) => "quiceh-v1",
            Self::Quiceh(Wire::Reverso, _) => "quiceh-reverso",
        }
    }

    fn batch(self) -> usize {
        match self {
            Self::Floor | Self::FloorReverso => 0,
            Self::Anabranch(_, batch) | Self::Quiche(batch) | Self::Quiceh(_, batch) => batch,
        }
    }

    /// Returns the subject that measures the lower bound of this subject's cost.
    fn floor(self) -> Self {
        match self {
            Self::FloorReverso | Self::Anabranch(Wire::Reverso, _) | Self::Quiceh(Wire::Reverso, _) => {
                Self::FloorReverso
            }
            _ => Self::Floor,
        }
    }

    fn measure(self, options: &Options, identity: &Identity) -> Result<Sample, Error> {
        match self {
            Self::Floor => floor::measure(),
            Self::FloorReverso => floor::measure_reverso(),
            Self::Anabranch(wire, batch) => ours::measure(wire.version(), batch),
            Self::Quiche(batch) => peer::measure(&options.quiche, batch, &[]),
            Self::Quiceh(wire, batch) => {
                let mut flags = vec!["--wire".to_owned(), wire.name().to_owned()];
                flags.extend(identity.flags());
                peer::measure(&options.quiceh, batch, &flags)
            }
        }
    }
}

pub(crate) fn run(options: &Options) -> Result<Report, Error> {
    let identity = Identity::new()?;
    let mut subjects = vec![Subject::Floor, Subject::FloorReverso];
    for wire in [Wire::V1, Wire::Reverso] {
        subjects.extend(options.batches.iter().map(|&batch| Subject::Anabranch(wire, batch)));
    }
    if options.has(&options.quiche) {
        subjects.extend(options.batches.iter().map(|&batch| Subject::Quiche(batch)));
    }
    let quiceh = options.has(&options.quiceh);
    for wire in [Wire::V1, Wire::Reverso] {
        let batches = options.batches.iter().filter(|_| quiceh);
        subjects.extend(batches.map(|&batch| Subject::Quiceh(wire, batch)));
    }
    if !options.only.is_empty() {
        subjects.retain(|subject| options.only.iter().any(|name| name == subject.name()));
    }
    let mut samples: Vec<Vec<Sample>> = vec![Vec::new(); subjects.len()];
    for round in 0..options.rounds as usize {
        eprintln!("round {} of {}", round + 1, options.rounds);
        for turn in 0..subjects.len() {
            let index = (turn + round) % subjects.len();
            samples[index].push(subjects[index].measure(options, &identity)?);
        }
    }
    let mut report = report(&subjects, &samples);
    if !options.no_http3 {
        pages::add(&mut report, options.rounds, quiceh.then_some(options.quiceh.as_path()), &identity)?;
    }
    Ok(report)
}

fn report(subjects: &[Subject], samples: &[Vec<Sample>]) -> Report {
    let values = |index: usize| samples[index].iter().map(|sample| sample.ns_per_packet).collect::<Vec<_>>();
    let of = |wanted: Subject| {
        let index = subjects.iter().position(|subject| *subject == wanted);
        index.map(|index| median(&values(index)))
    };
    let mut rows = Vec::new();
    let mut lines = Vec::new();
    for (index, subject) in subjects.iter().enumerate() {
        let (ns, least) = (median(&values(index)), minimum(&values(index)));
        let acks: Vec<f64> = samples[index].iter().filter_map(|sample| sample.ack_ns_per_packet).collect();
        let floor = of(subject.floor()).map(|floor| ns / floor);
        let against = of(Subject::Quiche(subject.batch())).map(|quiche| ns / quiche);
        let reference = of(Subject::Quiceh(Wire::Reverso, subject.batch())).map(|quiceh| ns / quiceh);
        let cell = |value: Option<f64>| value.map_or(String::from("–"), |value| format!("{value:.2}"));
        let ack = (!acks.is_empty()).then(|| median(&acks));
        lines.push(vec![
            subject.name().to_owned(),
            if subject.batch() == 0 { "–".to_owned() } else { subject.batch().to_string() },
            format!("{ns:.0}"),
            format!("{least:.0}"),
            cell(floor),
            cell(against),
            cell(reference),
            ack.map_or(String::from("–"), |ack| format!("{ack:.0}")),
        ]);
        if subject.batch() > 0 {
            let mut row = json!({
                "name": subject.name(), "batch": subject.batch(), "ns_per_packet": rounded(ns),
                "min_ns_per_packet": rounded(least), "floor_ratio": floor.map(rounded),
                "quiche_ratio": against.map(rounded), "reference_ratio": reference.map(rounded),
                "ack_ns_per_packet": ack.map(rounded),
            });
            if let Some(bytes) = samples[index].last().and_then(|sample| sample.bytes) {
                row["copied_bytes"] = bytes.copied.into();
                row["restored_bytes"] = bytes.restored.into();
                row["allocations_per_packet"] = bytes.allocations_per_packet.into();
            }
            rows.push(row);
        }
    }
    let floor = |subject| of(subject).map(rounded);
    Report {
        title: format!("Receive path, {PACKET_LEN}-byte packets, AES-128-GCM, ns per packet"),
        columns: vec![
            "stack",
            "batch",
            "median",
            "minimum",
            "× floor",
            "× quiche",
            "× reference",
            "ACKs (extra)",
        ],
        rows: lines,
        json: json!({
            "floor_ns": floor(Subject::Floor), "floor_reverso_ns": floor(Subject::FloorReverso), "rows": rows,
        }),
    }
}
