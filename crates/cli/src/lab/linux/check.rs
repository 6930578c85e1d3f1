//! `anabranch lab linux check`: checks the kernel by a download of a megabyte over TCP and one over Multipath
//! TCP.

use std::time::Instant;

use anabranch_linux::{Link, Order, Properties, Way, Work};
use clap::Args;

use super::{BUILD, cache, host};
use crate::exit::{Exit, Failure, Result, say};

/// Boot the kernel, and download a megabyte over TCP and over Multipath TCP
#[derive(Args, Debug)]
pub(crate) struct Check {}

/// Number of bytes of each download.
const BYTES: u64 = 1_000_000;

pub(super) fn run(_: &Check) -> Result {
    let kernel = cache()?.kernel();
    let kernel = kernel.ok_or_else(|| Failure::new(Exit::Usage, "there is no kernel").or(BUILD))?;
    let host = host(&kernel)?;
    say(format_args!("Linux {}: {}", kernel.version, kernel.program.display()))?;
    for name in ["tcp-cubic", "mptcp"] {
        let stack = name.parse().map_err(|error| Failure::new(Exit::Usage, error))?;
        let order = Order {
            stack,
            paths: vec![link(10, 20); if stack.is_multipath() { 2 } else { 1 }],
            work: Work::Download { bytes: BYTES },
            deadline_ns: 60_000_000_000,
            seed: 1,
        };
        let begun = Instant::now();
        let report = host.boot(&order).map_err(|error| Failure::new(Exit::Io, error))?;
        let took = begun.elapsed().as_secs_f64();
        if !report.failure.is_empty() {
            return Err(Failure::new(Exit::Failed, format!("{name}: {}", report.failure)));
        }
        let seconds = report.last_byte_ns.unwrap_or_default() as f64 / 1e9;
        let sent: Vec<String> = report.paths.iter().map(|path| path.sent_bytes.to_string()).collect();
        say(format_args!(
            "{name}: {BYTES} bytes over {} x 10 Mbit/s, 20 ms in {seconds:.3} s of virtual time, {took:.2} s of \
             wall time; bytes sent: {}; kernel {}",
            order.paths.len(),
            sent.join(" + "),
            report.kernel
        ))?;
    }
    Ok(())
}

/// Returns a link of `mbps` Mbit/s with a round-trip time of `rtt_ms` milliseconds. Its queues hold one
/// bandwidth-delay product, but at least ten packets.
fn link(mbps: u64, rtt_ms: u64) -> Link {
    let first = Properties { rate_bps: mbps * 1_000_000, delay_ns: rtt_ms * 500_000, loss: 0.0 };
    let queue_packets = u32::try_from(mbps * rtt_ms * 1000 / 8 / 1500).unwrap_or(u32::MAX).max(10);
    let way = Way { first, queue_packets, changes: Vec::new() };
    Link { up: way.clone(), down: way }
}
