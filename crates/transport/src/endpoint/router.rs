//! Routing of datagrams to connections, and handling of datagrams that belong to no connection.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::net::SocketAddr;
use std::sync::Arc;

use anabranch_wire::{
    ConnectionId, HeaderError, PacketKind, Protected, Time, TransportErrorCode, parse_packet,
};
use slab::Slab;

use super::address_token::{AddressToken, Checker, Lifetimes, Proof};
use super::incoming::{
    Buffer, Hello, Incoming, MAX_FIRST_DATAGRAM, ServerStart, StoredDatagram, is_authentic,
};
use super::keyed::Keyed;
use super::shared::Shared;
use super::stateless::{self, Budget, MIN_RESET_LEN, Response};
use crate::config::{EndpointConfig, RetryPolicy, ServerConfig};
use crate::datagram_io::{Datagram, FourTuple};
use crate::event::EndpointEvent;
use crate::random::Random;
use crate::trace::DropReason;

/// Smallest datagram in which a client may begin (RFC 9000 §14.1).
pub const MIN_INITIAL_DATAGRAM: usize = 1_200;
/// Shortest connection ID that a client may choose for a server (RFC 9000 §7.2). Ours in Retry packets are as
/// long, too, so that nobody can guess them.
pub const MIN_INITIAL_DCID_LEN: usize = 8;
/// Attempts to draw a connection ID that is not in use. Only very short ones ever need a second.
const MAX_CID_ATTEMPTS: usize = 64;

/// A connection's place at its endpoint. It may be given to another one after the connection was removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Handle(pub usize);

/// Action that the router decides on for a datagram.
#[derive(Debug)]
pub enum Route {
    /// Pass it to this connection.
    Connection(Handle),
    /// It is a stateless reset of this connection (RFC 9000 §10.3.1).
    Reset(Handle),
    /// A client wants a connection; the datagram has been copied.
    Incoming(Incoming),
    /// The datagram was kept for an [`Incoming`] that waits.
    Buffered,
    /// Send this.
    Respond(Response),
    /// Nothing.
    Drop(DropReason),
}

/// Values from which a server connection is created.
#[derive(Debug)]
pub struct Accepted {
    /// The connection's place.
    pub handle: Handle,
    /// Values that the connection begins with.
    pub start: ServerStart,
    /// Datagrams to pass to the connection at once, in this order.
    pub datagrams: Vec<StoredDatagram>,
}

/// Owner of a connection ID.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Target {
    Connection(Handle),
    /// Index in `Router::incoming`.
    Incoming(usize),
}

/// Stands for a connection without connection IDs. The local IP address is left out: it may become known only
/// later.
type TupleKey = (SocketAddr, u16);

fn tuple_key(tuple: &FourTuple) -> TupleKey {
    (tuple.remote, tuple.local.port())
}

/// All that leads to one connection, to be undone when it ends.
#[derive(Debug, Default)]
struct Routed {
    cids: Vec<ConnectionId>,
    reset_tokens: Vec<[u8; 16]>,
    tuples: Vec<TupleKey>,
    /// A server connection in its handshake.
    handshaking: bool,
}

/// Routes datagrams. Both drivers use it: the simulator through [`super::Endpoint`], the network one on its
/// own.
#[derive(Debug)]
pub struct Router {
    shared: Arc<Shared>,
    server: Option<Arc<ServerConfig>>,
    random: Random,
    /// This endpoint's connection IDs, and those that clients chose for their first packets.
    cids: HashMap<ConnectionId, Target, Keyed>,
    tuples: HashMap<TupleKey, Handle, Keyed>,
    reset_tokens: HashMap<[u8; 16], Handle, Keyed>,
    connections: Slab<Routed>,
    incoming: Slab<Buffer>,
    /// Server connections in their handshake.
    handshaking: usize,
    tokens: Checker,
    resets: Budget,
    negotiations: Budget,
    refusals: Budget,
}

