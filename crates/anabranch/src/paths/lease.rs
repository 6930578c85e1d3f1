//! Leases of sockets that were bound for paths: a socket is kept until the last path that holds a lease of it
//! is gone.

use std::sync::Arc;

use anabranch_wire::PathId;

use crate::socket::Socket;

/// A path's hold on a socket. The endpoint lets go of a socket of which nobody holds a lease.
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

/// The leases of one connection's paths; nothing is allocated before the first.
#[derive(Debug, Default)]
pub(crate) struct Leases(Vec<(PathId, Arc<Lease>)>);

impl Leases {
    pub(crate) fn hold(&mut self, path: PathId, lease: Arc<Lease>) {
        self.0.push((path, lease));
    }

    /// Lets go of the sockets of paths that do not exist any longer. Says whether there were any.
    pub(crate) fn release(&mut self, exists: impl Fn(PathId) -> bool) -> bool {
        let before = self.0.len();
        self.0.retain(|(path, _)| exists(*path));
        self.0.len() < before
    }
}
