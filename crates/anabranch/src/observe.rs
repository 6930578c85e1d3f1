//! Who watches connections: traces in files, and whatever the application brings.

use std::fmt;
use std::fs::File;
use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use anabranch_http3::trace as http3;
use anabranch_qlog::{Clock, MAX_TRACE, Qlog, TraceInfo};
use anabranch_transport::Connection;
use anabranch_transport::trace::{Observer, TraceEvent};
use anabranch_wire::{ConnectionId, Side, Time};
use tracing::warn;

use crate::hub::lock;
use crate::log::ENDPOINT;

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
    /// Bytes that each may have, if not what it may have by default.
    pub(crate) qlog_limit: Option<u64>,
    /// Who else watches.
    pub(crate) observers: Option<ObserverFactory>,
}

impl Watchers {
    pub(crate) fn from_environment() -> Self {
        Self { qlog_dir: std::env::var_os("QLOGDIR").map(PathBuf::from), ..Self::default() }
    }

    /// Has a new connection watched, also by whoever `tells` of it. `name` is that of a server connection's trace, which is given
    /// back if there is one.
    pub(crate) fn watch(
        &self,
        now: Time,
        connection: &mut Connection,
        name: Option<ConnectionId>,
        tells: Option<Box<dyn Observer>>,
    ) -> Option<Trace> {
        let side = connection.side();
        let mut all: Vec<Box<dyn Observer>> = tells.into_iter().collect();
        let trace = self
            .qlog_dir
            .as_ref()
            .map(|dir| Trace::new(QlogFile::new(dir.clone(), self.qlog_limit, side, name)));
        if let Some(trace) = &trace {
            all.push(Box::new(trace.clone()));
        }
        all.extend(self.observers.as_ref().map(|make| make.0(side)));
        if !all.is_empty() {
            connection.set_observer(now, Box::new(Observers(all)));
        }
        trace
    }
}

/// Everybody who watches one connection.
struct Observers(Vec<Box<dyn Observer>>);

impl Observer for Observers {
    fn event(&mut self, time: Time, event: &TraceEvent<'_>) {
        self.0.iter_mut().for_each(|observer| observer.event(time, event));
    }
}

/// A connection's trace, which the transport and the HTTP/3 session write to in turn.
#[derive(Clone)]
pub(crate) struct Trace(Arc<Mutex<QlogFile>>);

impl Trace {
    fn new(file: QlogFile) -> Self {
        Self(Arc::new(Mutex::new(file)))
    }
}

impl Observer for Trace {
    fn event(&mut self, time: Time, event: &TraceEvent<'_>) {
        lock(&self.0).event(time, event);
    }
}

impl http3::Observer for Trace {
    fn event(&mut self, time: Time, event: &http3::TraceEvent<'_>) {
        // The transport's first event has opened the file.
        if let Some(qlog) = &mut lock(&self.0).qlog {
            http3::Observer::event(qlog, time, event);
        }
    }
}

/// A trace in a file of its own, named by the client's first destination connection ID. Opens the file at the connection's
/// first event. A file that cannot be written costs the trace, never the connection.
struct QlogFile {
    dir: PathBuf,
    /// Bytes that it may have.
    limit: Option<u64>,
    side: Side,
    /// `None` on a client: its first event tells.
    name: Option<ConnectionId>,
    qlog: Option<Qlog>,
}

impl QlogFile {
    fn new(dir: PathBuf, limit: Option<u64>, side: Side, name: Option<ConnectionId>) -> Self {
        Self { dir, limit, side, name, qlog: None }
    }

    fn open(&self, group_id: ConnectionId) -> Qlog {
        let side = if self.side.is_client() { "client" } else { "server" };
        let path = self.dir.join(format!("{group_id}_{side}.sqlog"));
        let opened = std::fs::create_dir_all(&self.dir).and_then(|()| File::create(&path));
        let sink: Box<dyn Write + Send> = match opened {
            Ok(file) => Box::new(file),
            Err(error) => {
                warn!(target: ENDPOINT, path = %path.display(), %error, "cannot write a trace");
                Box::new(io::sink())
            }
        };
        let info = TraceInfo { side: self.side, title: "anabranch".into(), group_id, clock: Clock::Unix };
        Qlog::new(sink, &info).with_limit(self.limit.unwrap_or(MAX_TRACE))
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
            Observer::event(qlog, time, event);
        }
    }
}
