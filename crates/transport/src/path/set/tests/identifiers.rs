//! Tests of path IDs, connection IDs, and the assignment of packets to paths.

use super::*;
use crate::path::{MAX_CLOSING_PATHS, Phase};

#[test]
fn a_connection_id_leads_to_its_path() {
    let set = two();
    let to = |byte| set.addressee(&cid(byte)).map(|to| (to.path, to.is_usual));
    assert_eq!(to(0), Some((ZERO, true)));
    assert_eq!(to(1), Some((ONE, false)));
    assert_eq!(to(9), None);
}

#[test]
fn a_packet_comes_as_usual_between_its_addresses_with_its_connection_id() {
    let set = two();
    assert!(set.came_as_usual_on(&tuple(1), ONE, &cid(1)));
    assert!(!set.came_as_usual_on(&tuple(0), ONE, &cid(1)));
    assert!(!set.came_as_usual_on(&tuple(1), ONE, &cid(0)));
    assert!(!set.came_as_usual_on(&tuple(1), TWO, &cid(1)));
}

#[test]
fn packets_of_unknown_paths_count_as_duplicates() {
    let set = two();
    assert!(!set.is_duplicate_on(ONE, 7));
    assert!(set.is_duplicate_on(TWO, 7));
}

#[test]
fn a_path_id_is_used_once() {
    let mut set = two();
    let multipath = set.multipath.as_mut().unwrap();
    assert!(multipath.is_used_up(ONE));
    assert_eq!(multipath.next(), Some(TWO));
    assert!(multipath.take(TWO).is_some());
    assert!(multipath.take(TWO).is_none());
    assert_eq!(multipath.next(), Some(PathId(MAX_ID)));
}

#[test]
fn an_abandoned_path_makes_room_for_one_more() {
    let mut set = two();
    let multipath = set.multipath.as_mut().unwrap();
    multipath.closed += 1;
    multipath.offer(1);
    assert_eq!(multipath.local_max, PathId(MAX_ID + 1));
    assert!(multipath.owed.max_path_id);
}

#[test]
fn paths_that_are_closing_hold_further_ones_back() {
    let mut set = two();
    let multipath = set.multipath.as_mut().unwrap();
    multipath.closed = 100;
    multipath.offer(MAX_CLOSING_PATHS + 30);
    assert_eq!(multipath.local_max, PathId(MAX_ID + 70));
    multipath.offer(MAX_CLOSING_PATHS);
    assert_eq!(multipath.local_max, PathId(MAX_ID + 100));
}

#[test]
fn the_state_of_an_abandoned_path_is_kept_for_three_probe_timeouts() {
    let mut set = two();
    change(&mut set, ONE, |path| path.phase = Phase::Abandoned { until: None });
    set.begin_retention(at(50), ONE);
    let until = at(50) + set.list.max_pto() * 3;
    assert_eq!(set.list.get(ONE).unwrap().phase, Phase::Abandoned { until: Some(until) });
    set.begin_retention(at(900), ONE);
    assert_eq!(
        set.list.get(ONE).unwrap().phase,
        Phase::Abandoned { until: Some(until) },
        "the first time counts"
    );
    set.begin_retention(at(50), ZERO);
    assert_eq!(set.list.get(ZERO).unwrap().phase, Phase::Open);
}

#[test]
fn the_last_path_is_the_one_that_is_not_abandoned() {
    let mut set = two();
    assert!(!set.is_last_path(ZERO));
    change(&mut set, ONE, |path| path.phase = Phase::Abandoned { until: None });
    assert!(set.is_last_path(ZERO));
    assert_eq!(set.closing_paths(), 1);
}

#[test]
fn frames_that_name_a_path_above_the_maximum_are_violations() {
    let set = two();
    let multipath = set.multipath.as_ref().unwrap();
    assert!(multipath.check(Side::Client, PathId(MAX_ID)).is_ok());
    assert!(multipath.check(Side::Client, PathId(MAX_ID + 1)).is_err());
}

#[test]
fn connection_ids_of_open_and_unopened_paths_are_found() {
    let mut set = two();
    for id in [ZERO, ONE, TWO, PathId(MAX_ID)] {
        assert!(set.local_cids_mut(id).is_some(), "{id:?}");
        assert!(set.remote_cids_mut(id).is_some(), "{id:?}");
    }
    assert!(set.local_cids_mut(PathId(MAX_ID + 1)).is_none());
}
