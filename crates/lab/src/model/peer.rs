//! One end of the connection. It performs its operations at their times and checks all received data.

use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::SocketAddr;

use anabranch_transport::stream::{StreamEvent, Streams};
use anabranch_transport::{
    ClientConfig, Connection, ConnectionError, Endpoint, Event, FourTuple, Handle, PathStatus,
};
use anabranch_wire::{Dir, PathId, Side, StreamId, Time, TransportErrorCode, VarInt};
use bytes::Bytes;

use super::Operation;
use crate::app::{Application, End, Pattern, Receiver, Sender};
use crate::pair::{CLIENT_PORT, client_ip};
use crate::random::Rng;
use crate::tls::SERVER_NAME;

/// Length in bytes of the head of each stream half: the half's length and the reply's length.
const HEAD: usize = 16;
/// Error code in PATH_ABANDON: APPLICATION_ABANDON_PATH (RFC 10069 §5).
const ABANDON: VarInt = VarInt::from_u32(0x3e);
/// Application error code in the client's CONNECTION_CLOSE.
pub(super) const DONE: VarInt = VarInt::from_u32(0x31);
/// Maximum number of abandoned paths that an end may still keep, in addition to its open paths.
const MAX_CLOSING: usize = 8;

/// State of one end.
#[derive(Debug)]
pub(super) struct Peer {
    side: Side,
    /// Configuration and addresses of the connection; set only at a client that has not connected yet.
    connect: Option<(ClientConfig, FourTuple)>,
    pub(super) handle: Option<Handle>,
    /// Time at which the handshake was confirmed.
    pub(super) confirmed: Option<Time>,
    operations: VecDeque<(Duration, Operation)>,
    rng: Rng,
    salt: u64,
    max_paths: usize,
    /// Streams that wait for the peer's stream limit: type, length, and length of the reply.
    waiting: VecDeque<(Dir, u64, u64)>,
    senders: BTreeMap<StreamId, Sender>,
    receivers: BTreeMap<StreamId, Incoming>,
    /// Numbers of the received messages.
    messages: BTreeSet<u64>,
    next_message: u64,
    pub(super) tally: Tally,
    pub(super) faults: Vec<String>,
    pub(super) closed: Option<ConnectionError>,
}

/// Counts and records of one end.
#[derive(Clone, Debug, Default)]
pub(super) struct Tally {
    /// Stream bytes that were received and had the expected content.
    pub(super) received: u64,
    /// Stream halves that were received completely.
    pub(super) complete: u64,
    pub(super) opened: BTreeSet<PathId>,
    /// Paths that were abandoned, by this end or the other.
    pub(super) gone: BTreeSet<PathId>,
    /// Number of paths that this end abandoned because its application asked for it.
    pub(super) abandoned: u64,
    /// Paths that were abandoned because they did not respond, with the time at which this end learned of it.
    /// Either end may have abandoned them.
    pub(super) unanswered: BTreeMap<PathId, Time>,
    pub(super) moves: u64,
}

#[derive(Debug)]
struct Incoming {
    receiver: Receiver,
    head: Vec<u8>,
}

impl Peer {
    pub(super) fn new(side: Side, operations: &[(Duration, Operation)], seed: u64, rng: Rng) -> Self {
        let own = operations.iter().filter(|(_, operation)| operation.side() == side);
        Self {
            side,
            connect: None,
            handle: None,
            confirmed: None,
            operations: own.copied().collect(),
            rng,
            salt: seed,
            max_paths: 0,
            waiting: VecDeque::new(),
            senders: BTreeMap::new(),
            receivers: BTreeMap::new(),
            messages: BTreeSet::new(),
            next_message: 0,
            tally: Tally::default(),
            faults: Vec::new(),
            closed: None,
        }
    }

    /// Sets the maximum number of open paths.
    pub(super) fn with_max_paths(self, max_paths: u32) -> Self {
        Self { max_paths: max_paths as usize, ..self }
    }

