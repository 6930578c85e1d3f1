//! Routing of datagrams to connections, and handling of datagrams that belong to no connection.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use anabranch_wire::{
    ConnectionId, HeaderError, InvalidSetting, PacketKind, Protected, Time, TransportErrorCode, parse_packet,
};
use slab::Slab;

use super::address_token::{AddressToken, Proof};
use super::handle::Handle;
use super::incoming::{
    Buffer, Hello, Incoming, MAX_FIRST_DATAGRAM, ServerStart, StoredDatagram, authentic_keys,
};
use super::keyed::Keyed;
use super::load_balancer::{Issuers, LoadBalancing};
use super::routed::{Routed, TupleKey, tuple_key};
use super::shared::{Group, Shared};
use super::stateless::{self, Budget, MIN_RESET_LEN, Response};
use super::worker::Worker;
use crate::config::{EndpointConfig, RetryPolicy, ServerConfig};
use crate::datagram_io::{Datagram, FourTuple};
use crate::event::EndpointEvent;
use crate::random::Random;
use crate::trace::DropReason;

/// Minimum size of a datagram with a client's first Initial, in bytes (RFC 9000 §14.1).
pub const MIN_INITIAL_DATAGRAM: usize = 1_200;
/// Minimum length of the connection ID that a client chooses for the server, in bytes (RFC 9000 §7.2). Our
/// connection IDs in Retry packets have at least this length too, so that they cannot be guessed.
pub const MIN_INITIAL_DCID_LEN: usize = 8;
/// Maximum number of attempts to draw an unused connection ID. Only very short ones ever need a second
/// attempt.
const MAX_CID_ATTEMPTS: usize = 64;

/// The router's decision about a datagram.
#[derive(Debug)]
pub enum RouterAction {
    /// The datagram belongs to this connection and must be passed to it.
    Connection(Handle),
    /// The datagram is a stateless reset of this connection (RFC 9000 §10.3.1).
    Reset(Handle),
    /// A client starts a connection; the datagram has been copied.
    Incoming(Incoming),
    /// The datagram belongs to a connection of the worker with this number, and must be passed to its router.
    Elsewhere(usize),
    /// The datagram was stored with an [`Incoming`] that is not accepted yet.
    Buffered,
    /// This response must be sent.
    Respond(Response),
    /// The datagram is ignored.
    Drop(DropReason),
}

/// Accepted server connection, to be created by the caller.
#[derive(Debug)]
#[non_exhaustive]
pub struct Accepted {
    /// Handle of the connection.
    pub handle: Handle,
    /// Initial values of the connection.
    pub start: ServerStart,
    /// Datagrams to pass to the connection immediately, in this order.
    pub datagrams: Vec<StoredDatagram>,
}

/// Owner of a connection ID.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Target {
    Connection(Handle),
    /// Index in `Router::incoming`.
    Incoming(usize),
}

/// Datagram of no connection: its header, or the places of its connection IDs if the version is unknown.
type Stranger = Result<Box<Protected>, (Range<usize>, Range<usize>)>;

/// Router of received datagrams. The simulator's driver uses it through [`super::Endpoint`], the network
/// driver directly.
#[derive(Debug)]
pub struct Router {
    shared: Arc<Shared>,
    server: Option<Arc<ServerConfig>>,
    random: Random,
    /// Routes by connection ID: this endpoint's own, and those that clients chose for their first packets.
    cids: HashMap<ConnectionId, Target, Keyed>,
    tuples: HashMap<TupleKey, Handle, Keyed>,
    connections: Slab<Routed>,
    incoming: Slab<Buffer>,
    /// Number of server connections in their handshake.
    handshaking: usize,
    resets: Budget,
    negotiations: Budget,
    refusals: Budget,
}

impl Router {
    /// Creates a router. It accepts connections if `server` is given.
    pub fn new(config: &EndpointConfig, server: Option<Arc<ServerConfig>>) -> Self {
        let mut random = Random::new(config.seed);
        let hash = Keyed::new(random.bytes());
        let group = Arc::new(Group::new(hash, Issuers::of(config, &mut random)));
        Self::of_group(config, server, Worker::ALONE, (random, hash), group)
    }

