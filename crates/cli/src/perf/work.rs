//! Work of a client on a connection.

use anabranch::{Connection, VarInt};
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::{Instant, timeout_at};

use super::http3;
use super::server::write_pattern;
use crate::exit::{Exit, Failure, Result};
use crate::{hq, size};

/// Work of a client, which determines the application protocol.
#[derive(Clone, Debug)]
pub(super) enum Work {
    /// A number of bytes in each direction, split over streams.
    Bulk { download: u64, upload: u64, streams: u64 },
    /// As many bytes as possible within a time, in one direction, over this many streams.
    Timed { time: Duration, reverse: bool, streams: u64 },
    /// One stream for each path. Responses are written to files in a directory, or discarded.
    Files { http3: bool, out: Option<PathBuf>, paths: Vec<String> },
}

impl Work {
    pub(super) fn alpn(&self) -> &'static str {
        match self {
            Self::Bulk { .. } | Self::Timed { .. } => super::ALPN,
            Self::Files { http3: true, .. } => http3::ALPN,
            Self::Files { .. } => hq::ALPN,
        }
    }

    /// Fails unless each response has its own file name, because they are written concurrently.
    pub(super) fn check(&self) -> Result {
        let Self::Files { out: Some(_), paths, .. } = self else { return Ok(()) };
        let mut names = BTreeSet::new();
        for path in paths {
            let name = file_name(path)?;
            if !names.insert(name) {
                let what = format!("two paths for one file {}", name.display());
                return Err(Failure::new(Exit::Usage, what));
            }
        }
        Ok(())
    }

    /// Returns the work of two connections: for files, the first path and the remaining ones; for other work,
    /// the same on both.
    pub(super) fn halves(&self) -> (Self, Self) {
        match self {
            Self::Files { http3, out, paths } if paths.len() > 1 => {
                let of =
                    |paths: &[String]| Self::Files { http3: *http3, out: out.clone(), paths: paths.to_vec() };
                (of(&paths[..1]), of(&paths[1..]))
            }
            work => (work.clone(), work.clone()),
        }
    }

    /// Returns the number of bytes at which half of the work is done. The length of files and of timed work
    /// is unknown, so their middle is the first byte.
    fn middle(&self) -> u64 {
        match self {
            Self::Bulk { download, upload, .. } => ((download + upload) / 2).max(1),
            Self::Files { .. } | Self::Timed { .. } => 1,
        }
    }

    /// Does the work and returns the number of bytes transferred. `in_the_middle` is called once, when half
    /// of the work is done; `moved` counts the bytes.
    pub(super) async fn run(
        &self,
        connection: &Connection,
        moved: Arc<Moved>,
        in_the_middle: impl Fn() + Send + Sync + 'static,
    ) -> Result<u64> {
        let progress = Progress {
            moved,
            noticed: AtomicU64::default(),
            middle: self.middle(),
            act: Box::new(in_the_middle),
        };
        let progress = Arc::new(progress);
        let mut tasks = JoinSet::new();
        match self {
            Self::Bulk { download, upload, streams } => {
                for i in 0..*streams {
                    let (connection, progress) = (connection.clone(), Arc::clone(&progress));
                    let (download, upload) = (share(*download, i, *streams), share(*upload, i, *streams));
                    tasks.spawn(async move { bulk(&connection, download, upload, &progress).await });
                }
            }
            Self::Timed { time, reverse, streams } => {
                let (until, reverse) = (Instant::now() + *time, *reverse);
                for _ in 0..*streams {
                    let (connection, progress) = (connection.clone(), Arc::clone(&progress));
                    tasks.spawn(async move { timed(&connection, until, reverse, &progress).await });
                }
            }
            Self::Files { http3, out, paths } => {
                let session = http3.then(|| http3::begin(connection));
                for path in paths {
                    let (connection, progress) = (connection.clone(), Arc::clone(&progress));
                    let (session, out, path) = (session.clone(), out.clone(), path.clone());
                    tasks.spawn(async move {
                        let sink = sink(out.as_deref(), &path)?;
                        match session {
                            Some(session) => resource(&session, sink, &path, &progress).await,
                            None => file(&connection, sink, &path, &progress).await,
                        }
                    });
                }
            }
        }
        while let Some(done) = tasks.join_next().await {
            done.map_err(|error| Failure::new(Exit::Protocol, error))??;
        }
        match self {
            Self::Timed { .. } => Ok(progress.moved.arrived(connection)),
            _ => Ok(progress.moved.total()),
        }
    }
}

