//! Traces of connections in files (qlog), one file each.

use std::fs::File;
use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anabranch_qlog::{Clock, MAX_TRACE, Qlog, TraceInfo};
use anabranch_transport::trace::{Observer, TraceEvent};
use anabranch_wire::{ConnectionId, Side, Time};
use tracing::warn;

use crate::lock::lock;
use crate::log::{ENDPOINT, TRACE};
use crate::sync::Mutex;

/// Settings of the traces of future connections.
#[derive(Clone, Debug, Default)]
pub(crate) struct Traces {
    /// Directory of the files. With `None` no traces are written.
    pub(crate) dir: Option<PathBuf>,
    /// Maximum size of each trace in bytes; `None` means [`MAX_TRACE`].
    pub(crate) limit: Option<u64>,
    /// `true` once a warning has been logged that writing to a trace has failed.
    failed: Arc<AtomicBool>,
}

impl Traces {
    /// Returns settings with the directory of the environment variable QLOGDIR.
    pub(crate) fn from_environment() -> Self {
        Self { dir: std::env::var_os("QLOGDIR").map(PathBuf::from), ..Self::default() }
    }

    /// Creates the trace of a new connection. `name` is the client's first destination connection ID, if
    /// known.
    pub(crate) fn begin(&self, side: Side, name: Option<ConnectionId>) -> Option<Trace> {
        let file = QlogFile::new(self.dir.clone()?, self.limit, side, name);
        Some(Trace::new(QlogFile { failed: Arc::clone(&self.failed), ..file }))
    }
}

/// A connection's trace. The transport and the HTTP/3 session both write to it.
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

#[cfg(feature = "http3")]
impl anabranch_http3::trace::Observer for Trace {
    fn event(&mut self, time: Time, event: &anabranch_http3::trace::TraceEvent<'_>) {
        // The transport's first event has opened the file.
        let mut file = lock(&self.0);
        if let Some(qlog) = &mut file.qlog {
            anabranch_http3::trace::Observer::event(qlog, time, event);
        }
        file.look();
    }
}

/// A trace in a separate file, named by the client's first destination connection ID. The file is opened at
/// the connection's first event. If it cannot be written, the trace is lost, and the connection continues.
struct QlogFile {
    dir: PathBuf,
    /// Maximum size in bytes.
    limit: Option<u64>,
    side: Side,
    /// `None` on a client: the connection ID is taken from its first event.
    name: Option<ConnectionId>,
    qlog: Option<Qlog>,
    /// `true` once a warning has been logged that writing to a trace of this endpoint has failed.
    failed: Arc<AtomicBool>,
}

impl QlogFile {
    fn new(dir: PathBuf, limit: Option<u64>, side: Side, name: Option<ConnectionId>) -> Self {
        Self { dir, limit, side, name, qlog: None, failed: Arc::default() }
    }

    /// Logs a warning if the trace cannot be written. Only the first such trace of an endpoint is reported,
    /// since a full disk affects all of them.
    fn look(&mut self) {
        let Some(error) = self.qlog.as_mut().and_then(Qlog::take_error) else { return };
        if !self.failed.swap(true, Ordering::Relaxed) {
            warn!(target: TRACE, dir = %self.dir.display(), %error, "traces end: they cannot be written any more");
        }
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
        self.look();
    }
}

#[cfg(test)]
mod tests;
