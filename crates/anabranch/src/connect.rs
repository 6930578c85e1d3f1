//! Functions that start connections to servers.

use std::net::SocketAddr;
use std::sync::Arc;

use anabranch_transport::{self as core, ClientConfig, FourTuple, Handle};
use anabranch_wire::{ConnectionId, PathId};

use crate::connection::Connecting;
use crate::connection_inner::State;
use crate::endpoint::Endpoint;
use crate::endpoint_inner::{EndpointInner, Table};
use crate::error::{ConnectError, OpenPathError};
use crate::lock::lock;
use crate::observe::Watchers;
use crate::paths::{Candidate, Lease, LocalAddress, Roaming, unspecified_for};

impl Endpoint {
    /// Connects to the server at `address`, whose certificate must be valid for `server_name`. If the
    /// configuration has no token, uses one that the server sent to an earlier connection of this endpoint
    /// (NEW_TOKEN).
    ///
    /// # Errors
    /// Fails if the attempt cannot be started.
    pub fn connect(&self, address: SocketAddr, server_name: &str) -> Result<Connecting, ConnectError> {
        let config = lock(&self.client_config).clone().ok_or(ConnectError::NoClientConfig)?;
        self.connect_with(&config, address, server_name)
    }

    /// Connects like [`Endpoint::connect`], but with the configuration `config`.
    ///
    /// # Errors
    /// Fails if the attempt cannot be started.
    pub fn connect_with(
        &self,
        config: &ClientConfig,
        address: SocketAddr,
        server_name: &str,
    ) -> Result<Connecting, ConnectError> {
        let reservation = Reservation::take(&self.inner, address)?;
        self.begin(config, reservation, server_name, &[address])
    }

    /// Connects like [`Endpoint::connect_with`], but between the addresses of `candidate`. If `candidate` has
    /// a local address, the connection uses a socket at that address until it moves to another one. The
    /// socket is bound if necessary. `remotes` are all known addresses of the server.
    pub(crate) fn connect_by(
        &self,
        config: &ClientConfig,
        candidate: &Candidate,
        remotes: &[SocketAddr],
        server_name: &str,
    ) -> Result<Connecting, ConnectError> {
        let reservation = Reservation::on(&self.inner, candidate)?;
        let begun = self.begin(config, reservation, server_name, remotes);
        if begun.is_err() {
            self.inner.driver.drop_unleased();
        }
        begun
    }

    fn begin(
        &self,
        config: &ClientConfig,
        reservation: Reservation,
        server_name: &str,
        remotes: &[SocketAddr],
    ) -> Result<Connecting, ConnectError> {
        let now = self.inner.driver.now();
        let Reservation { handle, tuple, local_cid, shared, seed, watchers, lease } = reservation;
        let follows = tuple.local.ip().is_unspecified() && config.transport().migration();
        let token = Some(config.token()).filter(|token| !token.is_empty()).cloned();
        let token = token.or_else(|| self.inner.driver.tokens().take(server_name, config.initial_version()));
        let config = &config.clone().with_token(token.unwrap_or_default());
        // Key generation takes time. It runs before the table is locked, so the driver does not wait for it.
        let begun = core::Connection::client(
            now,
            config,
            shared,
            core::ConnectTarget::new(tuple, server_name, local_cid, seed),
        );
        let mut table = self.inner.table();
        match begun {
            Ok(connection) if !table.closed => {
                let begin = |state: &mut State| {
                    state.server_name = Some(server_name.to_owned());
                    state.trace = watchers.watch(now, &mut state.core, None, state.log.observer());
                    if follows {
                        state.core.watch_silence(true);
                        state.paths.roaming = Some(Roaming::new(remotes.to_vec()));
                    }
                    if let Some(lease) = lease {
                        state.paths.leases.hold(PathId::ZERO, lease);
                    }
                };
                table.wanted.follower |= follows;
                table.wanted.listener = true;
                table.begun += 1;
                Ok(Connecting::new(self.inner.admit(table, handle, connection, begin)))
            }
            begun => {
                let idling = table.remove(handle);
                drop(table);
                idling.wake();
                self.inner.driver.wake();
                Err(begun.err().map_or(ConnectError::EndpointClosed, ConnectError::from))
            }
        }
    }
}

/// Reserved handle in the router, with everything needed to create the connection that uses it.
struct Reservation {
    handle: Handle,
    tuple: FourTuple,
    local_cid: ConnectionId,
    shared: Arc<core::Shared>,
    seed: [u8; 32],
    watchers: Watchers,
    /// Lease of the connection's socket; `None` for the endpoint's own socket.
    lease: Option<Arc<Lease>>,
}

impl Reservation {
    /// Reserves a handle for a connection on the endpoint's own socket.
    fn take(inner: &EndpointInner, address: SocketAddr) -> Result<Self, ConnectError> {
        let own = Arc::clone(inner.driver.sockets().own());
        let Some(remote) = own.address_for(address).filter(|_| is_usable(address)) else {
            return Err(ConnectError::InvalidRemoteAddress(address));
        };
        let tuple = FourTuple { local: own.local_addr(), remote };
        Self::between(&mut inner.table(), tuple, None)
    }

    /// Reserves a handle for a connection between the addresses of `candidate`. Without a local address, the
    /// connection begins on the endpoint's own socket if its address family is that of the server.
    fn on(inner: &EndpointInner, candidate: &Candidate) -> Result<Self, ConnectError> {
        let invalid = || ConnectError::InvalidRemoteAddress(candidate.remote);
        if !is_usable(candidate.remote) {
            return Err(invalid());
        }
        let local = match &candidate.local {
            Some(local) => local.clone(),
            None => {
                let own = inner.driver.sockets().own().local_addr();
                if own.is_ipv4() == candidate.remote.is_ipv4() {
                    return Self::take(inner, candidate.remote);
                }
                LocalAddress::from(unspecified_for(candidate.remote))
            }
        };
        let (lease, tuple) = inner.driver.place(&local, candidate.remote).map_err(|error| match error {
            OpenPathError::Socket(error) => ConnectError::Socket(error),
            _ => invalid(),
        })?;
        Self::between(&mut inner.table(), tuple, Some(lease))
    }

    fn between(table: &mut Table, tuple: FourTuple, lease: Option<Arc<Lease>>) -> Result<Self, ConnectError> {
        if table.closed {
            return Err(ConnectError::EndpointClosed);
        }
        let free = table.router.connect(tuple);
        let (handle, local_cid) = free.ok_or(ConnectError::InvalidRemoteAddress(tuple.remote))?;
        let (shared, seed) = (table.router.shared(), table.router.next_seed());
        let watchers = table.watchers.clone();
        Ok(Self { handle, tuple, local_cid, shared, seed, watchers, lease })
    }
}

/// Returns whether a server can be reached at `remote`: its port is not 0, and its IP address is specified.
fn is_usable(remote: SocketAddr) -> bool {
    remote.port() != 0 && !remote.ip().is_unspecified()
}
