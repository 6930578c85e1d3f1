//! Streams (RFC 9000 §2 to §4): the application's bytes, in order on each stream.
//!
//! [`Streams`] owns all streams of a connection. Three parties use it: the application (`application`), the
//! peer through its frames (`incoming`), and the packet builder with its acknowledgments and losses
//! (`outgoing`).
//!
//! Flow control credit is used up when the application writes, not when a packet is built. Everything in a
//! send buffer may therefore be sent, and building a packet never has to search for a stream that is not
//! blocked. 0-RTT data that the server refused is the one exception: it may exceed the new credit, and then
//! waits in `parked`.

mod application;
mod copies;
mod flow;
mod guess;
mod incoming;
mod named;
mod outgoing;
mod placed;
mod ready;
mod receive;
mod receive_buffer;
mod run;
mod send;
mod send_buffer;
mod state;
mod table;
mod train;
mod types;
mod waiting;

use std::cmp::Reverse;
use std::collections::VecDeque;
use std::time::Duration;

use anabranch_wire::{Dir, Side, StreamId, Time, TransportParameters};

use self::flow::Flow;
#[cfg(test)]
pub(crate) use self::guess::MAX_LEAD;
pub(crate) use self::named::{MIN_NAMED_ROOM, Named};
pub use self::placed::ReceivedBytes;
pub(crate) use self::placed::Reserved;
use self::ready::{Rank, ReadyQueue};
pub use self::receive_buffer::{MAX_RECEIVE_SLACK, MAX_STREAM_SLACK};
pub(crate) use self::receive_buffer::{Pool, ReceiveBuffer, Saved};
pub(crate) use self::run::StreamRun;
pub use self::state::SendState;
use self::table::{Stream, Table};
pub(crate) use self::train::StreamTrain;
#[cfg(test)]
pub(crate) use self::train::{FAULT, Fault};
pub use self::types::SendProgress;
pub use self::types::{ClosedStream, Priority, ReadError, StreamEvent, StreamsConfig, WriteError};
use self::waiting::Waiting;
use crate::error::TransportError;
use crate::flow::{ReceiveCredit, SendCredit};

/// Minimum free space in the send buffer, in bytes, before writers are woken; an eighth of the buffer if that
/// is less. Without this minimum, every acknowledgment would wake the writers.
const WAKE_ROOM: u64 = 64 * 1024;

/// Minimum room, in bytes, that is reserved for each stream whose writer waits for room and that has little
/// left to send.
const MIN_SHARE: u64 = 16 * 1024;

/// Maximum number of notifications of other writers before a notified writer that has not written loses its
/// reserved room. Many acknowledgments may arrive before a busy machine lets a writer run.
const MAX_IDLE_TURNS: u32 = 64;

/// All streams of a connection.
#[derive(Debug)]
pub struct Streams {
    table: Table,
    flow: Flow,
    ready: ReadyQueue,
    /// `true` if any stream has ever had a route of its own.
    is_routed: bool,
    waiting: Waiting,
    /// Streams with control frames to send.
    control: VecDeque<StreamId>,
    due: Due,
    events: VecDeque<StreamEvent>,
    /// `true` if packet headers name streams. Data is then decrypted directly into the receive buffer.
    named: bool,
    /// Memory for the chunks of all streams.
    pool: Pool,
    /// Stream that received data last, unless it has ended.
    arrived: Option<usize>,
    /// Expected length of the next packet's plaintext before its stream data; 0 if nothing is expected.
    lead: usize,
    received: ReceivedBytes,
    /// Time and round-trip time when stream data last arrived. They are exact enough for the application's
    /// operations.
    now: Time,
    rtt: Duration,
}

/// Control frames of the connection that must be sent.
#[derive(Clone, Copy, Debug, Default)]
struct Due {
    max_data: bool,
    data_blocked: bool,
    max_streams: PerDir,
    streams_blocked: PerDir,
}

/// A flag for each direction.
#[derive(Clone, Copy, Debug, Default)]
struct PerDir {
    bi: bool,
    uni: bool,
}

impl PerDir {
    fn get(self, dir: Dir) -> bool {
        match dir {
            Dir::Bi => self.bi,
            Dir::Uni => self.uni,
        }
    }

    fn set(&mut self, dir: Dir, value: bool) {
        match dir {
            Dir::Bi => self.bi = value,
            Dir::Uni => self.uni = value,
        }
    }
}

