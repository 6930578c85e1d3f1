//! Qlog traces of a run, one file for each end.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use anabranch_qlog::{Clock, Qlog, TraceInfo};
use anabranch_transport::trace::{Observer, TraceEvent};
use anabranch_wire::{ConnectionId, Side, Time};

/// Files of the traces of a run's two ends.
#[derive(Clone)]
pub(super) struct Traces {
    /// Path of the files without the end's name and the extension.
    stem: PathBuf,
    /// The client's first destination connection ID, once it is known. Both traces contain it.
    group: Arc<Mutex<ConnectionId>>,
}

impl Traces {
    pub(super) fn new(dir: &Path, name: &str) -> Self {
        Self { stem: dir.join(name), group: Arc::new(Mutex::new(ConnectionId::EMPTY)) }
    }

    pub(super) fn of(&self, side: Side) -> Trace {
        Trace { traces: self.clone(), side, qlog: None }
    }
}

/// Trace of one end. If its file cannot be written, the trace is lost but the run continues.
pub(super) struct Trace {
    traces: Traces,
    side: Side,
    qlog: Option<Qlog>,
}

impl Trace {
    fn open(&self, event: &TraceEvent<'_>) -> Qlog {
        let mut group_id = self.traces.group.lock().unwrap_or_else(PoisonError::into_inner);
        let end = match (self.side, event) {
            (Side::Client, TraceEvent::Started { remote_cid, .. }) => {
                *group_id = *remote_cid;
                "client"
            }
            (Side::Client, _) => "client",
            (Side::Server, _) => "server",
        };
        let mut name = self.traces.stem.clone().into_os_string();
        name.push(format!(".{end}.sqlog"));
        let sink: Box<dyn Write + Send> = match File::create(name) {
            Ok(file) => Box::new(file),
            Err(_) => Box::new(io::sink()),
        };
        let info = TraceInfo {
            side: self.side,
            title: "anabranch lab".into(),
            group_id: *group_id,
            clock: Clock::Virtual,
        };
        Qlog::new(sink, &info)
    }
}

impl Observer for Trace {
    fn event(&mut self, time: Time, event: &TraceEvent<'_>) {
        if self.qlog.is_none() {
            self.qlog = Some(self.open(event));
        }
        self.qlog.iter_mut().for_each(|qlog| qlog.event(time, event));
    }
}

impl Drop for Trace {
    /// Flushes the trace. A run usually ends before its connection does, so the connection does not flush it.
    fn drop(&mut self) {
        self.qlog.iter_mut().for_each(Qlog::flush);
    }
}
