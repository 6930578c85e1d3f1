//! Handover experiment of CoNEXT 2017 (figure 11): the client sends requests while the better path begins to
//! lose packets.

use core::time::Duration;

use super::variant::variants;
use super::{Experiment, ExperimentError, Source, Workload};
use crate::design::{Change, PathDesign, Point};

/// Time at which the first path begins to lose packets.
const LOSS_BEGINS: Duration = Duration::from_secs(3);
/// Time from one request to the next.
const EVERY: Duration = Duration::from_millis(400);
/// Number of requests, which take sixteen seconds.
const COUNT: u32 = 40;

/// Creates the experiment with two paths of 10 Mbit/s, with 15 and 25 ms of round-trip time. The number of a
/// point is the percentage of packets that the first path loses.
pub(super) fn handover(name: &str, _source: Source<'_>) -> Result<Experiment, ExperimentError> {
    let points = [0_u8, 5, 25, 50, 100].map(|percent| {
        let loss = Change { at: LOSS_BEGINS, loss_percent: Some(f64::from(percent)), ..Change::default() };
        let changes = if percent == 0 { Vec::new() } else { vec![loss] };
        let paths = vec![PathDesign { changes, ..path(15.0) }, path(25.0)];
        Point { run: u64::from(percent), paths }
    });
    Ok(Experiment {
        name: name.to_owned(),
        about: "CoNEXT 2017, 750-byte requests while the first path fails; points: as in the paper"
            .to_owned(),
        workload: Workload::Requests { request: 750, answer: 750, every: EVERY, count: COUNT },
        points: points.into(),
        variants: variants(["mpquic", "mpquic-no-signal", "linux-mptcp-tls12", "linux-mptcp"])?,
        usual: 3,
        repetitions: 10,
        deadline: Duration::from_secs(60),
    })
}

/// Creates a path whose queue holds one bandwidth-delay product, and at least ten packets.
fn path(rtt_ms: f64) -> PathDesign {
    let (rate_mbps, owd_ms) = (10.0, rtt_ms / 2.0);
    let queue_packets = PathDesign::queue_of_delay(rate_mbps, owd_ms, 0.0);
    PathDesign { rate_mbps, owd_ms, queue_packets, ..PathDesign::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_first_path_fails() {
        let experiment = handover("conext17-handover", Source::Drawn(0)).unwrap();
        let lost: Vec<_> = experiment.points.iter().map(|point| point.run).collect();
        assert_eq!(lost, [0, 5, 25, 50, 100]);
        for point in &experiment.points {
            let changes = &point.paths[0].changes;
            assert_eq!(changes.len(), usize::from(point.run > 0));
            assert!(changes.iter().all(|change| change.loss_percent == Some(point.run as f64)));
            assert_eq!((point.paths[0].owd_ms, point.paths[0].queue_packets), (7.5, 12));
            assert_eq!((point.paths[1].owd_ms, point.paths[1].queue_packets), (12.5, 20));
            assert!(point.paths[1].changes.is_empty() && point.paths[1].loss_percent == 0.0);
        }
        assert!(EVERY * COUNT > LOSS_BEGINS * 5, "most requests come after the failure");
    }
}
