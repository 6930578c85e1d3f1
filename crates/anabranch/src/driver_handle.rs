//! Endpoint state that connections use: the clock, the sockets, the address tokens, and the driver's waker.

use std::net::SocketAddr;
use std::sync::{Arc, OnceLock, Weak};
use std::task::Waker;

use anabranch_transport::{Datagram, FourTuple, Handle, StoredDatagram};
use anabranch_wire::Time;
use tokio::sync::Notify;

use crate::clock::Clock;
use crate::error::OpenPathError;
use crate::hand_over::Links;
use crate::lock::lock;
use crate::paths::{Lease, LocalAddress};
use crate::socket::Socket;
use crate::socket_set::SocketSet;
use crate::sync::{Mutex, MutexGuard};
use crate::tokens::TokenStore;
use crate::workers::Mailbox;

/// The parts of an endpoint that its connections use. Its locks are held only briefly, and may be taken while
/// any other lock is held.
#[derive(Debug)]
pub(crate) struct DriverHandle {
    pub(crate) clock: Clock,
    sockets: Mutex<SocketSet>,
    tokens: Mutex<TokenStore>,
    todo: Mutex<Todo>,
    handed_over: Mutex<Mailbox>,
    /// Drivers of all workers of the endpoint, in the order of their numbers.
    workers: OnceLock<Arc<[Weak<DriverHandle>]>>,
    /// Channels to processes with the same sockets.
    pub(crate) links: Links,
    /// Notification for the task that lets connections follow the routing table.
    pub(crate) follower: Arc<Notify>,
}

/// Connections that the driver must look at, and the driver's waker.
#[derive(Debug, Default)]
struct Todo {
    dirty: Vec<Handle>,
    driver: Option<Waker>,
}

impl DriverHandle {
    pub(crate) fn new(socket: Socket) -> Self {
        Self {
            clock: Clock::new(),
            sockets: Mutex::new(SocketSet::new(socket)),
            tokens: Mutex::default(),
            todo: Mutex::default(),
            handed_over: Mutex::default(),
            workers: OnceLock::new(),
            links: Links::default(),
            follower: Arc::default(),
        }
    }

    /// Returns the time of the endpoint's clock.
    pub(crate) fn now(&self) -> Time {
        self.clock.now()
    }

    pub(crate) fn sockets(&self) -> MutexGuard<'_, SocketSet> {
        lock(&self.sockets)
    }

    pub(crate) fn tokens(&self) -> MutexGuard<'_, TokenStore> {
        lock(&self.tokens)
    }

    /// Notifies the driver that a connection needs its attention.
    pub(crate) fn mark_dirty(&self, handle: Handle) {
        let mut todo = lock(&self.todo);
        todo.dirty.push(handle);
        if let Some(driver) = todo.driver.take() {
            drop(todo);
            driver.wake();
        }
    }

    /// Wakes the driver because of a change that concerns no single connection.
    pub(crate) fn wake(&self) {
        let driver = lock(&self.todo).driver.take();
        if let Some(driver) = driver {
            driver.wake();
        }
    }

    /// Sets the drivers of all workers of the endpoint, once.
    pub(crate) fn set_workers(&self, workers: Arc<[Weak<Self>]>) {
        // The endpoint sets them when it is created.
        let _ = self.workers.set(workers);
    }

    /// Hands a datagram over to the worker with the number `owner`. If that worker has ended or its mailbox is full, the datagram is
    /// dropped, as if the network had lost it.
    pub(crate) fn hand_over(&self, owner: usize, datagram: &Datagram<'_>) {
        let worker = self.workers.get().and_then(|workers| workers.get(owner)?.upgrade());
        if let Some(worker) = worker
            && lock(&worker.handed_over).push(datagram)
        {
            worker.wake();
        }
    }

    /// Has no further datagrams handed over: this worker has ended.
    pub(crate) fn close_mailbox(&self) {
        lock(&self.handed_over).close();
    }

    /// Removes the datagrams that other workers have handed over.
    pub(crate) fn take_handed_over(&self) -> Vec<StoredDatagram> {
        lock(&self.handed_over).take()
    }

    /// Moves the handles of connections that have changed into `dirty`, and stores the driver's waker for the
    /// next notification.
    pub(crate) fn take_dirty(&self, dirty: &mut Vec<Handle>, driver: &Waker) {
        let mut todo = lock(&self.todo);
        dirty.append(&mut todo.dirty);
        if !todo.driver.as_ref().is_some_and(|known| known.will_wake(driver)) {
            todo.driver = Some(driver.clone());
        }
    }

    /// Returns a socket at `local`, bound if necessary, and the four-tuple of a path from this socket to
    /// `remote`.
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

    /// Returns the socket that serves `local`, bound if necessary.
    fn lease_socket(&self, local: &LocalAddress) -> Result<Arc<Lease>, OpenPathError> {
        let serving = SocketAddr::new(local.ip, local.port);
        // The lock is held while the socket is bound: another task may bind the same address at the same time.
        let mut sockets = self.sockets();
        if local.port != 0
            && let Some(lease) = sockets.lease_for(serving)
        {
            return Ok(lease);
        }
        let socket = Arc::new(Socket::at(local)?);
        let lease = Arc::new(Lease::bound(Arc::clone(&socket)));
        sockets.add_leased(socket, &lease);
        drop(sockets);
        self.wake();
        Ok(lease)
    }

    /// Removes sockets that no path uses, after a path could not be opened.
    pub(crate) fn drop_unleased(&self) {
        self.sockets().drop_unleased();
        self.wake();
    }
}