    /// Creates the routers of an endpoint with `count` workers, one at least and [`MAX_WORKERS`](super::MAX_WORKERS) at most. Each
    /// connection ID names the worker whose connection it is, by the rule of [`WORKER_BITS`](super::WORKER_BITS). The limits of
    /// `server`, the memory of used tokens and the secrets of `config` are common to all workers.
    pub fn workers(config: &EndpointConfig, server: Option<&Arc<ServerConfig>>, count: usize) -> Vec<Self> {
        let mut seeds = Random::new(config.seed);
        let hash = Keyed::new(seeds.bytes());
        let group = Arc::new(Group::new(hash, Issuers::of(config, &mut seeds)));
        let create = |worker: Worker| {
            let mut random = Random::new(seeds.bytes());
            let hash = Keyed::new(random.bytes());
            Self::of_group(config, server.cloned(), worker, (random, hash), Arc::clone(&group))
        };
        Worker::all(count).map(create).collect()
    }

    fn of_group(
        config: &EndpointConfig,
        server: Option<Arc<ServerConfig>>,
        worker: Worker,
        (random, hash): (Random, Keyed),
        group: Arc<Group>,
    ) -> Self {
        let budget = |answers: u32| Budget::per_second(answers / worker.count() as u32);
        Self {
            shared: Arc::new(Shared::new(config, worker, group)),
            server,
            random,
            cids: HashMap::with_hasher(hash),
            tuples: HashMap::with_hasher(hash),
            connections: Slab::new(),
            incoming: Slab::new(),
            handshaking: 0,
            resets: budget(stateless::RESETS_PER_SECOND),
            negotiations: budget(stateless::NEGOTIATIONS_PER_SECOND),
            refusals: budget(stateless::REFUSALS_PER_SECOND),
        }
    }

    /// Replaces the configuration for incoming connections. With `None` no more connections are accepted.
    pub fn set_server(&mut self, server: Option<Arc<ServerConfig>>) {
        self.server = server;
    }

    /// Issues connection IDs with another configuration of QUIC-LB from now on, at all workers. Earlier connection IDs stay valid
    /// until [`Connection::renew_cids`](crate::Connection::renew_cids) asks the peer to retire them.
    ///
    /// # Errors
    /// Fails if a setting contradicts the draft, the length of the endpoint's connection IDs or the number of its workers.
    pub fn set_load_balancing(&mut self, config: LoadBalancing) -> Result<(), InvalidSetting> {
        config.validate_for(self.shared.cid_len(), self.shared.worker().count())?;
        self.shared.group.issuers_mut().set(config, &mut self.random);
        Ok(())
    }

    /// Returns the number of connection IDs that can still be issued with the configuration of QUIC-LB; `None` without one. Further
    /// ones name no server (draft-ietf-quic-load-balancers-21 §9.6), so that another configuration should be set in time.
    pub fn remaining_cids(&self) -> Option<u64> {
        self.shared.group.issuers().remaining()
    }

    /// Returns the configuration for incoming connections.
    pub fn server(&self) -> Option<&Arc<ServerConfig>> {
        self.server.as_ref()
    }

    /// Returns the state that all connections of this endpoint share.
    pub fn shared(&self) -> Arc<Shared> {
        Arc::clone(&self.shared)
    }

    /// Returns the random seed for a new connection.
    pub fn next_seed(&mut self) -> [u8; 32] {
        self.random.bytes()
    }

    /// Returns the number of registered connections.
    pub fn connections(&self) -> usize {
        self.connections.len()
    }

    /// Returns the number of clients whose handshake has not ended, whether their connection is accepted or
    /// not.
    pub fn waiting(&self) -> usize {
        self.incoming.len() + self.handshaking
    }

