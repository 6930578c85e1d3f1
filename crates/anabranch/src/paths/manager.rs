//! The task that opens and closes paths according to a [`Plan`].

use std::future::poll_fn;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Poll;

use anabranch_transport::{ConnectionError, FourTuple};
use anabranch_wire::{PathId, TransportErrorCode};
use tokio::task::JoinHandle;
use tracing::info;

use super::attempt::PathAttempt;
use super::interfaces::{InterfaceChanges, snapshot};
use super::plan::{Command, Plan};
use super::policy::PathPolicy;
use super::survey::Survey;
use super::{LocalAddress, PathEvent, PathEvents};
use crate::connection::Connection;
use crate::connection_inner::ConnectionInner;
use crate::error::OpenPathError;
use crate::log::PATH;
use crate::runtime::sleep_until;

impl Connection {
    /// Starts a task that opens a path from every interface that `policy` allows, once the handshake is
    /// complete; for clients. The task follows changes of the interfaces and of the addresses that the server
    /// announces, until the connection ends or [`PathManager::stop`] is called. The task does not keep the
    /// connection open, and does nothing if multipath was not negotiated.
    ///
    /// # Panics
    /// Panics outside of a tokio runtime.
    pub fn manage_paths(&self, policy: PathPolicy) -> PathManager {
        let report = Arc::default();
        let task = tokio::spawn(run(self.0.inner(), self.path_events(), policy, Arc::clone(&report)));
        PathManager { task, report }
    }
}

/// Handle of the task of [`Connection::manage_paths`]. The task continues if the handle is dropped.
#[derive(Debug)]
pub struct PathManager {
    task: JoinHandle<()>,
    report: Arc<Mutex<Report>>,
}

/// Observations and attempts of the task.
#[derive(Debug, Default)]
struct Report {
    attempts: Vec<PathAttempt>,
    survey: Survey,
}

impl PathManager {
    /// Stops the task: it opens and closes no more paths. Open paths stay open.
    pub fn stop(&self) {
        self.task.abort();
    }

    /// Returns the paths that the manager has to open, with their last known states; none before the
    /// handshake is complete.
    pub fn attempts(&self) -> Vec<PathAttempt> {
        self.report.lock().unwrap_or_else(PoisonError::into_inner).attempts.clone()
    }

    /// Returns the interfaces of this host as the manager last saw them.
    pub fn survey(&self) -> Survey {
        self.report.lock().unwrap_or_else(PoisonError::into_inner).survey.clone()
    }
}

async fn run(
    connection: Arc<ConnectionInner>,
    mut events: PathEvents,
    policy: PathPolicy,
    report: Arc<Mutex<Report>>,
) {
    if can_open_path(&connection).await.is_err() || !connection.with_state(|state| state.core.is_multipath())
    {
        return;
    }
    // While a manager runs, the routing table moves the last path only if the path's address is gone.
    connection.update(|state| state.paths.roaming.iter_mut().for_each(|roaming| roaming.is_managed = true));
    let mut watch = InterfaceChanges::new();
    let mut manager = Manager { plan: Plan::new(policy), connection };
    manager.adopt_all();
    manager.learn_addresses();
    manager.look_around().await;
    loop {
        manager.execute_due();
        *report.lock().unwrap_or_else(PoisonError::into_inner) =
            Report { attempts: manager.plan.attempts(), survey: manager.plan.survey() };
        let next = manager.plan.next().map(|time| manager.connection.driver.clock.instant(time));
        tokio::select! {
            event = events.next() => match event {
                Some(event) => manager.on_event(&event),
                None => return,
            },
            () = watch.changed() => manager.look_around().await,
            () = async {
                match next {
                    Some(next) => sleep_until(next).await,
                    None => std::future::pending().await,
                }
            } => {}
        }
    }
}

/// Waits until a path can be opened. Once the handshake is confirmed, nothing is left to wait for: the peer
/// may have no connection IDs for paths, or no support for several.
async fn can_open_path(connection: &ConnectionInner) -> Result<(), ConnectionError> {
    poll_fn(|cx| {
        connection.with_state(|state| match state.core.can_open_path() || state.core.is_confirmed() {
            true => Poll::Ready(Ok(())),
            false => state.wait(cx, |state| &mut state.progress),
        })
    })
    .await
}