/// Returns the part of `total` that stream `i` of `streams` carries.
fn share(total: u64, i: u64, streams: u64) -> u64 {
    total / streams + u64::from(i < total % streams)
}

/// Byte counters of a measurement.
#[derive(Debug, Default)]
pub(super) struct Moved {
    received: AtomicU64,
    /// Bytes handed over to be sent; they may not have arrived.
    written: AtomicU64,
}

impl Moved {
    /// Returns the number of bytes received and written.
    fn total(&self) -> u64 {
        self.received.load(Ordering::Relaxed) + self.written.load(Ordering::Relaxed)
    }

    /// Returns the number of bytes that have arrived at either end.
    pub(super) fn arrived(&self, connection: &Connection) -> u64 {
        let written = self.written.load(Ordering::Relaxed);
        let delivered = if written > 0 { connection.stats().delivered.min(written) } else { 0 };
        self.received.load(Ordering::Relaxed) + delivered
    }
}

/// Byte counters with an action in the middle.
struct Progress {
    moved: Arc<Moved>,
    /// Total number of bytes so far.
    noticed: AtomicU64,
    middle: u64,
    act: Box<dyn Fn() + Send + Sync>,
}

impl Progress {
    fn add(&self, bytes: u64) {
        self.moved.received.fetch_add(bytes, Ordering::Relaxed);
        self.notice(bytes);
    }

    fn add_written(&self, bytes: u64) {
        self.moved.written.fetch_add(bytes, Ordering::Relaxed);
        self.notice(bytes);
    }

    /// Calls the action once, when the middle is passed.
    fn notice(&self, bytes: u64) {
        let before = self.noticed.fetch_add(bytes, Ordering::Relaxed);
        if before < self.middle && before + bytes >= self.middle {
            (self.act)();
        }
    }
}

async fn bulk(connection: &Connection, download: u64, upload: u64, progress: &Progress) -> Result {
    let (mut send, mut receive) = connection.open_bi().await?;
    send.write_all(&download.to_be_bytes()).await?;
    write_pattern(&mut send, upload, |bytes| progress.add_written(bytes)).await?;
    send.finish().map_err(|error| Failure::new(Exit::Protocol, error))?;
    let mut received = 0;
    while let Some(n) = receive.read_with(<[u8]>::len).await? {
        received += n as u64;
        progress.add(n as u64);
    }
    if received != download {
        let what = format!("the server sent {received} bytes instead of {download}");
        return Err(Failure::new(Exit::Protocol, what));
    }
    Ok(())
}

/// Sends or receives until the time `until`. Data that has not arrived by then is abandoned.
async fn timed(connection: &Connection, until: Instant, reverse: bool, progress: &Progress) -> Result {
    let (mut send, mut receive) = connection.open_bi().await?;
    let asked = if reverse { size::MAX } else { 0 };
    send.write_all(&asked.to_be_bytes()).await?;
    if !reverse {
        let writing = write_pattern(&mut send, size::MAX, |bytes| progress.add_written(bytes));
        // The timeout is the normal end. A slow link may need longer for the queued data than the measurement
        // lasts, so the stream is reset.
        if let Ok(written) = timeout_at(until, writing).await {
            written?;
        }
        // Fails if the server has stopped the stream, which then needs no reset.
        let _ = send.reset(VarInt::from_u32(0));
        return Ok(());
    }
    send.finish().map_err(|error| Failure::new(Exit::Protocol, error))?;
    let reading = async {
        while let Some(n) = receive.read_with(<[u8]>::len).await? {
            progress.add(n as u64);
        }
        Ok::<_, Failure>(())
    };
    match timeout_at(until, reading).await {
        Ok(read) => read,
        // Dropping the handle sends STOP_SENDING to the server.
        Err(_) => Ok(()),
    }
}