    /// Makes this end the client: it connects at the start of the simulation.
    pub(super) fn connecting(self, config: ClientConfig, tuple: FourTuple) -> Self {
        Self { connect: Some((config, tuple)), ..self }
    }

    pub(super) fn side(&self) -> Side {
        self.side
    }

    /// Returns whether all planned operations are done and all expected data has been received.
    pub(super) fn is_done(&self) -> bool {
        self.confirmed.is_some()
            && self.operations.is_empty()
            && self.waiting.is_empty()
            && self.senders.is_empty()
            && self.receivers.is_empty()
    }

    /// Describes the remaining work, for a report.
    pub(super) fn missing(&self) -> String {
        format!(
            "{} operations, {} streams to open, {} to send, {} to receive",
            self.operations.len(),
            self.waiting.len(),
            self.senders.len(),
            self.receivers.len()
        )
    }

    fn operate(&mut self, now: Time, connection: &mut Connection, operation: Operation) {
        match operation {
            Operation::Open { link, port } => {
                if let Some(tuple) = elsewhere(connection, link, port) {
                    // Fails if all paths are in use or the peer's connection IDs have not arrived yet.
                    let _ = connection.open_path(now, tuple);
                }
            }
            Operation::Migrate { link, port } => {
                if let Some(tuple) = elsewhere(connection, link, port) {
                    // Fails if the server has issued no spare connection ID.
                    let _ = connection.migrate(now, tuple.local);
                }
            }
            Operation::Send { dir, length, reply, .. } => self.waiting.push_back((dir, length, reply)),
            Operation::SendDatagram { length, .. } => {
                let number = self.next_message;
                self.next_message += 1;
                let mut message = vec![0; usize::from(length) + 8];
                message[..8].copy_from_slice(&number.to_be_bytes());
                self.message_pattern(self.side, number).fill(0, &mut message[8..]);
                // A message that is too large for the path or the queue is lost, as DATAGRAM frames may be.
                let _ = connection.datagrams().send(Bytes::from(message));
            }
            Operation::Abandon { nth, .. } => {
                if let Some(path) = nth_path(connection, nth) {
                    self.tally.abandoned += u64::from(connection.abandon_path(now, path, ABANDON).is_ok());
                }
            }
            Operation::Status { nth, available, .. } => {
                if let Some(path) = nth_path(connection, nth) {
                    let status = if available { PathStatus::Available } else { PathStatus::Backup };
                    let _ = connection.set_path_status(path, status);
                }
            }
            Operation::UpdateKeys { .. } => connection.update_keys(),
        }
    }

    /// Opens the waiting streams that the peer's stream limit allows.
    fn open_streams(&mut self, streams: &mut Streams) -> Result<(), String> {
        while let Some(&(dir, length, reply)) = self.waiting.front() {
            let Some(id) = streams.open(dir) else { break };
            self.waiting.pop_front();
            self.begin_sending(streams, id, length, reply)?;
            if dir == Dir::Bi {
                self.receivers.insert(id, Incoming::new(id));
            }
        }
        Ok(())
    }

    fn begin_sending(
        &mut self,
        streams: &mut Streams,
        id: StreamId,
        length: u64,
        reply: u64,
    ) -> Result<(), String> {
        let head = [length.to_be_bytes(), reply.to_be_bytes()].concat();
        let mut sender = Sender::new(id, head, self.pattern(self.side, id), length, None);
        sender.pump(streams)?;
        self.senders.insert(id, sender);
        Ok(())
    }

