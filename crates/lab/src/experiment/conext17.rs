//! "Multipath QUIC: Design and Evaluation" (CoNEXT 2017): downloads over four classes of two-path networks.

use core::time::Duration;

use super::variant::variants;
use super::{End, Experiment, ExperimentError, Source, Workload};
use crate::design::{self, Factor, PathDesign, Point, QueueRule, Wsp};
use crate::random::Seed;

/// Number of networks of a class. Each gives two points, so that the connection begins once on either path.
const DESIGNS: usize = 253;
/// Number of candidates from which the generated networks are chosen.
const CANDIDATES: usize = 1000;
/// Seed of the generated designs.
const SEED: Seed = Seed(2017);
/// Simulated time after which a run has failed; the slowest path alone needs half an hour for 20 MB.
const DEADLINE: Duration = Duration::from_secs(7200);

/// Number of runs of each variant at a point. Their median counts. The number is the same with and without
/// random losses.
const REPETITIONS: u32 = 3;

/// Variants of the downloads: QUIC, HTTPS over Linux's TCP and Multipath TCP as in the paper, and further
/// variants of Linux.
const VARIANTS: [&str; 19] = [
    "mpquic",
    "quic-path-0",
    "quic-path-1",
    "linux-mptcp-tls12",
    "linux-tcp-cubic-path-0-tls12",
    "linux-tcp-cubic-path-1-tls12",
    "linux-mptcp",
    "linux-tcp-cubic-path-0",
    "linux-tcp-cubic-path-1",
    "linux-mptcp-tls13",
    "linux-tcp-cubic-path-0-tls13",
    "linux-tcp-cubic-path-1-tls13",
    "linux-mptcp-default-buffers",
    "linux-tcp-cubic-path-0-default-buffers",
    "linux-tcp-cubic-path-1-default-buffers",
    "linux-tcp-reno-path-0",
    "linux-tcp-reno-path-1",
    "linux-tcp-bbr-path-0",
    "linux-tcp-bbr-path-1",
];
/// Number of variants at the beginning of [`VARIANTS`] that the paper compares.
const USUAL: usize = 6;

/// Properties that the name of a class states.
struct Class {
    high_bdp: bool,
    losses: bool,
    bytes: u64,
    rule: QueueRule,
}

impl Class {
    fn of(name: &str) -> Self {
        Self {
            high_bdp: name.contains("-high-bdp-"),
            losses: name.contains("-losses"),
            bytes: if name.ends_with("-256kb") { 256_000 } else { 20_000_000 },
            rule: if name.ends_with("-scripts") { QueueRule::Scripts } else { QueueRule::Intended },
        }
    }

    fn file(&self) -> String {
        let bdp = if self.high_bdp { "high" } else { "low" };
        let loss = if self.losses { "losses" } else { "no_loss" };
        format!("conext17_{bdp}_bdp_{loss}.csv")
    }

    /// Returns both paths of one network. Its eight coordinates belong to four parameters in alphabetical
    /// order, each for both paths.
    fn paths(&self, at: &[f64]) -> [PathDesign; 2] {
        let (delays, rtts) = if self.high_bdp { (2000.0, 400.0) } else { (100.0, 50.0) };
        let capacity = Factor::Range(0.1, 100.0);
        let loss = if self.losses { Factor::Range(0.0, 2.5) } else { Factor::Constant(0.0) };
        let queuing_delay = Factor::Range(0.0, delays);
        let rtt = Factor::Range(0.0, rtts);
        [0, 1].map(|path| {
            let [rate_mbps, loss_percent] = [capacity.at(at[path]), loss.at(at[2 + path])];
            let [queuing_delay, rtt] = [queuing_delay.at(at[4 + path]), rtt.at(at[6 + path])];
            let queue_packets = self.rule.packets(rate_mbps, rtt / 2.0, queuing_delay);
            PathDesign { rate_mbps, owd_ms: rtt / 2.0, queue_packets, loss_percent, ..PathDesign::default() }
        })
    }

    /// Generates the points. All classes use the same coordinates, as in the published files. Points 2k and
    /// 2k + 1 have the same paths in opposite order.
    fn generated(&self, seed: Seed, first: u64) -> Vec<Point> {
        let coordinates = Wsp::of_count(DESIGNS, CANDIDATES, 8, seed);
        let orders = coordinates.iter().flat_map(|at| {
            let [first, second] = self.paths(at);
            [vec![first.clone(), second.clone()], vec![second, first]]
        });
        (first..).zip(orders).map(|(run, paths)| Point { run, paths }).collect()
    }
}

/// Creates the experiment of figures 3 to 10: downloads of 20 MB or 256 KB over the networks of one class, on
/// both paths and on each alone, as the aggregation benefit requires.
pub(super) fn download(name: &str, source: Source<'_>) -> Result<Experiment, ExperimentError> {
    let class = Class::of(name);
    let (points, source) = match source {
        Source::Published(data) => {
            (design::read_with(&data.join(class.file()), class.rule)?, "published".to_owned())
        }
        Source::Drawn(draw) => {
            let seed = Seed(SEED.0 + u64::from(draw));
            let points = class.generated(seed, source.first_point());
            (points, format!("generated with WSP, seed {}", seed.0))
        }
    };
    let queues = match class.rule {
        QueueRule::Intended => "queues as the paper means them",
        QueueRule::Scripts => "queues as the authors' scripts have them",
    };
    Ok(Experiment {
        name: name.to_owned(),
        about: format!("CoNEXT 2017, {} bytes, {queues}; points: {source}", class.bytes),
        workload: Workload::Download { bytes: class.bytes, until: End::LastByte },
        points,
        variants: variants(VARIANTS)?,
        usual: USUAL,
        repetitions: REPETITIONS,
        deadline: DEADLINE,
    })
}

#[cfg(test)]
mod tests {
    use crate::experiment::named;

    #[test]
    fn rows_come_in_pairs_that_swap_the_paths() {
        for (name, owd, loss) in [
            ("conext17-low-bdp-no-loss", 25.0, 0.0),
            ("conext17-low-bdp-losses", 25.0, 2.5),
            ("conext17-high-bdp-no-loss-256kb", 200.0, 0.0),
            ("conext17-high-bdp-losses-scripts", 200.0, 2.5),
        ] {
            let experiment = named(name, None).unwrap();
            assert_eq!(
                (experiment.points.len(), experiment.repetitions),
                (506, 3),
                "the median of three counts"
            );
            let points = experiment.points;
            for pair in points.chunks(2) {
                assert_eq!(pair[0].paths, pair[1].paths.iter().rev().cloned().collect::<Vec<_>>());
                for path in &pair[0].paths {
                    assert!((0.1..=100.0).contains(&path.rate_mbps) && (0.0..=owd).contains(&path.owd_ms));
                    assert!((0.0..=loss).contains(&path.loss_percent) && path.queue_packets >= 10);
                }
            }
        }
    }

    #[test]
    fn the_scripts_queues_leave_out_the_queuing_delay() {
        let points = |name| named(name, None).unwrap().points;
        let [intended, scripts] =
            ["conext17-high-bdp-losses", "conext17-high-bdp-losses-scripts"].map(points);
        let shorter = intended
            .iter()
            .zip(&scripts)
            .filter(|(a, b)| a.paths[0].queue_packets > b.paths[0].queue_packets);
        assert!(shorter.count() > 450);
        for point in &scripts {
            let path = &point.paths[0];
            let product = (path.rate_mbps * 1e6 / 8.0 * 2.0 * path.owd_ms / 1e3 / 1500.0) as usize;
            assert_eq!(path.queue_packets, product.max(10));
        }
    }
}
