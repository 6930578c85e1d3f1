//! Leases of sockets that were bound for paths. A socket is kept until its last lease is dropped.

use std::sync::Arc;

use anabranch_wire::PathId;

use crate::socket::Socket;

/// Reference that a path holds on its socket. The endpoint closes a socket when its last lease is dropped.
#[derive(Debug)]
pub(crate) struct Lease(Arc<Socket>);

impl Lease {
    pub(crate) fn bound(socket: Arc<Socket>) -> Self {
        Self(socket)
    }

    pub(crate) fn socket(&self) -> &Arc<Socket> {
        &self.0
    }
}

/// Leases of one connection's paths. An empty list allocates no memory.
#[derive(Debug, Default)]
pub(crate) struct Leases(Vec<(PathId, Arc<Lease>)>);

impl Leases {
    pub(crate) fn hold(&mut self, path: PathId, lease: Arc<Lease>) {
        self.0.push((path, lease));
    }

    /// Drops the leases of paths that no longer exist. Returns whether any lease was dropped.
    pub(crate) fn release(&mut self, exists: impl Fn(PathId) -> bool) -> bool {
        let before = self.0.len();
        self.0.retain(|(path, _)| exists(*path));
        self.0.len() < before
    }
}
