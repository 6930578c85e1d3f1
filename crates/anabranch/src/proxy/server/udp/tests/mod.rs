#[cfg(feature = "model")]
mod model;

use std::sync::atomic::{AtomicUsize, Ordering};

use super::queue::{Counter, MAX_AGE, MAX_CONTROL, MAX_CONTROL_BYTES, MAX_QUEUED};
use super::*;

/// Numbers of taken bytes and of dropped datagrams.
#[derive(Default)]
struct Counts {
    taken: AtomicUsize,
    dropped: AtomicUsize,
}

impl Counts {
    /// Returns the numbers, and sets them to zero.
    fn take_all(&self) -> (usize, usize) {
        (self.taken.swap(0, Ordering::Relaxed), self.dropped.swap(0, Ordering::Relaxed))
    }
}

impl Counter for Arc<Counts> {
    fn taken(&self, len: usize) {
        self.taken.fetch_add(len, Ordering::Relaxed);
    }

    fn dropped(&self) {
        self.dropped.fetch_add(1, Ordering::Relaxed);
    }
}

fn queue(max_age: Duration) -> (Queue, Arc<Counts>) {
    let counts = Arc::new(Counts::default());
    (Queue::new(max_age, Arc::clone(&counts)), counts)
}

fn push(queue: &Queue, len: usize) {
    queue.push(&vec![0; 1 + len], len);
}

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
    let (queue, counts) = queue(MAX_AGE);
    for _ in 0..10_000 {
        push(&queue, 1);
        assert!(queue.bytes() <= MAX_QUEUED);
    }
    let (taken, lost) = counts.take_all();
    assert!(taken == 0 && lost > 0, "what is dropped does not count as received");
    assert_eq!(drain(&queue).len() + lost, 10_000);
    assert_eq!((queue.bytes(), counts.take_all()), (0, (10_000 - lost, 0)));

    for (after, len) in [(0, 9), (100, 19), (500, 29)] {
        tokio::time::advance(Duration::from_millis(after)).await;
        push(&queue, len);
    }
    assert_eq!(counts.take_all(), (0, 1), "the first one is older than {MAX_AGE:?}");
    assert_eq!((drain(&queue), counts.take_all()), (vec![22, 32], (19 + 29, 0)));
    push(&queue, 9);
    tokio::time::advance(2 * MAX_AGE).await;
    assert_eq!((drain(&queue), counts.take_all()), (vec![], (0, 1)), "nobody read it in time");
    // The largest datagram may wait.
    push(&queue, 65_527);
    assert_eq!((drain(&queue), counts.take_all()), (vec![65_528 + 5], (65_527, 0)));
}

#[tokio::test(start_paused = true)]
async fn the_deadline_of_a_flow_is_the_maximum_age_of_its_capsules() {
    for deadline in [MAX_AGE / 10, 10 * MAX_AGE] {
        let (queue, counts) = queue(deadline);
        push(&queue, 9);
        tokio::time::advance(deadline).await;
        assert_eq!((drain(&queue), counts.take_all()), (vec![12], (9, 0)));
        push(&queue, 9);
        tokio::time::advance(deadline + Duration::from_millis(1)).await;
        assert_eq!((drain(&queue), counts.take_all()), (vec![], (0, 1)));
    }
}

#[tokio::test(start_paused = true)]
async fn at_most_max_control_capsules_wait_and_none_is_dropped() {
    let (queue, counts) = queue(MAX_AGE);
    for n in 0..MAX_CONTROL + 3 {
        assert_eq!(queue.push_control(vec![0; 100 + n]), n < MAX_CONTROL);
    }
    push(&queue, 9);
    tokio::time::advance(MAX_AGE).await;
    let mut lens = drain(&queue);
    assert_eq!(lens.pop(), Some(12), "datagrams wait for capsules that must arrive");
    assert_eq!(lens, (100..100 + MAX_CONTROL).collect::<Vec<_>>());
    assert_eq!(counts.take_all(), (9, 0));
    // Large capsules are bounded by their size.
    for _ in 0..2 {
        assert!(queue.push_control(vec![0; MAX_CONTROL_BYTES / 2]));
        assert!(queue.push_control(vec![0; MAX_CONTROL_BYTES / 2]));
        assert!(!queue.push_control(vec![0]));
        assert_eq!(drain(&queue), [MAX_CONTROL_BYTES / 2; 2]);
    }
}
