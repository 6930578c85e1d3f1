//! Patience with a client that is slow to send a request.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::time::{Instant, Sleep};

use super::Limits;

/// Time for which a client may keep the server waiting. Waiting uses the time up; progress adds to it, a
/// second for every `min_rate` bytes, up to `grace`.
///
/// Progress is that of the connection: a client that sends one request after the other, or that shares a slow
/// link between them, is not slow. Time that the application takes is not the client's and does not count.
#[derive(Debug)]
pub(super) struct Pace {
    min_rate: u64,
    grace: Duration,
    patience: Duration,
    waiting_since: Option<Instant>,
    timer: Option<Pin<Box<Sleep>>>,
    /// Bytes that the connection had brought when that was last looked at.
    seen: Option<u64>,
    /// Bytes of this request among those that came since.
    own: u64,
}

impl Pace {
    /// `None` if any speed will do.
    pub(super) fn new(limits: &Limits) -> Option<Self> {
        let Limits { min_rate, grace, .. } = *limits;
        let pace =
            Self { min_rate, grace, patience: grace, waiting_since: None, timer: None, seen: None, own: 0 };
        (min_rate > 0).then_some(pace)
    }

    /// Records that the client has moved `n` bytes of the request.
    pub(super) fn on_progress(&mut self, n: usize) {
        if let Some(since) = self.waiting_since.take() {
            self.patience = self.patience.saturating_sub(since.elapsed());
        }
        self.own = self.own.saturating_add(n as u64);
        self.patience = self.patience.saturating_add(earned(n as u64, self.min_rate)).min(self.grace);
    }

    /// Returns ready when the client has used up the time allowed; to be called while waiting for the client.
    /// `received` returns the total number of bytes that the connection has brought.
    pub(super) fn poll_exhausted(&mut self, cx: &mut Context<'_>, received: impl Fn() -> u64) -> Poll<()> {
        self.seen.get_or_insert_with(&received);
        let since = *self.waiting_since.get_or_insert_with(Instant::now);
        let mut deadline = since + self.patience;
        let timer = self.timer.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(deadline)));
        // A timer that was set for an earlier wait goes off too early, and is set again only then: that is rare, waits are
        // frequent.
        while timer.as_mut().poll(cx).is_ready() {
            let now = Instant::now();
            if now >= deadline {
                let total = received();
                let came = total.saturating_sub(self.seen.replace(total).unwrap_or(total));
                let others = came.saturating_sub(std::mem::take(&mut self.own));
                let earned = earned(others, self.min_rate);
                if earned.is_zero() {
                    return Poll::Ready(());
                }
                self.patience = earned.min(self.grace);
                self.waiting_since = Some(now);
                deadline = now + self.patience;
            }
            timer.as_mut().reset(deadline);
        }
        Poll::Pending
    }
}

/// Returns the time that `bytes` are worth.
fn earned(bytes: u64, min_rate: u64) -> Duration {
    Duration::from_micros(bytes.saturating_mul(1_000_000) / min_rate)
}

#[cfg(test)]
mod tests {
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

    /// Waits for `seconds`, after which the peer moves `bytes`.
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

    /// A client that shares a slow link between its requests sends one of them while another waits.
    #[tokio::test(start_paused = true)]
    async fn what_the_connection_brings_counts_for_every_request() {
        let mut pace = pace();
        let start = Instant::now();
        // Twice the rate for a minute, all of it on another stream.
        let received = || start.elapsed().as_secs().min(60) * 2_000;
        poll_fn(|cx| pace.poll_exhausted(cx, received)).await;
        let waited = start.elapsed().as_secs();
        assert!((60..=80).contains(&waited), "{waited} s");
    }

    /// Bytes of the request itself must not be counted twice, as the request's own and as the connection's.
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
}
