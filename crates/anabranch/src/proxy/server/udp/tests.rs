use std::sync::atomic::{AtomicUsize, Ordering};

use super::queue::{MAX_AGE, MAX_CONTROL, MAX_QUEUED};
use super::*;

fn drain(queue: &Queue) -> Vec<usize> {
    let cx = std::task::Context::from_waker(std::task::Waker::noop());
    let mut lens = Vec::new();
    while let std::task::Poll::Ready(Some(capsule)) = queue.poll_pop(&cx) {
        lens.push(capsule.len());
    }
    lens
}

#[tokio::test(start_paused = true)]
async fn capsules_that_wait_are_bounded_and_young() {
    let dropped = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&dropped);
    let queue = Queue::new(move || _ = counter.fetch_add(1, Ordering::Relaxed));
    let dropped = || dropped.swap(0, Ordering::Relaxed);
    for _ in 0..10_000 {
        queue.push(&[0]);
        assert!(queue.bytes() <= MAX_QUEUED);
    }
    let lost = dropped();
    assert!(lost > 0);
    assert_eq!(drain(&queue).len() + lost, 10_000);
    assert_eq!(queue.bytes(), 0);

    for (after, len) in [(0, 10), (100, 20), (500, 30)] {
        tokio::time::advance(Duration::from_millis(after)).await;
        queue.push(&vec![0; len]);
    }
    assert_eq!(dropped(), 1, "the first one is older than {MAX_AGE:?}");
    assert_eq!(drain(&queue), [22, 32]);
    queue.push(&[0; 10]);
    tokio::time::advance(2 * MAX_AGE).await;
    assert_eq!((drain(&queue), dropped()), (vec![], 1), "nobody read it in time");
    // The largest datagram may wait.
    queue.push(&vec![0; 65_528]);
    assert_eq!((drain(&queue), dropped()), (vec![65_528 + 5], 0));
}

#[tokio::test(start_paused = true)]
async fn at_most_max_control_capsules_wait_and_none_is_dropped() {
    let queue = Queue::new(|| panic!("nothing is dropped"));
    for n in 0..MAX_CONTROL + 3 {
        assert_eq!(queue.push_control(vec![0; 100 + n]), n < MAX_CONTROL);
    }
    queue.push(&[0; 10]);
    tokio::time::advance(MAX_AGE).await;
    let mut lens = drain(&queue);
    assert_eq!(lens.pop(), Some(12), "datagrams wait for capsules that must arrive");
    assert_eq!(lens, (100..100 + MAX_CONTROL).collect::<Vec<_>>());
}
