use std::future::poll_fn;

use super::*;

fn pace() -> Pace {
    let limits = Limits { min_rate: 1_000, grace: Duration::from_secs(10), ..Limits::default() };
    Pace::new(&limits).unwrap()
}

async fn exhausted(pace: &mut Pace) -> Duration {
    let start = Instant::now();
    poll_fn(|cx| pace.poll_exhausted(cx, || 0)).await;
    start.elapsed()
}

/// Waits for `seconds`; then the client sends `bytes`.
async fn step(pace: &mut Pace, seconds: u64, bytes: usize) {
    let wait = Duration::from_secs(seconds);
    assert!(tokio::time::timeout(wait, exhausted(pace)).await.is_err(), "no patience for {seconds} s");
    pace.on_progress(bytes);
}

#[tokio::test(start_paused = true)]
async fn silence_is_borne_for_the_grace() {
    let waited = exhausted(&mut pace()).await;
    assert!((10_000..10_010).contains(&waited.as_millis()), "{waited:?}");
}

#[tokio::test(start_paused = true)]
async fn who_keeps_the_rate_may_go_on_forever() {
    let mut pace = pace();
    for _ in 0..1_000 {
        step(&mut pace, 2, 2_000).await;
    }
}

#[tokio::test(start_paused = true)]
async fn who_is_below_the_rate_uses_the_grace_up() {
    let mut pace = pace();
    for _ in 0..8 {
        step(&mut pace, 2, 1_000).await;
    }
    let waited = exhausted(&mut pace).await;
    assert!((2_000..2_010).contains(&waited.as_millis()), "{waited:?}");
}

#[tokio::test(start_paused = true)]
async fn haste_earns_no_more_than_the_grace() {
    let mut pace = pace();
    pace.on_progress(1_000_000_000);
    let waited = exhausted(&mut pace).await;
    assert!((10_000..10_010).contains(&waited.as_millis()), "{waited:?}");
}

/// Bytes that arrive on other streams of the connection count towards the minimum rate of every request.
#[tokio::test(start_paused = true)]
async fn what_the_connection_brings_counts_for_every_request() {
    let mut pace = pace();
    let start = Instant::now();
    // Twice the minimum rate for a minute, all of it on another stream.
    let received = || start.elapsed().as_secs().min(60) * 2_000;
    poll_fn(|cx| pace.poll_exhausted(cx, received)).await;
    let waited = start.elapsed().as_secs();
    assert!((60..=80).contains(&waited), "{waited} s");
}

/// The bytes of a request must not count twice, as its own and as the connection's.
#[tokio::test(start_paused = true)]
async fn a_request_earns_its_own_bytes_once() {
    let mut pace = pace();
    let start = Instant::now();
    let mut total = 0;
    loop {
        let received = || total;
        let wait = poll_fn(|cx| pace.poll_exhausted(cx, received));
        if tokio::time::timeout(Duration::from_secs(2), wait).await.is_ok() {
            break;
        }
        total += 1_000;
        pace.on_progress(1_000);
    }
    let waited = start.elapsed().as_secs();
    assert!((18..=22).contains(&waited), "{waited} s");
}

#[test]
fn a_rate_of_zero_is_no_limit() {
    assert!(Pace::new(&Limits { min_rate: 0, ..Limits::default() }).is_none());
}
