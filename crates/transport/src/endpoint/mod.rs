//! Endpoint: a [`Router`] and the connections to which it routes, behind the core's five operations
//! (`handle_batch`, `handle_timeout`, `poll_transmit`, `poll_timeout`, `poll_event`).
//!
//! A driver that locks connections individually uses the [`Router`] alone. The simulator, tests and
//! benchmarks use [`Endpoint`].

mod address_token;
mod handle;
mod incoming;
mod initial_keys;
mod keyed;
mod load_balancer;
mod routed;
mod router;
mod shared;
mod stateless;
#[cfg(test)]
mod testing;
mod worker;

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use anabranch_wire::{InvalidSetting, Time};

pub use self::handle::Handle;
pub use self::incoming::{
    Incoming, MAX_BUFFERED_UNVALIDATED, MAX_BUFFERED_VALIDATED, MAX_FIRST_DATAGRAM, ServerStart,
    StoredDatagram,
};
pub use self::load_balancer::{LoadBalancing, MAX_SERVER_ID_LEN, ServerId, ServerIdDecoder};
pub use self::router::{Accepted, MIN_INITIAL_DATAGRAM, MIN_INITIAL_DCID_LEN, Router, RouterAction};
pub(crate) use self::shared::Waiting;
pub use self::shared::{MAX_UNVALIDATED_MEMORY, Shared};
pub use self::stateless::{
    BURST, MAX_RESET_LEN, MIN_RESET_LEN, MIN_RESET_TRIGGER, NEGOTIATIONS_PER_SECOND, REFUSALS_PER_SECOND,
    RESETS_PER_SECOND, Response,
};
pub use self::worker::{MAX_WORKERS, WORKER_BITS, Worker};
use crate::config::{ClientConfig, EndpointConfig, ServerConfig};
use crate::connection::ConnectTarget;
use crate::connection::{ConnectError, Connection};
use crate::datagram_io::{Datagram, FourTuple, Transmit, TransmitBuf};
use crate::event::{EndpointEvent, Event};

/// Maximum number of stateless responses that wait to be sent. Further ones are dropped.
pub const MAX_RESPONSES: usize = 1_024;

/// A connection and the endpoint's state for it.
struct Slot {
    /// The connection. It is boxed, so that a growing table moves only a few words for each connection, and
    /// an empty slot wastes no more than these words.
    connection: Box<Connection>,
    /// Deadline under which the connection is listed in `Endpoint::timers`.
    timer: Option<Time>,
    /// `in_transmit` is `true` while the connection is in `Endpoint::to_transmit`, and `in_ask` while it is
    /// in `Endpoint::to_ask`.
    in_transmit: bool,
    in_ask: bool,
    /// `true` if the connection has drained; it is dropped once its events have been read.
    drained: bool,
}

/// Connections of one or several sockets, without any I/O.
///
/// After each call that changes the endpoint, drain [`Self::poll_transmit`], [`Self::poll_event`] and
/// [`Self::poll_incoming`], then call [`Self::poll_timeout`] once.
pub struct Endpoint {
    router: Router,
    /// Connections, indexed by handle.
    slots: Vec<Option<Slot>>,
    /// Deadlines, earliest first.
    timers: BTreeSet<(Time, Handle)>,
    /// Connections that may have packets to send.
    to_transmit: VecDeque<Handle>,
    /// Connections that may have events.
    to_ask: VecDeque<Handle>,
    responses: VecDeque<Response>,
    incoming: VecDeque<Incoming>,
    auto_accept: bool,
}

impl Endpoint {
    /// Creates an endpoint. It accepts connections if `server` is given.
    pub fn new(config: &EndpointConfig, server: Option<Arc<ServerConfig>>) -> Self {
        Self {
            router: Router::new(config, server),
            slots: Vec::new(),
            timers: BTreeSet::new(),
            to_transmit: VecDeque::new(),
            to_ask: VecDeque::new(),
            responses: VecDeque::new(),
            incoming: VecDeque::new(),
            auto_accept: false,
        }
    }

