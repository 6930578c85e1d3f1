//! Measurement of the paper's claims about VReverso, for `anabranch lab claims reverso`, which evaluates
//! them.
//!
//! The receive path and HTTP/3 are timed in one thread without sockets. The measured stacks alternate within
//! each round, and each ratio is the median of the rounds' ratios. For downloads, the CPU time of the
//! client's process is measured.

use clap::Args;
use serde_json::{Value, json};

use crate::Error;
use crate::bulk::{self, Recv, Runs, way};
use crate::load;
use crate::receive::{Wire, ratios};
use crate::report::{Report, median, rounded};
use crate::stacks::Ours;

#[derive(Args)]
pub(crate) struct Options {
    /// Number of rounds; each subject is measured once in each
    #[arg(long, default_value_t = 9, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Bytes of a download
    #[arg(long, default_value_t = 1 << 30, value_parser = clap::value_parser!(u64).range(1..))]
    bytes: u64,
    #[command(flatten)]
    ours: Ours,
}

/// Our downloads, with their names in the results.
const DOWNLOADS: [(&str, Wire, Recv); 5] = [
    ("v1_one", Wire::V1, Recv::One),
    ("v1_mmsg", Wire::V1, Recv::Mmsg),
    ("v1_many", Wire::V1, Recv::Many),
    ("reverso_one", Wire::Reverso, Recv::One),
    ("reverso_many", Wire::Reverso, Recv::Many),
];

pub(crate) fn run(options: &Options) -> Result<Report, Error> {
    let receive = ratios::batches(options.rounds)?;
    let pages = ratios::pages(options.rounds)?;
    let wanted = DOWNLOADS.map(|(_, wire, recv)| (wire, recv));
    let runs = bulk::ways(options.rounds, options.bytes, &options.ours, &wanted)?;
    Ok(report(&receive, &pages, &download(&runs, options.bytes)?))
}

/// Returns the client's CPU seconds per GB, and the share of packets that it received in order.
fn download(runs: &Runs, bytes: u64) -> Result<Value, Error> {
    let gigabytes = bytes as f64 / 1e9;
    let mut all = json!({});
    let mut ordered = Vec::new();
    for (name, wire, recv) in DOWNLOADS {
        let row = runs.iter().find(|(stack, _)| stack.name == way(wire, recv));
        let (_, runs) = row.ok_or("a download is missing")?;
        let costs: Vec<f64> = runs.iter().map(|run| bulk::client(run) / gigabytes).collect();
        all[name] = json!(rounded(median(&costs)));
        ordered.extend(runs.iter().filter_map(|run| run.result["ordered_ratio"].as_f64()));
    }
    all["ordered"] = json!((!ordered.is_empty()).then(|| median(&ordered)));
    Ok(all)
}

fn report(receive: &[Value], pages: &[Value], download: &Value) -> Report {
    let cell = |value: &Value| value.as_f64().map_or("–".to_owned(), |value| format!("{value:.3}"));
    let line = |what: String, row: &Value| vec![what, cell(&row["ours"]), cell(&row["reference"])];
    let mut rows: Vec<Vec<String>> =
        receive.iter().map(|row| line(format!("receive path, batches of {}", row["batch"]), row)).collect();
    rows.extend(
        pages.iter().map(|row| {
            line(format!("HTTP/3, malloc {}", row["allocator"].as_str().unwrap_or_default()), row)
        }),
    );
    for (name, ..) in DOWNLOADS {
        rows.push(vec![format!("download, {name}, client CPU s/GB"), cell(&download[name]), "–".to_owned()]);
    }
    Report {
        title: "What is claimed of VReverso: its time by that of version 1, and downloads".to_owned(),
        columns: vec!["what", "ours", "reference"],
        rows,
        json: json!({ "receive": receive, "pages": pages, "download": download, "load": load::average() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Collects the names of all fields in a value.
    fn shape(value: &Value, at: &str, names: &mut Vec<String>) {
        match value {
            Value::Object(fields) => {
                for (name, value) in fields {
                    names.push(format!("{at}/{name}"));
                    shape(value, &format!("{at}/{name}"), names);
                }
            }
            Value::Array(values) => values.iter().take(1).for_each(|value| shape(value, at, names)),
            _ => {}
        }
        names.sort();
    }

    #[test]
    fn what_is_measured_is_what_is_judged() {
        let receive = ratios::batches_of(1, &[10], None).unwrap();
        assert!(receive[0]["ours"].as_f64().unwrap() > 0.0 && receive[0]["reference"].is_null());
        let pages = [json!({ "allocator": "default", "ours": 0.7, "reference": null })];
        let mut download = json!({ "ordered": null });
        DOWNLOADS.iter().for_each(|(name, ..)| download[*name] = json!(1.0));
        let report = report(&receive, &pages, &download);
        assert_eq!(report.rows.len(), 1 + 1 + DOWNLOADS.len());
        let judged: Value = serde_json::from_str(include_str!("../../lab/src/claim/reverso.json")).unwrap();
        let names = |value: &Value| {
            let mut names = Vec::new();
            shape(value, "", &mut names);
            names
        };
        assert_eq!(names(&report.json), names(&judged));
    }
}