impl Router {
    /// Creates a router, which accepts connections if there is a `server`.
    pub fn new(config: &EndpointConfig, server: Option<Arc<ServerConfig>>) -> Self {
        let mut random = Random::new(config.seed);
        let hash = Keyed::new(random.bytes());
        Self {
            shared: Arc::new(Shared::new(config)),
            server,
            random,
            cids: HashMap::with_hasher(hash),
            tuples: HashMap::with_hasher(hash),
            reset_tokens: HashMap::with_hasher(hash),
            connections: Slab::new(),
            incoming: Slab::new(),
            handshaking: 0,
            tokens: Checker::new(hash),
            resets: Budget::per_second(stateless::RESETS_PER_SECOND),
            negotiations: Budget::per_second(stateless::NEGOTIATIONS_PER_SECOND),
            refusals: Budget::per_second(stateless::REFUSALS_PER_SECOND),
        }
    }

    /// Accepts connections from now on with this configuration, or none any longer.
    pub fn set_server(&mut self, server: Option<Arc<ServerConfig>>) {
        self.server = server;
    }

    /// Returns the configuration for future connections.
    pub fn server(&self) -> Option<&Arc<ServerConfig>> {
        self.server.as_ref()
    }

    /// Returns the state that every connection of this endpoint shares.
    pub fn shared(&self) -> Arc<Shared> {
        Arc::clone(&self.shared)
    }

    /// Returns the seed for a connection.
    pub fn next_seed(&mut self) -> [u8; 32] {
        self.random.bytes()
    }

    /// Returns the number of registered connections.
    pub fn connections(&self) -> usize {
        self.connections.len()
    }

    /// Clients that have not got through their handshake, accepted or not.
    pub fn waiting(&self) -> usize {
        self.incoming.len() + self.handshaking
    }

    /// Finds out what to do with a datagram that arrived at `now`.
    pub fn route(&mut self, now: Time, datagram: &Datagram<'_>) -> Route {
        let header = match parse_packet(datagram.payload, self.shared.cid_len()) {
            Ok(header) => header,
            Err(HeaderError::UnknownVersion { dcid, scid, .. }) => {
                let ids = (&datagram.payload[dcid], &datagram.payload[scid]);
                return self.negotiate_version(now, datagram, ids);
            }
            Err(HeaderError::Malformed) => return Route::Drop(DropReason::Malformed),
        };
        if header.dcid.is_empty() {
            // Such a datagram finds its connection whatever it is: whether it is a reset has to be seen
            // before.
            let by_tuple = self.tuples.get(&tuple_key(&datagram.tuple)).copied();
            let found = self.reset_target(datagram.payload).map(Route::Reset);
            if let Some(route) = found.or(by_tuple.map(Route::Connection)) {
                return route;
            }
        }
        match self.cids.get(&header.dcid) {
            Some(&Target::Connection(handle)) => Route::Connection(handle),
            Some(&Target::Incoming(key)) => {
                let kept = self.incoming.get_mut(key).is_some_and(|buffer| buffer.push(datagram));
                if kept { Route::Buffered } else { Route::Drop(DropReason::Unexpected) }
            }
            None => self.route_unknown(now, datagram, &header),
        }
    }

    /// Routes a packet that belongs to no connection.
    fn route_unknown(&mut self, now: Time, datagram: &Datagram<'_>, header: &Protected) -> Route {
        if let Some(handle) = self.reset_target(datagram.payload) {
            return Route::Reset(handle);
        }
        match header.kind {
            PacketKind::Initial => self.on_initial(now, datagram, header),
            PacketKind::OneRtt => self.reset(now, datagram, &header.dcid),
            // A client that knows the token, but not yet that the handshake is confirmed, probes with these
            // alone.
            PacketKind::Handshake if self.server.is_some() => self.reset(now, datagram, &header.dcid),
            _ => Route::Drop(DropReason::UnknownConnectionId),
        }
    }

    /// Returns the connection that a datagram resets (RFC 9000 §10.3.1). The token is looked up under a keyed
    /// hash, so that the lookup time reveals nothing about tokens.
    fn reset_target(&self, payload: &[u8]) -> Option<Handle> {
        if self.reset_tokens.is_empty() || payload.len() < MIN_RESET_LEN {
            return None;
        }
        self.reset_tokens.get(payload.last_chunk::<16>()?).copied()
    }

