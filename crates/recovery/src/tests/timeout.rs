//! Tests of probe timeouts (RFC 9002 §6.2, Appendix A.8).

use super::*;
use crate::{Expired, Permit};

#[test]
fn backoff_doubles_and_an_acknowledgment_ends_it() {
    let mut path = Path::new(&plain());
    path.send(at(0));
    path.ack(at(100), &[0..=0]);
    assert_eq!(path.recovery.poll_timeout(), None, "nothing under way");
    path.send(at(200));
    // smoothed 100 + 4·50 + max_ack_delay 25
    assert_eq!(path.recovery.pto(DATA), ms(325));
    assert_eq!(path.recovery.poll_timeout(), Some(at(525)));
    assert_eq!(path.timeout(at(524)), None);
    assert_eq!(path.timeout(at(525)), Some(Expired::Pto { space: DATA }));
    assert_eq!((path.recovery.pto_count(), path.recovery.probes(DATA)), (1, 1));
    assert_eq!(path.recovery.poll_timeout(), Some(at(200 + 650)));
    path.send(at(525));
    assert_eq!(path.recovery.probes(DATA), 0, "an ack-eliciting packet answers a probe");
    assert_eq!(path.recovery.poll_timeout(), Some(at(525 + 650)));
    assert_eq!(path.timeout(at(1175)), Some(Expired::Pto { space: DATA }));
    assert_eq!((path.recovery.pto_count(), path.recovery.probes(DATA)), (2, 2));
    path.ack(at(1200), &[1..=2]);
    assert_eq!((path.recovery.pto_count(), path.recovery.probes(DATA)), (0, 0));
    assert_eq!(path.recovery.window(), 12_000 + 3600, "a timeout is no congestion");
}

#[test]
fn probes_leave_although_the_window_is_full() {
    let mut path = Path::new(&plain());
    (0..10).for_each(|_| {
        path.send(at(0));
    });
    let due = path.recovery.poll_timeout().unwrap();
    path.timeout(due);
    assert_eq!((path.recovery.permit(due), path.recovery.probes(DATA)), (Permit::Window, 2));
    path.send(due);
    path.send(due);
    assert_eq!((path.recovery.probes(DATA), path.recovery.bytes_in_flight()), (0, 12 * 1200));
    let oldest: Vec<_> = path.recovery.unacked(DATA).map(|sent| sent.owed).take(3).collect();
    assert_eq!(oldest, [0, 1, 2]);
}

#[test]
fn the_earliest_space_is_probed_and_data_waits_for_confirmation() {
    let mut path = Path::new(&plain());
    path.recovery.set_progress(Progress { peer_validated_address: true, ..Progress::default() });
    path.send(at(0));
    assert_eq!(path.recovery.poll_timeout(), None, "application data is not probed yet");
    path.send_in(at(10), SpaceId::Handshake, 1200);
    path.send_in(at(20), SpaceId::Initial, 1200);
    let due = at(10) + path.recovery.pto(SpaceId::Handshake);
    assert_eq!(path.recovery.poll_timeout(), Some(due));
    assert_eq!(path.timeout(due), Some(Expired::Pto { space: SpaceId::Handshake }));
    // RFC 9002 §6.2.4: packets of the other spaces may be coalesced with the probe.
    let probes = SpaceId::ALL.map(|space| path.recovery.probes(space));
    assert_eq!(probes, [1, 1, 1]);
    path.recovery.discard_space(SpaceId::Initial);
    path.recovery.discard_space(SpaceId::Handshake);
    assert_eq!((path.recovery.pto_count(), path.recovery.poll_timeout()), (0, None));
    path.recovery.set_progress(CONFIRMED);
    assert_eq!(path.recovery.poll_timeout(), Some(at(0) + path.recovery.pto(DATA)));
}

#[test]
fn a_client_probes_until_the_server_has_validated_it() {
    let mut path = Path::new(&plain());
    path.recovery.set_progress(Progress::default());
    path.send_in(at(0), SpaceId::Initial, 1200);
    path.try_ack(at(100), SpaceId::Initial, &[0..=0], None).unwrap();
    // Nothing is in flight, but the server may be at its anti-amplification limit (RFC 9002 §6.2.2.1).
    assert_eq!(path.recovery.poll_timeout(), Some(at(100 + 300)));
    assert_eq!(path.timeout(at(400)), Some(Expired::Pto { space: SpaceId::Initial }));
    assert_eq!(path.recovery.probes(SpaceId::Initial), 1);
    path.recovery.set_progress(Progress { has_handshake_keys: true, ..Progress::default() });
    let due = path.recovery.poll_timeout().unwrap();
    assert_eq!(due, at(400 + 600), "backed off, from the last event");
    assert_eq!(path.timeout(due), Some(Expired::Pto { space: SpaceId::Handshake }));
    path.recovery.set_progress(CONFIRMED);
    assert_eq!(path.recovery.poll_timeout(), None);
}

