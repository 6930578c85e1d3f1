//! The endpoint: a [`Router`] and the connections that it leads to, behind the five verbs of the core.
//!
//! A driver that locks connections one by one uses the [`Router`] alone; simulator, tests and benchmarks use
//! [`Endpoint`].

mod address_token;
mod incoming;
mod keyed;
mod router;
mod shared;
mod stateless;
#[cfg(test)]
mod testing;

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use anabranch_wire::Time;

pub use self::incoming::{
    Incoming, MAX_BUFFERED_UNVALIDATED, MAX_BUFFERED_VALIDATED, MAX_FIRST_DATAGRAM, ServerStart,
    StoredDatagram,
};
pub use self::router::{Accepted, Handle, MIN_INITIAL_DATAGRAM, MIN_INITIAL_DCID_LEN, Route, Router};
pub(crate) use self::shared::Waiting;
pub use self::shared::{MAX_UNVALIDATED_MEMORY, Shared};
pub use self::stateless::{
    BURST, MAX_RESET_LEN, MIN_RESET_LEN, MIN_RESET_TRIGGER, NEGOTIATIONS_PER_SECOND, REFUSALS_PER_SECOND,
    RESETS_PER_SECOND, Response,
};
use crate::config::{ClientConfig, EndpointConfig, ServerConfig};
use crate::connection::ConnectTarget;
use crate::connection::{ConnectError, Connection};
use crate::datagram_io::{Datagram, FourTuple, Transmit, TransmitBuf};
use crate::event::{EndpointEvent, Event};

/// Stateless answers that wait to be sent; more are dropped, as the network might.
pub const MAX_RESPONSES: usize = 1_024;

/// One connection and what the endpoint knows about it.
struct Slot {
    /// Boxed, so that a table that grows moves and leaves empty no more than a few words per connection.
    connection: Box<Connection>,
    /// Its entry among the timers.
    timer: Option<Time>,
    /// `true` while the connection is in `Endpoint::to_transmit`; `in_ask` is the same for
    /// `Endpoint::to_ask`.
    in_transmit: bool,
    in_ask: bool,
    /// It is to be dropped once its events are taken.
    drained: bool,
}

/// Connections of one or several sockets, without any I/O.
///
/// Every call that changes something is to be followed by draining [`Self::poll_transmit`],
/// [`Self::poll_event`] and [`Self::poll_incoming`], then by one look at [`Self::poll_timeout`].
pub struct Endpoint {
    router: Router,
    /// By handle.
    slots: Vec<Option<Slot>>,
    /// Deadlines, earliest first.
    timers: BTreeSet<(Time, Handle)>,
    /// Connections that may have something to send.
    to_transmit: VecDeque<Handle>,
    /// Connections that may have events.
    to_ask: VecDeque<Handle>,
    responses: VecDeque<Response>,
    incoming: VecDeque<Incoming>,
    auto_accept: bool,
}

impl Endpoint {
    /// Creates an endpoint, which accepts connections if there is a `server`.
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

    /// Accepts connections from now on with this configuration, or none any longer.
    pub fn set_server(&mut self, server: Option<Arc<ServerConfig>>) {
        self.router.set_server(server);
    }

    /// Sets whether every incoming connection is accepted at once, instead of being offered in
    /// [`Self::poll_incoming`]. Such a connection is first reported by its first event.
    pub fn set_auto_accept(&mut self, auto_accept: bool) {
        self.auto_accept = auto_accept;
    }

    /// Returns the router below the endpoint, for its counters.
    pub fn router(&self) -> &Router {
        &self.router
    }

    /// Returns the number of connections, drained ones included until their events are taken.
    pub fn len(&self) -> usize {
        self.router.connections()
    }

    /// Returns whether there is no connection.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Begins a connection to `server_name` at `tuple.remote`.
    ///
    /// # Errors
    /// If the configuration, the name or the address cannot be used.
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

    /// Returns the next client that wants a connection. The caller must give it back with [`Self::accept`],
    /// [`Self::refuse`], [`Self::retry`] or [`Self::ignore`].
    pub fn poll_incoming(&mut self) -> Option<Incoming> {
        self.incoming.pop_front()
    }

    /// Accepts a connection, with another configuration than the endpoint's if there is a `config`. `None` if
    /// the endpoint accepts nothing any longer or has too many connections; then the client is refused.
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

    /// Tells the client that it gets no connection.
    pub fn refuse(&mut self, now: Time, incoming: Incoming) {
        let refusal = self.router.refuse(now, incoming);
        self.respond(refusal);
    }

    /// Asks the client to come back with a token that proves its address.
    ///
    /// # Errors
    /// Gives the connection back if the client has been asked before.
    pub fn retry(&mut self, now: Time, incoming: Incoming) -> Result<(), Incoming> {
        let response = self.router.retry(now, incoming)?;
        self.respond(Some(response));
        Ok(())
    }

    /// Says nothing to the client.
    pub fn ignore(&mut self, incoming: Incoming) {
        self.router.ignore(incoming);
    }

    /// Returns a connection, to write, read, close and so on. The next drain finds the packets that it then
    /// sends.
    pub fn connection(&mut self, handle: Handle) -> Option<&mut Connection> {
        self.touch(handle);
        self.slot(handle).map(|slot| &mut *slot.connection)
    }

    /// Datagrams arrived. Those of one connection that follow each other are passed on together.
    pub fn handle_batch(&mut self, now: Time, batch: &mut [Datagram<'_>]) {
        let mut rest = batch;
        while let Some(first) = rest.first_mut() {
            let route = self.router.route(now, first);
            let Route::Connection(handle) = route else {
                self.follow(now, route);
                rest = &mut rest[1..];
                continue;
            };
            rest = self.handle_run(now, handle, rest);
        }
    }

    /// Passes on the first datagram of `batch`, which belongs to `handle`, with all that follow and do so
    /// too. Returns what is left.
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
                Route::Connection(same) if same == handle => len += 1,
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
            // Routed anew: the run may have changed where it leads.
            None | Some(Route::Connection(_)) => rest,
            Some(route) => {
                self.follow(now, route);
                &mut rest[1..]
            }
        }
    }

    /// Does with a datagram that belongs to no connection what the router says.
    fn follow(&mut self, now: Time, route: Route) {
        match route {
            Route::Connection(_) | Route::Buffered | Route::Drop(_) => {}
            Route::Reset(handle) => {
                if let Some(slot) = self.slot(handle) {
                    slot.connection.handle_reset(now);
                    self.schedule(handle);
                }
            }
            Route::Incoming(incoming) if self.auto_accept => {
                self.accept(now, incoming, None);
            }
            Route::Incoming(incoming) => self.incoming.push_back(incoming),
            Route::Respond(response) => self.respond(Some(response)),
        }
    }

    fn respond(&mut self, response: Option<Response>) {
        if self.responses.len() < MAX_RESPONSES {
            self.responses.extend(response);
        }
    }

    /// Runs the timers that have expired at `now`.
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

    /// Returns the next batch to send, of one connection and one path. Connections take turns.
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

    /// Returns the time at which [`Self::handle_timeout`] must be called; `None` if no timer runs.
    pub fn poll_timeout(&self) -> Option<Time> {
        let timer = self.timers.first().map(|&(at, _)| at);
        // Connections that were touched and not drained have not set their timers yet.
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

    /// Schedules a connection for transmission and for its events after a call changed it. Forwards its
    /// endpoint events to the router at once.
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
