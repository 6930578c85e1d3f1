//! State that all connections of a proxy share.

use std::sync::Arc;

use anabranch::http3::{Limits, ServeOptions, Shutdown};
use anabranch::proxy::server::Proxy;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::faults::Faults;
use super::identified::Identities;
use super::metrics::Metrics;

/// Maximum number of tunnels of one connection.
pub(super) const MAX_TUNNELS: usize = 4_096;

/// State of one proxy, shared by its connections.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) proxy: Proxy,
    pub(super) metrics: Arc<Metrics>,
    /// Users that are known by certificates.
    pub(super) identities: Identities,
    /// Clients whose certificates were not accepted.
    pub(super) faults: Faults,
    /// Cancelled when the server stops: no new requests are accepted, and open tunnels go on for a while.
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

    /// Returns the function that returns all metrics.
    pub(super) fn text(&self) -> impl Fn() -> String + Send + Sync + 'static {
        let (metrics, proxy) = (Arc::clone(&self.metrics), self.proxy.clone());
        move || metrics.text(&proxy)
    }
}
