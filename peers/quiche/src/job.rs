//! Work of a client on one connection.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;
use peer_common::args::{Requests, Work};
use peer_common::latency::Latencies;
use peer_common::progress::{Progress, share};
use peer_common::{Failure, failed, files};

use crate::endpoint::Link;
use crate::http3::client::Web;
use crate::outgoing::Outgoing;
use crate::stack;

/// Size of the buffer for received data, in bytes.
const SINK: usize = 64 * 1024;

/// Work on one connection.
#[derive(Default)]
pub struct Job {
    waiting: Vec<Stream>,
    open: HashMap<u64, Stream>,
    next: u64,
    web: Option<Web>,
    progress: Option<Arc<Progress>>,
    sink: Vec<u8>,
}

/// Stream of the work.
struct Stream {
    outgoing: Outgoing,
    expected: Option<u64>,
    received: u64,
    file: Option<(PathBuf, Vec<u8>)>,
}

impl Job {
    /// Creates the streams of `work`, which are opened as the stream limit allows.
    pub fn new(work: &Work, progress: Arc<Progress>) -> Result<Self, Failure> {
        let (mut waiting, mut web) = (Vec::new(), None);
        let plain = |outgoing| Stream { outgoing, expected: None, received: 0, file: None };
        match work {
            Work::Perf { download, upload, streams } => {
                for index in 0..*streams {
                    let (down, up) = (share(*download, index, *streams), share(*upload, index, *streams));
                    let head = Bytes::copy_from_slice(&down.to_be_bytes());
                    waiting.push(Stream { expected: Some(down), ..plain(Outgoing::new(head, up, true)) });
                }
            }
            Work::Fetch { http3: true, out, paths } => web = Some(Web::files(paths, out.as_deref())?),
            Work::Fetch { http3: false, out, paths } => {
                for path in paths {
                    let target = out.as_ref().map(|out| files::destination(out, path));
                    if target == Some(None) {
                        return failed(format!("no file name in {path}"));
                    }
                    let file = target.flatten().map(|target| (target, Vec::new()));
                    let head = Bytes::from(files::request(path));
                    waiting.push(Stream { file, ..plain(Outgoing::new(head, 0, true)) });
                }
            }
            Work::Requests(Requests { count, concurrency, path, .. }) => {
                web = Some(Web::repeat(path, *count, *concurrency)?);
            }
            Work::Handshakes { .. } | Work::Datagrams { .. } => {}
        }
        waiting.reverse();
        Ok(Self { waiting, web, progress: Some(progress), ..Self::default() })
    }

    /// Takes the times of the requests.
    pub fn times(&mut self) -> Latencies {
        self.web.as_mut().map(|web| std::mem::take(&mut web.times)).unwrap_or_default()
    }

    /// Returns whether all streams have ended.
    pub fn done(&self) -> bool {
        self.waiting.is_empty() && self.open.is_empty() && self.web.as_ref().is_none_or(Web::done)
    }
}

/// Opens streams, sends and receives, as far as the connection allows.
pub fn advance(link: &mut Link<Job>) -> Result<(), Failure> {
    let Link { connection, state: job, .. } = link;
    if !(connection.is_established() || connection.is_in_early_data()) {
        return Ok(());
    }
    let Some(progress) = job.progress.clone() else { return Ok(()) };
    job.sink.resize(SINK, 0);
    if let Some(web) = &mut job.web {
        return web.advance(connection, &progress, &mut job.sink);
    }
    while connection.peer_streams_left_bidi() > 0
        && let Some(stream) = job.waiting.pop()
    {
        // Client-initiated bidirectional streams (RFC 9000 §2.1).
        let id = stack::first_stream(connection) + job.next * 4;
        job.next += 1;
        let stream = job.open.entry(id).or_insert(stream);
        progress.add(stream.outgoing.push(connection, id)?);
    }
    for (&id, stream) in job.open.iter_mut().filter(|(_, stream)| !stream.outgoing.done()) {
        progress.add(stream.outgoing.push(connection, id)?);
    }
    let readable: Vec<u64> = connection.readable().collect();
    for id in readable {
        let Some(stream) = job.open.get_mut(&id) else { continue };
        let ended = stack::read(connection, id, &mut job.sink, |piece| {
            stream.received += piece.len() as u64;
            progress.add(piece.len() as u64);
            if let Some((_, body)) = &mut stream.file {
                body.extend_from_slice(piece);
            }
        })?;
        if ended {
            finish(job.open.remove(&id))?;
        }
    }
    Ok(())
}

fn finish(stream: Option<Stream>) -> Result<(), Failure> {
    let Some(stream) = stream else { return Ok(()) };
    if let Some((target, body)) = stream.file {
        std::fs::write(target, body)?;
    }
    match stream.expected {
        Some(expected) if expected != stream.received => {
            failed(format!("asked for {expected} bytes, got {}", stream.received))
        }
        _ => Ok(()),
    }
}
