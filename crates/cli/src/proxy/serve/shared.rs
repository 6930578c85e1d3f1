//! State that all connections of a proxy share.

use std::sync::Arc;

use anabranch::http3::{Limits, ServeOptions, Shutdown};
use anabranch::proxy::server::Proxy;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::faults::Faults;
use super::identified::Identities;
use super::metrics::Metrics;

/// Maximum number of tunnels on one HTTP/3 connection.
pub(super) const MAX_TUNNELS: usize = 4_096;

/// State of one proxy, shared by its connections.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) proxy: Proxy,
    pub(super) metrics: Arc<Metrics>,
    /// Certificates of users.
    pub(super) identities: Identities,
    /// Reporter of clients whose certificates are missing or not accepted.
    pub(super) faults: Faults,
    /// Cancelled when the server begins to stop: it accepts no new requests, and open tunnels go on within a
    /// time limit.
    pub(super) stopping: CancellationToken,
    /// Shutdown of HTTP/3, which sends GOAWAY to clients.
    pub(super) http3: Shutdown,
    /// Options of HTTP/3.
    pub(super) options: ServeOptions,
    /// Tasks of open connections and tunnels.
    pub(super) connections: TaskTracker,
}

impl Shared {
    pub(super) fn new(proxy: Proxy, metrics: Arc<Metrics>, identities: Identities) -> Self {
        Self {
            proxy,
            metrics,
            identities,
            faults: Faults::default(),
            stopping: CancellationToken::new(),
            http3: Shutdown::new(),
            options: ServeOptions::default().with_limits(Limits::default().with_max_handlers(MAX_TUNNELS)),
            connections: TaskTracker::new(),
        }
    }

    /// Returns a function that returns all metrics in the text format.
    pub(super) fn text(&self) -> impl Fn() -> String + Send + Sync + 'static {
        let (metrics, proxy) = (Arc::clone(&self.metrics), self.proxy.clone());
        move || metrics.text(&proxy)
    }
}
