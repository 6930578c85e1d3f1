//! Tests of the order of payloads.

use super::*;

const HOLD: Duration = Duration::from_millis(100);

fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// Returns the first bytes of all payloads that wait for no other one.
fn ready(order: &Order, now: Instant) -> Vec<u8> {
    std::iter::from_fn(|| order.pop(now)).map(|payload| payload[0]).collect()
}

fn push(order: &Order, number: u8, now: Instant) {
    order.push(number.into(), vec![number].into(), now);
}

#[tokio::test]
async fn payloads_wait_for_earlier_ones() {
    let (order, now) = (Order::new(HOLD), Instant::now());
    push(&order, 0, now);
    assert_eq!(ready(&order, now), [0]);
    push(&order, 3, now);
    push(&order, 1, now);
    push(&order, 4, now);
    assert_eq!(ready(&order, now), [1]);
    push(&order, 2, now);
    assert_eq!((ready(&order, now), order.due()), (vec![2, 3, 4], None));
}

#[tokio::test]
async fn a_payload_waits_no_longer_than_hold_however_the_others_come() {
    let (order, begin) = (Order::new(HOLD), Instant::now());
    // Each one comes before the last, so that a new gap begins with each.
    for n in 0..50 {
        push(&order, 100 - n, begin + millis(u64::from(n)));
    }
    assert_eq!(order.due(), Some(begin + HOLD));
    assert_eq!(ready(&order, begin + millis(99)), []);
    assert_eq!(ready(&order, begin + HOLD), (51..=100).collect::<Vec<u8>>());
    // Those for which the wait was in vain are passed on as they come.
    push(&order, 7, begin + HOLD);
    push(&order, 101, begin + HOLD);
    assert_eq!(ready(&order, begin + HOLD), [7, 101]);
    // Each gap has a wait of its own.
    push(&order, 103, begin + HOLD);
    push(&order, 105, begin + HOLD + millis(60));
    assert_eq!(ready(&order, begin + 2 * HOLD), [103]);
    assert_eq!(order.due(), Some(begin + 2 * HOLD + millis(60)));
}

#[tokio::test]
async fn numbers_wrap_around() {
    let (order, now) = (Order::new(HOLD), Instant::now());
    let last = u32::MAX - 1;
    lock(&order.waiting).next = last;
    for number in [1, last.wrapping_add(1), 0, last] {
        order.push(number, vec![number.to_be_bytes()[3]].into(), now);
    }
    assert_eq!(ready(&order, now), [254, 255, 0, 1]);
}

#[tokio::test]
async fn max_held_bytes_wait() {
    let (order, now) = (Order::new(HOLD), Instant::now());
    for number in 1..=3 * MAX_HELD / 1_000 {
        order.push(u32::try_from(number).unwrap(), vec![0; 1_000].into(), now);
        // Without number 0, all but the newest ones would wait.
        while order.pop(now).is_some() {}
        assert!(lock(&order.waiting).bytes <= MAX_HELD);
    }
    assert!(lock(&order.waiting).bytes <= MAX_HELD);
    assert!(HELD_IN_ALL.load(Ordering::Relaxed) <= MAX_HELD_IN_ALL);
}
