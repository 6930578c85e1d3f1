//! Tests of the choice of paths that may carry data, and of paths that replace others.

use super::*;
use crate::path::{PathStatus, Phase, SocketBlock};

fn ids(set: &PathSet, tried: &[PathId]) -> Vec<PathId> {
    set.candidates(tried).iter().map(|view| view.id).collect()
}

#[test]
fn available_paths_come_before_backups() {
    let mut set = two();
    assert_eq!(ids(&set, &[]), [ZERO, ONE]);
    change(&mut set, ONE, |path| path.status.peer.learn(false, 0));
    assert_eq!(ids(&set, &[]), [ZERO]);
    change(&mut set, ZERO, |path| path.is_failing = true);
    assert_eq!(ids(&set, &[]), [ONE], "a backup that works comes before a path that fails");
}

#[test]
fn paths_that_were_tried_are_left_out() {
    let set = two();
    assert_eq!(ids(&set, &[ZERO]), [ONE]);
    assert!(ids(&set, &[ZERO, ONE]).is_empty());
}

#[test]
fn a_path_with_a_full_socket_carries_nothing() {
    let mut set = two();
    assert_eq!(set.set_socket_blocked(|address| address == local(0)), SocketBlock::Some);
    assert_eq!(ids(&set, &[]), [ONE]);
    assert_eq!(set.set_socket_blocked(|_| true), SocketBlock::All);
    assert!(ids(&set, &[]).is_empty());
    assert_eq!(set.set_socket_blocked(|_| false), SocketBlock::Nothing);
    assert_eq!(ids(&set, &[]), [ZERO, ONE]);
}

#[test]
fn data_waits_for_a_full_socket_rather_than_take_a_worse_path() {
    let mut set = two();
    set.set_socket_blocked(|address| address == local(0));
    change(&mut set, ONE, |path| path.is_failing = true);
    assert_eq!(ids(&set, &[]), [ONE], "nothing would show that the other path is stuck");
    send(&mut set, Time::ZERO, ZERO);
    assert!(ids(&set, &[]).is_empty(), "a failing path");
    change(&mut set, ONE, |path| (path.is_failing, _) = (false, path.status.peer.learn(false, 0)));
    assert!(ids(&set, &[]).is_empty(), "a backup");
    set.set_socket_blocked(|_| false);
    assert_eq!(ids(&set, &[]), [ZERO]);
}

#[test]
fn an_abandoned_path_with_a_full_socket_holds_nothing_up() {
    let mut set = two();
    change(&mut set, ONE, |path| path.phase = Phase::Abandoned { until: None });
    assert_eq!(set.set_socket_blocked(|address| address == local(1)), SocketBlock::Nothing);
}

#[test]
fn a_path_at_its_amplification_limit_carries_nothing() {
    let mut set = open(Side::Server, 2, config(MultipathConfig::default()));
    change(&mut set, ONE, |path| path.address.validated = false);
    assert_eq!(ids(&set, &[]), [ZERO]);
    change(&mut set, ONE, |path| path.on_datagram_received(1_200));
    assert_eq!(ids(&set, &[]), [ZERO, ONE]);
}

#[test]
fn the_best_path_works_then_is_available_then_is_fast() {
    let mut set = measured(AckPath::Same);
    assert_eq!(set.best_path(), Some(ZERO));
    change(&mut set, ZERO, |path| path.status.peer.learn(false, 0));
    assert_eq!(set.best_path(), Some(ONE), "a backup is second to a slower path");
    change(&mut set, ONE, |path| path.is_failing = true);
    assert_eq!(set.best_path(), Some(ZERO), "a failing path is second to a backup");
}

#[test]
fn another_path_stands_in_for_a_failing_one() {
    let mut set = two();
    let stand_in = |set: &PathSet| set.stand_in(set.list.get(ZERO).unwrap());
    assert_eq!(stand_in(&set), None);
    change(&mut set, ZERO, |path| path.is_failing = true);
    assert_eq!(stand_in(&set), Some(ONE));
    change(&mut set, ONE, |path| path.is_failing = true);
    assert_eq!(stand_in(&set), None, "the other one fails as well");
}

#[test]
fn a_lone_path_has_no_siblings_and_coupled_ones_have() {
    let uncoupled = measured(AckPath::Same);
    assert!(uncoupled.siblings(ZERO).is_empty());
    let recovery = anabranch_recovery::Config::default().with_congestion(anabranch_recovery::Algorithm::Lia);
    let mut coupled = open(Side::Client, 2, config(MultipathConfig::default()).with_recovery(recovery));
    assert!(coupled.siblings(ZERO).is_empty(), "a path without a sample has no rate to be coupled with");
    measure(&mut coupled, ONE, 30);
    assert_eq!(coupled.siblings(ZERO).len(), 1);
    change(&mut coupled, ONE, |path| path.is_failing = true);
    assert!(coupled.siblings(ZERO).is_empty());
}

#[test]
fn weights_belong_to_open_paths_and_reach_the_scheduler() {
    let mut set = two();
    set.set_path_weight(ONE, 7).unwrap();
    set.set_path_weight(TWO, 7).unwrap_err(); // path 2 does not exist
    let weights: Vec<u32> = set.views().iter().map(|view| view.weight).collect();
    assert_eq!(weights, [1, 7]);
    set.multipath.as_mut().unwrap().stop_scheduling(ONE);
    assert_eq!(set.multipath.as_ref().unwrap().weight(ONE), 1);
}

#[test]
fn a_status_is_owed_when_it_changes_and_only_then() {
    let mut set = two();
    set.set_path_status(ONE, PathStatus::Backup).unwrap();
    assert!(set.list.get(ONE).unwrap().status.is_owed);
    change(&mut set, ONE, |path| path.status.is_owed = false);
    set.set_path_status(ONE, PathStatus::Backup).unwrap();
    assert!(!set.list.get(ONE).unwrap().status.is_owed);
    set.set_path_status(TWO, PathStatus::Backup).unwrap_err();
}
