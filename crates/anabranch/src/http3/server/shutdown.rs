//! Graceful shutdown of served connections.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

/// Signal to end all connections that are served with it. Clones are the same signal.
#[derive(Clone, Debug)]
pub struct Shutdown(Arc<watch::Sender<Option<Duration>>>);

impl Shutdown {
    /// Creates a shutdown that has not begun.
    pub fn new() -> Self {
        Self(Arc::new(watch::Sender::new(None)))
    }

    /// Begins the shutdown. Every connection asks its client to send no more requests on it (GOAWAY, RFC 9114
    /// §5.2), processes earlier requests for at most `drain`, and closes.
    pub fn begin(&self, drain: Duration) {
        self.0.send_replace(Some(drain));
    }

    /// Waits until the shutdown begins, and returns the maximum time for open requests.
    pub(super) fn begun(&self) -> impl Future<Output = Duration> + Send + 'static {
        // The future holds the sender, so that a shutdown whose handles were dropped never begins.
        let shutdown = self.clone();
        async move {
            let mut receiver = shutdown.0.subscribe();
            loop {
                if let Some(drain) = *receiver.borrow_and_update() {
                    return drain;
                }
                if receiver.changed().await.is_err() {
                    std::future::pending::<()>().await;
                }
            }
        }
    }
}

impl Default for Shutdown {
    fn default() -> Self {
        Self::new()
    }
}
