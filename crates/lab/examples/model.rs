//! Random operations on connections with several paths:
//! `cargo run --release -p anabranch-lab --example model -- [COUNT [FIRST [multiple|single]]]`.
//!
//! Every failure prints its seed. `model -- 1 SEED` repeats it; with ANABRANCH_LOG=1 it prints all events.

use std::process::ExitCode;

use anabranch_lab::model::{Model, Report};
use anabranch_lab::seeds::{sweep, tell_faults};
use anabranch_transport::Numbering;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number =
        |at: usize, default| arguments.get(at).map_or(Ok(default), |argument| argument.parse::<u64>());
    let numbering = arguments.get(2).map_or(Ok(Numbering::Multiple), |name| name.parse::<Numbering>());
    let (Ok(count), Ok(first), Ok(numbering)) = (number(0, 500), number(1, 0), numbering) else {
        eprintln!("usage: model [COUNT [FIRST [multiple|single]]]");
        return ExitCode::from(2);
    };
    if count == 1 {
        println!("{:#?}", Model::random(first, numbering));
    }
    let log = std::env::var_os("ANABRANCH_LOG").is_some();
    let reports = sweep(
        first..first + count,
        |seed| Model::random(seed, numbering).run_watched(log),
        |report| {
            tell_faults(report);
            if count == 1 {
                println!("{report:#?}");
            }
        },
    );
    summarize(&reports);
    if reports.iter().all(|report| report.faults.is_empty()) { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn summarize(reports: &[Report]) {
    let failed = reports.iter().filter(|report| !report.faults.is_empty()).count();
    let total = |value: fn(&Report) -> u64| reports.iter().map(value).sum::<u64>();
    println!(
        "{} models, {failed} failed; {} bytes in {} halves of streams, {} paths opened, {} given up, {} moves, {} key \
         updates, {} connections without paths; the longest took {:.1} s (seed {})",
        reports.len(),
        total(|report| report.received),
        total(|report| report.complete),
        total(|report| report.opened),
        total(|report| report.gone),
        total(|report| report.moves),
        total(|report| report.key_updates),
        total(|report| report.without_paths.into()),
        reports.iter().map(|report| report.done).max().map_or(0.0, |done| done.as_nanos() as f64 / 1e9),
        reports.iter().max_by_key(|report| report.done).map_or(0, |report| report.seed),
    );
}
