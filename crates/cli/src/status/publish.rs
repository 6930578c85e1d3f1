//! Publication of a process's state on a Unix socket: each reader gets the newest report as a line, and then one each second.

use std::io;
use std::os::unix::net::UnixListener as StdUnixListener;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::Args;
use tokio::io::AsyncWriteExt;
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval, timeout};

use super::place::Place;
use super::report::Report;
use crate::exit::{Failure, Result, note};

/// Maximum number of processes that read the state at the same time. Further connections are closed at once.
pub(super) const MAX_READERS: usize = 8;
/// Maximum time in which a reader must read a line.
const MAX_STALL: Duration = Duration::from_secs(5);
/// Time between two reports.
const INTERVAL: Duration = Duration::from_secs(1);
/// Pause after a connection could not be accepted, for instance because the process has no free descriptors.
const REST: Duration = Duration::from_millis(100);

/// Receiver of the newest report, as a line of JSON.
pub(crate) type Newest = watch::Receiver<Arc<str>>;

/// Source of reports.
pub(crate) trait Source: Send + 'static {
    /// Returns the present state. `interval` is the time since the previous report; `None` for the first one.
    fn report(&mut self, interval: Option<Duration>) -> Report;
}

/// Options for the socket on which a command publishes its state.
#[derive(Args, Clone, Debug, PartialEq, Eq)]
pub(crate) struct Publishing {
    /// Publish the state at this Unix socket, for `anabranch status` [default: one in the runtime directory]
    #[arg(long, value_name = "PATH")]
    status_socket: Option<PathBuf>,
    /// Do not publish the state
    #[arg(long, conflicts_with = "status_socket")]
    no_status: bool,
}

impl Publishing {
    /// Returns the options with `configured` as the socket, unless the command line has one of the options.
    pub(crate) fn or(self, configured: Option<PathBuf>) -> Self {
        let named = self.no_status || self.status_socket.is_some();
        if named { self } else { Self { status_socket: configured, ..self } }
    }

    /// Binds the socket. If the options name none and none can be bound in the runtime directory, prints a message and returns
    /// `None`, because the command works without the socket.
    pub(crate) fn bind(&self, role: &str) -> Result<Option<Publisher>> {
        if self.no_status {
            return Ok(None);
        }
        let taken = match &self.status_socket {
            Some(path) => Place::take_named(path)?,
            None => match Place::take(role) {
                Ok(taken) => taken,
                Err(failure) => {
                    let what = failure.what();
                    note(format_args!("anabranch: {what}; `anabranch status` will not find this process"));
                    return Ok(None);
                }
            },
        };
        Publisher::new(taken).map(Some).map_err(|error| Failure::io("cannot publish the state", &error))
    }
}

/// A bound socket that does not accept readers yet.
#[derive(Debug)]
pub(crate) struct Publisher {
    place: Place,
    listener: UnixListener,
}

impl Publisher {
    fn new((place, listener): (Place, StdUnixListener)) -> io::Result<Self> {
        listener.set_nonblocking(true)?;
        Ok(Self { place, listener: UnixListener::from_std(listener)? })
    }

    /// Publishes reports until the task is dropped, which removes the socket.
    pub(crate) async fn publish(self, newest: Newest) {
        let _place = self.place;
        accept(self.listener, newest).await;
    }
}

/// Returns a receiver of the newest report of `source`, and the future of the task that replaces the report each second.
pub(crate) fn reporting(mut source: impl Source) -> (Newest, impl Future<Output = ()> + Send) {
    let (newest, line) = watch::channel(text(&source.report(None)));
    let report = async move {
        let mut ticks = interval(INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        ticks.tick().await;
        let mut last = Instant::now();
        loop {
            ticks.tick().await;
            let now = Instant::now();
            let report = source.report(Some(now - last));
            last = now;
            newest.send_replace(text(&report));
        }
    };
    (line, report)
}

fn text(report: &Report) -> Arc<str> {
    // The report has no maps with keys other than strings, so this cannot fail.
    let mut line = serde_json::to_string(report).unwrap_or_default();
    line.push('\n');
    line.into()
}

async fn accept(listener: UnixListener, line: Newest) {
    let room = Arc::new(Semaphore::new(MAX_READERS));
    let mut reading = JoinSet::new();
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                while reading.try_join_next().is_some() {}
                if let Ok(permit) = Arc::clone(&room).try_acquire_owned() {
                    let line = line.clone();
                    reading.spawn(async move {
                        // An error means that the reader has closed its connection, or does not read.
                        let _ = tell(stream, line).await;
                        drop(permit);
                    });
                }
            }
            Err(_) => tokio::time::sleep(REST).await,
        }
    }
}

/// Sends the newest line, and each one after it.
async fn tell(mut stream: UnixStream, mut line: Newest) -> io::Result<()> {
    loop {
        let newest = Arc::clone(&line.borrow_and_update());
        timeout(MAX_STALL, stream.write_all(newest.as_bytes())).await??;
        let mut ignored = [0; 64];
        loop {
            tokio::select! {
                changed = line.changed() => match changed {
                    Ok(()) => break,
                    Err(_) => return Ok(()),
                },
                // Bytes from readers are ignored.
                readable = stream.readable() => {
                    readable?;
                    match stream.try_read(&mut ignored) {
                        Ok(0) => return Ok(()),
                        Err(error) if error.kind() != io::ErrorKind::WouldBlock => return Err(error),
                        _ => {}
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncBufReadExt, BufReader};

    use super::*;

    /// A source that counts its reports.
    struct Counting(u32);

    impl Source for Counting {
        fn report(&mut self, interval: Option<Duration>) -> Report {
            assert_eq!(interval.is_none(), self.0 == 0);
            self.0 += 1;
            Report { pid: self.0, ..Report::default() }
        }
    }

    #[tokio::test]
    async fn max_readers_processes_read_lines() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x.sock");
        let publisher = Publisher::new(Place::take_named(&path).unwrap()).unwrap();
        let (newest, reporting) = reporting(Counting(0));
        let reporting = tokio::spawn(reporting);
        let publishing = tokio::spawn(publisher.publish(newest));
        let mut readers = Vec::new();
        for _ in 0..MAX_READERS {
            let mut reader = BufReader::new(UnixStream::connect(&path).await.unwrap());
            let mut line = String::new();
            reader.read_line(&mut line).await.unwrap();
            let report: Report = serde_json::from_str(&line).unwrap();
            assert!(report.pid >= 1);
            readers.push((reader, report.pid));
        }
        let mut refused = BufReader::new(UnixStream::connect(&path).await.unwrap());
        assert_eq!(refused.read_line(&mut String::new()).await.unwrap(), 0);
        let (reader, before) = &mut readers[0];
        let mut line = String::new();
        reader.read_line(&mut line).await.unwrap();
        assert_eq!(serde_json::from_str::<Report>(&line).unwrap().pid, *before + 1);
        // A reader that closes its connection makes room for another one.
        readers.clear();
        loop {
            let mut reader = BufReader::new(UnixStream::connect(&path).await.unwrap());
            if reader.read_line(&mut String::new()).await.unwrap_or(0) > 0 {
                break;
            }
        }
        publishing.abort();
        reporting.abort();
        let _ = publishing.await;
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    }
}
