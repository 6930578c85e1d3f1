//! State that the endpoint's handles, its connections and its driver share.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard};

use anabranch_transport::{Connection, Handle, Incoming, Response, Router};
use tokio::sync::oneshot;

use crate::connection_inner::{ConnectionInner, State};
use crate::driver_handle::DriverHandle;
use crate::lock::lock;
use crate::observe::Watchers;
use crate::socket::Socket;
use crate::wakers::WakerSet;

/// One endpoint. The table and a connection are never locked at the same time, but for one that is just put
/// in.
#[derive(Debug)]
pub(crate) struct EndpointInner {
    pub(crate) driver: Arc<DriverHandle>,
    table: Mutex<Table>,
}

/// Connections and waiting clients of an endpoint, with its router.
#[derive(Debug)]
pub(crate) struct Table {
    pub(crate) router: Router,
    /// By handle.
    connections: Vec<Option<Arc<ConnectionInner>>>,
    /// Clients that nobody has accepted yet; the router bounds their number.
    pub(crate) incoming: VecDeque<Incoming>,
    /// Tasks in `accept`.
    pub(crate) accepting: WakerSet,
    /// Tasks that wait for the last connection to end.
    pub(crate) idling: WakerSet,
    /// Tasks that wait until every connection has sent its CONNECTION_CLOSE.
    pub(crate) leaving: Vec<oneshot::Sender<()>>,
    /// No connection begins any longer.
    pub(crate) closed: bool,
    /// Handles of the endpoint that the application holds. Without any, nobody is left to accept new
    /// connections.
    pub(crate) handles: usize,
    /// Watchers of future connections.
    pub(crate) watchers: Watchers,
    /// Tasks that the driver is to begin.
    pub(crate) wanted: Wanted,
    /// `true` while a task looks after the connections that follow the routing table.
    follows: bool,
    /// Clients' connections that have begun so far.
    pub(crate) begun: u64,
}

/// Tasks for clients' connections, which begin in the runtime of the driver.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Wanted {
    /// Somebody follows the routing table.
    pub(crate) follower: bool,
    /// Somebody waits for a first answer.
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

    /// Returns the connections, and the number of clients' connections begun until then.
    pub(crate) fn census(&self) -> (u64, Vec<Arc<ConnectionInner>>) {
        let table = self.table();
        (table.begun, table.connections().cloned().collect())
    }

    /// Takes in a connection that the core has just begun, and has `begin` act on it before anybody else can.
    pub(crate) fn admit(
        &self,
        mut table: MutexGuard<'_, Table>,
        handle: Handle,
        core: Connection,
        begin: impl FnOnce(&mut State),
    ) -> Arc<ConnectionInner> {
        let connection = Arc::new(ConnectionInner::new(Arc::clone(&self.driver), handle, core));
        connection.update(|state| {
            // Nobody else can have locked the new connection, so both locks cannot be in each other's way.
            table.insert(handle, Arc::clone(&connection));
            drop(table);
            begin(state);
        });
        connection
    }

    /// Sends a stateless answer; if the socket is busy, it is lost, as it might be on the way.
    pub(crate) fn respond(&self, response: Option<Response>) {
        let Some(Response { transmit, bytes }) = response else { return };
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

    /// Returns whether nothing needs a driver any longer, not even a client that the application may still
    /// accept.
    pub(crate) fn is_done(&self) -> bool {
        self.handles == 0 && self.is_empty() && self.router.waiting() == 0
    }

    fn insert(&mut self, handle: Handle, connection: Arc<ConnectionInner>) {
        if self.connections.len() <= handle.0 {
            self.connections.resize_with(handle.0 + 1, || None);
        }
        self.connections[handle.0] = Some(connection);
    }

    pub(crate) fn remove(&mut self, handle: Handle) {
        self.router.remove(handle);
        if let Some(slot) = self.connections.get_mut(handle.0) {
            *slot = None;
        }
        if self.is_empty() {
            self.idling.wake();
        }
    }

    /// Takes the tasks that are wanted and not running yet.
    pub(crate) fn take_wanted(&mut self) -> Wanted {
        let wanted = std::mem::take(&mut self.wanted);
        let follower = wanted.follower && !std::mem::replace(&mut self.follows, true);
        Wanted { follower, ..wanted }
    }

    /// Returns whether the task that follows the routing table may end. It found no connections after `begun`
    /// connections had begun, so it may end if none has begun since.
    #[cfg(feature = "interfaces")]
    pub(crate) fn stop_following(&mut self, begun: u64) -> bool {
        let stops = self.begun == begun;
        self.follows &= !stops;
        stops
    }
}