    /// Replaces the configuration for incoming connections. With `None` no more connections are accepted.
    pub fn set_server(&mut self, server: Option<Arc<ServerConfig>>) {
        self.router.set_server(server);
    }

    /// Issues connection IDs with another configuration of QUIC-LB from now on ([`Router::set_load_balancing`]).
    ///
    /// # Errors
    /// Fails if a setting contradicts the draft or the length of the endpoint's connection IDs.
    pub fn set_load_balancing(&mut self, config: LoadBalancing) -> Result<(), InvalidSetting> {
        self.router.set_load_balancing(config)
    }

    /// Sets whether every incoming connection is accepted immediately, instead of being returned by
    /// [`Self::poll_incoming`]. The application learns of such a connection by its first event.
    pub fn set_auto_accept(&mut self, auto_accept: bool) {
        self.auto_accept = auto_accept;
    }

    /// Returns the endpoint's router, for its counters.
    pub fn router(&self) -> &Router {
        &self.router
    }

    /// Returns the number of connections. A drained connection counts until its events have been read.
    pub fn len(&self) -> usize {
        self.router.connections()
    }

    /// Returns whether there is no connection.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Starts a connection to `server_name` at `tuple.remote`.
    ///
    /// # Errors
    /// Fails if the configuration, the name or the address cannot be used.
    pub fn connect(
        &mut self,
        now: Time,
        config: &ClientConfig,
        tuple: FourTuple,
        server_name: &str,
    ) -> Result<Handle, ConnectError> {
        let unusable = tuple.remote.port() == 0 || tuple.remote.ip().is_unspecified();
        let registered = if unusable { None } else { self.router.connect(tuple) };
        let (handle, local_cid) = registered.ok_or(ConnectError::InvalidRemoteAddress(tuple.remote))?;
        let (shared, seed) = (self.router.shared(), self.router.next_seed());
        let target = ConnectTarget { tuple, server_name, local_cid, seed };
        match Connection::client(now, config, shared, target) {
            Ok(connection) => {
                self.insert(handle, connection);
                Ok(handle)
            }
            Err(error) => {
                self.router.remove(handle);
                Err(error)
            }
        }
    }

    /// Returns the next incoming connection. The caller must pass it to [`Self::accept`], [`Self::refuse`],
    /// [`Self::retry`] or [`Self::ignore`].
    pub fn poll_incoming(&mut self) -> Option<Incoming> {
        self.incoming.pop_front()
    }

    /// Accepts a connection, with `config` instead of the endpoint's configuration if it is given. Returns
    /// `None` and refuses the client if the endpoint no longer accepts connections or has too many.
    pub fn accept(
        &mut self,
        now: Time,
        incoming: Incoming,
        config: Option<Arc<ServerConfig>>,
    ) -> Option<Handle> {
        let Some(config) = config.or_else(|| self.router.server().cloned()) else {
            self.refuse(now, incoming);
            return None;
        };
        let Accepted { handle, start, mut datagrams } = match self.router.accept(now, incoming) {
            Ok(accepted) => accepted,
            Err(refusal) => {
                self.respond(refusal);
                return None;
            }
        };
        let (shared, seed) = (self.router.shared(), self.router.next_seed());
        let mut connection = Connection::server(now, config, shared, seed, &start);
        let mut batch: Vec<_> = datagrams.iter_mut().map(StoredDatagram::as_datagram).collect();
        connection.handle_batch(now, &mut batch);
        self.insert(handle, connection);
        Some(handle)
    }

    /// Refuses the connection (CONNECTION_REFUSED).
    pub fn refuse(&mut self, now: Time, incoming: Incoming) {
        let refusal = self.router.refuse(now, incoming);
        self.respond(refusal);
    }

