//! Events that report connections and their paths to subscribers of `tracing`.
//!
//! | Target | Events |
//! |---|---|
//! | `anabranch::endpoint` | clients that come and are turned away, sockets that fail, sleep of the host |
//! | `anabranch::connection` | handshake and end |
//! | `anabranch::path` | paths that are opened, validated, moved, fail and are closed |
//! | `anabranch::http3` | requests and responses |
//! | `anabranch::recovery` | timers, loss, congestion control, datagram sizes |
//! | `anabranch::packet` | each packet |
//!
//! Events that people care about are at `INFO` (a failing path: `WARN`), decisions and the handshake's steps
//! at `DEBUG`, single packets at `TRACE`. Events lie in a span `connection` (`id`, `side`, `peer`), those of
//! a path in a span `path` within it (`id`, `local`, `remote`). Spans are at `ERROR`, so that they are there
//! for any level of events.
//!
//! All of it follows from events that the core reports anyway, of which a connection has few. An [`Observer`]
//! sees packets, and is there only for connections that begin while a subscriber wants its targets.

mod observer;

use std::net::SocketAddr;

use anabranch_transport::trace::Observer;
use anabranch_transport::{Connection, ConnectionError, Event, FourTuple, PathState};
use anabranch_wire::PathId;
use tracing::level_filters::LevelFilter;
use tracing::{Span, debug, error_span, info, warn};

use self::observer::PacketLog;

/// Target of events of endpoints.
pub(crate) const ENDPOINT: &str = "anabranch::endpoint";
/// Target of the event that traces end because they cannot be written.
#[cfg(feature = "qlog")]
pub(crate) const TRACE: &str = "anabranch::trace";
/// Target of events of connections.
const CONNECTION: &str = "anabranch::connection";
/// Target of events of paths.
pub(crate) const PATH: &str = "anabranch::path";
/// Target of events of HTTP/3.
#[cfg(feature = "http3")]
pub(crate) const HTTP3: &str = "anabranch::http3";
/// Target of events of loss recovery and congestion control.
const RECOVERY: &str = "anabranch::recovery";
/// Target of events of single packets.
const PACKET: &str = "anabranch::packet";

/// The spans of a connection.
#[derive(Debug)]
pub(crate) struct Log {
    span: Span,
    /// Of paths that something was told of and that are not closed: no more than there are paths.
    paths: Vec<PathSpan>,
}

/// A path's span, for as long as its addresses stay the same.
#[derive(Debug)]
struct PathSpan {
    id: PathId,
    tuple: FourTuple,
    span: Span,
}

/// Tells that nobody listens to anything.
fn is_off() -> bool {
    LevelFilter::current() == LevelFilter::OFF
}