impl Streams {
    /// Creates an empty set of streams. They have no credit to send until [`Self::set_peer_parameters`] is
    /// called. `hash_seed` should be secret and random.
    pub(crate) fn new(side: Side, config: &StreamsConfig, hash_seed: u64) -> Self {
        let mut pool = Pool::default();
        pool.set_window(config.connection_window);
        Self {
            table: Table::new(side, config, hash_seed),
            flow: Flow {
                receive_credit: ReceiveCredit::new(
                    config.window_rule,
                    config.connection_window,
                    config.connection_window_max,
                    Time::ZERO,
                ),
                send_credit: SendCredit::default(),
                sent: 0,
                buffered: 0,
                max_buffered: config.send_buffer.max(1),
                delivered: 0,
                pending: 0,
            },
            ready: ReadyQueue::default(),
            is_routed: false,
            waiting: Waiting::default(),
            control: VecDeque::new(),
            due: Due::default(),
            events: VecDeque::new(),
            named: false,
            pool,
            arrived: None,
            lead: 0,
            received: ReceivedBytes::default(),
            now: Time::ZERO,
            rtt: Duration::ZERO,
        }
    }

    /// Sets whether packet headers name streams in the QUIC version in use. If they do, the client's first
    /// bidirectional stream ID is not used for a stream. This is called again whenever the version changes,
    /// which is impossible once a stream is open.
    pub(crate) fn set_named(&mut self, named: bool) {
        self.named = named;
        self.due.max_streams.bi |= self.table.skip_first(named);
    }

    /// Applies the peer's limits: for 0-RTT first the remembered ones, then the received ones.
    ///
    /// Fails with PROTOCOL_VIOLATION if a limit is lower than before. A server that accepts 0-RTT must not
    /// lower limits (RFC 9000 §7.4.1). If 0-RTT was refused, call [`Self::reject_zero_rtt`] first.
    pub(crate) fn set_peer_parameters(
        &mut self,
        parameters: &TransportParameters,
    ) -> Result<(), TransportError> {
        self.table.set_peer_parameters(parameters)?;
        if parameters.initial_max_data < self.flow.send_credit.limit() {
            return Err(table::reduced_limits());
        }
        for dir in [Dir::Bi, Dir::Uni] {
            self.on_more_streams(dir);
        }
        self.on_max_data(parameters.initial_max_data);
        for key in self.table.keys() {
            let id = self.table.stream(key).id;
            let limit = self.table.initial_send_limit(id);
            self.raise_stream_limit(key, limit);
        }
        Ok(())
    }

    /// Queues all data sent so far to be sent again, because the server refused 0-RTT, and drops the credit
    /// from the remembered limits. [`Self::set_peer_parameters`] then applies the new limits, which may be
    /// lower.
    pub(crate) fn reject_zero_rtt(&mut self) {
        self.table.forget_peer_parameters();
        self.flow.send_credit.restart();
        self.flow.pending = 0;
        for key in self.table.keys() {
            let stream = self.table.stream(key);
            let stopped = stream.receive.as_ref().is_some_and(|half| half.stopped.is_some());
            if let Some(send) = &mut stream.send {
                let sent = send.restart();
                self.flow.sent -= sent;
                self.flow.pending += send.buffer.pending();
                if !send.state.may_send() {
                    stream.control.reset = true;
                    self.flow.send_credit.give_back(sent);
                }
            }
            stream.control.stop |= stopped;
            self.queue_control(key);
            self.requeue(key);
        }
    }

    /// Returns the oldest event that has not been returned yet.
    pub(crate) fn poll_event(&mut self) -> Option<StreamEvent> {
        self.events.pop_front()
    }

    /// Returns the number of streams that have state, including half-closed ones.
    pub fn open_streams(&self) -> usize {
        self.table.len()
    }

    /// Returns the number of streams of `dir` whose end or reset the peer has not acknowledged, including
    /// open ones.
    pub fn unacknowledged_streams(&mut self, dir: Dir) -> usize {
        let keys = self.table.keys();
        let mut is_owed = |key: &usize| {
            let Stream { id, send, .. } = self.table.stream(*key);
            id.dir() == dir && send.as_ref().is_some_and(|send| !send.state.is_terminal())
        };
        keys.iter().filter(|key| is_owed(key)).count()
    }

    /// Returns the number of stream bytes received, as flow control counts them: up to the highest offset of
    /// each stream, gaps included.
    pub fn bytes_received(&self) -> u64 {
        self.flow.receive_credit.received()
    }

    /// Returns the number of stream bytes sent, not counting retransmissions.
    pub fn bytes_sent(&self) -> u64 {
        self.flow.sent
    }

