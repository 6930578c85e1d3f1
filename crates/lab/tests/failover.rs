//! A path dies, and the transfer goes on over the others in time.

use anabranch_lab::failover::KillSchedule;
use anabranch_transport::recovery::Algorithm;
use anabranch_transport::{MultipathConfig, Numbering, NumberingChoice, TransportConfig};

/// With CUBIC; `anabranch-bench -- failover` counts many more, with the default controller.
#[test]
fn the_gap_is_no_longer_than_a_probe_timeout_and_a_round_trip() {
    for numbering in [Numbering::Multiple, Numbering::Single] {
        let only = NumberingChoice::Only(numbering);
        let multipath = MultipathConfig { numbering: only, ..MultipathConfig::default() };
        let mut transport = TransportConfig { multipath: Some(multipath), ..TransportConfig::default() };
        transport.recovery.congestion = Algorithm::Cubic;
        for seed in 0..72 {
            let schedule = KillSchedule::random(seed);
            let outcome = schedule.run(&transport, false).unwrap();
            let (gap, limit) = (outcome.gap, outcome.limit());
            assert!(gap <= limit, "{numbering}, seed {seed}, {schedule:?}: {gap:?} of {limit:?}");
        }
    }
}
