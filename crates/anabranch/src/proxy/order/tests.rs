//! Tests of the order of payloads.

use super::*;

const HOLD: Duration = Duration::from_millis(100);

fn push(order: &Order, now: Instant, path: u32, number: u32, len: usize) {
    order.push(now, PathId(path), number, vec![u8::try_from(number & 0xff).unwrap(); len].into());
}

/// Lock of the tests, because all flows of a process share [`HELD_IN_ALL`].
static ALONE: Mutex<()> = Mutex::new(());

#[tokio::test]
async fn payloads_wait_for_earlier_ones_until_they_are_due() {
    let _alone = lock(&ALONE);
    let (order, now) = (Order::new(HOLD), Instant::now());
    push(&order, now, 0, 0, 1);
    push(&order, now, 0, 2, 1);
    assert_eq!(order.pop(now).unwrap()[0], 0);
    assert_eq!(order.pop(now), None);
    let due = order.due().unwrap();
    assert!(due >= now + HOLD - Duration::from_micros(1) && due <= now + HOLD, "{:?}", due - now);
    assert_eq!(order.pop(due).unwrap()[0], 2);
    assert_eq!((order.pop(due), order.due()), (None, None));
}

#[tokio::test]
async fn max_held_and_max_held_in_all_bytes_wait() {
    let _alone = lock(&ALONE);
    let (order, now) = (Order::new(HOLD), Instant::now());
    push(&order, now, 1, 1, 1_000);
    for number in 2..=3 * MAX_HELD / 1_000 {
        push(&order, now, 0, u32::try_from(2 * number).unwrap(), 1_000);
        // Path 1 may still carry all missing numbers, so nothing would be delivered.
        while order.pop(now).is_some() {}
        assert!(lock(&order.waiting).order.bytes() <= MAX_HELD);
    }
    let counted = lock(&order.waiting).counted;
    assert!(counted > MAX_HELD - 2_000, "{counted}");
    assert!(HELD_IN_ALL.load(Ordering::Relaxed) >= counted);
    // While all flows together hold too much, none waits. No other test of this process holds much.
    assert_eq!(order.pop(now), None);
    HELD_IN_ALL.fetch_add(MAX_HELD_IN_ALL, Ordering::Relaxed);
    let popped = order.pop(now);
    HELD_IN_ALL.fetch_sub(MAX_HELD_IN_ALL, Ordering::Relaxed);
    assert_eq!(popped.unwrap().len(), 1_000);
    // The flow's end frees its share.
    drop(order);
    assert!(HELD_IN_ALL.load(Ordering::Relaxed) < counted);
}
