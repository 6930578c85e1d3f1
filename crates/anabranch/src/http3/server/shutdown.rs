//! The end of serving, in good order.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

/// Tells all connections that are served with it when to end. Clones are the same shutdown.
#[derive(Clone, Debug)]
pub struct Shutdown(Arc<watch::Sender<Option<Duration>>>);

impl Shutdown {
    /// Creates a shutdown that has not begun.
    pub fn new() -> Self {
        Self(Arc::new(watch::Sender::new(None)))
    }

    /// Begins the shutdown: every connection tells its client to make no more requests on it (GOAWAY, RFC
    /// 9114 §5.2), serves those that were made, for at most `drain`, and closes.
    pub fn begin(&self, drain: Duration) {
        self.0.send_replace(Some(drain));
    }

    /// Waits for the beginning; gives how long requests may take.
    pub(super) fn begun(&self) -> impl Future<Output = Duration> + Send + 'static {
        // It holds the sender, so that a shutdown that was dropped is one that never begins.
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