    /// Tells a peer that its connection is not known here (RFC 9000 §10.3).
    fn reset(&mut self, now: Time, datagram: &Datagram<'_>, dcid: &ConnectionId) -> Route {
        // Without connection IDs there is no token that the peer could know.
        if !dcid.is_empty() && datagram.payload.len() >= stateless::MIN_RESET_TRIGGER && self.resets.take(now)
        {
            let token = self.shared.reset_token(dcid);
            if let Some(bytes) = stateless::reset(&mut self.random, &token, datagram.payload.len()) {
                return Route::Respond(Response::new(datagram.tuple, bytes));
            }
        }
        Route::Drop(DropReason::UnknownConnectionId)
    }

    /// Answers a long header of another version, with the connection IDs `(dcid, scid)` (RFC 9000 §6.1).
    /// Packets of version 0 never come here: nothing answers a Version Negotiation.
    fn negotiate_version(&mut self, now: Time, datagram: &Datagram<'_>, ids: (&[u8], &[u8])) -> Route {
        if let Some(handle) = self.reset_target(datagram.payload) {
            return Route::Reset(handle);
        }
        // RFC 9000 §5.2.2: only what would be large enough to begin a connection is answered.
        let large_enough = datagram.payload.len() >= MIN_INITIAL_DATAGRAM;
        match &self.server {
            Some(server) if large_enough && self.negotiations.take(now) => {
                let config = &server.transport;
                let bytes = stateless::version_negotiation(
                    &mut self.random,
                    &config.versions,
                    config.grease,
                    ids.0,
                    ids.1,
                );
                Route::Respond(Response::new(datagram.tuple, bytes))
            }
            _ => Route::Drop(DropReason::UnexpectedVersion),
        }
    }

    /// Handles a client's first packet and, if all checks pass, creates an [`Incoming`].
    fn on_initial(&mut self, now: Time, datagram: &Datagram<'_>, header: &Protected) -> Route {
        let (Some(server), Some(version)) = (self.server.clone(), header.version) else {
            return Route::Drop(DropReason::UnknownConnectionId);
        };
        let Some(format) = version.format().filter(|_| server.transport.versions.contains(&version)) else {
            return self.negotiate_version(now, datagram, (&header.dcid, &header.scid));
        };
        if datagram.payload.len() < MIN_INITIAL_DATAGRAM
            || header.dcid.len() < MIN_INITIAL_DCID_LEN
            || header.end > MAX_FIRST_DATAGRAM
        {
            return Route::Drop(DropReason::Malformed);
        }
        let token = &datagram.payload[header.token.clone()];
        let proof = self.check_token(now, &server, datagram.tuple.remote, token, &header.dcid);
        let hello = Hello::new(datagram.tuple, version, header, proof);
        let waiting = self.waiting();
        if proof == Proof::Wrong {
            return self.respond_refusal(now, &hello, TransportErrorCode::INVALID_TOKEN);
        }
        if self.connections.len() >= server.max_connections {
            return self.respond_refusal(now, &hello, TransportErrorCode::CONNECTION_REFUSED);
        }
        if !hello.validated && must_retry(server.retry, waiting, server.max_incoming) {
            return Route::Respond(self.retry_response(now, &hello));
        }
        if waiting >= server.max_incoming {
            return self.respond_refusal(now, &hello, TransportErrorCode::CONNECTION_REFUSED);
        }
        if !is_authentic(format, datagram.payload, header) {
            return Route::Drop(DropReason::Undecryptable);
        }
        let key = self.incoming.insert(Buffer::new(&hello));
        self.cids.insert(hello.dcid, Target::Incoming(key));
        // Of an oversized datagram the Initial is kept, which is at its front.
        let len =
            if datagram.payload.len() > MAX_FIRST_DATAGRAM { header.end } else { datagram.payload.len() };
        let first = StoredDatagram::copy(datagram, len);
        Route::Incoming(Incoming { key, hello: Box::new(hello), first })
    }

    fn check_token(
        &mut self,
        now: Time,
        server: &ServerConfig,
        remote: SocketAddr,
        token: &[u8],
        dcid: &ConnectionId,
    ) -> Proof {
        if token.is_empty() {
            return Proof::Nothing;
        }
        let lifetimes = Lifetimes { retry: server.retry_token_lifetime, new: server.new_token_lifetime };
        self.tokens.check(self.shared.token_key(), now, token, remote, dcid, lifetimes)
    }

    fn respond_refusal(&mut self, now: Time, hello: &Hello, code: TransportErrorCode) -> Route {
        self.refusal(now, hello, code).map_or(Route::Drop(DropReason::Unexpected), Route::Respond)
    }

