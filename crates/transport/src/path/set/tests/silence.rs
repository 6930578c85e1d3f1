//! Tests of silent paths: detection, failure, return to use, and abandonment.

use super::*;
use crate::path::{Attention, PathState, PathStatus, Phase, Status};

/// Reports that packets of a path were acknowledged on the path itself.
fn acknowledge(set: &mut PathSet, now: Time, id: PathId) {
    set.on_path_acked(now, id, id);
}

fn silent_at(set: &PathSet, id: PathId) -> Option<Time> {
    set.silent_at(set.list.get(id).unwrap())
}

#[test]
fn a_path_that_owes_nothing_is_never_silent() {
    let set = measured(AckPath::Same);
    assert_eq!(silent_at(&set, ZERO), None);
    assert_eq!(set.health_timeout().filter(|time| *time < at(1_000)), None);
}

#[test]
fn a_path_is_silent_a_probe_timeout_after_its_oldest_packet() {
    let mut set = measured(AckPath::Same);
    set.on_path_heard(at(100), ONE);
    send(&mut set, at(200), ZERO);
    send(&mut set, at(210), ZERO);
    let pto = set.list.get(ZERO).unwrap().recovery.pto(SpaceId::Data);
    assert_eq!(silent_at(&set, ZERO), Some(at(200) + pto));
    assert_eq!(set.health_timeout(), Some(at(200) + pto));
}

#[test]
fn without_another_path_that_works_there_is_no_silence() {
    let mut set = measured(AckPath::Same);
    send(&mut set, at(200), ZERO);
    change(&mut set, ONE, |path| path.is_failing = true);
    assert_eq!(silent_at(&set, ZERO), None);
}

#[test]
fn packets_of_the_peer_put_silence_off_and_not_for_ever() {
    let mut set = measured(AckPath::Same);
    send(&mut set, at(200), ZERO);
    let pto = set.list.get(ZERO).unwrap().recovery.pto(SpaceId::Data);
    set.on_path_lives(at(200) + pto, ZERO);
    let later = silent_at(&set, ZERO).unwrap();
    assert!(later > at(200) + pto, "{later:?}");
    set.on_path_lives(at(10_000), ZERO);
    assert!(silent_at(&set, ZERO).unwrap() <= at(200) + pto + pto.max(ms(120)));
}

#[test]
fn two_paths_that_are_silent_for_as_long_accuse_the_peer() {
    let mut set = measured(AckPath::Same);
    for id in [ZERO, ONE] {
        set.on_path_lives(at(100), id);
        send(&mut set, at(200), id);
    }
    assert_eq!(silent_at(&set, ONE), None);
    assert!(silent_at(&set, ZERO).is_some(), "the other path was asked less than its round trip before");
    set.on_path_lives(at(300), ZERO);
    assert!(silent_at(&set, ONE).is_some(), "the other path has been heard of since");
}

#[test]
fn an_acknowledgment_on_the_path_itself_ends_its_failing() {
    let mut set = measured(AckPath::Same);
    send(&mut set, at(200), ZERO);
    change(&mut set, ZERO, |path| path.is_failing = true);
    set.on_path_acked(at(300), ZERO, ONE);
    assert!(set.list.get(ZERO).unwrap().is_failing, "it took the other way back");
    acknowledge(&mut set, at(310), ZERO);
    assert!(!set.list.get(ZERO).unwrap().is_failing);
}

#[test]
fn a_failing_path_is_a_backup_for_the_peer_unless_that_is_switched_off() {
    for signalling in [true, false] {
        let multipath = MultipathConfig::default().with_path_signalling(signalling);
        let mut set = open(Side::Client, 2, config(multipath));
        change(&mut set, ZERO, |path| path.is_failing = true);
        set.review_status(ZERO);
        assert_eq!(set.list.get(ZERO).unwrap().status.local.available, !signalling);
        assert_eq!(set.list.get(ZERO).unwrap().status.is_owed, signalling);
    }
}

#[test]
fn what_the_application_wants_outlives_a_failure() {
    let mut set = two();
    set.set_path_status(ZERO, PathStatus::Backup).unwrap();
    change(&mut set, ZERO, |path| path.is_failing = true);
    set.review_status(ZERO);
    acknowledge(&mut set, at(400), ZERO);
    assert!(!set.list.get(ZERO).unwrap().status.local.available);
}

#[test]
fn a_failing_path_is_abandoned_after_the_idle_timeout_of_paths() {
    let multipath = MultipathConfig::default().with_path_idle_timeout(Some(ms(3_000)));
    let mut set = open(Side::Client, 2, config(multipath));
    change(&mut set, ZERO, |path| path.is_failing = true);
    set.multipath.as_mut().unwrap().health_mut(ZERO, at(0)).on_failing(at(500));
    let (time, what) = set.attention(set.list.get(ZERO).unwrap()).unwrap();
    assert_eq!(time, at(500));
    assert!(matches!(what, Attention::Probe));
    change(&mut set, ZERO, |path| path.probe(at(500)));
    let (time, what) = set.attention(set.list.get(ZERO).unwrap()).unwrap();
    assert_eq!(time, at(3_500));
    assert!(matches!(what, Attention::GiveUp));
    change(&mut set, ONE, |path| path.is_failing = true);
    assert!(set.attention(set.list.get(ZERO).unwrap()).is_none(), "no other path works");
}

#[test]
fn states_follow_phase_and_health() {
    let mut set = two();
    let state = |set: &PathSet| set.path_state(set.list.get(ONE).unwrap());
    assert_eq!(state(&set), PathState::Open);
    change(&mut set, ONE, |path| path.status.peer.learn(false, 0));
    assert_eq!(state(&set), PathState::Backup);
    change(&mut set, ONE, |path| path.status.peer = Status::new());
    change(&mut set, ONE, |path| path.is_failing = true);
    assert_eq!(state(&set), PathState::Failing);
    change(&mut set, ONE, |path| path.phase = Phase::Opening);
    assert_eq!(state(&set), PathState::Opening);
    change(&mut set, ONE, |path| path.phase = Phase::Abandoned { until: None });
    assert_eq!(state(&set), PathState::Abandoned);
}
