//! Several paths of one connection (RFC 10069): opening them, giving them up, what they are for, and what happens to them.

mod events;
mod lease;
mod local;

use std::future::poll_fn;
use std::net::SocketAddr;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use anabranch_transport::{self as core, ConnectionError, FourTuple, PathInfo};
use anabranch_wire::PathId;

pub use self::events::{PathEvent, PathEvents};
pub(crate) use self::lease::{Lease, Leases};
pub use self::local::LocalAddress;
use crate::connection::Connection;
use crate::error::OpenPathError;
use crate::member::State;
use crate::socket::Socket;

/// How long [`Connection::open_path`] waits for the peer to send the connection IDs that a path needs.
const CID_PATIENCE: Duration = Duration::from_secs(1);
/// How often it looks whether they have come.
const CID_INTERVAL: Duration = Duration::from_millis(10);

/// What a path is for (RFC 10069 §3.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PathStatus {
    /// Used like others.
    Available,
    /// Used only if no other path works.
    Backup,
}

impl Connection {
    /// Whether both ends want several paths at once: [`MultipathConfig`](crate::MultipathConfig) in the transport's
    /// configuration of either.
    pub fn is_multipath(&self) -> bool {
        self.0.look(|state| state.core.is_multipath())
    }

    /// Client: opens a path from `local` to `remote`, or to the address that the connection runs to, and waits until the server
    /// has answered on it: from then on it carries data. Waits as well for the handshake to be confirmed, before which no path
    /// can be opened. A socket is bound if the endpoint has none at that address, for as long as the path is there.
    ///
    /// A future that is dropped does not close the path that it has begun to open.
    ///
    /// # Errors
    /// If the path cannot be opened, or if the server does not answer on it.
    pub async fn open_path(
        &self,
        local: impl Into<LocalAddress>,
        remote: Option<SocketAddr>,
    ) -> Result<PathId, OpenPathError> {
        let id = self.begin_path(local, remote).await?;
        poll_fn(|cx| self.0.look(|state| state.poll_path_open(cx, id))).await?;
        Ok(id)
    }

    /// Like [`Connection::open_path`], but does not wait for the server's answer: [`PathEvent::Opened`] or
    /// [`PathEvent::Abandoned`] tells.
    ///
    /// # Errors
    /// If the path cannot be opened.
    pub async fn begin_path(
        &self,
        local: impl Into<LocalAddress>,
        remote: Option<SocketAddr>,
    ) -> Result<PathId, OpenPathError> {
        let local = local.into();
        self.confirmed().await?;
        let remote = remote.unwrap_or_else(|| self.remote_address());
        let lease = self.lease_socket(&local, remote)?;
        let socket = lease.socket();
        let unreachable = OpenPathError::Unreachable { local: socket.local_addr(), remote };
        let remote = socket.address_for(remote).ok_or(unreachable)?;
        let source = SocketAddr::new(local.ip, socket.local_addr().port());
        let tuple = FourTuple { local: source, remote };
        let patience = tokio::time::Instant::now() + CID_PATIENCE;
        loop {
            match self.try_path(tuple, &lease) {
                Err(OpenPathError::Refused(core::OpenPathError::NoConnectionId))
                    if tokio::time::Instant::now() < patience =>
                {
                    tokio::time::sleep(CID_INTERVAL).await;
                }
                Ok(id) => return Ok(id),
                Err(error) => {
                    drop(lease);
                    self.0.hub.table().drop_unleased();
                    self.0.hub.wake_driver();
                    return Err(error);
                }
            }
        }
    }

    fn try_path(&self, tuple: FourTuple, lease: &Arc<Lease>) -> Result<PathId, OpenPathError> {
        self.0.change(|state| {
            if let Some(error) = &state.ended {
                return Err(error.clone().into());
            }
            let now = self.0.hub.clock.now();
            let id = state.core.open_path(now, tuple).map_err(OpenPathError::Refused)?;
            state.leases.hold(id, Arc::clone(lease));
            Ok(id)
        })
    }

    /// Gives a path up and tells the peer why: a code of RFC 10069 §5 or of the application (at most 2^62 - 1). Data that is
    /// under way on it is sent again on others. `false` if there is no such path, or no other: close the connection instead.
    pub fn abandon_path(&self, id: PathId, code: u64) -> bool {
        let now = self.0.hub.clock.now();
        self.0.change(|state| state.core.abandon_path(now, id, code.min(anabranch_wire::MAX_VARINT)))
    }

    /// Says what a path is for. The peer is told; it is free to use the path differently for what it sends. `false` if there is
    /// no such path.
    pub fn set_path_status(&self, id: PathId, status: PathStatus) -> bool {
        self.0.change(|state| state.core.set_path_available(id, status == PathStatus::Available))
    }

    /// The paths as they are now, in the order of their identifiers; one without multipath.
    pub fn paths(&self) -> Vec<PathInfo> {
        self.0.look(|state| state.core.paths().collect())
    }

    /// What happens to paths from now on.
    pub fn path_events(&self) -> PathEvents {
        self.0.look(|state| PathEvents::subscribe(&mut state.path_events, state.ended.is_some()))
    }

    /// The socket that serves `local`, bound if need be.
    fn lease_socket(&self, local: &LocalAddress, remote: SocketAddr) -> Result<Arc<Lease>, OpenPathError> {
        let hub = &self.0.hub;
        if local.port != 0 {
            let serving = SocketAddr::new(local.ip, local.port);
            if let Some(lease) = hub.table().lease_for(serving) {
                return Ok(lease);
            }
        }
        if local.ip.is_ipv4() && remote.ip().to_canonical().is_ipv6() {
            let local = SocketAddr::new(local.ip, local.port);
            return Err(OpenPathError::Unreachable { local, remote });
        }
        let socket = Arc::new(Socket::new(local.bind()?)?);
        let lease = Arc::new(Lease::bound(Arc::clone(&socket)));
        hub.table().add_leased(socket, &lease);
        hub.wake_driver();
        Ok(lease)
    }
}

impl State {
    fn poll_path_open(&mut self, cx: &Context<'_>, id: PathId) -> Poll<Result<(), OpenPathError>> {
        match self.core.is_path_open(id) {
            Some(true) => Poll::Ready(Ok(())),
            Some(false) => self.wait(cx, |state| &mut state.progress).map_err(OpenPathError::from),
            None => Poll::Ready(Err(match &self.ended {
                Some(error) => OpenPathError::ConnectionLost(error.clone()),
                None => OpenPathError::NoAnswer,
            })),
        }
    }

    /// Something happened to paths.
    pub(crate) fn apply_path(&mut self, event: PathEvent) {
        if let Some(sender) = &self.path_events {
            // Nobody may be listening any longer.
            let _ = sender.send(event);
        }
    }

    /// Lets go of the sockets of paths that are gone, all of them at the end. Says whether there were any.
    pub(crate) fn release_leases(&mut self, drained: bool) -> bool {
        let Self { leases, core, .. } = self;
        leases.release(|id| !drained && core.has_path(id))
    }

    /// No path event follows.
    pub(crate) fn end_paths(&mut self) {
        self.path_events = None;
    }
}

impl From<ConnectionError> for OpenPathError {
    fn from(error: ConnectionError) -> Self {
        Self::ConnectionLost(error)
    }
}