    fn refusal(&mut self, now: Time, hello: &Hello, code: TransportErrorCode) -> Option<Response> {
        let format = hello.version.format().filter(|_| self.refusals.take(now))?;
        let bytes = stateless::refusal(format, &hello.dcid, &hello.scid, code)?;
        Some(Response::new(hello.tuple, bytes))
    }

    /// Creates a Retry. Each Retry answers a datagram many times its size and leaves no state, so Retries
    /// have no budget.
    fn retry_response(&mut self, now: Time, hello: &Hello) -> Response {
        let retry_scid = self.random.cid(self.shared.cid_len().max(MIN_INITIAL_DCID_LEN));
        let remote = hello.tuple.remote;
        let token = AddressToken::Retry { issued: now, remote, original_dcid: hello.dcid, retry_scid };
        let token = self.shared.token_key().seal(&token, self.random.bytes());
        let [seed] = self.random.bytes();
        let bytes = hello.version.format().map_or_else(Vec::new, |format| {
            stateless::retry(format, &hello.scid, &hello.dcid, &retry_scid, &token, seed)
        });
        Response::new(hello.tuple, bytes)
    }

    /// Makes room for a client connection between these addresses: its place and its first connection ID.
    /// `None` if connection IDs are so short that none is left, or if they are empty and there is a
    /// connection between these addresses already.
    pub fn connect(&mut self, tuple: FourTuple) -> Option<(Handle, ConnectionId)> {
        self.register(tuple, None)
    }

    /// Makes room for a server connection. At the limit of connections the client is refused instead; `None`
    /// if even that is beyond the budget.
    ///
    /// # Errors
    /// The refusal to send.
    pub fn accept(&mut self, now: Time, incoming: Incoming) -> Result<Accepted, Option<Response>> {
        let (hello, datagrams) = self.take(incoming);
        let full =
            self.server.as_ref().is_some_and(|server| self.connections.len() >= server.max_connections);
        let registered = if full { None } else { self.register(hello.tuple, Some(hello.dcid)) };
        let Some((handle, local_cid)) = registered else {
            return Err(self.refusal(now, &hello, TransportErrorCode::CONNECTION_REFUSED));
        };
        let start = ServerStart {
            version: hello.version,
            initial_dcid: hello.dcid,
            original_dcid: hello.retried.unwrap_or(hello.dcid),
            peer_cid: hello.scid,
            local_cid,
            retry_scid: hello.retried.map(|_| hello.dcid),
            address_validated: hello.validated,
            tuple: hello.tuple,
        };
        Ok(Accepted { handle, start, datagrams })
    }

    /// Tells the client that it gets no connection, within a budget.
    pub fn refuse(&mut self, now: Time, incoming: Incoming) -> Option<Response> {
        let (hello, _) = self.take(incoming);
        self.refusal(now, &hello, TransportErrorCode::CONNECTION_REFUSED)
    }

    /// Asks the client to come back with a token.
    ///
    /// # Errors
    /// Gives the connection back if the client has already been asked: it follows only one Retry.
    pub fn retry(&mut self, now: Time, incoming: Incoming) -> Result<Response, Incoming> {
        if !incoming.may_retry() {
            return Err(incoming);
        }
        let (hello, _) = self.take(incoming);
        Ok(self.retry_response(now, &hello))
    }

    /// Says nothing to the client.
    pub fn ignore(&mut self, incoming: Incoming) {
        self.take(incoming);
    }

    /// Takes an incoming connection out, with all its datagrams.
    fn take(&mut self, incoming: Incoming) -> (Hello, Vec<StoredDatagram>) {
        let Incoming { key, hello, first } = incoming;
        let mut datagrams = vec![first];
        if let Some(buffer) = self.incoming.try_remove(key) {
            self.cids.remove(&buffer.dcid);
            datagrams.extend(buffer.datagrams);
        }
        (*hello, datagrams)
    }

