use std::cell::Cell;
use std::future::poll_fn;
use std::task::ready;

use super::*;

const TIMEOUT: Duration = Duration::from_secs(60);
const STALLED: SendProgress = SendProgress::new(1_000, 0, 0);

fn limits() -> Limits {
    Limits { stall_timeout: TIMEOUT, ..Limits::default() }
}

/// Lets a response wait for room that it never gets, while `standing` returns its progress of sending.
/// Returns the time after which the response is reset; `None` if that takes more than an hour.
async fn lasts(stall: &mut Stall, standing: impl Fn(Instant) -> Standing) -> Option<Duration> {
    let start = Instant::now();
    let wait = poll_fn(|cx| {
        ready!(stall.poll_exhausted(cx, 100, || Some(standing(start))));
        Poll::Ready(start.elapsed())
    });
    tokio::time::timeout(Duration::from_secs(3_600), wait).await.ok()
}

fn steps(start: Instant, each: u64) -> u64 {
    start.elapsed().as_secs() / each
}

#[tokio::test(start_paused = true)]
async fn a_client_that_takes_nothing_is_given_up() {
    let mut stall = Stall::new(&limits(), &StalledResponses::default());
    let lasted = lasts(&mut stall, |_| (STALLED, 7)).await.unwrap();
    assert!(lasted >= TIMEOUT && lasted <= TIMEOUT + 3 * MAX_TICK, "{lasted:?}");
    // Acknowledgments on other streams of the connection do not matter: flow control allows no more on this
    // one.
    let mut stall = Stall::new(&limits(), &StalledResponses::default());
    assert!(lasts(&mut stall, |start| (STALLED, steps(start, 1))).await.is_some());
    // A client that acknowledges nothing is reset, too.
    let mut stall = Stall::new(&limits(), &StalledResponses::default());
    let unacknowledged = SendProgress::new(1_000, 1_000, 5_000);
    assert!(lasts(&mut stall, |_| (unacknowledged, 7)).await.is_some());
}

#[tokio::test(start_paused = true)]
async fn time_in_which_other_streams_are_served_does_not_count() {
    for waiting in [
        SendProgress::new(1_000, 0, 5_000),
        SendProgress::new(1_000, 500, 0),
        SendProgress::new(1_000, 500, 1),
    ] {
        let mut stall = Stall::new(&limits(), &StalledResponses::default());
        assert_eq!(lasts(&mut stall, |start| (waiting, steps(start, 4))).await, None, "{waiting:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_slowest_progress_is_progress() {
    // The client reads one byte in 50 seconds, and only on this stream.
    let mut stall = Stall::new(&limits(), &StalledResponses::default());
    let slow = |start| (SendProgress::new(steps(start, 50), 0, 0), steps(start, 50));
    assert_eq!(lasts(&mut stall, slow).await, None);
    // Progress restarts the timeout.
    let mut stall = Stall::new(&limits(), &StalledResponses::default());
    for _ in 0..20 {
        let wait = lasts(&mut stall, |_| (STALLED, 7));
        assert!(tokio::time::timeout(TIMEOUT, wait).await.is_err());
        stall.on_progress();
    }
}

#[tokio::test(start_paused = true)]
async fn without_a_timeout_it_waits() {
    let limits = Limits { stall_timeout: Duration::ZERO, ..Limits::default() };
    let mut stall = Stall::new(&limits, &StalledResponses::default());
    assert_eq!(lasts(&mut stall, |_| (STALLED, 7)).await, None);
}

/// `max_stalled_bytes`: of responses that hold 100 bytes each, those that have been stalled for the longest
/// time are reset first.
#[tokio::test(start_paused = true)]
async fn under_pressure_the_slowest_go_first() {
    let limits = Limits { max_stalled_bytes: 250, stall_timeout: Duration::ZERO, ..Limits::default() };
    let all = StalledResponses::default();
    let mut stalls: Vec<_> = (0..5).map(|_| Stall::new(&limits, &all)).collect();
    let ended = Cell::new(Vec::new());
    let begin = Instant::now();
    let watched = poll_fn(|cx| {
        for (index, stall) in stalls.iter_mut().enumerate() {
            let mut so_far = ended.take();
            // The responses begin ten seconds apart; the second one makes progress every two seconds.
            let begun = begin.elapsed().as_secs() >= 10 * index as u64;
            let written = if index == 1 { steps(begin, 2) } else { 7 };
            let standing = || Some((SendProgress::new(written, 0, 0), 7));
            if begun && !so_far.contains(&index) && stall.poll_exhausted(cx, 100, standing).is_ready() {
                so_far.push(index);
                stall.on_progress();
            }
            ended.set(so_far);
        }
        // Wakes the task for the response that begins next.
        let waker = cx.waker().clone();
        tokio::spawn(async move {
            tokio::time::sleep(Duration::from_secs(1)).await;
            waker.wake();
        });
        assert!(all.bytes() <= 250);
        if begin.elapsed() > Duration::from_secs(200) { Poll::Ready(()) } else { Poll::Pending }
    });
    watched.await;
    assert_eq!(ended.take(), [0, 2], "of four that are stalled, two fit");
    drop(stalls);
    assert_eq!(all.bytes(), 0);
}