#[test]
fn a_client_in_doubt_keeps_its_backoff() {
    let mut path = Path::new(&plain());
    path.recovery.set_progress(Progress::default());
    path.send_in(at(0), SpaceId::Initial, 1200);
    let due = path.recovery.poll_timeout().unwrap();
    path.timeout(due);
    path.try_ack(due + ms(1), SpaceId::Initial, &[0..=0], None).unwrap();
    assert_eq!(path.recovery.pto_count(), 1);
}

#[test]
fn the_amplification_limit_stops_the_timer() {
    let mut path = Path::new(&plain());
    path.send_in(at(0), SpaceId::Initial, 1200);
    path.recovery.amplification_blocked(true);
    assert_eq!(path.recovery.poll_timeout(), None);
    assert_eq!(path.timeout(at(99_999)), None);
    path.recovery.amplification_blocked(false);
    assert_eq!(path.timeout(at(99_999)), Some(Expired::Pto { space: SpaceId::Initial }));
}

#[test]
fn the_probe_timeout_waits_behind_the_loss_timer() {
    let mut path = Path::new(&plain());
    path.send(at(0));
    path.send(at(0));
    path.ack(at(80), &[1..=1]);
    assert_eq!(path.recovery.poll_timeout(), Some(at(90)));
    assert_eq!(path.timeout(at(90)), Some(Expired::Loss));
    assert_eq!((path.lost(), path.recovery.pto_count()), (vec![0], 0));
    assert_eq!(path.recovery.poll_timeout(), None);
}

#[test]
fn silence_does_not_overflow_the_timer() {
    let mut path = Path::new(&plain());
    path.send(at(0));
    let mut last = Time::ZERO;
    for _ in 0..100 {
        let due = path.recovery.poll_timeout().unwrap();
        assert!(due > last);
        path.timeout(due);
        path.send(due);
        last = due;
    }
    assert_eq!(path.recovery.stats().ptos, 100);
}

#[test]
fn an_answered_challenge_measures_the_path_before_any_acknowledgment() {
    let mut path = Path::new(&plain());
    assert!(!path.recovery.rtt().has_sample());
    path.recovery.on_round_trip(at(40), ms(40));
    assert_eq!((path.recovery.rtt().smoothed(), path.recovery.rtt().min()), (ms(40), ms(40)));
    // smoothed 40 + 4·20 + max_ack_delay 25
    assert_eq!(path.recovery.pto(DATA), ms(145));
    // The path has become slower: 7/8·40 + 1/8·200, and 3/4·20 + 1/4·160.
    path.recovery.on_round_trip(at(300), ms(200));
    assert_eq!((path.recovery.rtt().smoothed(), path.recovery.rtt().variance()), (ms(60), ms(55)));
}

#[test]
fn a_path_that_is_back_after_an_outage_starts_as_a_new_one() {
    for name in Algorithm::NAMES {
        let mut config = plain();
        config.congestion = name.parse().unwrap();
        let mut path = Path::new(&config);
        let initial = path.recovery.window();
        path.send(at(0));
        path.ack(at(100), &[0..=0]);
        (0..20).for_each(|n| _ = path.send(at(200 + n)));
        assert_eq!(path.recovery.outage(), ms(975), "three times 100 + 4·50 + 25 ms");
        let probe = path.send(at(3_000));
        path.recovery.resume(at(3_100));
        assert_eq!((path.recovery.bytes_in_flight(), path.recovery.window()), (0, initial), "{name}");
        // The losses of the outage are declared, but do not indicate congestion.
        path.ack(at(3_100), &[probe..=probe]);
        assert_eq!(path.lost().len(), 20, "{name}");
        assert!(!path.out.congestion_event && !path.out.persistent, "{name}");
        assert!(path.recovery.window() >= initial, "{name}");
    }
}

#[test]
fn a_loss_timer_keeps_an_earlier_probe_timeout_away() {
    let mut path = Path::new(&plain());
    path.send_in(at(0), SpaceId::Handshake, 1200);
    assert!(path.recovery.poll_timeout().unwrap() < at(1_000));
    path.send(at(1_000));
    path.send(at(1_000));
    path.ack(at(1_020), &[1..=1]);
    // 9/8 of 20 ms (RFC 9002 §6.1.2).
    let due = at(1_000) + Duration::from_micros(22_500);
    assert_eq!(path.recovery.poll_timeout(), Some(due));
    assert_eq!(path.timeout(due), Some(Expired::Loss));
    assert_eq!(path.lost(), [0]);
}

#[test]
fn a_discarded_space_has_no_loss_timer() {
    let mut path = Path::new(&plain());
    path.send_in(at(0), SpaceId::Initial, 1200);
    path.send_in(at(0), SpaceId::Initial, 1200);
    path.try_ack(at(80), SpaceId::Initial, &[1..=1], None).unwrap();
    assert_eq!(path.recovery.poll_timeout(), Some(at(90)));
    path.recovery.discard_space(SpaceId::Initial);
    assert_eq!(path.recovery.poll_timeout(), None);
}
