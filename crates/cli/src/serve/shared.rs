//! State that all connections of a server share.

use std::sync::Arc;
use std::time::Duration;

use anabranch::http3::{Limits, ServeOptions, Shutdown};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::log::AccessLog;
use super::metrics::Metrics;
use crate::events::Events;
use crate::files::Files;

/// State of one server, shared by its connections.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) files: Files,
    pub(super) log: AccessLog,
    pub(super) metrics: Arc<Metrics>,
    /// Destination of events.
    pub(super) events: Events,
    /// Cancelled when the server stops: no new requests are accepted, and running ones are completed.
    pub(super) stopping: CancellationToken,
    /// Cancelled when no clients are wanted any more, and those whose handshake is not complete are refused. A server that has
    /// handed its sockets over completes these handshakes.
    pub(super) refusing: CancellationToken,
    /// Shutdown of HTTP/3, which sends GOAWAY to clients.
    pub(super) http3: Shutdown,
    /// Options of HTTP/3.
    pub(super) options: ServeOptions,
    /// Maximum time without progress of a response; `None` if it is limited only by the end of the connection.
    pub(super) stall: Option<Duration>,
    /// Tasks of the open connections.
    pub(super) connections: TaskTracker,
}

impl Shared {
    pub(super) fn new(files: Files, log: AccessLog, stall: Option<Duration>, events: Events) -> Self {
        let limits = Limits::default().with_stall_timeout(stall.unwrap_or_default());
        let metrics = Arc::new(Metrics::new(files.memory().clone()));
        Self {
            files,
            log,
            metrics,
            events,
            stopping: CancellationToken::new(),
            refusing: CancellationToken::new(),
            http3: Shutdown::new(),
            options: ServeOptions::default().with_limits(limits),
            stall,
            connections: TaskTracker::new(),
        }
    }
}
