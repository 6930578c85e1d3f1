use super::*;

fn at(millis: u64) -> Time {
    Time::ZERO + Duration::from_millis(millis)
}

fn race(candidates: usize) -> Race {
    let mut race = Race::new(at(0), candidates, RacePolicy::default());
    assert_eq!((race.next(), race.due(at(0), 0)), (Some(at(0)), Some(0)));
    race
}

#[test]
fn silence_begins_one_attempt_after_the_other() {
    let mut race = race(3);
    assert_eq!((race.due(at(249), 0), race.next()), (None, Some(at(250))));
    assert_eq!((race.due(at(250), 0), race.next()), (Some(1), Some(at(500))));
    // A late call does not begin several attempts: each one has its head start.
    assert_eq!((race.due(at(700), 0), race.next()), (Some(2), None));
    assert_eq!(race.due(at(9000), 0), None, "there is no other way");
}

#[test]
fn a_word_from_the_server_buys_time_and_silence_after_it_does_not() {
    let mut race = race(3);
    assert_eq!((race.due(at(250), 1200), race.next()), (None, Some(at(500))));
    assert_eq!((race.due(at(500), 1260), race.next()), (None, Some(at(750))));
    assert_eq!((race.due(at(750), 1260), race.next()), (Some(1), Some(at(1000))));
    assert_eq!(race.due(at(1000), 1261), None, "whoever of them was heard");
}

#[test]
fn a_failure_begins_the_next_attempt_at_once() {
    let mut race = race(4);
    race.on_failed(at(10), 0);
    assert_eq!((race.next(), race.due(at(10), 0)), (Some(at(10)), Some(1)));
    assert_eq!(race.next(), Some(at(260)));
    // Bytes that the failed attempt had received no longer count.
    assert_eq!(race.due(at(260), 5000), None);
    race.on_failed(at(300), 100);
    assert_eq!(race.due(at(300), 100), Some(2));
    assert_eq!(race.due(at(550), 101), None);
    // A failure while the next attempt is overdue does not delay it.
    race.on_failed(at(900), 101);
    assert_eq!((race.next(), race.due(at(900), 101), race.next()), (Some(at(800)), Some(3), None));
}

#[test]
fn attempts_are_bounded_and_the_delay_is_configurable() {
    let begun = |candidates, policy| {
        let mut race = Race::new(at(0), candidates, policy);
        std::iter::from_fn(|| race.next().and_then(|next| race.due(next, 0).map(|_| next))).last()
    };
    let quick = RacePolicy { delay: Duration::from_millis(10), ..RacePolicy::default() };
    assert_eq!(begun(1000, quick), Some(at(10 * (MAX_ATTEMPTS as u64 - 1))));
    assert_eq!(begun(1000, RacePolicy { max_attempts: usize::MAX, ..quick }), begun(1000, quick));
    assert_eq!(begun(1000, RacePolicy { max_attempts: 2, ..quick }), Some(at(10)));
    assert_eq!(begun(1, RacePolicy::default()), Some(at(0)));
    assert_eq!(begun(0, RacePolicy::default()), None);
}
