//! Patience with a peer that is slow to send or to read.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::time::{Instant, Sleep};

use super::Limits;

/// How much longer a peer may keep us waiting: a bucket of time that waiting empties and that progress fills again, at
/// the rate of a second for `min_rate` bytes, up to `grace`.
///
/// Time that the application takes is not the peer's and does not count.
#[derive(Debug)]
pub(super) struct Pace {
    min_rate: u64,
    grace: Duration,
    patience: Duration,
    waiting_since: Option<Instant>,
    timer: Option<Pin<Box<Sleep>>>,
}

impl Pace {
    /// `None` if any speed will do.
    pub(super) fn new(limits: &Limits) -> Option<Self> {
        let Limits { min_rate, grace, .. } = *limits;
        let pace = Self { min_rate, grace, patience: grace, waiting_since: None, timer: None };
        (min_rate > 0).then_some(pace)
    }

    /// The peer has moved `n` bytes.
    pub(super) fn on_progress(&mut self, n: usize) {
        if let Some(since) = self.waiting_since.take() {
            self.patience = self.patience.saturating_sub(since.elapsed());
        }
        let earned = (n as u64).saturating_mul(1_000_000) / self.min_rate;
        self.patience = self.patience.saturating_add(Duration::from_micros(earned)).min(self.grace);
    }

    /// Ready when the peer has used up our patience; call it while waiting for the peer.
    pub(super) fn poll_exhausted(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let since = *self.waiting_since.get_or_insert_with(Instant::now);
        let deadline = since + self.patience;
        let timer = self.timer.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(deadline)));
        // A timer that was set for an earlier wait goes off too early, and is set again only then: that is rare, waits are
        // frequent.
        while timer.as_mut().poll(cx).is_ready() {
            if Instant::now() >= deadline {
                return Poll::Ready(());
            }
            timer.as_mut().reset(deadline);
        }
        Poll::Pending
    }
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
        poll_fn(|cx| pace.poll_exhausted(cx)).await;
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

    #[test]
    fn a_rate_of_zero_is_no_limit() {
        assert!(Pace::new(&Limits { min_rate: 0, ..Limits::default() }).is_none());
    }
}
