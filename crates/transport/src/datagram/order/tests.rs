//! Tests of the order of messages.

use super::*;

const HOLD: Duration = Duration::from_millis(100);
const NOW: Time = Time::from_millis(1_000);
const MAX: usize = 1 << 20;

fn after(millis: u64) -> Time {
    NOW + Duration::from_millis(millis)
}

/// Returns the first bytes of all messages that wait for no other one.
fn ready(order: &mut Order, now: Time) -> Vec<u8> {
    std::iter::from_fn(|| order.pop(now, MAX)).map(|message| message[0]).collect()
}

/// Adds messages that arrive on a path.
fn push(order: &mut Order, path: u32, numbers: impl IntoIterator<Item = u8>, now: Time) {
    for number in numbers {
        order.push(now, PathId(path), number.into(), vec![number].into());
    }
}

#[test]
fn messages_wait_for_earlier_ones() {
    let mut order = Order::new(HOLD);
    push(&mut order, 0, [0], NOW);
    assert_eq!(ready(&mut order, NOW), [0]);
    push(&mut order, 1, [3], NOW);
    push(&mut order, 0, [1], NOW);
    push(&mut order, 1, [4], NOW);
    assert_eq!(ready(&mut order, NOW), [1]);
    push(&mut order, 0, [2], NOW);
    assert_eq!((ready(&mut order, NOW), order.due()), (vec![2, 3, 4], None));
}

#[test]
fn a_message_waits_no_longer_than_hold_however_the_others_come() {
    let mut order = Order::new(HOLD);
    // Path 1 may still deliver all numbers below those of path 0.
    push(&mut order, 1, [0], NOW);
    assert_eq!(ready(&mut order, NOW), [0]);
    // Each one comes before the last, so that a new gap begins with each.
    for n in 0..50 {
        push(&mut order, 0, [100 - n], after(n.into()));
        push(&mut order, 1, [1], NOW);
        let _ = ready(&mut order, NOW);
    }
    assert_eq!(order.due(), Some(NOW + HOLD));
    assert_eq!(ready(&mut order, after(99)), []);
    assert_eq!(ready(&mut order, NOW + HOLD), (51..=100).collect::<Vec<u8>>());
    // Those for which the wait was in vain are passed on as they come.
    push(&mut order, 0, [7, 101], NOW + HOLD);
    assert_eq!(ready(&mut order, NOW + HOLD), [7, 101]);
    // Each gap has a wait of its own.
    push(&mut order, 0, [103], NOW + HOLD);
    push(&mut order, 1, [105], after(160));
    assert_eq!(ready(&mut order, NOW + 2 * HOLD), [103]);
    assert_eq!(order.due(), Some(after(260)));
}

#[test]
fn numbers_wrap_around() {
    let mut order = Order::new(HOLD);
    let last = u32::MAX - 1;
    order.next = last;
    for (path, number) in [(1, 1), (1, last.wrapping_add(1)), (1, 0), (0, last)] {
        order.push(NOW, PathId(path), number, vec![number.to_be_bytes()[3]].into());
    }
    assert_eq!(ready(&mut order, NOW), [254, 255, 0, 1]);
}

#[test]
fn max_bytes_wait() {
    let mut order = Order::new(HOLD);
    order.push(NOW, PathId(1), 1, vec![0; 1_000].into());
    for number in 2..=3 * MAX / 1_000 {
        order.push(NOW, PathId(0), u32::try_from(2 * number).unwrap(), vec![0; 1_000].into());
        // Path 1 may still carry all missing numbers, so nothing would be delivered.
        while order.pop(NOW, MAX).is_some() {}
        assert!(order.bytes() <= MAX);
    }
    assert!(order.bytes() > MAX - 2_000, "{}", order.bytes());
}

#[test]
fn nothing_waits_for_a_message_that_was_lost_on_the_only_path() {
    let mut order = Order::new(HOLD);
    push(&mut order, 0, [0, 1, 3, 4], NOW);
    assert_eq!(ready(&mut order, NOW), [0, 1], "number 2 may have been overtaken");
    push(&mut order, 0, [5], after(1));
    assert_eq!(ready(&mut order, after(1)), [3, 4, 5]);
}

#[test]
fn messages_wait_until_each_path_is_past_the_missing_one() {
    let mut order = Order::new(HOLD);
    push(&mut order, 1, [0], NOW);
    push(&mut order, 0, [1, 2, 4, 5, 6, 7], after(1));
    assert_eq!(ready(&mut order, after(1)), [0, 1, 2], "the other path may carry number 3");
    push(&mut order, 1, [8, 9], after(2));
    assert_eq!(ready(&mut order, after(2)), []);
    push(&mut order, 1, [11], after(3));
    assert_eq!(ready(&mut order, after(3)), [4, 5, 6, 7, 8, 9], "it was lost; 10 may come");
    // Path 1 carries nothing any more, so it stops no one.
    push(&mut order, 0, [12, 14, 15, 16], after(104));
    assert_eq!(ready(&mut order, after(104)), [11, 12, 14, 15, 16]);
    // Paths that were used long ago take no memory.
    for path in 2..1_000 {
        push(&mut order, path, [17], NOW + HOLD * path);
    }
    assert!(order.paths.len() <= 2);
}

#[test]
fn copies_show_that_their_path_may_still_deliver() {
    for has_copies in [false, true] {
        let mut order = Order::new(HOLD);
        push(&mut order, 0, [0, 1], NOW);
        assert_eq!(ready(&mut order, NOW), [0, 1]);
        if has_copies {
            order.note(after(1), PathId(1), 0);
        }
        // Number 2 is lost on path 0.
        push(&mut order, 0, [3, 4, 5], after(2));
        assert_eq!(ready(&mut order, after(2)).is_empty(), has_copies);
        order.note(after(3), PathId(1), 1);
        push(&mut order, 1, [2], after(4));
        assert_eq!(ready(&mut order, after(4)), if has_copies { &[2, 3, 4, 5][..] } else { &[2] });
    }
}
