//! Nanoseconds per packet in the send path: the choice of a path, frames, encryption and the header mask, as
//! `poll_transmit` does them for one bulk stream on a connection without sockets.
//!
//! Writing to the stream, receiving, acknowledging and the harness are not timed. The peer receives and
//! acknowledges every packet, so that the sender goes on.

mod ours;

use anabranch_transport::Numbering;
use anabranch_workloads::PACKET_LEN;
use clap::Args;
use serde_json::json;

use crate::Error;
use crate::receive::floor;
use crate::report::{Report, median, minimum, rounded};

/// Approximate number of packets in one measurement. A tenth of it is sent before, as a warm-up.
const PACKETS: usize = 60_000;

/// Scheduler of the rows over two paths: it sends half on each, in whole batches.
const EVEN: &str = "weighted";

/// Schedulers that decide about each packet, on two equal paths.
const BY_PACKET: [&str; 5] = ["round-robin", "least-recent", "fewest-packets", "blest", "ecf"];

#[derive(Args)]
pub(crate) struct Options {
    /// Number of rounds; each row is measured once in each round, in rotated order
    #[arg(long, default_value_t = 9, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Measure only this row, by its name in the report; may be repeated. The floor is always measured
    #[arg(long, value_name = "ROW")]
    only: Vec<String>,
}

/// Result of one run of one row.
struct Sample {
    ns_per_packet: f64,
    /// Mean length of the packets in bytes.
    mean_len: f64,
    /// Number of paths that carried packets, and the share of packets on the path that carried the fewest.
    paths: usize,
    least_share: f64,
}

/// Subject of a measurement. All subjects are measured in each round.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Subject {
    /// AEAD and header mask alone.
    Floor,
    V1,
    Reverso,
    TwoPaths(Numbering),
    /// Two paths with this scheduler.
    Scheduler(&'static str),
}

impl Subject {
    fn all() -> Vec<Self> {
        let paths = [Numbering::Multiple, Numbering::Single].map(Self::TwoPaths);
        let fixed = [Self::Floor, Self::V1, Self::Reverso];
        fixed.into_iter().chain(paths).chain(BY_PACKET.map(Self::Scheduler)).collect()
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Floor => "floor",
            Self::V1 => "v1",
            Self::Reverso => "reverso",
            Self::TwoPaths(Numbering::Single) => "2paths-single",
            Self::TwoPaths(_) => "2paths-multiple",
            Self::Scheduler(name) => name,
        }
    }

    /// Measures the subject once, in nanoseconds per packet.
    fn measure(self) -> Result<f64, Error> {
        if self == Self::Floor {
            return floor::measure_seal();
        }
        let sample = ours::measure(&self)?;
        self.check(&sample).map(|()| sample.ns_per_packet)
    }

    /// Checks that the packets were full, and that rows over two paths used both.
    fn check(self, sample: &Sample) -> Result<(), Error> {
        let Sample { mean_len, paths, least_share, .. } = *sample;
        let wanted = if matches!(self, Self::TwoPaths(_) | Self::Scheduler(_)) { 2 } else { 1 };
        // `blest` and `ecf` leave a path idle whenever that is better. `least-recent` goes by the time of the last packet, which is the same
        // for all paths within a batch, and then chooses the first one.
        let is_even = !matches!(self, Self::Scheduler("blest" | "ecf" | "least-recent"));
        if mean_len < 0.98 * f64::from(PACKET_LEN) {
            return Err(format!("{}: packets have {mean_len:.0} bytes", self.name()).into());
        }
        if is_even && (paths != wanted || least_share < 0.8 / wanted as f64) {
            let name = self.name();
            return Err(
                format!("{name}: {paths} paths were used, one for {least_share:.2} of all packets").into()
            );
        }
        Ok(())
    }
}

pub(crate) fn run(options: &Options) -> Result<Report, Error> {
    let mut subjects = Subject::all();
    let names: Vec<&str> = subjects.iter().map(|subject| subject.name()).collect();
    if let Some(unknown) = options.only.iter().find(|name| !names.contains(&name.as_str())) {
        return Err(format!("there is no row `{unknown}`: use some of {}", names.join(", ")).into());
    }
    if !options.only.is_empty() {
        subjects.retain(|subject| {
            *subject == Subject::Floor || options.only.iter().any(|name| name == subject.name())
        });
    }
    let mut samples: Vec<Vec<f64>> = vec![Vec::new(); subjects.len()];
    for round in 0..options.rounds as usize {
        eprintln!("round {} of {}", round + 1, options.rounds);
        for turn in 0..subjects.len() {
            let index = (turn + round) % subjects.len();
            samples[index].push(subjects[index].measure()?);
        }
    }
    Ok(report(&subjects, &samples))
}

