//! Execution of a plan.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use peer_common::{Failure, failed};
use quinn::{Connection, FourTuple, OpenPath, PathEvent, PathId, PathStatus};
use tokio::sync::watch;
use tokio::time::timeout;
use tokio_stream::StreamExt;

use super::content::Moved;
use super::plan::{Plan, Step};

/// Time that a step may wait for the other endpoint.
const PATIENCE: Duration = Duration::from_secs(5);
/// Time after the announcement of a path as available during which its announcement as a backup counts as an
/// older one that arrives late. The two travel on different paths, whose queues differ by less.
const REORDERED: Duration = Duration::from_millis(300);
/// Interval between attempts to open a path until the other endpoint has issued connection IDs for it.
const AGAIN: Duration = Duration::from_millis(10);

/// Paths of a connection.
pub struct Paths {
    connection: Connection,
    gone: watch::Receiver<Vec<PathId>>,
    /// Paths whose status the plan has set.
    planned: Arc<Mutex<Vec<PathId>>>,
    moved: Arc<Moved>,
    started: watch::Sender<bool>,
    done: Arc<Mutex<Vec<(String, u128)>>>,
}

impl Paths {
    /// Creates the state for the paths of `connection`. `moved` counts the bytes of its work.
    pub fn new(connection: Connection, moved: Arc<Moved>) -> Self {
        let (tell, gone) = watch::channel(Vec::new());
        let planned = Arc::default();
        tokio::spawn(follow(connection.clone(), tell, Arc::clone(&planned)));
        Self { connection, gone, planned, moved, started: watch::Sender::new(false), done: Arc::default() }
    }

    /// Returns a receiver that turns `true` when the work starts.
    pub fn started(&self) -> watch::Receiver<bool> {
        self.started.subscribe()
    }

    /// Executes `plan`. The work starts at its end at the latest.
    pub async fn follow(&self, plan: &Plan) -> Result<(), Failure> {
        for (text, step) in &plan.0 {
            let failed = |why: Failure| match why {
                Failure::Failed(why) => Failure::Failed(format!("{text}: {why}")),
                unsupported => unsupported,
            };
            self.step(*step).await.map_err(failed)?;
            let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            self.done.lock().unwrap_or_else(PoisonError::into_inner).push((text.clone(), now.as_millis()));
        }
        self.started.send_replace(true);
        Ok(())
    }

    /// Returns the steps so far as JSON, each with the time at which it was completed.
    pub fn report(&self) -> String {
        let done = self.done.lock().unwrap_or_else(PoisonError::into_inner);
        let each = done.iter().map(|(text, at)| format!("{{\"step\":\"{text}\",\"at_ms\":{at}}}"));
        format!("[{}]", each.collect::<Vec<_>>().join(","))
    }

    async fn step(&self, step: Step) -> Result<(), Failure> {
        match step {
            Step::Start => _ = self.started.send_replace(true),
            Step::At(bytes) => {
                let mut moved = self.moved.subscribe();
                moved.wait_for(|moved| *moved >= bytes).await?;
            }
            Step::Wait(time) => tokio::time::sleep(time).await,
            Step::Update => self.connection.force_key_update(),
            Step::Open { remote, backup } => {
                let path = self.open(remote).await?;
                if backup {
                    // noq does not report the initial status of a path to the other endpoint.
                    path.set_status(PathStatus::Backup)?;
                }
            }
            // The result does not matter.
            Step::Try(remote) => drop(self.begin(remote)),
            Step::Refused(remote) => {
                if let Ok(Ok(path)) = timeout(PATIENCE, self.begin(remote)).await {
                    return failed(format!("it is path {}", path.id()));
                }
            }
            Step::Abandon(path) => self.path(path)?.close()?,
            Step::Gone(path) => {
                let mut gone = self.gone.clone();
                timeout(PATIENCE, gone.wait_for(|gone| gone.contains(&path.into()))).await??;
            }
            Step::Status { path, backup } => {
                self.planned.lock().unwrap_or_else(PoisonError::into_inner).push(path.into());
                self.path(path)?.set_status(if backup {
                    PathStatus::Backup
                } else {
                    PathStatus::Available
                })?;
            }
        }
        Ok(())
    }

    fn path(&self, id: u32) -> Result<quinn::Path, Failure> {
        self.connection.path(id.into()).ok_or_else(|| Failure::Failed("there is no such path".into()))
    }

    fn begin(&self, remote: SocketAddr) -> OpenPath {
        // The local address is the loopback address that the other endpoint uses.
        self.connection.open_path(FourTuple::new(remote, Some(remote.ip())), PathStatus::Available)
    }

    /// Opens a path as soon as the other endpoint permits it.
    async fn open(&self, remote: SocketAddr) -> Result<quinn::Path, Failure> {
        let opening = async {
            loop {
                match self.begin(remote).await {
                    Ok(path) => return Ok(path),
                    Err(quinn::PathError::RemoteCidsExhausted | quinn::PathError::MaxPathIdReached) => {
                        tokio::time::sleep(AGAIN).await;
                    }
                    Err(error) => return Err(error.into()),
                }
            }
        };
        timeout(PATIENCE, opening).await?
    }
}

/// Records abandoned paths, and sets a path's status to the one that the other endpoint requests, unless the
/// plan has set one: the other endpoint announces a stalled path as a backup for a moment, and then as
/// available again. noq leaves this to applications, and reports frames that arrive in the wrong order without
/// their sequence numbers: see [`REORDERED`].
async fn follow(connection: Connection, tell: watch::Sender<Vec<PathId>>, planned: Arc<Mutex<Vec<PathId>>>) {
    let mut events = connection.path_events();
    let connection = connection.weak_handle();
    let mut available = HashMap::new();
    while let Some(event) = events.next().await {
        match event {
            Ok(PathEvent::Abandoned { id, .. }) => tell.send_modify(|gone| gone.push(id)),
            Ok(PathEvent::RemoteStatus { id, status, .. }) => {
                if planned.lock().unwrap_or_else(PoisonError::into_inner).contains(&id) {
                    continue;
                }
                if status == PathStatus::Available {
                    available.insert(id, Instant::now());
                } else if available.get(&id).is_some_and(|since: &Instant| since.elapsed() < REORDERED) {
                    continue;
                }
                if let Some(path) = connection.upgrade().and_then(|connection| connection.path(id)) {
                    let _ = path.set_status(status);
                }
            }
            _ => {}
        }
    }
}
