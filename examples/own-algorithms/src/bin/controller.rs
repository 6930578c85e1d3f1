//! A user-defined congestion controller, compared with CUBIC and BBR: `cargo run --release --bin controller`.
//! To use it as a template, change the window or the plan.

use std::path::Path;

use anabranch::congestion::{
    Acked, Algorithm, Congested, Controller, ControllerFactory, Sibling, Start, State,
};
use anabranch::trace::Time;
use anabranch_lab::{plan, run};

/// Congestion controller that grows like NewReno but reduces its window by only a quarter at each loss.
#[derive(Debug)]
struct Gentle {
    window: u64,
    /// Window in bytes above which the window grows by only one packet per round trip.
    threshold: u64,
    /// Window in bytes before the last congestion event. It is restored if the losses of that event were
    /// spurious.
    before: u64,
}

impl Controller for Gentle {
    fn on_acked(&mut self, ack: &Acked<'_>, _: &[Sibling]) {
        if !ack.utilised {
            return;
        }
        let slow_start = self.window < self.threshold;
        self.window += if slow_start { ack.growth } else { ack.growth * ack.mtu / self.window };
    }

    fn on_congestion(&mut self, event: &Congested, _: &[Sibling]) {
        self.before = self.window;
        self.window = (self.window * 3 / 4).max(2 * event.mtu);
        self.threshold = self.window;
    }

    fn on_spurious(&mut self, _: Time) {
        self.window = self.window.max(self.before);
    }

    fn on_persistent_congestion(&mut self, _: Time, mtu: u64) {
        self.window = 2 * mtu;
    }

    fn window(&self) -> u64 {
        self.window
    }

    fn state(&self) -> State {
        if self.window < self.threshold { State::SlowStart } else { State::CongestionAvoidance }
    }
}

#[derive(Debug)]
struct Factory;

impl ControllerFactory for Factory {
    fn name(&self) -> &'static str {
        "gentle"
    }

    fn build(&self, start: &Start) -> Box<dyn Controller> {
        Box::new(Gentle { window: start.window, threshold: u64::MAX, before: start.window })
    }
}

const PLAN: &str = r#"
name = "own-controller"
workload.download = { bytes = 4_000_000, until = "last-byte" }
points.inline = [{ paths = [{ rate_mbps = 20, owd_ms = 20, queue_bdp = 1, loss_percent = 0.1 }] }]
variant = [{ layers = ["default", "path-0"], each = { congestion = ["gentle", "newreno", "cubic", "bbr"] } }]
"#;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    Algorithm::register(&Factory)?;
    let experiment = plan::parse("controller.rs", PLAN, Path::new(""))?;
    for job in experiment.jobs() {
        let row = run::run(&experiment, job, &run::RunOptions::default()).row;
        println!("{:<10} {:.3} s", row.variant, row.last_byte_s.ok_or(row.failure)?);
    }
    Ok(())
}
