//! Reports of events of connections and their paths to subscribers of `tracing`.
//!
//! | Target | Events |
//! |---|---|
//! | `anabranch::endpoint` | clients that arrive and are refused, sockets that fail, sleep of the host |
//! | `anabranch::connection` | handshake and end |
//! | `anabranch::path` | paths that are opened, validated, migrated, fail and are closed |
//! | `anabranch::http3` | requests and responses |
//! | `anabranch::recovery` | timers, loss, congestion control, datagram sizes |
//! | `anabranch::packet` | each packet |
//! | `anabranch::trace` | traces that cannot be written any more |
//!
//! Events of general interest are at `INFO` (a failing path: `WARN`), decisions and the handshake's steps at
//! `DEBUG`, single packets at `TRACE`. Events belong to a span `connection` (`id`, `side`, `peer`). Events of
//! a path belong to a span `path` inside it (`id`, `local`, `remote`). Spans are at `ERROR`, so that they
//! exist at every level of events.
//!
//! Most events are derived from the few events that the core reports for each connection anyway. Packets are
//! reported by an [`Observer`], which is installed only for connections that begin while a subscriber has
//! enabled its targets.

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
/// Target of the event that reports that traces cannot be written.
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

/// Spans of a connection and its paths.
#[derive(Debug)]
pub(crate) struct Log {
    span: Span,
    /// Spans of paths that have had events and are not closed, at most one for each path.
    paths: Vec<PathSpan>,
}

/// Span of a path. It is replaced when the path's addresses change.
#[derive(Debug)]
struct PathSpan {
    id: PathId,
    tuple: FourTuple,
    span: Span,
}

/// Returns whether no subscriber has enabled any event.
fn is_off() -> bool {
    LevelFilter::current() == LevelFilter::OFF
}

/// Converts an IPv4-mapped IPv6 address to IPv4, and returns other addresses unchanged.
fn canonical(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

impl Log {
    /// Begins the span of a new connection.
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

    /// Returns the connection's span.
    pub(crate) fn span(&self) -> &Span {
        &self.span
    }

    /// Creates an observer of packets, if a subscriber has enabled its targets.
    pub(crate) fn observer(&self) -> Option<Box<dyn Observer>> {
        PacketLog::new(&self.span).map(|log| -> Box<dyn Observer> { Box::new(log) })
    }

    /// Returns the span of a path. If the core no longer has the path, returns the path's last span, or else
    /// the connection's.
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

    /// Logs an event of the core.
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
            // Stream events are not logged: there may be thousands of them a second, and applications observe
            // them themselves. The end of the connection is logged by `end`, whatever its reason.
            _ => {}
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
                    code = code.get(),
                    reason = closure.map(|closure| closure.reason()),
                    by_peer = closure.map(|closure| closure.by_peer),
                    "closed",
                );
                self.paths.retain(|path| path.id != id);
            }
            _ => {}
        }
    }

    /// Logs that a client begins to open a path.
    pub(crate) fn opening(&mut self, core: &Connection, id: PathId) {
        let span = self.path(core, id);
        info!(target: PATH, parent: &span, "opening");
    }

    /// Logs that the connection has ended.
    pub(crate) fn end(&mut self, error: &ConnectionError) {
        info!(target: CONNECTION, parent: &self.span, reason = %error, "ended");
        self.paths.clear();
    }
}
