//! Several paths of one connection (RFC 10069): opening and abandoning them, their status, and their events.
//!
//! Both endpoints must enable multipath. A client then opens paths one by one with [`Connection::open_path`],
//! or has one opened for every interface of its host with [`Connection::manage_paths`].
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), anabranch::Error> {
//! use std::{net::IpAddr, sync::Arc};
//!
//! use anabranch::{Endpoint, MultipathConfig, SelfSigned, TransportConfig, VarInt, config};
//!
//! let multipath = Some(MultipathConfig::default());
//! let transport = Arc::new(TransportConfig::default().with_multipath(multipath));
//! let identity = SelfSigned::new(["localhost"])?;
//! let mut server_config = identity.server_config(["example"])?.with_transport(Arc::clone(&transport));
//! let server = Endpoint::server(server_config, "127.0.0.1:0".parse()?)?;
//! let address = server.local_addr()?;
//! tokio::spawn(async move {
//!     let connection = server.accept().await?.await.ok()?;
//!     Some(connection.closed().await)
//! });
//!
//! let mut client_config = config::client(identity.roots()?, ["example"])?.with_transport(transport);
//! let mut client = Endpoint::client("127.0.0.1:0".parse()?)?;
//! client.set_default_client_config(client_config);
//! let connection = client.connect(address, "localhost")?.await?;
//! let second = connection.open_path(IpAddr::from([127, 0, 0, 1]), None).await?;
//! assert_eq!(connection.paths().len(), 2);
//! connection.abandon_path(second, VarInt::from_u32(0x3e))?;
//! # Ok(()) }
//! ```

#[cfg(feature = "interfaces")]
mod allowed;
mod attempt;
mod begin;
mod candidates;
#[cfg(feature = "interfaces")]
mod chooser;
mod events;
#[cfg(feature = "interfaces")]
mod follow;
#[cfg(feature = "interfaces")]
mod interface;
#[cfg(feature = "interfaces")]
mod interfaces;
mod lease;
mod local;
#[cfg(feature = "interfaces")]
mod manager;
#[cfg(feature = "interfaces")]
mod plan;
#[cfg(feature = "interfaces")]
mod policy;
mod race;
#[cfg_attr(not(feature = "interfaces"), expect(dead_code, reason = "nothing follows the routing table"))]
mod roaming;
mod state;
#[cfg(feature = "interfaces")]
mod survey;
#[cfg(feature = "interfaces")]
mod unused;

use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::task::{Context, Poll};
use std::time::Duration;

use anabranch_transport::{
    self as core, AlternativeAddress, AnnounceError, ConnectionError, FourTuple, Obstacle, PathError,
    PathInfo, PathStatus,
};
use anabranch_wire::{PathId, Time, VarInt};
use tracing::debug;

pub use self::attempt::PathAttempt;
pub use self::candidates::Candidate;
#[cfg(feature = "interfaces")]
pub use self::chooser::{PathChooser, PathUse};
pub use self::events::{PathEvent, PathEvents};
#[cfg(feature = "interfaces")]
pub(crate) use self::follow::follow;
pub(crate) use self::lease::Lease;
pub use self::local::{LocalAddress, unspecified_for};
#[cfg(feature = "interfaces")]
pub use self::manager::PathManager;
#[cfg(feature = "interfaces")]
pub use self::policy::{InvalidRule, MAX_PATHS_PER_INTERFACE, PathPolicy, PathRule, Pattern};
pub(crate) use self::race::Race;
pub use self::race::{ATTEMPT_DELAY, MAX_ATTEMPTS, RacePolicy};
pub(crate) use self::roaming::Roaming;
pub(crate) use self::state::PathsState;
#[cfg(feature = "interfaces")]
pub use self::survey::{InvalidPath, Survey, SurveyedInterface};
#[cfg(feature = "interfaces")]
pub use self::unused::Unused;
use crate::connection::Connection;
use crate::connection_inner::State;
use crate::driver_handle::DriverHandle;
use crate::error::OpenPathError;
use crate::log::PATH;
use crate::runtime::timeout;
use crate::wakers::WakerSet;

/// Maximum time that [`Connection::open_path`] waits for the peer to issue the connection IDs that a path
/// needs.
const CID_PATIENCE: Duration = Duration::from_secs(1);

impl Connection {
    /// Returns whether multipath was negotiated: the transport configurations of both endpoints have a
    /// [`MultipathConfig`](crate::MultipathConfig).
    pub fn is_multipath(&self) -> bool {
        self.0.with_state(|state| state.core.is_multipath())
    }

    /// Opens a path from `local` to `remote`, or to the connection's current remote address, and waits until
    /// the server has responded on it; for clients. From then on the path carries data. Also waits until the
    /// handshake is complete, since no path can be opened before. If the endpoint has no socket at the local
    /// address, one is bound while the path exists.
    ///
    /// If the future is dropped, the path that it has begun to open is not closed.
    ///
    /// # Errors
    /// Fails if the path cannot be opened, or if the server does not respond on it.
    pub async fn open_path(
        &self,
        local: impl Into<LocalAddress>,
        remote: Option<SocketAddr>,
    ) -> Result<PathId, OpenPathError> {
        let id = self.begin_path(local, remote).await?;
        poll_fn(|cx| self.0.with_state(|state| state.poll_path_open(cx, id))).await?;
        Ok(id)
    }

    /// Begins to open a path like [`Connection::open_path`], but does not wait until the server has
    /// responded. [`PathEvent::Opened`] or [`PathEvent::Abandoned`] reports the result.
    ///
    /// # Errors
    /// Fails if the path cannot be opened.
    pub async fn begin_path(
        &self,
        local: impl Into<LocalAddress>,
        remote: Option<SocketAddr>,
    ) -> Result<PathId, OpenPathError> {
        let local = local.into();
        self.handshake_complete().await?;
        let remote = remote.unwrap_or_else(|| self.remote_address());
        let begun = poll_fn(|cx| {
            // The waker is registered before the attempt, because the connection IDs may arrive while it
            // fails.
            if let Poll::Ready(ended) = self.0.with_state(|state| state.wait(cx, |state| &mut state.progress))
            {
                return Poll::Ready(ended.map_err(OpenPathError::from));
            }
            match self.0.begin_path(&local, remote) {
                Err(OpenPathError::Refused(core::OpenPathError::NoConnectionId)) => Poll::Pending,
                begun => Poll::Ready(begun),
            }
        });
        let late = OpenPathError::Refused(core::OpenPathError::NoConnectionId);
        timeout(CID_PATIENCE, begun).await.unwrap_or(Err(late))
    }

    /// Abandons a path (RFC 10069 §3.4). PATH_ABANDON carries `code`, which is an error code of RFC 10069 §5
    /// or of the application. Unacknowledged data is sent again on other paths.
    ///
    /// # Errors
    /// Fails if the path does not exist, or if it is the last usable path. Close the connection instead of
    /// abandoning the last path.
    pub fn abandon_path(&self, id: PathId, code: VarInt) -> Result<(), PathError> {
        let now = self.0.driver.now();
        self.0.update(|state| state.core.abandon_path(now, id, code))
    }

    /// Sets a path's status, and announces it to the peer. The peer may still use the path differently for
    /// the data that it sends.
    ///
    /// # Errors
    /// Fails if the path does not exist, or if multipath was not negotiated.
    pub fn set_path_status(&self, id: PathId, status: PathStatus) -> Result<(), PathError> {
        self.0.update(|state| state.core.set_path_status(id, status))
    }

    /// Returns the present paths, in order of their path IDs. Without multipath there is only one.
    pub fn paths(&self) -> Vec<PathInfo> {
        self.0.with_state(|state| state.core.paths().collect())
    }

    /// Returns the addresses that the server has announced beside the one at which the connection began
    /// (draft-munizaga-quic-alternative-server-address); for clients. A client that connected by IPv4 learns
    /// the server's IPv6 address in this way.
    pub fn server_addresses(&self) -> Vec<AlternativeAddress> {
        self.0.with_state(|state| state.core.server_addresses())
    }

    /// Announces to the client that the server can also be reached at `address`, and whether that address is
    /// preferred; for servers. See also
    /// [`ServerConfig::alternative_addresses`](crate::ServerConfig::alternative_addresses).
    ///
    /// # Errors
    /// Fails if the client does not accept alternative addresses, or if too many were announced.
    pub fn announce_address(&self, address: SocketAddr, preferred: bool) -> Result<(), AnnounceError> {
        self.0.update(|state| state.core.announce_address(address, preferred))
    }

    /// Withdraws an announced address, which clients should stop using; for servers.
    ///
    /// # Errors
    /// Fails if the address was not announced.
    pub fn withdraw_address(&self, address: SocketAddr) -> Result<(), AnnounceError> {
        self.0.update(|state| state.core.withdraw_address(address))
    }

    /// Returns the stream of path events that occur from now on.
    pub fn path_events(&self) -> PathEvents {
        self.0.with_state(|state| PathEvents::subscribe(&mut state.paths.events, state.ended.is_some()))
    }

    /// Sets a path's weight for schedulers that distribute data by weight. The default is 1. A path with
    /// weight 0 is used only if no other one has room.
    ///
    /// # Errors
    /// Fails if the path does not exist, or if multipath was not negotiated.
    pub fn set_path_weight(&self, id: PathId, weight: u32) -> Result<(), PathError> {
        self.0.update(|state| state.core.set_path_weight(id, weight))
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

    /// Handles a failure of this host to send between these addresses. If the connection is not established
    /// yet, returns the tasks that wait for it, which may try another candidate.
    #[must_use]
    pub(crate) fn on_unreachable(
        &mut self,
        driver: &DriverHandle,
        now: Time,
        tuple: FourTuple,
        code: i32,
    ) -> WakerSet {
        debug!(
            target: PATH,
            parent: self.log.span(),
            local = %tuple.local,
            remote = %tuple.remote,
            error = %io::Error::from_raw_os_error(code),
            "cannot send",
        );
        self.core.on_unreachable(now, tuple);
        self.on_silent(driver);
        let obstacle = Obstacle::from(&io::Error::from_raw_os_error(code));
        if self.connected.is_none() && !self.core.refuse(now, obstacle) {
            self.unreachable = true;
            return self.progress.take();
        }
        WakerSet::default()
    }

    /// Records that the peer is silent or cannot be reached. The task that follows the routing table then
    /// probes other addresses.
    pub(crate) fn on_silent(&mut self, driver: &DriverHandle) {
        if let Some(roaming) = &mut self.paths.roaming {
            roaming.is_silent = true;
            driver.follower.notify_one();
        }
    }

    /// Sends a path event to subscribers.
    pub(crate) fn apply_path(&mut self, event: PathEvent) {
        if let Some(sender) = &self.paths.events {
            // All subscribers may be gone, which is no error.
            let _ = sender.send(event);
        }
    }

    /// Drops the leases of paths that no longer exist, or all of them if the connection is drained. Returns
    /// whether any lease was dropped.
    pub(crate) fn release_leases(&mut self, drained: bool) -> bool {
        let Self { core, paths: PathsState { leases, roaming, .. }, .. } = self;
        let unused =
            roaming.as_mut().is_some_and(|one| one.release(|local| !drained && core.uses_local(local)));
        leases.release(|id| !drained && core.has_path(id)) || unused
    }

    /// Ends the path events.
    pub(crate) fn end_paths(&mut self) {
        self.paths.events = None;
    }
}

impl From<ConnectionError> for OpenPathError {
    fn from(error: ConnectionError) -> Self {
        Self::ConnectionLost(error)
    }
}