fn report(subjects: &[Subject], samples: &[Vec<f64>]) -> Report {
    let of = |wanted: Subject| {
        subjects.iter().position(|subject| *subject == wanted).map(|index| median(&samples[index]))
    };
    let (floor, one_path) = (of(Subject::Floor), of(Subject::V1));
    let (mut rows, mut lines) = (Vec::new(), Vec::new());
    for (subject, samples) in subjects.iter().zip(samples) {
        let (ns, least) = (median(samples), minimum(samples));
        let [of_floor, of_one] = [floor, one_path].map(|base| base.map(|base| ns / base));
        let cell = |value: Option<f64>| value.map_or(String::from("–"), |value| format!("{value:.2}"));
        let of_one = of_one.filter(|_| *subject != Subject::Floor);
        lines.push(vec![
            subject.name().to_owned(),
            format!("{ns:.0}"),
            format!("{least:.0}"),
            cell(of_floor),
            cell(of_one),
        ]);
        if *subject != Subject::Floor {
            rows.push(json!({
                "name": subject.name(), "ns_per_packet": rounded(ns), "min_ns_per_packet": rounded(least),
                "floor_ratio": of_floor.map(rounded), "one_path_ratio": of_one.map(rounded),
            }));
        }
    }
    Report {
        title: format!(
            "Send path, {PACKET_LEN}-byte packets of one stream, AES-128-GCM, ns per packet; schedulers on two paths"
        ),
        columns: vec!["row", "median", "minimum", "× floor", "× one path"],
        rows: lines,
        json: json!({ "floor_ns": floor.map(rounded), "rows": rows }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_have_the_names_of_schedulers() {
        let names: Vec<&str> = Subject::all().into_iter().map(Subject::name).collect();
        assert_eq!(names[..5], ["floor", "v1", "reverso", "2paths-multiple", "2paths-single"]);
        for name in names[5..].iter().chain(&[EVEN]) {
            assert!(name.parse::<anabranch_transport::schedule::Algorithm>().is_ok(), "{name}");
        }
    }

    #[test]
    fn an_unknown_row_is_an_error() {
        let options = Options { rounds: 1, only: vec!["v1".to_owned(), "v9".to_owned()] };
        let Err(fault) = run(&options) else { panic!("there is no v9") };
        assert!(fault.to_string().contains("`v9`") && fault.to_string().contains("2paths-single"), "{fault}");
    }

    #[test]
    fn ratios_are_of_the_floor_and_of_one_path() {
        let subjects = [Subject::Floor, Subject::V1, Subject::Scheduler("ecf")];
        let report = report(&subjects, &[vec![100.0], vec![250.0, 200.0, 150.0], vec![500.0]]);
        assert_eq!(report.json["floor_ns"], 100.0);
        assert_eq!(report.json["rows"][1]["name"], "ecf");
        assert_eq!(report.json["rows"][1]["floor_ratio"], 5.0);
        assert_eq!(report.json["rows"][1]["one_path_ratio"], 2.5);
        assert_eq!(report.rows.len(), 3);
    }

    #[test]
    fn small_packets_and_an_idle_path_are_errors() {
        let sample =
            |mean_len, paths, least_share| Sample { ns_per_packet: 1.0, mean_len, paths, least_share };
        let two = Subject::TwoPaths(Numbering::Single);
        assert!(two.check(&sample(1350.0, 2, 0.5)).is_ok());
        assert!(two.check(&sample(1350.0, 2, 0.1)).is_err());
        assert!(two.check(&sample(1350.0, 1, 1.0)).is_err());
        assert!(Subject::V1.check(&sample(1350.0, 1, 1.0)).is_ok());
        assert!(Subject::V1.check(&sample(1200.0, 1, 1.0)).is_err());
        assert!(Subject::Scheduler("ecf").check(&sample(1350.0, 1, 1.0)).is_ok());
    }
}
