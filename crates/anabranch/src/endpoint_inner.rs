//! State that the endpoint's handles, its connections and its driver share.

use std::collections::VecDeque;
use std::sync::Arc;

use anabranch_transport::{Connection, Handle, Incoming, Response, Router};
use tokio::sync::oneshot;

use crate::connection_inner::{ConnectionInner, State};
use crate::driver_handle::DriverHandle;
use crate::lock::lock;
use crate::observe::Watchers;
use crate::socket::Socket;
use crate::sync::{Mutex, MutexGuard};
use crate::wakers::WakerSet;

/// State of one endpoint. The table and a connection are never locked at the same time, except for a
/// connection that is being inserted.
#[derive(Debug)]
pub(crate) struct EndpointInner {
    pub(crate) driver: Arc<DriverHandle>,
    table: Mutex<Table>,
}

/// Connections of an endpoint, clients that wait to be accepted, and the router.
#[derive(Debug)]
pub(crate) struct Table {
    pub(crate) router: Router,
    /// Connections, indexed by handle.
    connections: Vec<Option<Arc<ConnectionInner>>>,
    /// Clients that have not been accepted yet; the router limits their number.
    pub(crate) incoming: VecDeque<Incoming>,
    /// Tasks in `accept`.
    pub(crate) accepting: WakerSet,
    /// Tasks that wait for the last connection to end.
    pub(crate) idling: WakerSet,
    /// Tasks that wait until every connection has sent its CONNECTION_CLOSE.
    pub(crate) leaving: Vec<oneshot::Sender<()>>,
    /// `true` until the driver has ended.
    pub(crate) is_driven: bool,
    /// `true` if no further connection may begin.
    pub(crate) closed: bool,
    /// Number of the endpoint's handles that the application holds. Without any, nobody can accept new
    /// connections.
    pub(crate) handles: usize,
    /// Observers of future connections.
    pub(crate) watchers: Watchers,
    /// Tasks that the driver must start.
    pub(crate) wanted: Wanted,
    /// `true` while a task runs that lets connections follow the routing table.
    follows: bool,
    /// Number of client connections that have begun so far.
    pub(crate) begun: u64,
}

/// Requests for background tasks of client connections. The driver starts the tasks in its runtime.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Wanted {
    /// `true` if a connection follows the routing table.
    pub(crate) follower: bool,
    /// `true` if a connection waits for its server's first packet.
    pub(crate) listener: bool,
}

impl EndpointInner {
    pub(crate) fn new(router: Router, socket: Socket) -> Self {
        let table = Table {
            router,
            connections: Vec::new(),
            incoming: VecDeque::new(),
            accepting: WakerSet::default(),
            idling: WakerSet::default(),
            leaving: Vec::new(),
            is_driven: true,
            closed: false,
            handles: 0,
            watchers: Watchers::from_environment(),
            wanted: Wanted::default(),
            follows: false,
            begun: 0,
        };
        Self { driver: Arc::new(DriverHandle::new(socket)), table: Mutex::new(table) }
    }

    pub(crate) fn table(&self) -> MutexGuard<'_, Table> {
        lock(&self.table)
    }

    /// Returns the connections, and the number of client connections that have begun so far.
    pub(crate) fn census(&self) -> (u64, Vec<Arc<ConnectionInner>>) {
        let table = self.table();
        (table.begun, table.connections().cloned().collect())
    }

    /// Inserts a connection that the core has just created, and calls `begin` on it before any other code can
    /// use it.
    pub(crate) fn admit(
        &self,
        mut table: MutexGuard<'_, Table>,
        handle: Handle,
        core: Connection,
        begin: impl FnOnce(&mut State),
    ) -> Arc<ConnectionInner> {
        let connection = Arc::new(ConnectionInner::new(Arc::clone(&self.driver), handle, core));
        connection.update(|state| {
            // Nobody else can have locked the new connection, so holding both locks cannot cause a deadlock.
            table.insert(handle, Arc::clone(&connection));
            drop(table);
            begin(state);
        });
        connection
    }

    /// Sends a stateless response. If the socket is busy, the response is dropped, as if the network had lost
    /// it.
    pub(crate) fn respond(&self, response: Option<Response>) {
        let Some(Response { transmit, bytes, .. }) = response else { return };
        let socket = Arc::clone(self.driver.sockets().serving(transmit.tuple.local));
        let _ = socket.send(&transmit, &bytes);
    }
}

impl Table {
    pub(crate) fn connection(&self, handle: Handle) -> Option<&Arc<ConnectionInner>> {
        self.connections.get(handle.0)?.as_ref()
    }

    pub(crate) fn connections(&self) -> impl Iterator<Item = &Arc<ConnectionInner>> {
        self.connections.iter().flatten()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.router.connections() == 0
    }

    /// Returns whether the driver may end: no handle and no connection is left, and no client that the
    /// application may still accept.
    pub(crate) fn is_done(&self) -> bool {
        self.handles == 0 && self.is_empty() && self.router.waiting() == 0
    }

    fn insert(&mut self, handle: Handle, connection: Arc<ConnectionInner>) {
        if self.connections.len() <= handle.0 {
            self.connections.resize_with(handle.0 + 1, || None);
        }
        self.connections[handle.0] = Some(connection);
    }

    /// Removes a connection. Returns the tasks that wait for the end of the last one, if this was it.
    #[must_use]
    pub(crate) fn remove(&mut self, handle: Handle) -> WakerSet {
        self.router.remove(handle);
        if let Some(slot) = self.connections.get_mut(handle.0) {
            *slot = None;
        }
        if self.is_empty() { self.idling.take() } else { WakerSet::default() }
    }

    /// Returns the requested tasks that are not running yet, and clears the requests.
    pub(crate) fn take_wanted(&mut self) -> Wanted {
        let wanted = std::mem::take(&mut self.wanted);
        let follower = wanted.follower && !std::mem::replace(&mut self.follows, true);
        Wanted { follower, ..wanted }
    }

    /// Returns true if the task that follows the routing table may end, and then records that no such task
    /// runs. The task found no connection when `begun` client connections had begun. It may end if no further
    /// connection has begun since.
    #[cfg(feature = "interfaces")]
    pub(crate) fn stop_following(&mut self, begun: u64) -> bool {
        let stops = self.begun == begun;
        self.follows &= !stops;
        stops
    }
}