    /// Decides on a datagram received at `now`.
    pub fn route(&mut self, now: Time, datagram: &Datagram<'_>) -> RouterAction {
        match self.known(datagram) {
            Ok(route) => route,
            Err(Ok(header)) => self.route_unknown(now, datagram, &header),
            Err(Err((dcid, scid))) => {
                let ids = (&datagram.payload[dcid], &datagram.payload[scid]);
                self.negotiate_version(now, datagram, ids)
            }
        }
    }

    /// Decides on a datagram as far as it belongs to the connections and clients of this endpoint, or can belong to no connection at
    /// all. Returns `None` for every other one, which a process may own that had the endpoint's socket before: it is neither answered,
    /// nor does a connection begin.
    pub fn route_known(&mut self, datagram: &Datagram<'_>) -> Option<RouterAction> {
        self.known(datagram).ok()
    }

    fn known(&mut self, datagram: &Datagram<'_>) -> Result<RouterAction, Stranger> {
        let header = match parse_packet(datagram.payload, self.shared.cid_len()) {
            Ok(header) => header,
            Err(HeaderError::UnknownVersion { dcid, scid, .. }) => {
                return self.reset_target(datagram.payload).ok_or(Err((dcid, scid)));
            }
            Err(_) => return Ok(RouterAction::Drop(DropReason::Malformed)),
        };
        if header.dcid.is_empty() {
            // Stateless resets are checked first, because a lookup by addresses would assign every reset to a
            // connection as an ordinary datagram.
            let by_tuple = self.tuples.get(&tuple_key(&datagram.tuple)).copied();
            let found = self.reset_target(datagram.payload);
            if let Some(route) = found.or(by_tuple.map(RouterAction::Connection)) {
                return Ok(route);
            }
        }
        match self.cids.get(&header.dcid) {
            Some(&Target::Connection(handle)) => Ok(RouterAction::Connection(handle)),
            Some(&Target::Incoming(key)) => {
                let kept = self.incoming.get_mut(key).is_some_and(|buffer| buffer.push(datagram));
                Ok(if kept { RouterAction::Buffered } else { RouterAction::Drop(DropReason::Unexpected) })
            }
            None => self.known_otherwise(datagram, header),
        }
    }

    /// Routes a packet with an unknown connection ID, if it resets a connection or names another worker.
    fn known_otherwise(&self, datagram: &Datagram<'_>, header: Protected) -> Result<RouterAction, Stranger> {
        if let Some(route) = self.reset_target(datagram.payload) {
            return Ok(route);
        }
        let worker = self.shared.worker();
        if matches!(header.kind, PacketKind::OneRtt | PacketKind::Handshake)
            && let Some(owner) = worker.other_owner(&header.dcid)
        {
            return Ok(RouterAction::Elsewhere(owner));
        }
        Err(Ok(Box::new(header)))
    }

    /// Routes a packet that belongs to no connection.
    fn route_unknown(&mut self, now: Time, datagram: &Datagram<'_>, header: &Protected) -> RouterAction {
        match header.kind {
            PacketKind::Initial => self.on_initial(now, datagram, header),
            PacketKind::OneRtt => self.reset(now, datagram, &header.dcid),
            // A client that has our stateless reset token, but whose handshake is not confirmed yet, may send
            // only Handshake packets as probes. These are therefore answered by a reset too.
            PacketKind::Handshake if self.server.is_some() => self.reset(now, datagram, &header.dcid),
            _ => RouterAction::Drop(DropReason::UnknownConnectionId),
        }
    }

    /// Returns the route to the connection that a datagram resets (RFC 9000 §10.3.1). The token is looked up with a keyed hash, so the
    /// lookup time reveals nothing about tokens.
    fn reset_target(&self, payload: &[u8]) -> Option<RouterAction> {
        if payload.len() < MIN_RESET_LEN {
            return None;
        }
        let token = payload.last_chunk::<16>()?;
        let (owner, handle) = *self.shared.group.reset_tokens().get(token)?;
        let is_own = owner == self.shared.worker().index();
        Some(if is_own { RouterAction::Reset(handle) } else { RouterAction::Elsewhere(owner) })
    }