    fn on_stream(&mut self, streams: &mut Streams, event: StreamEvent) -> Result<(), String> {
        match event {
            StreamEvent::Opened(dir) => {
                while let Some(id) = streams.accept(dir) {
                    self.receivers.insert(id, Incoming::new(id));
                    self.read(streams, id)?;
                }
            }
            StreamEvent::Readable(id) => self.read(streams, id)?,
            StreamEvent::Writable(id) => {
                if let Some(sender) = self.senders.get_mut(&id) {
                    sender.pump(streams)?;
                }
            }
            StreamEvent::Finished(id) => {
                let mut sender =
                    self.senders.remove(&id).ok_or_else(|| format!("stream {id} finished twice"))?;
                sender.on_finished()?;
            }
            StreamEvent::Available(_) => {}
            other => return Err(format!("nobody resets or stops: {other:?}")),
        }
        self.open_streams(streams)
    }

    fn read(&mut self, streams: &mut Streams, id: StreamId) -> Result<(), String> {
        let pattern = self.pattern(self.side.peer(), id);
        let Some(Incoming { receiver, head }) = self.receivers.get_mut(&id) else { return Ok(()) };
        let had_head = head.len() == HEAD;
        let received = &mut self.tally.received;
        receiver.pump(streams, &mut self.rng, |offset, data| {
            let (first, rest) = data.split_at((HEAD - head.len()).min(data.len()));
            head.extend_from_slice(first);
            *received += data.len() as u64;
            let offset = (offset + first.len() as u64).saturating_sub(HEAD as u64);
            if pattern.matches(offset, rest) {
                Ok(())
            } else {
                Err(format!("stream {id} differs after {offset} bytes"))
            }
        })?;
        let (read, end) = (receiver.read, receiver.end);
        let Some((length, reply)) = lengths(head) else {
            return if end.is_none() {
                Ok(())
            } else {
                Err(format!("stream {id} ended within its head: {end:?}"))
            };
        };
        if !had_head && id.dir() == Dir::Bi && id.initiator() != self.side {
            self.begin_sending(streams, id, reply, 0)?;
        }
        match end {
            None => Ok(()),
            Some(End::Complete) if read == HEAD as u64 + length => {
                self.receivers.remove(&id);
                self.tally.complete += 1;
                Ok(())
            }
            Some(end) => Err(format!("stream {id}: {end:?} after {read} of {length} bytes")),
        }
    }

    fn receive_messages(&mut self, connection: &mut Connection) -> Result<(), String> {
        while let Some(message) = connection.datagrams().recv() {
            let (number, rest) = message.split_first_chunk().ok_or("a message without a number")?;
            let number = u64::from_be_bytes(*number);
            if !self.message_pattern(self.side.peer(), number).matches(0, rest) {
                return Err(format!("message {number} is damaged"));
            }
            if !self.messages.insert(number) {
                return Err(format!("message {number} came twice"));
            }
        }
        Ok(())
    }

    /// Returns the pattern that `from` sends on stream `id`.
    fn pattern(&self, from: Side, id: StreamId) -> Pattern {
        Pattern(self.salt ^ (id.as_u64() + 1) << 20 ^ u64::from(from.is_client()) << 63)
    }

    fn message_pattern(&self, from: Side, number: u64) -> Pattern {
        Pattern(self.salt ^ (number + 1) << 40 ^ u64::from(from.is_client()) << 62)
    }

    /// Checks the invariant that must hold at any time: the end has no more open paths than its maximum.
    fn check(&mut self, connection: &Connection) {
        let paths = connection.paths().count();
        if paths > self.max_paths + MAX_CLOSING {
            self.faults.push(format!("{paths} paths, of which {} may be open", self.max_paths));
        }
    }

    fn note(&mut self, fault: Result<(), String>) {
        if let Err(fault) = fault {
            self.faults.push(format!("{:?}: {fault}", self.side));
        }
    }
}

impl Application for Peer {
    fn start(&mut self, now: Time, endpoint: &mut Endpoint) {
        let Some((config, tuple)) = self.connect.take() else { return };
        match endpoint.connect(now, &config, tuple, SERVER_NAME) {
            Ok(handle) => self.handle = Some(handle),
            Err(error) => self.faults.push(error.to_string()),
        }
    }

