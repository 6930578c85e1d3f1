//! Send path of our own stack: one bulk stream of the server.

use std::hint::black_box;
use std::time::{Duration, Instant};

use anabranch_transport::schedule::Algorithm;
use anabranch_transport::{MultipathConfig, Numbering, TransportConfig};
use anabranch_wire::Version;
use anabranch_workloads::receive::transport;
use anabranch_workloads::send::{Flow, Spent};

use super::{PACKETS, Sample, Subject};
use crate::Error;

/// Returns the configuration of both endpoints.
fn config(subject: &Subject) -> Result<TransportConfig, Error> {
    let config = transport(if *subject == Subject::Reverso { Version::REVERSO } else { Version::V1 });
    let (numbering, scheduler) = match subject {
        Subject::Floor | Subject::V1 | Subject::Reverso => return Ok(config),
        Subject::TwoPaths(numbering) => (*numbering, super::EVEN),
        Subject::Scheduler(name) => (Numbering::Multiple, *name),
    };
    let scheduler: Algorithm = scheduler.parse().map_err(|error| format!("{scheduler}: {error}"))?;
    Ok(config.with_multipath(MultipathConfig::default().with_numbering(numbering).with_scheduler(scheduler)))
}

/// Measures the time of `poll_transmit` for the packets of a bulk stream.
pub(super) fn measure(subject: &Subject) -> Result<Sample, Error> {
    let mut flow = Flow::new(config(subject)?)?;
    flow.send(PACKETS / 10)?;
    flow.spent = Spent::default();
    flow.send(PACKETS)?;
    let Spent { time, calls, packets, bytes, paths } = flow.spent;
    let time = time.saturating_sub(clock() * u32::try_from(calls)?);
    Ok(Sample {
        ns_per_packet: time.as_nanos() as f64 / packets as f64,
        mean_len: bytes as f64 / packets as f64,
        least_share: paths.values().min().map_or(0.0, |least| *least as f64 / packets as f64),
        paths: paths.len(),
    })
}

/// Returns the time that a clock shows for nothing.
fn clock() -> Duration {
    let mut times: Vec<Duration> = (0..1_001).map(|_| black_box(Instant::now()).elapsed()).collect();
    times.sort_unstable();
    times[times.len() / 2]
}
