//! Amount of data that a path carries after an outage.
#![expect(clippy::unwrap_used, reason = "a test fails where it fails")]

use core::ops::Range;
use core::time::Duration;

use anabranch_lab::app::{Dial, DownloadClient, DownloadServer, PathOpener};
use anabranch_lab::link::LinkSpec;
use anabranch_lab::pair::{Pair, PairConfig};
use anabranch_lab::sim::Simulation;
use anabranch_lab::transfer::further_tuple;
use anabranch_transport::MultipathConfig;
use anabranch_transport::recovery::Algorithm;
use anabranch_wire::Time;

const OUTAGE: Range<Time> = Time::from_millis(1_000)..Time::from_millis(2_000);
/// Bits per second of the path that fails.
const RATE: u64 = 30_000_000;

/// Returns the rate at which the failing link carries data to the client after the outage, as a share of
/// [`RATE`]. The rate is measured for half a second, beginning one second after the outage. With two paths,
/// the first link has 10 Mbit/s and never fails.
fn share_after_return(paths: usize, algorithm: Algorithm, loss: f64, seed: u64) -> f64 {
    let victim = LinkSpec::new(RATE, Duration::from_millis(60)).loss(loss).blackout(OUTAGE);
    let mut links = vec![LinkSpec::new(10_000_000, Duration::from_millis(20)), victim];
    links.drain(..2 - paths);
    let mut config = PairConfig::new(seed, links);
    let recovery = config.server.recovery().clone().with_congestion(algorithm);
    config.client = config.client.with_multipath(MultipathConfig::default());
    config.server = config.server.with_multipath(MultipathConfig::default()).with_recovery(recovery);
    let others = (1..paths).map(|link| further_tuple(link as u8));
    let client = |_: &Simulation, client, tuple| {
        DownloadClient::new(Dial::new(client, tuple).with_paths(PathOpener::new(others)), &[40_000_000])
    };
    let mut pair = Pair::new(&config, client, DownloadServer::default(), |_| ()).unwrap();
    let mut carried = |until: Time| {
        pair.sim.run(until, |_| false);
        pair.sim.network().counters(pair.links[paths - 1])[1].delivered_bytes
    };
    let begin = OUTAGE.end + Duration::from_secs(1);
    let before = carried(begin);
    let bytes = carried(begin + Duration::from_millis(500)) - before;
    bytes as f64 * 8.0 * 2.0 / RATE as f64
}

#[test]
fn a_path_that_loses_one_percent_is_in_full_use_a_second_after_its_return() {
    for algorithm in [Algorithm::Bbr, Algorithm::Bbr1] {
        let shares: Vec<_> = (0..8).map(|seed| share_after_return(2, algorithm, 0.01, seed)).collect();
        assert!(shares.iter().all(|share| *share >= 0.8), "{algorithm}: {shares:.2?}");
    }
}

#[test]
fn every_controller_is_back_a_second_after_the_path_is() {
    for name in Algorithm::NAMES {
        let algorithm: Algorithm = name.parse().unwrap();
        // BALIA reduces a slower path's window by up to three quarters at a loss and then grows slowly, with
        // or without an outage (docs/congestion.md).
        let least = if algorithm == Algorithm::Balia { 0.5 } else { 0.8 };
        for seed in 0..2 {
            let share = share_after_return(2, algorithm, 0.0, seed);
            assert!(share >= least, "{algorithm}, seed {seed}: {share:.2}");
        }
    }
}
