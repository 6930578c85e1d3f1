//! The servers of a round. Each has one connection, for all its files.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::OnceCell;

use super::monitor::Monitor;
use super::origin::{Origin, Terms};
use crate::exit::Result;
use crate::target::Target;

/// Servers of this round.
#[derive(Debug)]
pub(super) struct Origins {
    terms: Arc<Terms>,
    /// Observer of the progress.
    monitor: Arc<Monitor>,
    /// Servers by host and port.
    known: Mutex<BTreeMap<(String, u16), SharedOrigin>>,
}

/// State of a server: not connected yet, connected, or failed.
type SharedOrigin = Arc<OnceCell<Result<Arc<Origin>>>>;

impl Origins {
    pub(super) fn new(terms: Arc<Terms>, monitor: Arc<Monitor>) -> Self {
        Self { terms, monitor, known: Mutex::default() }
    }

    /// Returns the server of a URL. The first caller connects; other callers wait for the result, and share a
    /// failure. A lost connection is replaced. After a failure, a new attempt is made only if `again` is set.
    pub(super) async fn reach(&self, target: &Target, again: bool) -> Result<Arc<Origin>> {
        let place = {
            let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
            let place = known.entry((target.host.clone(), target.port)).or_default();
            let is_over =
                |known: &Result<Arc<Origin>>| known.as_ref().map_or(again, |origin| origin.is_lost());
            if place.get().is_some_and(is_over) {
                *place = SharedOrigin::default();
            }
            Arc::clone(place)
        };
        place.get_or_init(|| self.connect(target)).await.clone()
    }

    /// Connects to a server and registers the connection with the monitor.
    async fn connect(&self, target: &Target) -> Result<Arc<Origin>> {
        let origin = Origin::connect(target, &self.terms).await?;
        self.monitor.origin(&origin);
        Ok(origin)
    }

    /// Forgets a connection that refused a request, so that the next request opens another one.
    pub(super) fn leave(&self, target: &Target, origin: &Arc<Origin>) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(place) = known.get_mut(&(target.host.clone(), target.port))
            && place.get().is_some_and(|known| known.as_ref().is_ok_and(|known| Arc::ptr_eq(known, origin)))
        {
            *place = SharedOrigin::default();
        }
    }

    /// Closes all connections and waits a short time until each CONNECTION_CLOSE is sent.
    pub(super) async fn close(self) {
        let known = self.known.into_inner().unwrap_or_else(PoisonError::into_inner);
        let connected = known.values().filter_map(|place| place.get()?.as_ref().ok());
        connected.for_each(|origin| origin.close());
        self.terms.endpoint.farewell().await;
    }
}
