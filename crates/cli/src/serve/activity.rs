//! Activity of connections, to find those that nobody uses any longer.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Activity on a connection.
#[derive(Debug, Default)]
pub(super) struct Activity {
    /// Requests that have begun, plus bytes of content that were handed over to be sent.
    steps: AtomicU64,
    /// Number of requests with an unfinished response.
    running: AtomicU64,
}

impl Activity {
    /// Counts a new request, or `size` bytes of content that were handed over to be sent.
    pub(super) fn step(&self, size: u64) {
        self.steps.fetch_add(size, Ordering::Relaxed);
    }

    /// Counts a request whose response begins.
    pub(super) fn begin(&self) {
        self.running.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a request whose response has ended.
    pub(super) fn end(&self) {
        self.running.fetch_sub(1, Ordering::Relaxed);
    }

    /// Waits until the connection has been idle for `quiet`, or up to twice as long. Idle means that no
    /// request began and no content was handed over. While responses are unfinished, the idle time must be
    /// `stall` in total; if `stall` is `None`, the wait never ends.
    pub(super) async fn idle_for(&self, quiet: Duration, stall: Option<Duration>) {
        let mut before = self.steps.load(Ordering::Relaxed);
        let mut since = tokio::time::Instant::now();
        loop {
            tokio::time::sleep(quiet).await;
            let now = self.steps.load(Ordering::Relaxed);
            if now != before {
                since = tokio::time::Instant::now();
            } else if self.running.load(Ordering::Relaxed) == 0
                || stall.is_some_and(|stall| since.elapsed() >= stall)
            {
                return;
            }
            before = now;
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::Instant;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn steps_keep_a_connection_from_being_idle() {
        let (quiet, walk) = (Duration::from_secs(1), Duration::from_millis(1_500));
        let activity = Activity::default();
        let begin = Instant::now();
        let walking = async {
            while begin.elapsed() < walk {
                tokio::time::sleep(Duration::from_millis(10)).await;
                activity.step(1);
            }
        };
        tokio::join!(activity.idle_for(quiet, None), walking);
        // The activity ends in the second interval; the third one is idle.
        assert_eq!(begin.elapsed(), 3 * quiet);
    }

    #[tokio::test(start_paused = true)]
    async fn answers_that_are_not_taken_have_longer() {
        let minute = Duration::from_secs(60);
        let activity = Activity { running: AtomicU64::new(1), ..Activity::default() };
        let forever = tokio::time::timeout(100 * minute, activity.idle_for(minute, None));
        assert!(forever.await.is_err());
        let long = tokio::time::timeout(100 * minute, activity.idle_for(minute, Some(5 * minute)));
        long.await.unwrap();
        activity.running.store(0, Ordering::Relaxed);
        let short = tokio::time::timeout(3 * minute, activity.idle_for(minute, None));
        short.await.unwrap();
    }
}