    /// Returns whether any stream has ever had a route of its own.
    pub(crate) fn is_routed(&self) -> bool {
        self.is_routed
    }

    /// Returns the number of acknowledged stream bytes, in each stream up to the first unacknowledged one.
    /// The number grows as long as the peer receives the data.
    pub fn bytes_delivered(&self) -> u64 {
        self.flow.delivered
    }

    /// Returns the number of stream bytes that wait to be sent, new and lost.
    pub fn pending_bytes(&self) -> u64 {
        self.flow.pending
    }

    /// Returns the number of stream bytes that were written but never sent.
    pub(crate) fn new_bytes(&self) -> u64 {
        self.flow.send_credit.used().saturating_sub(self.flow.sent)
    }

    /// Returns the number of lost stream bytes that wait to be sent again.
    pub(crate) fn lost_bytes(&self) -> u64 {
        self.flow.pending.saturating_sub(self.new_bytes())
    }

    /// Returns the number of stream bytes that were written but not yet acknowledged by the peer.
    pub fn buffered_bytes(&self) -> u64 {
        self.flow.buffered
    }

    /// Adds the stream to the queue of streams with data to send if it has any, and removes it from the queue
    /// otherwise.
    fn requeue(&mut self, key: usize) {
        let stream = self.table.stream(key);
        let Some(send) = &mut stream.send else {
            return;
        };
        match (send.place, send.next().is_some()) {
            (None, true) => send.place = Some(self.ready.insert(stream.id, send.priority)),
            (Some(place), false) => {
                self.ready.remove(&place);
                send.place = None;
            }
            _ => {}
        }
    }

    /// Adds the stream to the queue of streams with control frames, if it has any.
    fn queue_control(&mut self, key: usize) {
        let stream = self.table.stream(key);
        let control = &mut stream.control;
        let wanted = control.reset || control.stop || control.max_data || control.blocked;
        if wanted && !std::mem::replace(&mut control.queued, true) {
            self.control.push_back(stream.id);
        }
    }

    /// Removes the stream if it is over.
    fn remove_if_done(&mut self, key: usize) {
        if self.table.stream(key).is_done() {
            let stream = self.table.stream(key);
            if let Some(half) = &mut stream.receive {
                half.buffer.discard(&mut self.pool);
                if self.arrived.is_none_or(|last| last == key) {
                    self.arrived = None;
                    self.pool.on_quiet();
                }
            }
            let dir = stream.id.dir();
            self.set_hungry(key, false);
            if self.table.remove(key) {
                self.due.max_streams.set(dir, true);
            }
            if self.table.len() == 0 {
                // An idle connection keeps no memory.
                self.pool.drop_kept();
            }
        }
    }

    /// Counts `n` received bytes that have left a stream's buffer as consumed, so that the peer receives
    /// connection credit for them.
    fn release(&mut self, n: u64) {
        let due = self.flow.receive_credit.consume(n, self.now, self.rtt);
        self.due.max_data |= due || self.flow.receive_credit.is_starved();
    }

    /// Returns the number of bytes that the application may write to a stream now under the connection's
    /// limits. Room is reserved for other streams of the same or a higher priority level whose writers wait
    /// for room and that have little left to send. Otherwise the fastest writer would use all room every
    /// time.
    fn room_for(&mut self, key: usize) -> u64 {
        let room = self.flow.send_credit.available().min(self.flow.max_buffered - self.flow.buffered);
        let Some(send) = &self.table.stream(key).send else { return room };
        let (own, level) = (send.hungry, Reverse(send.priority.level));
        let equals = self.waiting.hungry.range(..=level).map(|(_, turns)| turns.len() as u64).sum::<u64>();
        let others = equals - u64::from(own.is_some());
        if others == 0 {
            return room;
        }
        let share = MIN_SHARE.max(room / (others + 1));
        let rest = room.saturating_sub(others.saturating_mul(share));
        // Streams are served in turn: the one that has waited longest always gets some room.
        let next =
            self.waiting.hungry.first_key_value().and_then(|(level, turns)| Some((*level, *turns.first()?)));
        let is_next = own.is_some_and(|turn| next == Some((level, turn)));
        // If nothing is in flight, no acknowledgment will wake a writer, so this one must begin.
        let begins = rest == 0 && self.flow.buffered == 0;
        if is_next || begins { rest.max(room.min(MIN_SHARE)) } else { rest }
    }

    /// Returns the number of pending bytes below which room is reserved for a stream whose writer waits.
    fn low_water(&self) -> u64 {
        MIN_SHARE.min(self.flow.max_buffered / 16).max(1)
    }