/// Returns the last part of a path as a file name.
fn file_name(path: &str) -> Result<&OsStr> {
    let name = Path::new(path).file_name();
    name.ok_or_else(|| Failure::new(Exit::Usage, format!("{path} names no file")))
}

/// Returns the destination of a response.
fn sink(out: Option<&Path>, path: &str) -> Result<Sink> {
    let Some(dir) = out else { return Ok(Sink::Nowhere) };
    Ok(Sink::File(dir.join(file_name(path)?), None))
}

/// Destination of a response. A file is created with the first bytes of its response, so that no more files are
/// open than streams.
enum Sink {
    Nowhere,
    File(PathBuf, Option<io::BufWriter<File>>),
}

impl Sink {
    fn write(&mut self, bytes: &[u8]) -> Result {
        let Self::File(name, file) = self else { return Ok(()) };
        let file = match file {
            Some(file) => file,
            None => {
                let failed = |error| Failure::io(format_args!("cannot create {}", name.display()), &error);
                file.insert(io::BufWriter::new(File::create(&name).map_err(failed)?))
            }
        };
        file.write_all(bytes).map_err(|error| Failure::io("cannot write", &error))
    }

    /// Ends the output of a complete response. An empty response creates an empty file, too.
    fn finish(mut self) -> Result {
        self.write(b"")?;
        let Self::File(_, Some(mut file)) = self else { return Ok(()) };
        file.flush().map_err(|error| Failure::io("cannot write", &error))
    }
}

async fn resource(session: &http3::Connection, mut sink: Sink, path: &str, progress: &Progress) -> Result {
    let authority = session.quic().handshake_data().server_name.unwrap_or_else(|| "localhost".to_owned());
    let mut answer = http3::ask(session, &authority, path).await?;
    while let Some(piece) = http3::piece(&mut answer).await? {
        sink.write(&piece)?;
        // The action in the middle may use the connection, so it must not be called while the connection is
        // locked.
        progress.add(piece.len() as u64);
    }
    sink.finish()
}

async fn file(connection: &Connection, mut sink: Sink, path: &str, progress: &Progress) -> Result {
    let mut answer = hq::ask(connection, path).await?;
    while let Some(piece) = answer.piece().await? {
        sink.write(&piece)?;
        progress.add(piece.len() as u64);
    }
    sink.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_add_up() {
        for (total, streams) in [(0, 1), (10, 3), (7, 7), (5, 9)] {
            assert_eq!((0..streams).map(|i| share(total, i, streams)).sum::<u64>(), total);
        }
    }

    #[test]
    fn the_middle_comes_once() {
        let times = Arc::new(AtomicU64::new(0));
        let count = Arc::clone(&times);
        let act = Box::new(move || _ = count.fetch_add(1, Ordering::Relaxed));
        let progress = Progress { moved: Arc::default(), noticed: AtomicU64::default(), middle: 5, act };
        let seen: Vec<_> = [4, 1, 3, 2]
            .map(|bytes| {
                progress.add(bytes);
                times.load(Ordering::Relaxed)
            })
            .into();
        assert_eq!(seen, [0, 1, 1, 1]);
    }

    #[test]
    fn the_first_path_makes_the_first_half() {
        let work = Work::Files { http3: false, out: None, paths: ["a", "b", "c"].map(String::from).into() };
        let (Work::Files { paths: first, .. }, Work::Files { paths: second, .. }) = work.halves() else {
            panic!("not files");
        };
        assert_eq!((first.len(), second), (1, vec!["b".to_owned(), "c".to_owned()]));
    }
}
