//! Beginning to open a path: taking a socket for it, and calling the core.

use std::net::SocketAddr;
use std::sync::Arc;

use anabranch_wire::PathId;

use super::{LocalAddress, PathEvent};
use crate::connection_inner::ConnectionInner;
use crate::error::OpenPathError;

impl ConnectionInner {
    /// Begins to open a path, and returns its ID.
    pub(crate) fn begin_path(
        &self,
        local: &LocalAddress,
        remote: SocketAddr,
    ) -> Result<PathId, OpenPathError> {
        let (lease, tuple) = self.driver.place(local, remote)?;
        let begun = self.update(|state| {
            if let Some(error) = &state.ended {
                return Err(error.clone().into());
            }
            let now = self.driver.now();
            let id = state.core.open_path(now, tuple).map_err(OpenPathError::Refused)?;
            state.paths.leases.hold(id, Arc::clone(&lease));
            state.log.opening(&state.core, id);
            state.apply_path(PathEvent::Opening { path: id, tuple });
            Ok(id)
        });
        drop(lease);
        if begun.is_err() {
            self.driver.drop_unleased();
        }
        begun
    }
}
