//! Tests of ECN validation (RFC 9000 §13.4.2, Appendix A.4).

use super::*;
use crate::EcnState;

fn marked() -> Path {
    Path::new(&Config { ecn: true, ..plain() })
}

fn counts(ect0: u64, ect1: u64, ce: u64) -> Option<EcnCounts> {
    Some(EcnCounts { ect0, ect1, ce })
}

fn send(path: &mut Path, packets: usize) {
    (0..packets).for_each(|_| {
        path.send(at(0));
    });
}

#[test]
fn ten_packets_test_the_path_and_counts_validate_it() {
    let mut path = marked();
    send(&mut path, 9);
    assert_eq!((path.recovery.ecn_state(), path.recovery.ecn_mark()), (EcnState::Testing, true));
    send(&mut path, 1);
    assert_eq!((path.recovery.ecn_state(), path.recovery.ecn_mark()), (EcnState::Unknown, false));
    path.try_ack(at(50), DATA, &[0..=4], counts(5, 0, 0)).unwrap();
    assert_eq!((path.recovery.ecn_state(), path.recovery.ecn_mark()), (EcnState::Capable, true));
}

#[test]
fn bleaching_remarking_and_silence_fail() {
    let cases = [
        ("no counts", None),
        ("bleached", counts(4, 0, 0)),
        ("remarked to ECT(1)", counts(4, 1, 0)),
        ("more than was sent", counts(11, 0, 0)),
        ("CE beyond what was sent", counts(5, 0, 6)),
    ];
    for (what, ecn) in cases {
        let mut path = marked();
        send(&mut path, 10);
        path.try_ack(at(50), DATA, &[0..=4], ecn).unwrap();
        assert_eq!(path.recovery.ecn_state(), EcnState::Failed, "{what}");
        assert!(path.out.ecn_failed && !path.out.congestion_event && !path.recovery.ecn_mark());
    }
}

#[test]
fn shrinking_counts_fail_unless_the_acknowledgment_is_an_old_one() {
    let mut path = marked();
    send(&mut path, 10);
    path.try_ack(at(50), DATA, &[3..=5], counts(3, 0, 0)).unwrap();
    path.try_ack(at(51), DATA, &[2..=2], counts(1, 0, 0)).unwrap();
    assert_eq!(path.recovery.ecn_state(), EcnState::Capable, "reordered acknowledgments are not judged");
    path.try_ack(at(52), DATA, &[6..=6], counts(2, 0, 0)).unwrap();
    assert_eq!(path.recovery.ecn_state(), EcnState::Failed);
}

#[test]
fn marks_are_congestion_once_per_round_trip_and_cannot_be_undone() {
    let mut path = marked();
    send(&mut path, 10);
    path.try_ack(at(50), DATA, &[0..=1], counts(1, 0, 1)).unwrap();
    assert!(path.out.congestion_event);
    assert_eq!(path.recovery.window(), 6_000);
    path.try_ack(at(51), DATA, &[2..=3], counts(2, 0, 2)).unwrap();
    assert!(!path.out.congestion_event);
    assert_eq!((path.recovery.window(), path.recovery.stats().ecn_ce), (6_000, 2));
    path.try_ack(at(52), DATA, &[8..=8], counts(3, 0, 2)).unwrap();
    assert_eq!(path.lost(), [4, 5]);
    path.try_ack(at(53), DATA, &[4..=5], counts(5, 0, 2)).unwrap();
    assert_eq!((path.recovery.stats().undone_responses, path.recovery.window()), (0, 6_000));
}

#[test]
fn a_path_that_drops_marked_packets_is_found_out() {
    let mut path = marked();
    send(&mut path, 10);
    assert!(!path.recovery.ecn_mark());
    send(&mut path, 5);
    path.try_ack(at(50), DATA, &[12..=14], None).unwrap();
    assert_eq!(path.lost().len(), 12);
    assert!(path.out.ecn_failed);
    assert_eq!(path.recovery.ecn_state(), EcnState::Failed);
}

#[test]
fn probes_of_an_untested_path_go_unmarked() {
    let mut path = marked();
    send(&mut path, 1);
    assert!(path.recovery.ecn_mark());
    let due = path.recovery.poll_timeout().unwrap();
    path.timeout(due);
    assert!(!path.recovery.ecn_mark());
}

#[test]
fn spaces_count_apart_and_a_new_path_is_tested_again() {
    let mut path = marked();
    path.send_in(at(0), SpaceId::Initial, 1200);
    path.send(at(0));
    path.try_ack(at(10), SpaceId::Initial, &[0..=0], counts(1, 0, 0)).unwrap();
    path.try_ack(at(10), DATA, &[0..=0], counts(1, 0, 0)).unwrap();
    assert_eq!(path.recovery.ecn_state(), EcnState::Capable);
    path.recovery.migrate(at(20));
    assert_eq!(path.recovery.ecn_state(), EcnState::Testing);
    path.send(at(20));
    path.try_ack(at(40), DATA, &[1..=1], counts(2, 0, 0)).unwrap();
    assert_eq!(path.recovery.ecn_state(), EcnState::Capable);
}
