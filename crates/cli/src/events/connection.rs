//! Events of one connection and its paths.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

use anabranch::{Connection, FourTuple, PathEvent, PathId, PathInfo, PathState, VarInt};
use serde_json::{Value, json};

use super::Events;
use crate::multipath;

/// Emitter of a connection's events. Dropping it emits the end of the connection.
#[derive(Debug, Default)]
pub(crate) struct ConnectionEvents(Option<Arc<Watched>>);

#[derive(Debug)]
struct Watched {
    connection: Connection,
    id: String,
    events: Events,
    /// `true` once the event of the complete handshake was emitted.
    established: AtomicBool,
    closed: AtomicBool,
}

impl ConnectionEvents {
    /// Starts to watch a connection, if events are requested.
    pub(crate) fn new(connection: &Connection, events: &Events) -> Self {
        if !events.are_wanted() {
            return Self(None);
        }
        let watched = Arc::new(Watched {
            connection: connection.clone(),
            id: id(connection),
            events: events.clone(),
            established: AtomicBool::new(false),
            closed: AtomicBool::new(false),
        });
        tokio::spawn(follow(Arc::downgrade(&watched), connection.path_events()));
        Self(Some(watched))
    }

    /// Emits the event of the complete handshake, but only at the first call.
    pub(crate) fn established(&self) {
        if let Some(watched) = self.0.as_ref().filter(|one| !one.established.swap(true, Ordering::Relaxed)) {
            watched.tell_established();
        }
    }
}

/// Returns the ID by which both ends' events name a connection.
pub(crate) fn id(connection: &Connection) -> String {
    connection.original_dcid().to_string()
}

/// Emits events of paths until the connection has ended.
async fn follow(watched: Weak<Watched>, mut paths: anabranch::PathEvents) {
    while let Some(event) = paths.next().await {
        let Some(watched) = watched.upgrade() else { return };
        watched.tell_path(&event);
    }
    if let Some(watched) = watched.upgrade() {
        watched.tell_closed();
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        self.tell_closed();
    }
}

impl Watched {
    fn tell_established(&self) {
        let data = self.connection.handshake_data();
        let first = self.connection.paths().into_iter().next();
        self.events.tell("connection_established", || {
            json!({
                "connection": self.id,
                "peer": self.connection.remote_address().to_string(),
                "server_name": data.server_name,
                "version": format!("{:#010x}", data.version.0),
                "alpn": data.protocol.map(|name| String::from_utf8_lossy(&name).into_owned()),
                "resumed": data.resumed,
                "multipath": self.connection.is_multipath(),
            })
        });
        if let Some(path) = first {
            self.tell_of(path.id, "path_validated", addresses(path.tuple));
        }
    }

    fn tell_path(&self, event: &PathEvent) {
        match event {
            PathEvent::Opening { path, tuple } => self.tell_of(*path, "path_opened", addresses(*tuple)),
            PathEvent::Opened { path } => {
                let found = self.path(*path).map(|path| addresses(path.tuple));
                self.tell_of(*path, "path_validated", found.unwrap_or_else(|| json!({})));
            }
            PathEvent::Changed { path, tuple } => self.tell_of(*path, "path_migrated", addresses(*tuple)),
            PathEvent::State { path, state: PathState::Failing } => {
                self.tell_of(*path, "path_failed", json!({ "reason": "an answer is overdue" }));
            }
            PathEvent::State { path, state } => {
                self.tell_of(*path, "path_status", json!({ "state": state.name() }));
            }
            PathEvent::Abandoned { path, code } => self.tell_abandoned(*path, *code),
            PathEvent::ServerAddresses => self.events.tell("server_addresses", || {
                let known = self.connection.server_addresses();
                let known: Vec<_> = known.iter().map(|known| known.address.to_string()).collect();
                json!({ "connection": self.id, "addresses": known })
            }),
            PathEvent::Missed(events) => {
                let lost = json!({ "connection": self.id, "events": events });
                self.events.tell("lost", || lost);
            }
            _ => {}
        }
    }

    fn tell_abandoned(&self, id: PathId, code: VarInt) {
        let path = self.path(id);
        let closure = path.as_ref().and_then(|path| path.closure);
        let fields = json!({
            "code": code.get(),
            "reason": closure.map(|closure| closure.reason()),
            "by_peer": closure.map(|closure| closure.by_peer),
            "validated": path.as_ref().map(|path| path.validated),
            "bytes": path.as_ref().map(|path| path.bytes_received),
            "bytes_sent": path.as_ref().map(|path| path.bytes_sent),
        });
        self.tell_of(id, "path_closed", fields);
    }

    fn tell_closed(&self) {
        if self.closed.swap(true, Ordering::Relaxed) {
            return;
        }
        let stats = self.connection.stats();
        let reason = self.connection.close_reason();
        self.events.tell("connection_closed", || {
            json!({
                "connection": self.id,
                "established": self.established.load(Ordering::Relaxed),
                "reason": reason.map_or("not used any longer".to_owned(), |reason| reason.to_string()),
                "bytes": stats.bytes_received(),
                "bytes_sent": stats.bytes_sent(),
                "lost_packets": stats.lost_packets(),
                "paths": multipath::all_facts(&stats),
            })
        });
    }

    fn path(&self, id: PathId) -> Option<PathInfo> {
        self.connection.stats().all_paths().find(|path| path.id == id).cloned()
    }

    /// Emits an event of a path, with additional fields.
    fn tell_of(&self, path: PathId, name: &'static str, mut fields: Value) {
        fields["connection"] = self.id.clone().into();
        fields["path"] = path.0.into();
        self.events.tell(name, || fields);
    }
}

fn addresses(tuple: FourTuple) -> Value {
    let canonical = |address: SocketAddr| SocketAddr::new(address.ip().to_canonical(), address.port());
    json!({ "local": canonical(tuple.local).to_string(), "remote": canonical(tuple.remote).to_string() })
}
