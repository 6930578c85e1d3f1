//! What the endpoint's handles, its connections and its driver share.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::Waker;

use anabranch_transport::{Connection, Handle, Incoming, Response, Router};
use tokio::sync::{Notify, oneshot};

use crate::clock::Clock;
use crate::member::{Member, State};
use crate::observe::Watchers;
use crate::paths::Lease;
use crate::socket::Socket;
use crate::tokens::TokenStore;
use crate::wakers::WakerSet;

/// Locks even if a task that held the lock has panicked: the state is only ever left between two whole steps.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// One endpoint. The table and a connection are never locked at the same time, but for one that is just put in.
#[derive(Debug)]
pub(crate) struct Hub {
    pub(crate) clock: Clock,
    table: Mutex<Table>,
    /// Locked for a moment, under any other lock.
    tokens: Mutex<TokenStore>,
    todo: Mutex<Todo>,
    /// Wakes the task that has connections follow the routing table.
    pub(crate) follower: Arc<Notify>,
}

/// Who is there.
#[derive(Debug)]
pub(crate) struct Table {
    pub(crate) router: Router,
    /// By handle.
    members: Vec<Option<Arc<Member>>>,
    /// Clients that nobody has accepted yet; the router bounds their number.
    pub(crate) incoming: VecDeque<Incoming>,
    /// Tasks in `accept`.
    pub(crate) accepting: WakerSet,
    /// Tasks that wait for the last connection to end.
    pub(crate) idling: WakerSet,
    /// Tasks that wait until every connection has sent its CONNECTION_CLOSE.
    pub(crate) leaving: Vec<oneshot::Sender<()>>,
    /// The first one is the endpoint's own, further ones were added for migration or bound for paths.
    pub(crate) sockets: Vec<Arc<Socket>>,
    /// Those among them that go when the last path does.
    leased: Vec<(Arc<Socket>, Weak<Lease>)>,
    /// Counts changes of `sockets`, so that the driver takes them over.
    pub(crate) sockets_version: u64,
    /// No connection begins any longer.
    pub(crate) closed: bool,
    /// Handles of the endpoint that the application holds. Without any, nobody is left to accept new connections.
    pub(crate) handles: usize,
    /// Who watches connections to come.
    pub(crate) watchers: Watchers,
    /// Tasks that the driver is to begin.
    pub(crate) wanted: Wanted,
    /// Whether connections are looked after that follow the routing table.
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

/// What the driver has to look at.
#[derive(Debug, Default)]
struct Todo {
    touched: Vec<Handle>,
    driver: Option<Waker>,
}

impl Hub {
    pub(crate) fn new(router: Router, socket: Socket) -> Self {
        let table = Table {
            router,
            members: Vec::new(),
            incoming: VecDeque::new(),
            accepting: WakerSet::default(),
            idling: WakerSet::default(),
            leaving: Vec::new(),
            sockets: vec![Arc::new(socket)],
            leased: Vec::new(),
            sockets_version: 0,
            closed: false,
            handles: 0,
            watchers: Watchers::from_environment(),
            wanted: Wanted::default(),
            follows: false,
            begun: 0,
        };
        Self {
            clock: Clock::new(),
            table: Mutex::new(table),
            tokens: Mutex::default(),
            todo: Mutex::default(),
            follower: Arc::default(),
        }
    }

    pub(crate) fn table(&self) -> MutexGuard<'_, Table> {
        lock(&self.table)
    }

    /// The connections, and how many clients' ones had begun when they were counted.
    pub(crate) fn census(&self) -> (u64, Vec<Arc<Member>>) {
        let table = self.table();
        (table.begun, table.members().cloned().collect())
    }

