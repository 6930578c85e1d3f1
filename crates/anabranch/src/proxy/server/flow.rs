//! Record and counters of one tunnel, from its request to its end.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use http::Version;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::Instant;

use super::limits::Place;
use super::refusal::Cause;
use super::target::Carried;

/// End of a tunnel, or the reason why it was not opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Outcome {
    /// The tunnel was not opened.
    Refused(Cause),
    /// Both directions ended regularly.
    Complete,
    /// The tunnel carried nothing for its idle timeout.
    Idle,
    /// The client aborted the tunnel, or the connection to the client was lost.
    ByClient,
    /// The target aborted the tunnel, or became unreachable.
    ByTarget,
}

impl Outcome {
    /// Returns the name for logs and metrics.
    pub fn name(self) -> &'static str {
        match self {
            Self::Refused(cause) => cause.name(),
            Self::Complete => "complete",
            Self::Idle => "idle",
            Self::ByClient => "client",
            Self::ByTarget => "target",
        }
    }
}

/// A tunnel that has ended or was refused. It contains neither payload nor credentials.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Record {
    /// The user's name; `None` if the client did not show valid credentials.
    pub user: Option<String>,
    /// The client's address.
    pub client: SocketAddr,
    /// HTTP version of the request.
    pub version: Version,
    /// Kind of traffic.
    pub carried: Carried,
    /// Target as the client named it; `None` if it named none, and for IP packets.
    pub target: Option<String>,
    /// Address of the target to which the proxy connected; `None` if there is no connection, and for IP packets.
    pub address: Option<SocketAddr>,
    /// Bytes of payload from the client to the target.
    pub sent: u64,
    /// Bytes of payload from the target to the client.
    pub received: u64,
    /// Number of datagrams that were dropped because they were too large, too old or too many.
    pub dropped: u64,
    /// Time from the request to the end of the tunnel.
    pub duration: Duration,
    /// End of the tunnel, or the reason why it was not opened.
    pub outcome: Outcome,
}

/// Receiver of records, for access logs and metrics.
pub trait Observer: Send + Sync + 'static {
    /// Handles a tunnel that has ended or was refused. The proxy calls this once for each request for a tunnel.
    fn ended(&self, record: &Record);
}

/// Begin of a request, and its record, which is complete when the tunnel has ended.
#[derive(Clone, Debug)]
pub(super) struct Facts {
    pub(super) begun: Instant,
    pub(super) record: Record,
}

/// Request for a tunnel that is neither opened nor refused yet. Dropping it passes its record to the observer; the outcome is
/// [`Outcome::ByClient`] unless the request was refused.
pub(super) struct Pending {
    pub(super) facts: Facts,
    observer: Option<Arc<dyn Observer>>,
    outcome: Option<Outcome>,
}

impl Pending {
    pub(super) fn new(facts: Facts, observer: Option<Arc<dyn Observer>>) -> Self {
        Self { facts, observer, outcome: Some(Outcome::ByClient) }
    }

    /// Returns the facts for the [`Flow`] of the opened tunnel, which passes the record to the observer instead.
    pub(super) fn opened(mut self) -> Facts {
        self.outcome = None;
        self.facts.clone()
    }

    /// Passes the record of a refusal to the observer.
    pub(super) fn refused(mut self, cause: Cause) {
        self.outcome = Some(Outcome::Refused(cause));
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        if let (Some(observer), Some(outcome)) = (&self.observer, self.outcome) {
            self.facts.record.outcome = outcome;
            self.facts.record.duration = self.facts.begun.elapsed();
            observer.ended(&self.facts.record);
        }
    }
}

/// An open tunnel. When it is dropped, its record is passed to the observer.
pub(super) struct Flow {
    facts: Facts,
    pub(super) place: Place,
    observer: Option<Arc<dyn Observer>>,
    sent: AtomicU64,
    received: AtomicU64,
    dropped: AtomicU64,
    outcome: OnceLock<Outcome>,
    /// Permit among the tunnels of all users.
    _permit: OwnedSemaphorePermit,
}

impl Flow {
    pub(super) fn new(
        facts: Facts,
        place: Place,
        observer: Option<Arc<dyn Observer>>,
        permit: OwnedSemaphorePermit,
    ) -> Self {
        Self {
            facts,
            place,
            observer,
            sent: AtomicU64::new(0),
            received: AtomicU64::new(0),
            dropped: AtomicU64::new(0),
            outcome: OnceLock::new(),
            _permit: permit,
        }
    }

    /// Counts payload from the client. Returns the time until the user's rate allows more, if that is not now.
    pub(super) fn sent(&self, bytes: usize) -> Option<Duration> {
        self.sent.fetch_add(bytes as u64, Ordering::Relaxed);
        self.place.count_sent(bytes);
        self.place.spend(bytes, Instant::now())
    }

    /// Counts payload from the target. Returns the time until the user's rate allows more, if that is not now.
    pub(super) fn received(&self, bytes: usize) -> Option<Duration> {
        self.received.fetch_add(bytes as u64, Ordering::Relaxed);
        self.place.count_received(bytes);
        self.place.spend(bytes, Instant::now())
    }

    /// Counts a datagram that is dropped.
    pub(super) fn drop_datagram(&self) {
        self.dropped.fetch_add(1, Ordering::Relaxed);
        self.place.user.dropped.fetch_add(1, Ordering::Relaxed);
    }

    /// Records the end of the tunnel. Only the first call has effect.
    pub(super) fn end(&self, outcome: Outcome) {
        let _ = self.outcome.set(outcome);
    }
}

impl Drop for Flow {
    fn drop(&mut self) {
        let Some(observer) = &self.observer else { return };
        let record = &mut self.facts.record;
        record.sent = *self.sent.get_mut();
        record.received = *self.received.get_mut();
        record.dropped = *self.dropped.get_mut();
        record.duration = self.facts.begun.elapsed();
        // A tunnel whose tasks were dropped with their runtime has no outcome; the connection to its client is lost then.
        record.outcome = self.outcome.get().copied().unwrap_or(Outcome::ByClient);
        observer.ended(record);
    }
}
