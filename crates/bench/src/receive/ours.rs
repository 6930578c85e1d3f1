//! Receive path of our own stack.

use std::time::Duration;

use anabranch_wire::Version;
use anabranch_workloads::receive::{Flow, Spent};

use super::{Bytes, PACKETS, Sample};
use crate::Error;

/// Measures batches of `batch` datagrams.
pub(super) fn measure(version: Version, batch: usize) -> Result<Sample, Error> {
    let mut flow = Flow::new(version)?;
    for _ in 0..PACKETS / 10 / batch {
        flow.receive(batch)?;
    }
    flow.spent = Spent::default();
    let before = flow.received()?;
    for _ in 0..PACKETS / batch {
        flow.receive(batch)?;
    }
    let (after, spent) = (flow.received()?, flow.spent);
    let per_packet = |time: Duration| time.as_nanos() as f64 / spent.packets as f64;
    Ok(Sample {
        ns_per_packet: per_packet(spent.receiving),
        ack_ns_per_packet: Some(per_packet(spent.acknowledging)),
        bytes: Some(Bytes {
            copied: after.copied - before.copied,
            restored: after.restored - before.restored,
            allocations_per_packet: spent.allocations as f64 / spent.packets as f64,
        }),
    })
}