    pub(crate) fn tokens(&self) -> MutexGuard<'_, TokenStore> {
        lock(&self.tokens)
    }

    /// Has the driver look at a connection.
    pub(crate) fn touch(&self, handle: Handle) {
        let mut todo = lock(&self.todo);
        todo.touched.push(handle);
        if let Some(driver) = todo.driver.take() {
            drop(todo);
            driver.wake();
        }
    }

    /// Has the driver look at everything else.
    pub(crate) fn wake_driver(&self) {
        let driver = lock(&self.todo).driver.take();
        if let Some(driver) = driver {
            driver.wake();
        }
    }

    /// For the driver: what was touched, and whom to wake at the next touch.
    pub(crate) fn take_touched(&self, touched: &mut Vec<Handle>, driver: &Waker) {
        let mut todo = lock(&self.todo);
        touched.append(&mut todo.touched);
        if !todo.driver.as_ref().is_some_and(|known| known.will_wake(driver)) {
            todo.driver = Some(driver.clone());
        }
    }

    /// Takes in a connection that the core has just begun, and has `begin` act on it before anybody else can.
    pub(crate) fn admit(
        self: &Arc<Self>,
        mut table: MutexGuard<'_, Table>,
        handle: Handle,
        core: Connection,
        begin: impl FnOnce(&mut State),
    ) -> Arc<Member> {
        let member = Arc::new(Member::new(Arc::clone(self), handle, core));
        member.change(|state| {
            // Nobody else can have locked the new member, so both locks cannot be in each other's way.
            table.insert(handle, Arc::clone(&member));
            drop(table);
            begin(state);
        });
        member
    }

    /// Sends a stateless answer; if the socket is busy, it is lost, as it might be on the way.
    pub(crate) fn respond(&self, response: Option<Response>) {
        let Some(Response { transmit, bytes }) = response else { return };
        let socket = self.table().socket_for(&transmit);
        let _ = socket.send(&transmit, &bytes);
    }
}

impl Table {
    pub(crate) fn member(&self, handle: Handle) -> Option<&Arc<Member>> {
        self.members.get(handle.0)?.as_ref()
    }

    pub(crate) fn members(&self) -> impl Iterator<Item = &Arc<Member>> {
        self.members.iter().flatten()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.router.connections() == 0
    }

    /// Whether nothing is left that a driver is needed for, clients included that the application may still accept.
    pub(crate) fn is_done(&self) -> bool {
        self.handles == 0 && self.is_empty() && self.router.waiting() == 0
    }

    fn insert(&mut self, handle: Handle, member: Arc<Member>) {
        if self.members.len() <= handle.0 {
            self.members.resize_with(handle.0 + 1, || None);
        }
        self.members[handle.0] = Some(member);
    }

    pub(crate) fn remove(&mut self, handle: Handle) {
        self.router.remove(handle);
        if let Some(slot) = self.members.get_mut(handle.0) {
            *slot = None;
        }
        if self.is_empty() {
            self.idling.wake();
        }
    }

    /// The endpoint's own socket.
    pub(crate) fn socket(&self) -> &Arc<Socket> {
        &self.sockets[0]
    }

    /// A hold on the socket that serves `local`, if there is one.
    pub(crate) fn lease_for(&self, local: SocketAddr) -> Option<Arc<Lease>> {
        let mut leases = self.leased.iter().filter_map(|(_, lease)| lease.upgrade());
        if let Some(lease) = leases.find(|lease| lease.socket().serves(local)) {
            return Some(lease);
        }
        // One of the endpoint's own stays in any case.
        let socket = self.sockets.iter().find(|socket| socket.serves(local))?;
        Some(Arc::new(Lease::bound(Arc::clone(socket))))
    }

    /// Adds a socket that stays as long as somebody holds a lease of it.
    pub(crate) fn add_leased(&mut self, socket: Arc<Socket>, lease: &Arc<Lease>) {
        self.drop_unleased();
        self.sockets.push(Arc::clone(&socket));
        self.leased.push((socket, Arc::downgrade(lease)));
        self.sockets_version += 1;
    }

    /// Lets go of sockets that no path uses any longer.
    pub(crate) fn drop_unleased(&mut self) {
        let (kept, gone) =
            std::mem::take(&mut self.leased).into_iter().partition(|(_, lease)| lease.strong_count() > 0);
        self.leased = kept;
        let gone: Vec<(Arc<Socket>, Weak<Lease>)> = gone;
        if !gone.is_empty() {
            self.sockets.retain(|socket| !gone.iter().any(|(other, _)| Arc::ptr_eq(socket, other)));
            self.sockets_version += 1;
        }
    }

    /// The tasks that are wanted and not there yet.
    pub(crate) fn take_wanted(&mut self) -> Wanted {
        let wanted = std::mem::take(&mut self.wanted);
        let follower = wanted.follower && !std::mem::replace(&mut self.follows, true);
        Wanted { follower, ..wanted }
    }

    /// The task that looks after connections found none when so many had `begun`; says whether it may end.
    pub(crate) fn stop_following(&mut self, begun: u64) -> bool {
        let stops = self.begun == begun;
        self.follows &= !stops;
        stops
    }

    fn socket_for(&self, transmit: &anabranch_transport::Transmit) -> Arc<Socket> {
        let serving = self.sockets.iter().find(|socket| socket.serves(transmit.tuple.local));
        Arc::clone(serving.unwrap_or_else(|| self.socket()))
    }
}