    /// Responds to a packet of an unknown connection with a stateless reset (RFC 9000 §10.3).
    fn reset(&mut self, now: Time, datagram: &Datagram<'_>, dcid: &ConnectionId) -> RouterAction {
        // A peer has no stateless reset token for a zero-length connection ID.
        if !dcid.is_empty()
            && datagram.payload.len() >= stateless::MIN_RESET_TRIGGER
            && self.shared.group.issuers().may_reset(dcid)
            && self.resets.take(now)
        {
            let token = self.shared.reset_token(dcid);
            if let Some(bytes) = stateless::reset(&mut self.random, &token, datagram.payload.len()) {
                return RouterAction::Respond(Response::new(datagram.tuple, bytes));
            }
        }
        RouterAction::Drop(DropReason::UnknownConnectionId)
    }

    /// Responds to a long header of an unsupported version, whose connection IDs are `(dcid, scid)` (RFC 9000
    /// §6.1). Packets of version 0 do not get here: a Version Negotiation packet is never answered.
    fn negotiate_version(&mut self, now: Time, datagram: &Datagram<'_>, ids: (&[u8], &[u8])) -> RouterAction {
        // RFC 9000 §5.2.2: only datagrams large enough to start a connection are answered.
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
                RouterAction::Respond(Response::new(datagram.tuple, bytes))
            }
            _ => RouterAction::Drop(DropReason::UnexpectedVersion),
        }
    }

    /// Handles a client's first packet and, if all checks pass, creates an [`Incoming`].
    fn on_initial(&mut self, now: Time, datagram: &Datagram<'_>, header: &Protected) -> RouterAction {
        let (Some(server), Some(version)) = (self.server.clone(), header.version) else {
            return RouterAction::Drop(DropReason::UnknownConnectionId);
        };
        let Some(format) = version.format().filter(|_| server.transport.versions.contains(&version)) else {
            return self.negotiate_version(now, datagram, (&header.dcid, &header.scid));
        };
        // RFC 9000 §17.2, RFC 9287 §3: the fixed bit is 1, unless this server has announced that it may be 0.
        let fixed_bit_ok = header.fixed_bit || server.transport.grease;
        if !fixed_bit_ok
            || datagram.payload.len() < MIN_INITIAL_DATAGRAM
            || header.dcid.len() < MIN_INITIAL_DCID_LEN
            || header.end > MAX_FIRST_DATAGRAM
        {
            return RouterAction::Drop(DropReason::Malformed);
        }
        let token = &datagram.payload[header.token.clone()];
        let proof = self.shared.check_token(now, &server, datagram.tuple.remote, token, &header.dcid);
        let hello = Hello::new(datagram.tuple, version, header, proof);
        let waiting = self.shared.group.waiting.load(Ordering::Relaxed);
        if proof == Proof::Wrong {
            return self.respond_refusal(now, &hello, TransportErrorCode::INVALID_TOKEN);
        }
        if self.is_full(&server) {
            return self.respond_refusal(now, &hello, TransportErrorCode::CONNECTION_REFUSED);
        }
        if !hello.validated && must_retry(server.retry, waiting, server.max_incoming) {
            return RouterAction::Respond(self.retry_response(now, &hello));
        }
        if waiting >= server.max_incoming {
            return self.respond_refusal(now, &hello, TransportErrorCode::CONNECTION_REFUSED);
        }
        let Some(keys) = authentic_keys(format, datagram.payload, header) else {
            return RouterAction::Drop(DropReason::Undecryptable);
        };
        self.shared.group.initial_keys.keep(version, hello.dcid, keys);
        let key = self.incoming.insert(Buffer::new(&hello));
        self.shared.group.waiting.fetch_add(1, Ordering::Relaxed);
        self.cids.insert(hello.dcid, Target::Incoming(key));
        // Of an oversized datagram, only the first packet, the Initial, is kept.
        let len =
            if datagram.payload.len() > MAX_FIRST_DATAGRAM { header.end } else { datagram.payload.len() };
        let first = StoredDatagram::copy_front(datagram, len);
        RouterAction::Incoming(Incoming { key, hello: Box::new(hello), first })
    }

    /// Returns whether the endpoint has its maximum number of connections.
    fn is_full(&self, server: &ServerConfig) -> bool {
        self.shared.group.connections.load(Ordering::Relaxed) >= server.max_connections
    }

    fn respond_refusal(&mut self, now: Time, hello: &Hello, code: TransportErrorCode) -> RouterAction {
        self.refusal(now, hello, code)
            .map_or(RouterAction::Drop(DropReason::Unexpected), RouterAction::Respond)
    }

    fn refusal(&mut self, now: Time, hello: &Hello, code: TransportErrorCode) -> Option<Response> {
        let format = hello.version.format().filter(|_| self.refusals.take(now))?;
        let bytes = stateless::refusal(format, &hello.dcid, &hello.scid, code)?;
        Some(Response::new(hello.tuple, bytes))
    }

    /// Creates a Retry. It is much smaller than the datagram that it answers and leaves no state, so Retries
    /// are not limited by a budget.
    fn retry_response(&mut self, now: Time, hello: &Hello) -> Response {
        let retry_scid = {
            let len = self.shared.cid_len().max(MIN_INITIAL_DCID_LEN);
            self.shared.retry_cid(&mut self.random, len)
        };
        let remote = hello.tuple.remote;
        let token = AddressToken::Retry { issued: now, remote, original_dcid: hello.dcid, retry_scid };
        let token = self.shared.token_key().seal(&token, self.random.bytes());
        let [seed] = self.random.bytes();
        let bytes = hello.version.format().map_or_else(Vec::new, |format| {
            stateless::retry(format, &hello.scid, &hello.dcid, &retry_scid, &token, seed)
        });
        Response::new(hello.tuple, bytes)
    }

    /// Registers a client connection between these addresses. Returns its handle and its first connection ID;
    /// `None` if connection IDs are so short that no unused one was found, or if they have zero length and a
    /// connection between these addresses exists already.
    pub fn connect(&mut self, tuple: FourTuple) -> Option<(Handle, ConnectionId)> {
        self.register(tuple, None)
    }

    /// Registers a server connection. At the limit of connections, the client is refused instead.
    ///
    /// # Errors
    /// Returns the refusal to send; `None` if the budget of refusals is exhausted.
    pub fn accept(&mut self, now: Time, incoming: Incoming) -> Result<Accepted, Option<Response>> {
        let (hello, datagrams) = self.take(incoming);
        let full = self.server.as_ref().is_some_and(|server| self.is_full(server));
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

    /// Refuses the connection (CONNECTION_REFUSED). Returns the packet to send; `None` if the budget is
    /// exhausted.
    pub fn refuse(&mut self, now: Time, incoming: Incoming) -> Option<Response> {
        let (hello, _) = self.take(incoming);
        self.refusal(now, &hello, TransportErrorCode::CONNECTION_REFUSED)
    }

    /// Creates a Retry for the client, so that it comes back with a token.
    ///
    /// # Errors
    /// Returns the incoming connection if the client has already followed a Retry: it follows only one.
    pub fn retry(&mut self, now: Time, incoming: Incoming) -> Result<Response, Incoming> {
        if !incoming.may_retry() {
            return Err(incoming);
        }
        let (hello, _) = self.take(incoming);
        Ok(self.retry_response(now, &hello))
    }

    /// Drops the incoming connection without a response.
    pub fn ignore(&mut self, incoming: Incoming) {
        self.take(incoming);
    }

    /// Removes an incoming connection from the tables and returns it with all its datagrams.
    fn take(&mut self, incoming: Incoming) -> (Hello, Vec<StoredDatagram>) {
        let Incoming { key, hello, first } = incoming;
        let mut datagrams = vec![first];
        if let Some(buffer) = self.incoming.try_remove(key) {
            self.shared.group.waiting.fetch_sub(1, Ordering::Relaxed);
            self.cids.remove(&buffer.dcid);
            datagrams.extend(buffer.datagrams);
        }
        (*hello, datagrams)
    }

    /// Registers a connection under a new connection ID, or under its addresses if connection IDs have zero
    /// length. A server connection is also registered under the connection ID that its client chose.
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
        self.shared.group.connections.fetch_add(1, Ordering::Relaxed);
        if initial_dcid.is_some() {
            self.handshaking += 1;
            self.shared.group.waiting.fetch_add(1, Ordering::Relaxed);
        }
        if local_cid.is_empty() {
            self.tuples.insert(key, handle);
            self.connections[handle.0].tuples.push(key);
        } else {
            self.on_event(handle, &EndpointEvent::CidIssued(local_cid));
        }
        if let Some(cid) = initial_dcid {
            // This entry exists as long as the connection, so that a late copy of the first Initial does not
            // look like a new client.
            self.on_event(handle, &EndpointEvent::CidIssued(cid));
        }
        Some((handle, local_cid))
    }

    fn unused_cid(&mut self) -> Option<ConnectionId> {
        let len = self.shared.cid_len();
        if len == 0 {
            return Some(ConnectionId::EMPTY);
        }
        (0..MAX_CID_ATTEMPTS)
            .map(|_| self.shared.cid(&mut self.random))
            .find(|cid| !self.cids.contains_key(cid))
    }

    /// Updates the routing tables after an event of a connection.
    pub fn on_event(&mut self, handle: Handle, event: &EndpointEvent) {
        let Some(routed) = self.connections.get_mut(handle.0) else { return };
        match event {
            EndpointEvent::CidIssued(cid) => {
                // A connection ID that is taken keeps its first owner: another connection cannot take over
                // its packets.
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
                if let Entry::Vacant(entry) = self.shared.group.reset_tokens().entry(token.0) {
                    entry.insert((self.shared.worker().index(), handle));
                    routed.reset_tokens.push(token.0);
                }
            }
            EndpointEvent::ResetTokenRemoved(token) => {
                if let Some(at) = routed.reset_tokens.iter().position(|routed| *routed == token.0) {
                    self.shared.group.reset_tokens().remove(&routed.reset_tokens.swap_remove(at));
                }
            }
            EndpointEvent::HandshakeOver => {
                if std::mem::take(&mut routed.handshaking) {
                    self.handshaking -= 1;
                    self.shared.group.waiting.fetch_sub(1, Ordering::Relaxed);
                }
            }
            EndpointEvent::Drained => self.unroute(handle),
        }
    }

    /// Removes all routes to the connection.
    fn unroute(&mut self, handle: Handle) {
        let Some(routed) = self.connections.get_mut(handle.0).map(std::mem::take) else { return };
        routed.cids.iter().for_each(|cid| _ = self.cids.remove(cid));
        let group = &self.shared.group;
        if !routed.reset_tokens.is_empty() {
            let mut tokens = group.reset_tokens();
            routed.reset_tokens.iter().for_each(|token| _ = tokens.remove(token));
        }
        routed.tuples.iter().for_each(|tuple| _ = self.tuples.remove(tuple));
        self.handshaking -= usize::from(routed.handshaking);
        group.waiting.fetch_sub(usize::from(routed.handshaking), Ordering::Relaxed);
    }

    /// Removes a connection that has ended. Its handle may then be reused.
    pub fn remove(&mut self, handle: Handle) {
        self.unroute(handle);
        if self.connections.try_remove(handle.0).is_some() {
            self.shared.group.connections.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

/// Returns whether a client without a valid token is sent a Retry.
fn must_retry(policy: RetryPolicy, waiting: usize, max_incoming: usize) -> bool {
    match policy {
        RetryPolicy::Never => false,
        RetryPolicy::UnderLoad => 2 * waiting > max_incoming || waiting >= max_incoming,
        RetryPolicy::Always => true,
    }
}

#[cfg(test)]
mod tests;