/// Gives an address as people know it.
fn canonical(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

impl Log {
    /// Begins the span of a connection that has just begun.
    pub(crate) fn begin(core: &Connection) -> Self {
        if is_off() {
            return Self { span: Span::none(), paths: Vec::new() };
        }
        let peer = core.paths().next().map(|path| canonical(path.tuple.remote));
        let side = if core.side().is_client() { "client" } else { "server" };
        let span = error_span!(
            target: CONNECTION,
            "connection",
            id = %core.original_dcid(),
            side,
            peer = peer.map(tracing::field::display),
        );
        debug!(target: CONNECTION, parent: &span, "begins");
        Self { span, paths: Vec::new() }
    }

    /// Gives the connection's span.
    pub(crate) fn span(&self) -> &Span {
        &self.span
    }

    /// Makes an observer of packets, if a subscriber wants to know of them.
    pub(crate) fn observer(&self) -> Option<Box<dyn Observer>> {
        PacketLog::new(&self.span).map(|log| -> Box<dyn Observer> { Box::new(log) })
    }

    /// Gives the span of a path that the core knows, or has known until now.
    pub(crate) fn path(&mut self, core: &Connection, id: PathId) -> Span {
        if is_off() {
            return Span::none();
        }
        let tuple = core.paths().find(|path| path.id == id).map(|path| path.tuple);
        let known = self.paths.iter().position(|path| path.id == id);
        if let Some(known) = known.filter(|at| tuple.is_none_or(|tuple| self.paths[*at].tuple == tuple)) {
            return self.paths[known].span.clone();
        }
        let Some(tuple) = tuple else { return self.span.clone() };
        let span = error_span!(
            target: PATH,
            parent: &self.span,
            "path",
            id = id.0,
            local = %canonical(tuple.local),
            remote = %canonical(tuple.remote),
        );
        self.paths.retain(|path| path.id != id);
        self.paths.push(PathSpan { id, tuple, span: span.clone() });
        span
    }

    /// Tells of something that has happened.
    pub(crate) fn event(&mut self, core: &Connection, event: &Event) {
        if is_off() {
            return;
        }
        match event {
            Event::HandshakeDataReady => debug!(
                target: CONNECTION,
                parent: &self.span,
                protocol = core.alpn().map(|name| String::from_utf8_lossy(name).into_owned()),
                server_name = core.server_name(),
                "handshake data",
            ),
            Event::Connected { early_data_accepted } => {
                info!(
                    target: CONNECTION,
                    parent: &self.span,
                    version = %core.version(),
                    protocol = core.alpn().map(|name| String::from_utf8_lossy(name).into_owned()),
                    resumed = core.is_resumed(),
                    early_data_accepted,
                    multipath = core.is_multipath(),
                    "established",
                );
                let span = self.path(core, PathId::ZERO);
                info!(target: PATH, parent: &span, "in use");
            }
            Event::Confirmed => debug!(target: CONNECTION, parent: &self.span, "handshake confirmed"),
            Event::NewToken(token) => {
                debug!(target: CONNECTION, parent: &self.span, bytes = token.len(), "address token");
            }
            Event::PathsAvailable => debug!(target: CONNECTION, parent: &self.span, "a path may be opened"),
            Event::ServerAddresses => {
                let known: Vec<_> = core.server_addresses().iter().map(|known| known.address).collect();
                debug!(target: CONNECTION, parent: &self.span, ?known, "server addresses");
            }
            Event::PathOpened(path)
            | Event::PathSilent(path)
            | Event::PathChanged { path, .. }
            | Event::PathState { path, .. }
            | Event::PathAbandoned { path, .. } => self.path_event(core, *path, event),
            // Of streams there may be thousands in a second, and applications know them.
            Event::Stream(_) | Event::DatagramReceived | Event::DatagramsUnblocked => {}
            // Told with whatever else can end a connection.
            Event::Closed(_) => {}
        }
    }

    fn path_event(&mut self, core: &Connection, id: PathId, event: &Event) {
        let span = self.path(core, id);
        match event {
            Event::PathOpened(_) => info!(target: PATH, parent: &span, "validated"),
            Event::PathChanged { .. } => info!(target: PATH, parent: &span, "migrated"),
            Event::PathSilent(_) => info!(target: PATH, parent: &span, "silent"),
            Event::PathState { state: PathState::Failing, .. } => {
                warn!(target: PATH, parent: &span, "failing: an answer is overdue, others take its place");
            }
            Event::PathState { state, .. } => info!(target: PATH, parent: &span, %state, "changed"),
            Event::PathAbandoned { code, .. } => {
                let closure = core.paths().find(|path| path.id == id).and_then(|path| path.closure);
                info!(
                    target: PATH,
                    parent: &span,
                    code,
                    reason = closure.map(|closure| closure.reason()),
                    by_peer = closure.map(|closure| closure.by_peer),
                    "closed",
                );
                self.paths.retain(|path| path.id != id);
            }
            _ => {}
        }
    }

    /// Tells that a client begins to open a path.
    pub(crate) fn opening(&mut self, core: &Connection, id: PathId) {
        let span = self.path(core, id);
        info!(target: PATH, parent: &span, "opening");
    }

    /// Tells that the connection is over.
    pub(crate) fn end(&mut self, error: &ConnectionError) {
        info!(target: CONNECTION, parent: &self.span, reason = %error, "ended");
        self.paths.clear();
    }
}
