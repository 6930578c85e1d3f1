use super::*;

const fn at(ms: u64) -> Time {
    Time::from_millis(ms)
}

const fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

#[test]
fn the_oldest_unanswered_packet_counts() {
    let mut health = Health::new(PathId(1), at(0));
    assert_eq!(health.asked(), None);
    health.on_asked(at(10));
    health.on_asked(at(20));
    assert_eq!(health.asked(), Some(at(10)));
    health.on_heard(at(25));
    assert_eq!(health.asked(), Some(at(10)), "no acknowledgment");
    health.on_acked(at(26), Some(at(20)));
    assert_eq!(health.asked(), Some(at(20)), "the rest is still owed");
    health.on_acked(at(27), None);
    assert_eq!(health.asked(), None);
    health.on_asked(at(30));
    assert_eq!(health.asked(), Some(at(30)));
}

#[test]
fn what_left_before_a_validation_is_owed_since_the_validation() {
    let mut health = Health::new(PathId(1), at(0));
    health.on_asked(at(10));
    health.on_validated(at(2000));
    assert_eq!(health.asked(), Some(at(2000)));
    health.on_acked(at(2010), Some(at(500)));
    assert_eq!(health.asked(), Some(at(2000)), "a challenge from before is still under way");
    health.on_works_again(at(3000));
    assert_eq!(health.asked(), None);
    health.on_acked(at(3010), Some(at(2600)));
    assert_eq!(health.silent_at(ms(80)), Some(at(3080)));
}

#[test]
fn a_path_that_the_peer_uses_gets_more_time() {
    let mut health = Health::new(PathId(1), at(0));
    assert_eq!(health.silent_at(ms(80)), None);
    health.on_asked(at(100));
    assert_eq!(health.silent_at(ms(80)), Some(at(180)));
    health.on_lives(at(150));
    assert_eq!(health.silent_at(ms(80)), Some(at(180)));
    health.on_heard(at(175));
    assert_eq!(health.silent_at(ms(80)), Some(at(180)), "nothing but an acknowledgment of other paths");
    health.on_lives(at(175));
    assert_eq!(health.silent_at(ms(80)), Some(at(195)));
    health.on_lives(at(250));
    assert_eq!(health.silent_at(ms(80)), Some(at(270)));
    health.on_lives(at(295));
    assert_eq!(health.silent_at(ms(80)), Some(at(300)), "no longer than that");
    assert_eq!(health.silent_at(ms(180)), Some(at(340)));
    health.on_lives(at(200));
    assert_eq!(health.silent_at(ms(8)), Some(at(210)), "a pause between two bursts");
}

#[test]
fn a_path_that_is_as_silent_is_no_way_out() {
    // The path in question has an unacknowledged packet, sent at 10 ms, and counts as silent at 70 ms.
    let outlives = |other: &Health| other.outlives(at(10), at(70), ms(25));
    let mut other = Health::new(PathId(2), at(0));
    assert!(outlives(&other), "nothing to answer");
    other.on_asked(at(12));
    assert!(!outlives(&other), "owes an answer for as long");
    other.on_lives(at(13));
    assert!(outlives(&other), "has been heard of since");
    let mut other = Health::new(PathId(2), at(0));
    other.on_asked(at(50));
    assert!(outlives(&other), "could not have answered yet");
}

#[test]
fn a_quiet_path_is_looked_after_while_the_connection_is_in_use() {
    let mut health = Health::new(PathId(1), at(0));
    assert_eq!(health.look_after(ms(100)), at(100));
    health.on_heard(at(50));
    assert_eq!(health.look_after(ms(100)), at(150));
    assert!(health.on_looked_after(at(150), 7));
    assert_eq!(health.look_after(ms(100)), at(250));
    assert!(!health.on_looked_after(at(250), 7), "no traffic since");
    assert!(health.on_looked_after(at(350), 8));
}
