//! The single connection of a client application, with its paths. All clients of the experiments contain it.

use anabranch_transport::{ClientConfig, Connection, Endpoint, FourTuple, Handle};
use anabranch_wire::Time;

use super::PathOpener;
use crate::tls::SERVER_NAME;

/// One connection to the lab's server, with the paths that it opens.
#[derive(Debug)]
pub struct Dial {
    config: ClientConfig,
    tuple: FourTuple,
    handle: Option<Handle>,
    /// Opener of the connection's further paths.
    pub paths: PathOpener,
}

impl Dial {
    /// Creates a connection between the addresses of `tuple`, which begins with [`Self::start`].
    pub fn new(config: ClientConfig, tuple: FourTuple) -> Self {
        Self { config, tuple, handle: None, paths: PathOpener::default() }
    }

    /// Sets the further paths that the connection opens.
    #[must_use]
    pub fn with_paths(mut self, paths: PathOpener) -> Self {
        self.paths = paths;
        self
    }

    /// Returns the connection's handle, once the connection has begun.
    pub fn handle(&self) -> Option<Handle> {
        self.handle
    }

    /// Returns the connection; `None` before it has begun and after the endpoint has removed it.
    pub fn connection<'a>(&self, endpoint: &'a mut Endpoint) -> Option<&'a mut Connection> {
        endpoint.connection(self.handle?)
    }

    /// Begins the connection.
    ///
    /// # Errors
    /// Fails with a description if the configuration or the addresses do not permit a connection.
    pub fn start(&mut self, now: Time, endpoint: &mut Endpoint) -> Result<Handle, String> {
        let handle = endpoint.connect(now, &self.config, self.tuple, SERVER_NAME);
        let handle = handle.map_err(|error| error.to_string())?;
        self.handle = Some(handle);
        Ok(handle)
    }

    /// Returns the time of the next attempt to open a path.
    pub fn next_time(&self) -> Option<Time> {
        self.paths.next_time()
    }

    /// Opens the paths that can be opened now.
    pub fn on_time(&mut self, now: Time, endpoint: &mut Endpoint) {
        if let Some(connection) = self.handle.and_then(|handle| endpoint.connection(handle)) {
            self.paths.attempt(now, connection);
        }
    }
}
