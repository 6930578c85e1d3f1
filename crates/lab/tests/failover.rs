//! If a path fails, the transfer continues over the others within the time limit.

use anabranch_lab::failover::KillSchedule;
use anabranch_transport::recovery::{Algorithm, Config};
use anabranch_transport::{MultipathConfig, Numbering, TransportConfig};

/// `anabranch-bench -- failover` runs many more schedules.
#[test]
fn the_gap_is_no_longer_than_a_probe_timeout_and_a_round_trip() {
    let numberings = [Numbering::Multiple, Numbering::Single];
    let settings = numberings.into_iter().flat_map(|one| [(one, Algorithm::Cubic), (one, Algorithm::Bbr)]);
    for (numbering, congestion) in settings {
        let transport = TransportConfig::default()
            .with_multipath(MultipathConfig::default().with_numbering(numbering))
            .with_recovery(Config::default().with_congestion(congestion));
        for seed in 0..72 {
            let schedule = KillSchedule::random(seed);
            let outcome = schedule.run(&transport, false).unwrap();
            let (gap, limit) = (outcome.gap, outcome.limit());
            assert!(
                gap <= limit,
                "{numbering}, {congestion}, seed {seed}, {schedule:?}: {gap:?} of {limit:?}"
            );
        }
    }
}
