//! Who watches connections: traces in files, and whatever the application brings.

use std::fmt;
use std::fs::File;
use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::Arc;

use anabranch_qlog::{Clock, Qlog, TraceInfo};
use anabranch_transport::Connection;
use anabranch_transport::trace::{Observer, TraceEvent};
use anabranch_wire::{ConnectionId, Side, Time};

/// Makes an observer for each connection of an endpoint.
#[derive(Clone)]
pub(crate) struct ObserverFactory(pub(crate) Arc<dyn Fn(Side) -> Box<dyn Observer> + Send + Sync>);

impl fmt::Debug for ObserverFactory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ObserverFactory")
    }
}

/// Who watches connections to come.
#[derive(Clone, Debug, Default)]
pub(crate) struct Watchers {
    /// Where traces go.
    pub(crate) qlog_dir: Option<PathBuf>,
    /// Who else watches.
    pub(crate) observers: Option<ObserverFactory>,
}

impl Watchers {
    pub(crate) fn from_environment() -> Self {
        Self { qlog_dir: std::env::var_os("QLOGDIR").map(PathBuf::from), observers: None }
    }

    /// Has a new connection watched. `name` is that of a server connection's trace.
    pub(crate) fn watch(&self, now: Time, connection: &mut Connection, name: Option<ConnectionId>) {
        let side = connection.side();
        let mut all = Vec::new();
        if let Some(dir) = &self.qlog_dir {
            let file: Box<dyn Observer> = Box::new(QlogFile::new(dir.clone(), side, name));
            all.push(file);
        }
        all.extend(self.observers.as_ref().map(|make| make.0(side)));
        if !all.is_empty() {
            connection.set_observer(now, Box::new(Observers(all)));
        }
    }
}

/// Everybody who watches one connection.
struct Observers(Vec<Box<dyn Observer>>);

impl Observer for Observers {
    fn event(&mut self, time: Time, event: &TraceEvent<'_>) {
        self.0.iter_mut().for_each(|observer| observer.event(time, event));
    }
}

/// A trace in a file of its own, named by the client's first destination connection ID. Opens the file at the connection's first event. A file that cannot be written costs the trace, never the connection.
struct QlogFile {
    dir: PathBuf,
    side: Side,
    /// `None` on a client: its first event tells.
    name: Option<ConnectionId>,
    qlog: Option<Qlog>,
}

impl QlogFile {
    fn new(dir: PathBuf, side: Side, name: Option<ConnectionId>) -> Self {
        Self { dir, side, name, qlog: None }
    }

    fn open(&self, group_id: ConnectionId) -> Qlog {
        let side = if self.side.is_client() { "client" } else { "server" };
        let path = self.dir.join(format!("{group_id}_{side}.sqlog"));
        let opened = std::fs::create_dir_all(&self.dir).and_then(|()| File::create(path));
        let sink: Box<dyn Write + Send> = match opened {
            Ok(file) => Box::new(file),
            Err(_) => Box::new(io::sink()),
        };
        let info = TraceInfo { side: self.side, title: "anabranch".into(), group_id, clock: Clock::Unix };
        Qlog::new(sink, &info)
    }
}

impl Observer for QlogFile {
    fn event(&mut self, time: Time, event: &TraceEvent<'_>) {
        if self.qlog.is_none() {
            let first_remote_cid = match event {
                TraceEvent::Started { remote_cid, .. } => *remote_cid,
                _ => ConnectionId::EMPTY,
            };
            self.qlog = Some(self.open(self.name.unwrap_or(first_remote_cid)));
        }
        if let Some(qlog) = &mut self.qlog {
            qlog.event(time, event);
        }
    }
}
