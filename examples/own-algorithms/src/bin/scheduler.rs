//! A user-defined scheduler, compared with those of the library over the same links: `cargo run --release
//! --bin scheduler`. To use it as a template, change `pick` or the plan.

use std::path::Path;

use anabranch::schedule::{Algorithm, PathView, Pick, Scheduler, SchedulerFactory, Work};
use anabranch::trace::Time;
use anabranch_lab::{plan, run};

/// Scheduler that sends each packet on the path with the shortest queueing delay, which is estimated from the
/// path's round-trip times.
#[derive(Debug)]
struct ShortestQueue;

impl Scheduler for ShortestQueue {
    fn pick(&mut self, _: Time, _: &Work, paths: &[PathView]) -> Pick {
        let open = paths.iter().filter(|path| path.has_room());
        let shortest = open.min_by_key(|path| path.smoothed_rtt.saturating_sub(path.min_rtt));
        shortest.map_or_else(Pick::wait, |path| Pick::packet_on(path.id))
    }
}

impl SchedulerFactory for ShortestQueue {
    fn name(&self) -> &'static str {
        "shortest-queue"
    }

    fn build(&self) -> Box<dyn Scheduler> {
        Box::new(ShortestQueue)
    }
}

const PLAN: &str = r#"
name = "own-scheduler"
workload.download = { bytes = 4_000_000, until = "last-byte" }
points.inline = [{ paths = [{ rate_mbps = 20, owd_ms = 10, queue_bdp = 2 }, { rate_mbps = 8, owd_ms = 40, queue_bdp = 2 }] }]
variant = [{ layers = ["default"], each = { scheduler = ["shortest-queue", "confluence", "min-rtt", "round-robin"] } }]
"#;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    Algorithm::register(&ShortestQueue)?;
    let experiment = plan::parse("scheduler.rs", PLAN, Path::new(""))?;
    for job in experiment.jobs() {
        let row = run::run(&experiment, job, &run::RunOptions::default()).row;
        println!("{:<16} {:.3} s", row.variant, row.last_byte_s.ok_or(row.failure)?);
    }
    Ok(())
}
