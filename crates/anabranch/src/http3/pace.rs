//! Check of the minimum rate at which a client sends a request.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::time::{Instant, Sleep};

use super::Limits;

/// Time for which a client may keep the server waiting. Waiting uses the time up. Progress adds to it: a
/// second for every `min_rate` bytes, up to `grace`.
///
/// The progress of the whole connection counts: a client is not slow if it sends one request after the other,
/// or if its requests share a slow link. Time that the application takes does not count against the client.
#[derive(Debug)]
pub(super) struct Pace {
    min_rate: u64,
    grace: Duration,
    patience: Duration,
    waiting_since: Option<Instant>,
    timer: Option<Pin<Box<Sleep>>>,
    /// Number of bytes that the connection had received at the last check.
    seen: Option<u64>,
    /// Number of bytes of this request among those that the connection has received since the last check.
    own: u64,
}

impl Pace {
    /// Creates the check of the minimum rate; `None` if there is no minimum.
    pub(super) fn new(limits: &Limits) -> Option<Self> {
        let Limits { min_rate, grace, .. } = *limits;
        let pace =
            Self { min_rate, grace, patience: grace, waiting_since: None, timer: None, seen: None, own: 0 };
        (min_rate > 0).then_some(pace)
    }

    /// Records that the client has sent `n` more bytes of the request.
    pub(super) fn on_progress(&mut self, n: usize) {
        if let Some(since) = self.waiting_since.take() {
            self.patience = self.patience.saturating_sub(since.elapsed());
        }
        self.own = self.own.saturating_add(n as u64);
        self.patience = self.patience.saturating_add(earned(n as u64, self.min_rate)).min(self.grace);
    }

    /// Returns ready when the client has used up its time. The caller polls this while it waits for the
    /// client. `received` returns the total number of bytes that the connection has received.
    pub(super) fn poll_exhausted(&mut self, cx: &mut Context<'_>, received: impl Fn() -> u64) -> Poll<()> {
        self.seen.get_or_insert_with(&received);
        let since = *self.waiting_since.get_or_insert_with(Instant::now);
        let mut deadline = since + self.patience;
        let timer = self.timer.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(deadline)));
        // The timer may have been set for an earlier wait, and may then expire too early. It is reset only
        // after such an early expiry, which is rare, and not at every wait.
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

/// Returns the time that a client earns by sending `bytes`.
fn earned(bytes: u64, min_rate: u64) -> Duration {
    Duration::from_micros(bytes.saturating_mul(1_000_000) / min_rate)
}

#[cfg(test)]
mod tests;
