//! The servers of a round: one connection for each, whatever is fetched from there.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::OnceCell;

use super::monitor::Monitor;
use super::origin::{Origin, Terms};
use crate::exit::Result;
use crate::target::Target;

/// The servers that are in use.
#[derive(Debug)]
pub(super) struct Origins {
    terms: Arc<Terms>,
    /// Observer of the progress.
    monitor: Arc<Monitor>,
    /// By host and port.
    known: Mutex<BTreeMap<(String, u16), SharedOrigin>>,
}

/// A server that is connected to, or will be, or cannot be.
type SharedOrigin = Arc<OnceCell<Result<Arc<Origin>>>>;

impl Origins {
    pub(super) fn new(terms: Arc<Terms>, monitor: Arc<Monitor>) -> Self {
        Self { terms, monitor, known: Mutex::default() }
    }

    /// Returns the server of a URL. Whoever asks first connects; the others wait for that, and fail with it.
    /// A connection that was lost is replaced, and so is one that could not be made if this is asked for
    /// `again`.
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

    /// Connects to a server, and has the connection watched.
    async fn connect(&self, target: &Target) -> Result<Arc<Origin>> {
        let origin = Origin::connect(target, &self.terms).await?;
        self.monitor.origin(&origin);
        Ok(origin)
    }

    /// Makes the next request to the server use another connection than this one, which refused a request.
    pub(super) fn leave(&self, target: &Target, origin: &Arc<Origin>) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(place) = known.get_mut(&(target.host.clone(), target.port))
            && place.get().is_some_and(|known| known.as_ref().is_ok_and(|known| Arc::ptr_eq(known, origin)))
        {
            *place = SharedOrigin::default();
        }
    }

    /// Says goodbye to everybody. Who misses it will find out by the idle timeout.
    pub(super) async fn close(self) {
        let known = self.known.into_inner().unwrap_or_else(PoisonError::into_inner);
        let connected = known.values().filter_map(|place| place.get()?.as_ref().ok());
        connected.for_each(|origin| origin.close());
        self.terms.endpoint.farewell().await;
    }
}