struct Manager {
    plan: Plan,
    connection: Arc<ConnectionInner>,
}

impl Manager {
    async fn look_around(&mut self) {
        let interfaces = snapshot().await;
        // An empty list means that the interfaces could not be read, not that all are gone.
        if !interfaces.is_empty() {
            let commands = self.plan.on_interfaces(self.connection.driver.now(), interfaces);
            commands.into_iter().for_each(|command| self.execute(command));
        }
    }

    fn execute_due(&mut self) {
        let due = self.plan.due(self.connection.driver.now());
        due.into_iter().for_each(|command| self.execute(command));
    }

    fn execute(&mut self, command: Command) {
        let now = self.connection.driver.now();
        match command {
            Command::Open { slot, local, remote, status, weight } => {
                match self.connection.begin_path(&local, remote) {
                    Ok(id) => {
                        self.connection.update(|state| {
                            let _ = state.core.set_path_status(id, status);
                            let _ = state.core.set_path_weight(id, weight);
                        });
                        self.plan.on_begun(slot, id);
                    }
                    Err(error) => {
                        self.tell_failure(&local, remote, &error);
                        self.plan.on_failed(now, slot, error.to_string());
                    }
                }
            }
            Command::Abandon(id) => {
                let code = TransportErrorCode::PATH_UNSTABLE_OR_POOR.into();
                if self.connection.update(|state| state.core.abandon_path(now, id, code)).is_err() {
                    // The last path stays open, whatever its address: the system may find another route for
                    // it.
                    self.adopt(id);
                }
            }
        }
    }

    fn tell_failure(&self, local: &LocalAddress, remote: SocketAddr, error: &OpenPathError) {
        info!(target: PATH, parent: &self.connection.span(), local = %local.ip, %remote, %error, "cannot open a path");
    }

    fn on_event(&mut self, event: &PathEvent) {
        let now = self.connection.driver.now();
        match event {
            PathEvent::Opened { path } => self.plan.on_opened(now, *path),
            PathEvent::Abandoned { path, code } => self.plan.on_abandoned(now, *path, *code),
            PathEvent::Changed { path, .. } => self.adopt(*path),
            PathEvent::ServerAddresses => self.learn_addresses(),
            // A failing path may recover. If it does not, the core abandons it.
            PathEvent::Opening { .. } | PathEvent::State { .. } => {}
            PathEvent::Missed(_) => {
                self.adopt_all();
                self.learn_addresses();
            }
        }
    }

    /// Passes the server's addresses to the plan, preferred ones first.
    fn learn_addresses(&mut self) {
        let mut known = self.connection.with_state(|state| state.core.server_addresses());
        known.sort_by_key(|known| !known.preferred);
        let known: Vec<_> = known.iter().map(|known| known.address).collect();
        let commands = self.plan.set_alternatives(self.connection.driver.now(), &known);
        commands.into_iter().for_each(|command| self.execute(command));
    }

    fn adopt(&mut self, id: PathId) {
        let tuple = self
            .connection
            .with_state(|state| state.core.paths().find(|path| path.id == id).map(|path| path.tuple));
        if let Some(tuple) = tuple {
            self.adopt_tuple(id, tuple);
        }
    }

    fn adopt_all(&mut self) {
        let open = |state: &mut crate::connection_inner::State| -> Vec<_> {
            let paths: Vec<_> = state.core.paths().map(|path| (path.id, path.tuple)).collect();
            paths.into_iter().filter(|(id, _)| state.core.is_path_open(*id).is_some()).collect()
        };
        for (id, tuple) in self.connection.with_state(open) {
            self.adopt_tuple(id, tuple);
        }
    }

    fn adopt_tuple(&mut self, id: PathId, tuple: FourTuple) {
        let canonical = SocketAddr::new(tuple.remote.ip().to_canonical(), tuple.remote.port());
        self.plan.adopt(self.connection.driver.now(), id, tuple.local.ip().to_canonical(), canonical);
    }
}
