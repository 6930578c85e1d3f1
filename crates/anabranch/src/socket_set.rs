//! Sockets of an endpoint.

use std::net::SocketAddr;
use std::sync::{Arc, Weak};

use crate::paths::Lease;
use crate::socket::Socket;

/// Sockets of an endpoint. The first one is its own; the others were added for migration or bound for paths.
#[derive(Debug)]
pub(crate) struct SocketSet {
    all: Vec<Arc<Socket>>,
    /// Sockets that are removed when their last lease is dropped.
    leased: Vec<(Arc<Socket>, Weak<Lease>)>,
    /// Number of changes so far, by which the driver notices a change.
    version: u64,
}

impl SocketSet {
    pub(crate) fn new(own: Socket) -> Self {
        Self { all: vec![Arc::new(own)], leased: Vec::new(), version: 0 }
    }

    /// Returns the endpoint's own socket.
    pub(crate) fn own(&self) -> &Arc<Socket> {
        &self.all[0]
    }

    /// Returns all sockets.
    pub(crate) fn all(&self) -> &[Arc<Socket>] {
        &self.all
    }

    /// Returns the sockets that belong to the endpoint itself, and not to single paths.
    #[cfg(any(target_os = "linux", target_os = "android"))]
    pub(crate) fn lasting(&self) -> Vec<Arc<Socket>> {
        let is_leased =
            |socket: &Arc<Socket>| self.leased.iter().any(|(other, _)| Arc::ptr_eq(socket, other));
        self.all.iter().filter(|socket| !is_leased(socket)).cloned().collect()
    }

    /// Returns a number that differs after each change.
    pub(crate) fn version(&self) -> u64 {
        self.version
    }

    /// Replaces the endpoint's own socket with `socket`.
    pub(crate) fn replace_own(&mut self, socket: Arc<Socket>) {
        self.all[0] = socket;
        self.version += 1;
    }

    /// Adds a socket that stays until the endpoint ends.
    pub(crate) fn add(&mut self, socket: Arc<Socket>) {
        self.all.push(socket);
        self.version += 1;
    }

    /// Returns a lease of the socket that serves `local`, if there is one. A socket whose last lease has been dropped, but which
    /// has not been removed yet, is leased again.
    pub(crate) fn lease_for(&mut self, local: SocketAddr) -> Option<Arc<Lease>> {
        if let Some((socket, leased)) = self.leased.iter_mut().find(|(socket, _)| socket.serves(local)) {
            return leased.upgrade().or_else(|| {
                let lease = Arc::new(Lease::bound(Arc::clone(socket)));
                *leased = Arc::downgrade(&lease);
                Some(lease)
            });
        }
        // A socket of the endpoint itself stays open in any case.
        let socket = self.all.iter().find(|socket| socket.serves(local))?;
        Some(Arc::new(Lease::bound(Arc::clone(socket))))
    }

    /// Adds a socket that is removed when its last lease is dropped.
    pub(crate) fn add_leased(&mut self, socket: Arc<Socket>, lease: &Arc<Lease>) {
        self.drop_unleased();
        self.leased.push((Arc::clone(&socket), Arc::downgrade(lease)));
        self.add(socket);
    }

    /// Removes sockets whose last lease has been dropped.
    pub(crate) fn drop_unleased(&mut self) {
        let (kept, gone) =
            std::mem::take(&mut self.leased).into_iter().partition(|(_, lease)| lease.strong_count() > 0);
        self.leased = kept;
        let gone: Vec<(Arc<Socket>, Weak<Lease>)> = gone;
        if !gone.is_empty() {
            self.all.retain(|socket| !gone.iter().any(|(other, _)| Arc::ptr_eq(socket, other)));
            self.version += 1;
        }
    }

    /// Returns the socket that sends packets from `local`; the endpoint's own, if none serves that address.
    pub(crate) fn serving(&self, local: SocketAddr) -> &Arc<Socket> {
        self.all.iter().find(|socket| socket.serves(local)).unwrap_or_else(|| self.own())
    }
}