    fn on_event(&mut self, now: Time, endpoint: &mut Endpoint, handle: Handle, event: Event) {
        if self.closed.is_some() {
            self.faults.push(format!("{:?}: {event:?} after the end", self.side));
        }
        match event {
            Event::Connected { .. } => self.handle = Some(handle),
            Event::Confirmed => self.confirmed = Some(now),
            Event::PathOpened(path) => {
                let first = self.tally.opened.insert(path);
                self.note(first.then_some(()).ok_or_else(|| format!("path {path} opened twice")));
            }
            Event::PathAbandoned { path, code } => {
                if code == TransportErrorCode::PATH_UNSTABLE_OR_POOR.0 {
                    self.tally.unanswered.insert(path, now);
                }
                let first = self.tally.gone.insert(path);
                self.note(first.then_some(()).ok_or_else(|| format!("path {path} given up twice")));
            }
            Event::PathChanged { .. } => self.tally.moves += 1,
            Event::Closed(error) => self.closed = Some(error),
            Event::Stream(event) => {
                let Some(connection) = endpoint.connection(handle) else { return };
                let result = self.on_stream(connection.streams(), event);
                self.note(result);
            }
            Event::DatagramReceived => {
                let Some(connection) = endpoint.connection(handle) else { return };
                let result = self.receive_messages(connection);
                self.note(result);
            }
            _ => {}
        }
        if let Some(connection) = endpoint.connection(handle) {
            self.check(connection);
        }
    }

    fn next_time(&self) -> Option<Time> {
        let &(after, _) = self.operations.front()?;
        Some(self.confirmed.filter(|_| self.closed.is_none())? + after)
    }

    fn on_time(&mut self, now: Time, endpoint: &mut Endpoint) {
        let Some(connection) = self.handle.and_then(|handle| endpoint.connection(handle)) else { return };
        while self.next_time().is_some_and(|next| next <= now) {
            let Some((_, operation)) = self.operations.pop_front() else { return };
            self.operate(now, connection, operation);
            let result = self.open_streams(connection.streams());
            self.note(result);
            self.check(connection);
        }
    }
}

impl Incoming {
    fn new(id: StreamId) -> Self {
        Self { receiver: Receiver::new(id, None), head: Vec::new() }
    }
}

/// Returns whether a connection may end with this error after the client's application has closed it. If the
/// client's CONNECTION_CLOSE is lost, the server is reset or times out.
pub(super) fn is_goodbye(error: &ConnectionError) -> bool {
    match error {
        ConnectionError::LocallyClosed | ConnectionError::Reset | ConnectionError::TimedOut(_) => true,
        ConnectionError::PeerApplication { code, .. } => *code == DONE,
        _ => false,
    }
}

/// Returns whether the connection was closed because no path was left: each path was abandoned by one of the
/// ends or did not respond. It is the only reason for closing that is not a fault of either end.
pub(super) fn is_without_paths(error: &ConnectionError) -> bool {
    match error {
        ConnectionError::Transport(error) | ConnectionError::PeerTransport(error) => {
            error.code == TransportErrorCode::NO_VIABLE_PATH
        }
        _ => false,
    }
}

fn lengths(head: &[u8]) -> Option<(u64, u64)> {
    let (length, reply) = head.split_first_chunk()?;
    Some((u64::from_be_bytes(*length), u64::from_be_bytes(reply.try_into().ok()?)))
}

fn nth_path(connection: &Connection, nth: u8) -> Option<PathId> {
    let paths: Vec<PathId> = connection.paths().map(|path| path.id).collect();
    paths.get(usize::from(nth) % paths.len().max(1)).copied()
}

/// Returns the addresses of a path over `link`, with the local port `CLIENT_PORT + port`.
fn elsewhere(connection: &Connection, link: u8, port: u16) -> Option<FourTuple> {
    let remote = connection.paths().next()?.tuple.remote;
    Some(FourTuple { local: SocketAddr::new(client_ip(link), CLIENT_PORT + port), remote })
}
