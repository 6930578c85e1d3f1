//! A user-defined acknowledgment strategy, compared with the standard one over the same links: `cargo run
//! --release --bin acks`. To use it as a template, change `rule` or the plan.

use std::path::Path;

use anabranch::acknowledge::{AckArrival, AckRule, AckStrategy, AckStrategyFactory, AckTiming};
use anabranch::trace::Time;
use anabranch_lab::{plan, run};

/// Strategy that acknowledges four times per round trip, regardless of the number of received packets.
#[derive(Debug)]
struct FourPerRoundTrip;

impl AckStrategy for FourPerRoundTrip {
    fn rule(&mut self, _: Time, arrival: &AckArrival) -> AckRule {
        match arrival.smoothed_rtt {
            Some(rtt) => AckRule::new(64, rtt / 4, arrival.requested.reordering_threshold),
            None => arrival.requested,
        }
    }
}

impl AckStrategyFactory for FourPerRoundTrip {
    fn name(&self) -> &'static str {
        "four-per-round-trip"
    }

    fn build(&self) -> Box<dyn AckStrategy> {
        Box::new(FourPerRoundTrip)
    }
}

const PLAN: &str = r#"
name = "own-acks"
workload.download = { bytes = 4_000_000, until = "last-byte" }
points.inline = [{ paths = [{ rate_mbps = 20, owd_ms = 10, queue_bdp = 2 }] }]
variant = [
    { name = "own", layers = ["default"], set = { ack_frequency = false, ack_timing = "four-per-round-trip" } },
    { name = "standard", layers = ["default"], set = { ack_frequency = false } },
]
"#;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    AckTiming::register(&FourPerRoundTrip)?;
    let experiment = plan::parse("acks.rs", PLAN, Path::new(""))?;
    for job in experiment.jobs() {
        let row = run::run(&experiment, job, &run::RunOptions::default()).row;
        let (seconds, frames) = (row.last_byte_s.ok_or(row.failure)?, row.ack_frames.unwrap_or_default());
        println!("{:<20} {seconds:.3} s, {frames} ACK frames", row.variant);
    }
    Ok(())
}
