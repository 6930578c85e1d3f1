//! How a path begins: a socket, and the core's consent.

use std::net::SocketAddr;
use std::sync::Arc;

use anabranch_transport::FourTuple;
use anabranch_wire::PathId;

use super::{Lease, LocalAddress, PathEvent};
use crate::error::OpenPathError;
use crate::hub::Hub;
use crate::member::Member;
use crate::socket::Socket;

impl Member {
    /// Begins to open a path if that is possible now.
    pub(crate) fn begin_path(
        &self,
        local: &LocalAddress,
        remote: SocketAddr,
    ) -> Result<PathId, OpenPathError> {
        let (lease, tuple) = self.hub.place(local, remote)?;
        let begun = self.change(|state| {
            if let Some(error) = &state.ended {
                return Err(error.clone().into());
            }
            let now = self.hub.clock.now();
            let id = state.core.open_path(now, tuple).map_err(OpenPathError::Refused)?;
            state.leases.hold(id, Arc::clone(&lease));
            state.log.opening(&state.core, id);
            state.apply_path(PathEvent::Opening { path: id, tuple });
            Ok(id)
        });
        drop(lease);
        if begun.is_err() {
            self.hub.table().drop_unleased();
            self.hub.wake_driver();
        }
        begun
    }
}

impl Hub {
    /// A socket at `local`, bound if need be, and the addresses of a path from there to `remote`.
    pub(crate) fn place(
        &self,
        local: &LocalAddress,
        remote: SocketAddr,
    ) -> Result<(Arc<Lease>, FourTuple), OpenPathError> {
        let unreachable = OpenPathError::Unreachable { local: SocketAddr::new(local.ip, local.port), remote };
        if local.ip.is_ipv4() && remote.ip().to_canonical().is_ipv6() {
            return Err(unreachable);
        }
        let lease = self.lease_socket(local)?;
        let Some(remote) = lease.socket().address_for(remote) else { return Err(unreachable) };
        let source = SocketAddr::new(local.ip, lease.socket().local_addr().port());
        Ok((lease, FourTuple { local: source, remote }))
    }

    /// The socket that serves `local`, bound if need be.
    fn lease_socket(&self, local: &LocalAddress) -> Result<Arc<Lease>, OpenPathError> {
        let serving = SocketAddr::new(local.ip, local.port);
        if local.port != 0
            && let Some(lease) = self.table().lease_for(serving)
        {
            return Ok(lease);
        }
        let socket = Arc::new(Socket::new(local.bind()?)?);
        let lease = Arc::new(Lease::bound(Arc::clone(&socket)));
        self.table().add_leased(socket, &lease);
        self.wake_driver();
        Ok(lease)
    }
}
