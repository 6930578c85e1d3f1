use super::*;

fn at(millis: u64) -> Option<Time> {
    Some(Time::from_millis(millis))
}

#[test]
fn deadlines_come_up_in_order_and_once() {
    let mut timers = Timers::default();
    timers.arm(Handle(0), at(30));
    timers.arm(Handle(5), at(20));
    timers.arm(Handle(1), None);
    assert_eq!(timers.next(), at(20));
    assert_eq!(timers.pop(Time::from_millis(10)), None);
    assert_eq!(timers.pop(Time::from_millis(40)), Some(Handle(5)));
    assert_eq!(timers.pop(Time::from_millis(40)), Some(Handle(0)));
    assert_eq!(timers.pop(Time::from_millis(40)), None);
    assert_eq!(timers.next(), None);
}

#[test]
fn an_earlier_deadline_replaces_a_later_one_for_good() {
    let mut timers = Timers::default();
    timers.arm(Handle(0), at(30));
    timers.arm(Handle(0), at(10));
    timers.arm(Handle(0), at(20));
    assert_eq!(timers.pop(Time::from_millis(50)), Some(Handle(0)));
    assert_eq!(timers.pop(Time::from_millis(50)), None, "the entry at 30 is stale");
}

#[test]
fn moving_a_deadline_back_and_forth_adds_no_entries() {
    let mut timers = Timers::default();
    for i in 0..1_000 {
        timers.arm(Handle(0), at(100 + i));
    }
    assert_eq!(timers.heap.len(), 1);
}

#[test]
fn stale_entries_are_cleared_away() {
    let mut timers = Timers::default();
    timers.arm(Handle(1), at(5_000));
    for i in 0..1_000 {
        timers.arm(Handle(0), at(2_000 - i));
    }
    assert!(timers.heap.len() <= MAX_STALE + 4);
    assert_eq!(timers.pop(Time::from_millis(9_000)), Some(Handle(0)));
    assert_eq!(timers.pop(Time::from_millis(9_000)), Some(Handle(1)));
    assert_eq!(timers.pop(Time::from_millis(9_000)), None);
}

#[test]
fn a_reused_handle_is_not_woken_for_its_predecessor() {
    let mut timers = Timers::default();
    timers.arm(Handle(0), at(10));
    timers.disarm(Handle(0));
    timers.arm(Handle(0), at(90));
    assert_eq!(timers.pop(Time::from_millis(50)), None);
    assert_eq!(timers.pop(Time::from_millis(90)), Some(Handle(0)));
}
