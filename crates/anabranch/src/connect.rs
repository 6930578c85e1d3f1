//! How an endpoint begins a connection.

use std::net::SocketAddr;
use std::sync::Arc;

use anabranch_transport::{self as core, ClientConfig, FourTuple, Handle};
use anabranch_wire::ConnectionId;

use crate::connection::Connecting;
use crate::endpoint::Endpoint;
use crate::error::ConnectError;
use crate::hub::{Table, lock};
use crate::member::State;
use crate::observe::Watchers;

impl Endpoint {
    /// Connects to the server at `address`, which must have a certificate for `server_name`. Uses a token that the server
    /// gave to an earlier connection of this endpoint, if the configuration has none.
    ///
    /// # Errors
    /// If the connection cannot even be tried.
    pub fn connect(&self, address: SocketAddr, server_name: &str) -> Result<Connecting, ConnectError> {
        let config = lock(&self.client_config).clone().ok_or(ConnectError::NoClientConfig)?;
        self.connect_with(&config, address, server_name)
    }

    /// Like [`Endpoint::connect`], with a configuration of its own.
    ///
    /// # Errors
    /// If the connection cannot even be tried.
    pub fn connect_with(
        &self,
        config: &ClientConfig,
        address: SocketAddr,
        server_name: &str,
    ) -> Result<Connecting, ConnectError> {
        let now = self.hub.clock.now();
        let Place { handle, tuple, local_cid, shared, seed, watchers } =
            Place::take(&mut self.hub.table(), address)?;
        let token = Some(&config.token).filter(|token| !token.is_empty()).cloned();
        let token = token.or_else(|| self.hub.tokens().take(server_name, config.initial_version));
        let config = &ClientConfig { token: token.unwrap_or_default(), ..config.clone() };
        // Keys are made here, which takes its time: the driver need not wait for it.
        let begun = core::Connection::client(now, config, shared, seed, tuple, server_name, local_cid);
        let mut table = self.hub.table();
        match begun {
            Ok(connection) if !table.closed => {
                let begin = |state: &mut State| {
                    state.server_name = Some(server_name.to_owned());
                    state.trace = watchers.watch(now, &mut state.core, None);
                };
                Ok(Connecting::new(self.hub.admit(table, handle, connection, begin)))
            }
            begun => {
                table.remove(handle);
                drop(table);
                self.hub.wake_driver();
                Err(begun.err().map_or(ConnectError::EndpointClosed, ConnectError::from))
            }
        }
    }
}

/// A place in the table, and what a connection needs to take it.
struct Place {
    handle: Handle,
    tuple: FourTuple,
    local_cid: ConnectionId,
    shared: Arc<core::Shared>,
    seed: [u8; 32],
    watchers: Watchers,
}

impl Place {
    fn take(table: &mut Table, address: SocketAddr) -> Result<Self, ConnectError> {
        if table.closed {
            return Err(ConnectError::EndpointClosed);
        }
        let invalid = ConnectError::InvalidRemoteAddress(address);
        let usable = address.port() != 0 && !address.ip().is_unspecified();
        let Some(remote) = table.socket().address_for(address).filter(|_| usable) else {
            return Err(invalid);
        };
        let tuple = FourTuple { local: table.socket().local_addr(), remote };
        let Some((handle, local_cid)) = table.router.connect(tuple) else { return Err(invalid) };
        let (shared, seed) = (table.router.shared(), table.router.next_seed());
        Ok(Self { handle, tuple, local_cid, shared, seed, watchers: table.watchers.clone() })
    }
}
