//! Execution of a plan on the paths of a connection.

use anabranch::{Connection, OpenPathError, PathEvent, PathEvents, PathId, PathStatus, VarInt};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use super::content::Moved;
use super::plan::{Plan, Step};
use crate::exit::{Exit, Failure, Result};

/// Maximum duration of a step that waits for the peer.
const PATIENCE: Duration = Duration::from_secs(5);
/// Interval at which conditions without an event are checked.
const LOOK: Duration = Duration::from_millis(5);
/// APPLICATION_ABANDON_PATH (RFC 10069 §5).
const ABANDON: VarInt = VarInt::from_u32(0x3e);

/// The paths of a connection, and the execution of its plan.
pub(super) struct Paths {
    connection: Connection,
    gone: watch::Receiver<Vec<PathId>>,
    moved: Arc<Moved>,
    started: watch::Sender<bool>,
    done: Mutex<Vec<Value>>,
}

impl Paths {
    /// Creates the state for `connection`; `moved` counts the transferred bytes.
    pub(super) fn new(connection: Connection, moved: Arc<Moved>) -> Self {
        let (tell, gone) = watch::channel(Vec::new());
        tokio::spawn(follow(connection.path_events(), tell));
        Self { connection, gone, moved, started: watch::Sender::new(false), done: Mutex::default() }
    }

    /// Returns a receiver whose value becomes `true` when the work is to begin.
    pub(super) fn started(&self) -> watch::Receiver<bool> {
        self.started.subscribe()
    }

    /// Executes `plan`. The work begins at the end of the plan, unless a step has started it.
    pub(super) async fn follow(&self, plan: &Plan) -> Result {
        for (text, step) in &plan.0 {
            let late = |_| Failure::new(Exit::Failed, "nothing has come of it");
            let done = timeout(step.patience(), self.step(*step)).await.map_err(late).and_then(|done| done);
            done.map_err(|why| Failure::new(Exit::Failed, format!("{text}: {why}")))?;
            let at = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            let done = json!({ "step": text, "at_ms": at.as_millis() as u64 });
            self.done.lock().unwrap_or_else(PoisonError::into_inner).push(done);
        }
        self.started.send_replace(true);
        Ok(())
    }

    /// Returns the steps that were executed, with their times.
    pub(super) fn report(&self) -> Value {
        self.done.lock().unwrap_or_else(PoisonError::into_inner).clone().into()
    }

    async fn step(&self, step: Step) -> Result {
        match step {
            Step::Start => _ = self.started.send_replace(true),
            Step::At(bytes) => {
                let mut moved = self.moved.subscribe();
                // `self` holds a sender, so the channel cannot close.
                let _ = moved.wait_for(|moved| *moved >= bytes).await;
            }
            Step::Wait(time) => sleep(time).await,
            Step::Update => self.connection.update_keys(),
            Step::Open { remote, backup } => self.open(remote, backup).await?,
            Step::Try(remote) => {
                self.connection.begin_path(remote.ip(), Some(remote)).await.map_err(no_path)?;
            }
            Step::Refused(remote) => {
                if let Ok(path) = self.connection.open_path(remote.ip(), Some(remote)).await {
                    return Err(Failure::new(Exit::Failed, format!("it is path {}", path.0)));
                }
            }
            Step::Abandon(path) => self
                .connection
                .abandon_path(PathId(path), ABANDON)
                .map_err(|error| Failure::new(Exit::Failed, error))?,
            Step::Gone(path) => {
                // The channel closes when the connection has ended, and all its paths with it.
                let _ = self.gone.clone().wait_for(|gone| gone.contains(&PathId(path))).await;
            }
            Step::Status { path, backup } => self.set(PathId(path), backup)?,
        }
        Ok(())
    }

    fn set(&self, path: PathId, backup: bool) -> Result {
        let status = if backup { PathStatus::Backup } else { PathStatus::Available };
        self.connection.set_path_status(path, status).map_err(|error| Failure::new(Exit::Failed, error))
    }

    /// Opens a path as soon as the peer's limits permit, and waits for its validation.
    async fn open(&self, remote: SocketAddr, backup: bool) -> Result {
        let path = loop {
            // The local address of the path is the same loopback address as the peer's.
            match self.connection.open_path(remote.ip(), Some(remote)).await {
                Ok(path) => break path,
                Err(OpenPathError::Refused(_)) => sleep(LOOK).await,
                Err(other) => return Err(no_path(other)),
            }
        };
        if backup { self.set(path, true) } else { Ok(()) }
    }
}

impl Step {
    fn patience(self) -> Duration {
        match self {
            Self::Wait(time) => time + PATIENCE,
            // The case as a whole has its own time limit.
            Self::At(_) => Duration::MAX,
            _ => PATIENCE,
        }
    }
}

fn no_path(error: OpenPathError) -> Failure {
    Failure::new(Exit::Failed, error)
}

/// Adds abandoned paths to the list of `tell`.
async fn follow(mut events: PathEvents, tell: watch::Sender<Vec<PathId>>) {
    while let Some(event) = events.next().await {
        if let PathEvent::Abandoned { path, .. } = event {
            tell.send_modify(|gone| gone.push(path));
        }
    }
}