    /// Reserves room for a stream if its writer waits for room and it has little left to send. Called when its
    /// pending bytes have decreased, or when its writer begins to wait.
    fn note_hunger(&mut self, key: usize) {
        let low = self.low_water();
        let Some(send) = &self.table.stream(key).send else { return };
        if send.wants_room && send.is_open() && send.credit.available() > 0 && send.buffer.pending() < low {
            self.set_hungry(key, true);
        }
    }

    fn set_hungry(&mut self, key: usize, hungry: bool) {
        let Some(send) = &mut self.table.stream(key).send else { return };
        let level = Reverse(send.priority.level);
        match send.hungry {
            None if hungry => {
                self.waiting.turns += 1;
                send.hungry = Some(self.waiting.turns);
                self.waiting.hungry.entry(level).or_default().insert(self.waiting.turns);
            }
            Some(turn) if !hungry => {
                send.hungry = None;
                if let Some(turns) = self.waiting.hungry.get_mut(&level) {
                    turns.remove(&turn);
                    if turns.is_empty() {
                        self.waiting.hungry.remove(&level);
                    }
                }
            }
            _ => {}
        }
    }

    /// Returns whether writers may be woken: the connection has credit, and enough of the send buffer is
    /// free.
    fn has_room(&self) -> bool {
        let wake_room = (self.flow.max_buffered / 8).clamp(1, WAKE_ROOM);
        self.flow.send_credit.available() > 0 && self.flow.buffered + wake_room <= self.flow.max_buffered
    }

    /// Notifies the application that a stream has room, if it waits for this. Queues the stream instead if
    /// its own credit permits more data but the connection has no room.
    fn wake(&mut self, key: usize) {
        let has_room = self.has_room();
        let stream = self.table.stream(key);
        let Some(send) = stream.send.as_mut().filter(|send| send.wants_room && send.is_open()) else {
            return;
        };
        if send.credit.available() == 0 {
            return;
        }
        if has_room {
            send.wants_room = false;
            self.events.push_back(StreamEvent::Writable(stream.id));
        } else if !std::mem::replace(&mut send.in_line, true) {
            self.waiting.queue.push(stream.id);
        }
    }

    /// Wakes all writers that wait for room in the connection, if it has room. They are woken in the order in
    /// which their data would be sent, because the first writer may use all of the room.
    fn wake_line(&mut self) {
        if self.waiting.queue.is_empty() || !self.has_room() {
            return;
        }
        self.forget_idle_writers();
        let mut waiting = Vec::with_capacity(self.waiting.queue.len());
        for id in std::mem::take(&mut self.waiting.queue) {
            if let Some(key) = self.table.find(id, self.now)
                && let Some(send) = &mut self.table.stream(key).send
            {
                send.in_line = false;
                waiting.push((Rank::new(id, send.priority, waiting.len() as u64), key));
            }
        }
        waiting.sort_unstable();
        for (place, key) in waiting {
            self.wake(key);
            let send = self.table.stream(key).send.as_ref();
            let is_told = send.is_some_and(|send| send.hungry.is_some() && !send.wants_room);
            if is_told && self.waiting.notified.iter().all(|(id, _)| *id != place.id()) {
                self.waiting.notified.push((place.id(), 0));
            }
        }
    }

    /// Counts a turn for each writer that was notified of room but has not written. Removes its reservation
    /// after [`MAX_IDLE_TURNS`] turns, so that room is not kept for it forever.
    fn forget_idle_writers(&mut self) {
        for (id, turns) in std::mem::take(&mut self.waiting.notified) {
            let Some(key) = self.table.find(id, self.now) else { continue };
            match &self.table.stream(key).send {
                Some(send) if send.hungry.is_some() && !send.wants_room => {}
                _ => continue,
            }
            if turns < MAX_IDLE_TURNS {
                self.waiting.notified.push((id, turns + 1));
            } else {
                self.set_hungry(key, false);
            }
        }
    }

    /// Queues a *_BLOCKED frame if everything that the peer's limits allow has been sent and the application
    /// has more data.
    fn note_blocked(&mut self, key: usize) {
        let stream = self.table.stream(key);
        if stream.send.as_ref().is_some_and(send::SendHalf::is_blocked) {
            stream.control.blocked = true;
            self.queue_control(key);
        }
        self.due.data_blocked |=
            self.flow.send_credit.should_report() && self.flow.sent >= self.flow.send_credit.limit();
    }
}

#[cfg(test)]
mod tests;