    /// Registers a connection under a new connection ID (under its addresses if those are empty), and a
    /// server one also under the one that its client chose.
    fn register(
        &mut self,
        tuple: FourTuple,
        initial_dcid: Option<ConnectionId>,
    ) -> Option<(Handle, ConnectionId)> {
        let local_cid = self.unused_cid()?;
        let key = tuple_key(&tuple);
        if local_cid.is_empty() && self.tuples.contains_key(&key) {
            return None;
        }
        let handle = Handle(
            self.connections.insert(Routed { handshaking: initial_dcid.is_some(), ..Routed::default() }),
        );
        self.handshaking += usize::from(initial_dcid.is_some());
        if local_cid.is_empty() {
            self.tuples.insert(key, handle);
            self.connections[handle.0].tuples.push(key);
        } else {
            self.on_event(handle, &EndpointEvent::CidIssued(local_cid));
        }
        if let Some(cid) = initial_dcid {
            // It stays for the connection's life, so that a late copy of the first Initial does not look like
            // a new client.
            self.on_event(handle, &EndpointEvent::CidIssued(cid));
        }
        Some((handle, local_cid))
    }

    fn unused_cid(&mut self) -> Option<ConnectionId> {
        let len = self.shared.cid_len();
        if len == 0 {
            return Some(ConnectionId::EMPTY);
        }
        (0..MAX_CID_ATTEMPTS).map(|_| self.random.cid(len)).find(|cid| !self.cids.contains_key(cid))
    }

    /// Updates the routing tables with an event of a connection.
    pub fn on_event(&mut self, handle: Handle, event: &EndpointEvent) {
        let Some(routed) = self.connections.get_mut(handle.0) else { return };
        match event {
            EndpointEvent::CidIssued(cid) => {
                // One that is taken leads to its first owner: another connection cannot take over its
                // packets.
                if let Entry::Vacant(entry) = self.cids.entry(*cid) {
                    entry.insert(Target::Connection(handle));
                    routed.cids.push(*cid);
                }
            }
            EndpointEvent::CidRetired(cid) => {
                if let Some(at) = routed.cids.iter().position(|routed| routed == cid) {
                    self.cids.remove(&routed.cids.swap_remove(at));
                }
            }
            EndpointEvent::TupleAdded(tuple) => {
                if let Entry::Vacant(entry) = self.tuples.entry(tuple_key(tuple)) {
                    entry.insert(handle);
                    routed.tuples.push(tuple_key(tuple));
                }
            }
            EndpointEvent::TupleRemoved(tuple) => {
                let key = tuple_key(tuple);
                if let Some(at) = routed.tuples.iter().position(|routed| *routed == key) {
                    self.tuples.remove(&routed.tuples.swap_remove(at));
                }
            }
            EndpointEvent::ResetTokenAdded(token) => {
                if let Entry::Vacant(entry) = self.reset_tokens.entry(token.0) {
                    entry.insert(handle);
                    routed.reset_tokens.push(token.0);
                }
            }
            EndpointEvent::ResetTokenRemoved(token) => {
                if let Some(at) = routed.reset_tokens.iter().position(|routed| *routed == token.0) {
                    self.reset_tokens.remove(&routed.reset_tokens.swap_remove(at));
                }
            }
            EndpointEvent::HandshakeOver => {
                if std::mem::take(&mut routed.handshaking) {
                    self.handshaking -= 1;
                }
            }
            EndpointEvent::Drained => self.unroute(handle),
        }
    }

    /// Removes every route to the connection.
    fn unroute(&mut self, handle: Handle) {
        let Some(routed) = self.connections.get_mut(handle.0).map(std::mem::take) else { return };
        routed.cids.iter().for_each(|cid| _ = self.cids.remove(cid));
        routed.reset_tokens.iter().for_each(|token| _ = self.reset_tokens.remove(token));
        routed.tuples.iter().for_each(|tuple| _ = self.tuples.remove(tuple));
        self.handshaking -= usize::from(routed.handshaking);
    }

    /// Removes a connection that is gone. Its handle may then be given to another connection.
    pub fn remove(&mut self, handle: Handle) {
        self.unroute(handle);
        self.connections.try_remove(handle.0);
    }
}

/// Returns whether a client without a valid token is asked to come back with one.
fn must_retry(policy: RetryPolicy, waiting: usize, max_incoming: usize) -> bool {
    match policy {
        RetryPolicy::Never => false,
        RetryPolicy::UnderLoad => 2 * waiting > max_incoming || waiting >= max_incoming,
        RetryPolicy::Always => true,
    }
}

#[cfg(test)]
mod tests;
