//! Account of one tunnel, from its request to its end.

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
    /// It was not opened.
    Refused(Cause),
    /// Both directions ended in order.
    Complete,
    /// Nothing was carried for too long.
    Idle,
    /// The client aborted it, or its connection was lost.
    ByClient,
    /// The target aborted it, or is unreachable.
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
    /// Address that was dialled; `None` if none was reached.
    pub address: Option<SocketAddr>,
    /// Bytes of payload from the client to the target.
    pub sent: u64,
    /// Bytes of payload from the target to the client.
    pub received: u64,
    /// Number of datagrams that were dropped because they were too large, too old or too many.
    pub dropped: u64,
    /// Time from the request to the end.
    pub duration: Duration,
    /// Its end.
    pub outcome: Outcome,
}

/// Receiver of records, for access logs and metrics.
pub trait Observer: Send + Sync + 'static {
    /// Handles a tunnel that has ended or was refused. It is called once for each request for a tunnel.
    fn ended(&self, record: &Record);
}

/// Facts about a request that become its record.
#[derive(Clone, Debug)]
pub(super) struct Facts {
    pub(super) begun: Instant,
    pub(super) record: Record,
}

/// A request for a tunnel whose outcome is not known yet. If it is dropped before, the client has given up.
pub(super) struct Pending {
    pub(super) facts: Facts,
    observer: Option<Arc<dyn Observer>>,
    outcome: Option<Outcome>,
}

impl Pending {
    pub(super) fn new(facts: Facts, observer: Option<Arc<dyn Observer>>) -> Self {
        Self { facts, observer, outcome: Some(Outcome::ByClient) }
    }

    /// Returns the facts for the tunnel that was opened, which makes the record from now on.
    pub(super) fn opened(mut self) -> Facts {
        self.outcome = None;
        self.facts.clone()
    }

    /// Makes the record of a refusal.
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

/// An open tunnel. Its record is made when the last reference is dropped.
pub(super) struct Flow {
    facts: Facts,
    pub(super) place: Place,
    observer: Option<Arc<dyn Observer>>,
    sent: AtomicU64,
    received: AtomicU64,
    dropped: AtomicU64,
    outcome: OnceLock<Outcome>,
    /// Place among the flows of the whole proxy.
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

    /// Counts payload from the client. Returns the time until the user's rate allows more.
    pub(super) fn sent(&self, bytes: usize) -> Option<Duration> {
        self.sent.fetch_add(bytes as u64, Ordering::Relaxed);
        self.place.count_sent(bytes);
        self.place.spend(bytes, Instant::now())
    }

    /// Counts payload from the target. Returns the time until the user's rate allows more.
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

    /// Records how the tunnel ends. The first call counts.
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
        // A tunnel whose tasks were dropped with their runtime was aborted by neither, but its client is cut off.
        record.outcome = self.outcome.get().copied().unwrap_or(Outcome::ByClient);
        observer.ended(record);
    }
}
