//! Traces in files, one for each connection, named by the client's first destination connection ID.

use std::fs::File;
use std::io::{self, Write};
use std::path::PathBuf;

use anabranch_qlog::{Clock, Qlog, TraceInfo};
use anabranch_transport::trace::{Observer, TraceEvent};
use anabranch_wire::{ConnectionId, Side, Time};

/// Opens the file at the connection's first event. A file that cannot be written costs the trace, never the connection.
pub(crate) struct QlogFile {
    dir: PathBuf,
    side: Side,
    /// `None` on a client: its first event tells.
    name: Option<ConnectionId>,
    qlog: Option<Qlog>,
}

impl QlogFile {
    pub(crate) fn new(dir: PathBuf, side: Side, name: Option<ConnectionId>) -> Self {
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