    /// Sends the client a Retry, so that it comes back with a token that validates its address.
    ///
    /// # Errors
    /// Returns the incoming connection if the client has already followed a Retry.
    pub fn retry(&mut self, now: Time, incoming: Incoming) -> Result<(), Incoming> {
        let response = self.router.retry(now, incoming)?;
        self.respond(Some(response));
        Ok(())
    }

    /// Drops the incoming connection without a response.
    pub fn ignore(&mut self, incoming: Incoming) {
        self.router.ignore(incoming);
    }

    /// Returns a connection, for instance to write, read or close. The next call of [`Self::poll_transmit`]
    /// also sends the data of this connection.
    pub fn connection(&mut self, handle: Handle) -> Option<&mut Connection> {
        self.touch(handle);
        self.slot(handle).map(|slot| &mut *slot.connection)
    }

    /// Handles received datagrams. Consecutive datagrams of one connection are passed to it together.
    pub fn handle_batch(&mut self, now: Time, batch: &mut [Datagram<'_>]) {
        let mut rest = batch;
        while let Some(first) = rest.first_mut() {
            let route = self.router.route(now, first);
            let RouterAction::Connection(handle) = route else {
                self.follow(now, route);
                rest = &mut rest[1..];
                continue;
            };
            rest = self.handle_run(now, handle, rest);
        }
    }

    /// Passes the first datagram of `batch`, which belongs to `handle`, to its connection, together with the
    /// directly following ones that belong to it too. Returns the rest of the batch.
    fn handle_run<'b, 'd>(
        &mut self,
        now: Time,
        handle: Handle,
        batch: &'b mut [Datagram<'d>],
    ) -> &'b mut [Datagram<'d>] {
        let mut len = 1;
        let mut other = None;
        while let Some(next) = batch.get_mut(len) {
            match self.router.route(now, next) {
                RouterAction::Connection(same) if same == handle => len += 1,
                route => {
                    other = Some(route);
                    break;
                }
            }
        }
        let (run, rest) = batch.split_at_mut(len);
        if let Some(slot) = self.slot(handle) {
            slot.connection.handle_batch(now, run);
            self.schedule(handle);
        }
        match other {
            // The caller routes the next datagram again: the datagrams before it may have changed its route.
            None | Some(RouterAction::Connection(_)) => rest,
            Some(route) => {
                self.follow(now, route);
                &mut rest[1..]
            }
        }
    }

    /// Carries out the router's decision about a datagram that is not passed to a connection.
    fn follow(&mut self, now: Time, route: RouterAction) {
        match route {
            // This endpoint has no other worker.
            RouterAction::Elsewhere(_) => {}
            RouterAction::Connection(_) | RouterAction::Buffered | RouterAction::Drop(_) => {}
            RouterAction::Reset(handle) => {
                if let Some(slot) = self.slot(handle) {
                    slot.connection.handle_reset(now);
                    self.schedule(handle);
                }
            }
            RouterAction::Incoming(incoming) if self.auto_accept => {
                self.accept(now, incoming, None);
            }
            RouterAction::Incoming(incoming) => self.incoming.push_back(incoming),
            RouterAction::Respond(response) => self.respond(Some(response)),
        }
    }

    fn respond(&mut self, response: Option<Response>) {
        if self.responses.len() < MAX_RESPONSES {
            self.responses.extend(response);
        }
    }

    /// Handles the timers that have expired by `now`.
    pub fn handle_timeout(&mut self, now: Time) {
        while let Some(&(at, handle)) = self.timers.first().filter(|(at, _)| *at <= now) {
            self.timers.remove(&(at, handle));
            if let Some(slot) = self.slot(handle) {
                slot.timer = None;
                slot.connection.handle_timeout(now);
                self.schedule(handle);
            }
        }
    }

    /// Returns the next batch to send, which belongs to one connection and one path. Connections take turns.
    pub fn poll_transmit(&mut self, now: Time, out: &mut TransmitBuf) -> Option<Transmit> {
        if let Some(Response { transmit, bytes }) = self.responses.pop_front() {
            out.room(bytes.len()).copy_from_slice(&bytes);
            return Some(transmit);
        }
        while let Some(handle) = self.to_transmit.pop_front() {
            let Some(slot) = self.slot(handle) else { continue };
            let transmit = slot.connection.poll_transmit(now, out);
            if transmit.is_some() {
                self.to_transmit.push_back(handle);
                return transmit;
            }
            slot.in_transmit = false;
            let deadline = slot.connection.poll_timeout();
            self.set_timer(handle, deadline);
            self.forward_events(handle);
            self.ask(handle);
        }
        None
    }

    /// Returns the time at which [`Self::handle_timeout`] must be called; `None` if no timer is set.
    pub fn poll_timeout(&self) -> Option<Time> {
        let timer = self.timers.first().map(|&(at, _)| at);
        // Connections that were changed, but not polled for packets since, have not updated their timers yet.
        let touched = self.to_transmit.iter().filter_map(|handle| self.slots.get(handle.0)?.as_ref());
        touched.filter_map(|slot| slot.connection.poll_timeout()).chain(timer).min()
    }

    /// Returns the next event of any connection.
    pub fn poll_event(&mut self) -> Option<(Handle, Event)> {
        while let Some(&handle) = self.to_ask.front() {
            let Some(slot) = self.slot(handle) else {
                self.to_ask.pop_front();
                continue;
            };
            if let Some(event) = slot.connection.poll_event() {
                return Some((handle, event));
            }
            slot.in_ask = false;
            let drained = slot.drained;
            self.to_ask.pop_front();
            if drained {
                self.remove(handle);
            }
        }
        None
    }

    fn insert(&mut self, handle: Handle, connection: Connection) {
        let connection = Box::new(connection);
        let slot = Slot { connection, timer: None, in_transmit: false, in_ask: false, drained: false };
        if self.slots.len() <= handle.0 {
            self.slots.resize_with(handle.0 + 1, || None);
        }
        self.slots[handle.0] = Some(slot);
        self.schedule(handle);
    }

    fn slot(&mut self, handle: Handle) -> Option<&mut Slot> {
        self.slots.get_mut(handle.0)?.as_mut()
    }

    fn remove(&mut self, handle: Handle) {
        self.set_timer(handle, None);
        if let Some(slot) = self.slots.get_mut(handle.0) {
            *slot = None;
        }
        self.router.remove(handle);
    }

    /// Queues a connection for transmission and for its events after a call changed it. Forwards its endpoint
    /// events to the router immediately.
    fn schedule(&mut self, handle: Handle) {
        self.touch(handle);
        self.forward_events(handle);
    }

    fn touch(&mut self, handle: Handle) {
        let Some(slot) = self.slot(handle) else { return };
        if !std::mem::replace(&mut slot.in_transmit, true) {
            self.to_transmit.push_back(handle);
        }
        self.ask(handle);
    }

    fn ask(&mut self, handle: Handle) {
        let Some(slot) = self.slot(handle) else { return };
        if !std::mem::replace(&mut slot.in_ask, true) {
            self.to_ask.push_back(handle);
        }
    }

    fn forward_events(&mut self, handle: Handle) {
        let Some(slot) = self.slots.get_mut(handle.0).and_then(Option::as_mut) else { return };
        while let Some(event) = slot.connection.poll_endpoint_event() {
            slot.drained |= event == EndpointEvent::Drained;
            self.router.on_event(handle, &event);
        }
    }

    fn set_timer(&mut self, handle: Handle, deadline: Option<Time>) {
        let Some(slot) = self.slot(handle) else { return };
        if slot.timer == deadline {
            return;
        }
        if let Some(old) = std::mem::replace(&mut slot.timer, deadline) {
            self.timers.remove(&(old, handle));
        }
        self.timers.extend(deadline.map(|at| (at, handle)));
    }
}

#[cfg(test)]
mod tests;
