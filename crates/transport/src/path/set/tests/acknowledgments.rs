//! Tests of the choice of paths that carry acknowledgments.

use super::*;

fn carrier(set: &PathSet, id: PathId) -> PathId {
    set.ack_carrier(set.list.get(id).unwrap())
}

#[test]
fn each_path_carries_its_own_if_that_is_configured() {
    let set = measured(AckPath::Same);
    assert_eq!((carrier(&set, ZERO), carrier(&set, ONE)), (ZERO, ONE));
}

#[test]
fn acknowledgments_leave_where_they_arrive_soonest() {
    let set = measured(AckPath::Soonest);
    assert_eq!((carrier(&set, ZERO), carrier(&set, ONE)), (ZERO, ZERO));
}

#[test]
fn a_path_that_was_never_measured_keeps_its_own() {
    let ack = crate::AckConfig::default().with_path(AckPath::Soonest);
    let mut set = open(Side::Client, 2, config(MultipathConfig::default()).with_ack(ack));
    measure(&mut set, ZERO, 20);
    assert_eq!(carrier(&set, ONE), ONE);
}

#[test]
fn a_gain_below_one_millisecond_is_no_reason_to_change() {
    let ack = crate::AckConfig::default().with_path(AckPath::Soonest);
    let mut set = open(Side::Client, 2, config(MultipathConfig::default()).with_ack(ack));
    measure(&mut set, ZERO, 3);
    measure(&mut set, ONE, 4);
    assert_eq!(carrier(&set, ONE), ONE);
}

#[test]
fn the_fastest_path_carries_all_until_another_is_clearly_faster() {
    let mut set = measured(AckPath::Fastest);
    set.review_ack_path();
    assert_eq!((carrier(&set, ZERO), carrier(&set, ONE)), (ZERO, ZERO));
    for now in 200..260 {
        set.list.get_mut(ONE).unwrap().recovery.on_echo(at(now), at(now - 19), Duration::ZERO);
    }
    set.review_ack_path();
    assert_eq!(carrier(&set, ONE), ZERO, "19 ms are not clearly less than 20 ms");
    for now in 300..360 {
        set.list.get_mut(ONE).unwrap().recovery.on_echo(at(now), at(now - 5), Duration::ZERO);
    }
    set.review_ack_path();
    assert_eq!((carrier(&set, ZERO), carrier(&set, ONE)), (ONE, ONE));
}

#[test]
fn a_failing_path_has_its_acknowledgments_carried_elsewhere() {
    let mut set = measured(AckPath::Same);
    change(&mut set, ZERO, |path| path.is_failing = true);
    assert_eq!(carrier(&set, ZERO), ONE);
}

#[test]
fn other_paths_repeat_an_acknowledgment_if_that_is_configured() {
    for (ack, copies) in [
        (AckPath::Same, 0),
        (AckPath::Fastest, 0),
        (AckPath::All, 1),
        (AckPath::FastestAndAll, 1),
        (AckPath::FastestAndOpportunistic, 1),
    ] {
        let mut set = measured(ack);
        set.owe_ack_copies(ONE, ZERO);
        assert_eq!(set.multipath.as_ref().unwrap().held_ack_copies(), copies, "{ack:?}");
        set.owe_ack_copies(ONE, ZERO);
        assert_eq!(
            set.multipath.as_ref().unwrap().held_ack_copies(),
            copies,
            "{ack:?}: a newer one replaces it"
        );
    }
}

#[test]
fn the_way_back_is_half_of_the_path_that_the_acknowledgments_came_on() {
    let set = measured(AckPath::Same);
    assert_eq!(set.return_delay(set.list.get(ONE).unwrap()), ms(50));
}
