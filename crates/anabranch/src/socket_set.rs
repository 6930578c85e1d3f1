//! Sockets of an endpoint.

use std::net::SocketAddr;
use std::sync::{Arc, Weak};

use crate::paths::Lease;
use crate::socket::Socket;

/// The sockets of an endpoint: the first one is its own, further ones were added for migration or bound for
/// paths.
#[derive(Debug)]
pub(crate) struct SocketSet {
    all: Vec<Arc<Socket>>,
    /// Those among them that go when the last path does.
    leased: Vec<(Arc<Socket>, Weak<Lease>)>,
    /// Counts changes, so that the driver takes them over.
    version: u64,
}

impl SocketSet {
    pub(crate) fn new(own: Socket) -> Self {
        Self { all: vec![Arc::new(own)], leased: Vec::new(), version: 0 }
    }

    /// Gives the endpoint's own socket.
    pub(crate) fn own(&self) -> &Arc<Socket> {
        &self.all[0]
    }

    /// Gives all of them.
    pub(crate) fn all(&self) -> &[Arc<Socket>] {
        &self.all
    }

    /// Gives a number that is another one after each change.
    pub(crate) fn version(&self) -> u64 {
        self.version
    }

    /// Puts `socket` in the place of the endpoint's own.
    pub(crate) fn replace_own(&mut self, socket: Arc<Socket>) {
        self.all[0] = socket;
        self.version += 1;
    }

    /// Adds a socket that stays.
    pub(crate) fn add(&mut self, socket: Arc<Socket>) {
        self.all.push(socket);
        self.version += 1;
    }

    /// Gives a hold on the socket that serves `local`, if there is one.
    pub(crate) fn lease_for(&self, local: SocketAddr) -> Option<Arc<Lease>> {
        let mut leases = self.leased.iter().filter_map(|(_, lease)| lease.upgrade());
        if let Some(lease) = leases.find(|lease| lease.socket().serves(local)) {
            return Some(lease);
        }
        // One of the endpoint's own stays in any case.
        let socket = self.all.iter().find(|socket| socket.serves(local))?;
        Some(Arc::new(Lease::bound(Arc::clone(socket))))
    }

    /// Adds a socket that stays as long as somebody holds a lease of it.
    pub(crate) fn add_leased(&mut self, socket: Arc<Socket>, lease: &Arc<Lease>) {
        self.drop_unleased();
        self.leased.push((Arc::clone(&socket), Arc::downgrade(lease)));
        self.add(socket);
    }

    /// Lets go of sockets that no path uses any longer.
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

    /// Gives the socket that packets from `local` leave by: the endpoint's own, if none serves that address.
    pub(crate) fn serving(&self, local: SocketAddr) -> &Arc<Socket> {
        self.all.iter().find(|socket| socket.serves(local)).unwrap_or_else(|| self.own())
    }
}
