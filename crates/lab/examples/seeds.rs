//! Random scenarios: `cargo run --release -p anabranch-lab --example seeds -- [COUNT [FIRST]]`.
//!
//! Every failure prints its seed. `seeds -- 1 SEED` repeats it; with ANABRANCH_LOG=1 it prints all events.

use std::process::ExitCode;

use anabranch_lab::scenario::{Report, Scenario};
use anabranch_lab::seeds::{sweep, tell_faults};

fn main() -> ExitCode {
    let mut numbers = std::env::args().skip(1).map(|argument| argument.parse::<u64>());
    let (Ok(count), Ok(first)) = (numbers.next().unwrap_or(Ok(500)), numbers.next().unwrap_or(Ok(0))) else {
        eprintln!("usage: seeds [COUNT [FIRST]]");
        return ExitCode::from(2);
    };
    let log = std::env::var_os("ANABRANCH_LOG").is_some();
    let reports = sweep(
        first..first + count,
        |seed| Scenario::random(seed).run_watched(log),
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
        "{} scenarios, {failed} failed; {} handshakes (early data: {} accepted, {} refused), {} bytes, {} echoed messages, {} moves, \
         {} timed out by bad luck, {} events",
        reports.len(),
        total(|report| report.connected.into()),
        total(|report| report.early.into()),
        total(|report| report.refused.into()),
        total(|report| report.received),
        total(|report| report.echoed),
        total(|report| report.moves.into()),
        total(|report| report.unlucky.into()),
        total(|report| report.events),
    );
}
