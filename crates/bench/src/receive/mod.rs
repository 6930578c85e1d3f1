//! Nanoseconds per packet through the receive path: mask, decrypt, frames, reassembly, read by the application.
//!
//! Sending, acknowledging and the harness are not timed. Batches lie in one buffer, into which they were copied just before,
//! as a kernel would; the application reads without looking at the bytes.

mod floor;
mod ours;
mod quiche;

use std::path::PathBuf;

use clap::Args;
use serde_json::json;

use crate::Error;
use crate::report::{Report, median, minimum, rounded};

/// UDP payload of every packet.
const PACKET_LEN: u16 = 1350;

/// Packets measured at once, about; a tenth of that runs before to warm up.
const PACKETS: usize = 60_000;

#[derive(Args)]
pub(crate) struct Options {
    /// Rounds; every stack has its turn in each, in rotated order
    #[arg(long, default_value_t = 9, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Datagrams handed over at once; may be repeated
    #[arg(long = "batch", default_values_t = [10, 50, 150])]
    batches: Vec<usize>,
    /// Measure ours and the floor only
    #[arg(long)]
    alone: bool,
    /// The quiche peer
    #[arg(long, value_name = "PROGRAM", default_value_os_t = crate::stacks::peer("quiche"))]
    quiche: PathBuf,
}

/// One run of one stack.
#[derive(Clone, Copy)]
pub(crate) struct Sample {
    /// From datagrams to bytes the application has read.
    pub(crate) ns_per_packet: f64,
    /// Making the ACK packets that the batch leads to, spread over the packets received.
    pub(crate) ack_ns_per_packet: Option<f64>,
}

/// What is measured in turn.
#[derive(Clone, Copy, PartialEq)]
enum Subject {
    Floor,
    Anabranch(usize),
    Quiche(usize),
}

impl Subject {
    fn name(self) -> &'static str {
        match self {
            Self::Floor => "floor",
            Self::Anabranch(_) => "anabranch-v1",
            Self::Quiche(_) => "quiche",
        }
    }

    fn batch(self) -> usize {
        match self {
            Self::Floor => 0,
            Self::Anabranch(batch) | Self::Quiche(batch) => batch,
        }
    }

    fn measure(self, options: &Options) -> Result<Sample, Error> {
        match self {
            Self::Floor => floor::measure(),
            Self::Anabranch(batch) => ours::measure(batch),
            Self::Quiche(batch) => quiche::measure(&options.quiche, batch),
        }
    }
}

pub(crate) fn run(options: &Options) -> Result<Report, Error> {
    let mut subjects = vec![Subject::Floor];
    subjects.extend(options.batches.iter().map(|&batch| Subject::Anabranch(batch)));
    if options.quiche.is_file() && !options.alone {
        subjects.extend(options.batches.iter().map(|&batch| Subject::Quiche(batch)));
    } else if !options.alone {
        eprintln!("skipped: quiche ({} is not built)", options.quiche.display());
    }
    let mut samples: Vec<Vec<Sample>> = vec![Vec::new(); subjects.len()];
    for round in 0..options.rounds as usize {
        eprintln!("round {} of {}", round + 1, options.rounds);
        for turn in 0..subjects.len() {
            let index = (turn + round) % subjects.len();
            samples[index].push(subjects[index].measure(options)?);
        }
    }
    Ok(report(&subjects, &samples))
}

fn report(subjects: &[Subject], samples: &[Vec<Sample>]) -> Report {
    let values = |index: usize| samples[index].iter().map(|sample| sample.ns_per_packet).collect::<Vec<_>>();
    let middle = |index: usize| median(&values(index));
    let floor = middle(0);
    let quiche = |batch: usize| {
        let index = subjects.iter().position(|subject| *subject == Subject::Quiche(batch));
        index.map(middle)
    };
    let mut rows = Vec::new();
    let mut lines = Vec::new();
    for (index, subject) in subjects.iter().enumerate() {
        let (ns, least) = (middle(index), minimum(&values(index)));
        let acks: Vec<f64> = samples[index].iter().filter_map(|sample| sample.ack_ns_per_packet).collect();
        let against = quiche(subject.batch()).map(|quiche| ns / quiche);
        let cell = |value: Option<f64>| value.map_or(String::from("–"), |value| format!("{value:.2}"));
        let ack = (!acks.is_empty()).then(|| median(&acks));
        lines.push(vec![
            subject.name().to_owned(),
            if subject.batch() == 0 { "–".to_owned() } else { subject.batch().to_string() },
            format!("{ns:.0}"),
            format!("{least:.0}"),
            cell(Some(ns / floor)),
            cell(against),
            ack.map_or(String::from("–"), |ack| format!("{ack:.0}")),
        ]);
        if *subject != Subject::Floor {
            rows.push(json!({
                "name": subject.name(), "batch": subject.batch(), "ns_per_packet": rounded(ns),
                "min_ns_per_packet": rounded(least), "floor_ratio": rounded(ns / floor),
                "quiche_ratio": against.map(rounded), "ack_ns_per_packet": ack.map(rounded),
            }));
        }
    }
    Report {
        title: format!("Receive path, {PACKET_LEN}-byte packets, AES-128-GCM, ns per packet"),
        columns: vec!["stack", "batch", "median", "minimum", "× floor", "× quiche", "ACKs (extra)"],
        rows: lines,
        json: json!({ "floor_ns": rounded(floor), "rows": rows }),
    }
}
