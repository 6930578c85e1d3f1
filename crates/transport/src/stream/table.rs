//! Table of the streams that exist: identifiers, limits on their number, creation on first use, removal.

use std::collections::HashMap;

use anabranch_wire::{Dir, Side, StreamId, Time, TransportErrorCode, TransportParameters};
use foldhash::fast::FixedState;
use slab::Slab;

use super::receive::ReceiveHalf;
use super::send::SendHalf;
use super::types::StreamsConfig;
use crate::error::TransportError;
use crate::flow::{ReceiveCredit, WindowRule};
use crate::ranges::RangeSet;

/// Streams of one kind that an end opens at most, far more than a connection lives to see: headers that name
/// streams have 30 bits for their identifiers.
const MAX_NAMED_STREAMS: u64 = 1 << 28;

/// A stream: one or two halves, and the control frames it owes.
#[derive(Debug)]
pub(crate) struct Stream {
    pub(crate) id: StreamId,
    pub(crate) send: Option<SendHalf>,
    pub(crate) receive: Option<ReceiveHalf>,
    pub(crate) control: Control,
}

/// Control frames that a stream has to send.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Control {
    pub(crate) reset: bool,
    pub(crate) stop: bool,
    pub(crate) max_data: bool,
    pub(crate) blocked: bool,
    /// The stream is in the queue of those with control frames.
    pub(crate) queued: bool,
}

impl Stream {
    /// Returns whether neither the peer nor the application can do anything with the stream any longer.
    pub(crate) fn is_done(&self) -> bool {
        self.send.as_ref().is_none_or(|send| send.state.is_terminal())
            && self.receive.as_ref().is_none_or(ReceiveHalf::is_done)
    }
}

/// Streams of one direction that this end opens.
#[derive(Debug, Default)]
pub(crate) struct Local {
    /// Streams opened so far.
    pub(crate) opened: u64,
    /// Streams that the peer allows in all.
    pub(crate) limit: u64,
    /// The application was refused one.
    pub(crate) wanted: bool,
    /// Limit that a STREAMS_BLOCKED last named.
    pub(crate) reported: Option<u64>,
    /// Offset up to which the peer's transport parameters let us send.
    window: u64,
}

/// Streams of one direction that the peer opens.
#[derive(Debug, Default)]
pub(crate) struct Remote {
    /// Streams opened so far: those below the highest index seen, too (RFC 9000 §3.2).
    opened: u64,
    /// Streams handed to the application.
    accepted: u64,
    /// Opened streams that no object was made for yet, because nothing happened on them.
    untouched: RangeSet,
    /// Streams that the peer was told it may open in all.
    limit: u64,
    /// Streams that are over.
    closed: u64,
    /// Streams that may be open at the same time.
    concurrent: u64,
    /// An Opened event is out and the application has not accepted all streams since.
    notified: bool,
}

impl Remote {
    fn allowed(&self) -> u64 {
        self.closed.saturating_add(self.concurrent).min(anabranch_wire::MAX_STREAM_COUNT)
    }

    /// Returns the limit that the peer was sent last, or is about to be sent.
    pub(crate) fn limit(&self) -> u64 {
        self.limit
    }

    /// Returns the limit to send to the peer now.
    pub(crate) fn grant(&mut self) -> u64 {
        self.limit = self.limit.max(self.allowed());
        self.limit
    }

    /// Returns whether the peer would gain from a new limit, however little.
    pub(crate) fn can_grant(&self) -> bool {
        self.allowed() > self.limit
    }

    /// Returns whether a new limit is worth a frame: it adds much, or the peer has little left.
    fn is_grant_due(&self) -> bool {
        let gain = self.allowed().saturating_sub(self.limit);
        let left = self.limit.saturating_sub(self.opened);
        gain > 0 && (gain >= self.concurrent / 4 || left < self.concurrent / 4)
    }
}

/// Stream that a frame's stream ID names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// A stream, under this key.
    Open(usize),
    /// A stream that is over; the frame is late and means nothing.
    Over,
}

/// All streams of a connection.
#[derive(Debug)]
pub(crate) struct Table {
    side: Side,
    streams: Slab<Stream>,
    keys: HashMap<StreamId, usize, Seeded>,
    /// The last stream looked up; most packets carry data of the same one.
    last: Option<(StreamId, usize)>,
    local: [Local; 2],
    remote: [Remote; 2],
    receive_window: u64,
    receive_window_max: u64,
    window_rule: WindowRule,
    /// Offset up to which we may send on streams that the peer opens.
    remote_send_window: u64,
    /// Headers name streams.
    named: bool,
}

/// A fast hash under a secret: a peer chooses which of the streams that it may open it keeps open, and must
/// not be able to choose many that collide.
type Seeded = FixedState;

const fn slot(dir: Dir) -> usize {
    match dir {
        Dir::Bi => 0,
        Dir::Uni => 1,
    }
}

impl Table {
    pub(crate) fn new(side: Side, config: &StreamsConfig, hash_seed: u64) -> Self {
        let remote = |max: u64| {
            let concurrent = max.min(anabranch_wire::MAX_STREAM_COUNT);
            Remote { limit: concurrent, concurrent, ..Remote::default() }
        };
        Self {
            side,
            streams: Slab::new(),
            keys: HashMap::with_hasher(FixedState::with_seed(hash_seed)),
            last: None,
            local: [Local::default(), Local::default()],
            remote: [remote(config.max_bidi), remote(config.max_uni)],
            receive_window: config.stream_window,
            receive_window_max: config.stream_window_max,
            window_rule: config.window_rule,
            remote_send_window: 0,
            named: false,
        }
    }

    /// Returns whether the client's first bidirectional stream is skipped; says whether the peer should be
    /// told a new limit. It counts in the limits as one that is over. Does nothing once streams are open.
    pub(crate) fn skip_first(&mut self, skip: bool) -> bool {
        self.named = skip;
        let skipped = u64::from(skip);
        if self.side.is_client() {
            let local = &mut self.local[slot(Dir::Bi)];
            if local.opened <= 1 && self.keys.is_empty() {
                local.opened = skipped;
            }
            return false;
        }
        let remote = &mut self.remote[slot(Dir::Bi)];
        if remote.opened <= 1 && remote.accepted == remote.closed && self.keys.is_empty() {
            (remote.opened, remote.accepted, remote.closed) = (skipped, skipped, skipped);
        }
        remote.is_grant_due()
    }

    /// Returns the number of streams that have state.
    pub(crate) fn len(&self) -> usize {
        self.streams.len()
    }

    /// Streams that there is memory for.
    #[cfg(test)]
    pub(crate) fn capacity(&self) -> usize {
        self.streams.capacity() + self.keys.capacity()
    }

    pub(crate) fn local(&mut self, dir: Dir) -> &mut Local {
        &mut self.local[slot(dir)]
    }

    pub(crate) fn remote(&mut self, dir: Dir) -> &mut Remote {
        &mut self.remote[slot(dir)]
    }

    /// Returns whether the peer's limit on the number of streams lets us send on a stream; false only for
    /// streams that were opened in 0-RTT which the server refused.
    pub(crate) fn may_send_on(&self, id: StreamId) -> bool {
        id.initiator() != self.side || id.index() < self.local[slot(id.dir())].limit
    }

    #[inline(always)]
    pub(crate) fn stream(&mut self, key: usize) -> &mut Stream {
        &mut self.streams[key]
    }

    /// Returns the identifier of the stream under `key`.
    pub(crate) fn id(&self, key: usize) -> StreamId {
        self.streams[key].id
    }

    /// Returns the stream `id` if it exists, also if nothing has happened on it yet.
    #[inline]
    pub(crate) fn find(&mut self, id: StreamId, now: Time) -> Option<usize> {
        if let Some((_, key)) = self.last.filter(|(last, _)| *last == id) {
            return Some(key);
        }
        let key = match self.keys.get(&id) {
            Some(key) => *key,
            None => self.touch(id, now)?,
        };
        self.last = Some((id, key));
        Some(key)
    }

    /// Returns the stream `id` if there is an object for it. Creates none.
    #[inline]
    pub(crate) fn existing(&self, id: StreamId) -> Option<usize> {
        match self.last {
            Some((last, key)) if last == id => Some(key),
            _ => self.keys.get(&id).copied(),
        }
    }

    /// Makes the object of a stream that the peer has opened by using a higher one.
    fn touch(&mut self, id: StreamId, now: Time) -> Option<usize> {
        if id.initiator() == self.side {
            return None;
        }
        let untouched = &mut self.remote[slot(id.dir())].untouched;
        if untouched.remove(id.index()..id.index() + 1) == 0 {
            return None;
        }
        Some(self.create(id, self.remote_send_window, now))
    }

    fn create(&mut self, id: StreamId, send_window: u64, now: Time) -> usize {
        let is_local = id.initiator() == self.side;
        let is_bidi = id.dir() == Dir::Bi;
        let send = (is_local || is_bidi).then(|| SendHalf::new(send_window));
        let receive = (!is_local || is_bidi)
            .then(|| ReceiveCredit::new(self.window_rule, self.receive_window, self.receive_window_max, now));
        let mut receive = receive.map(ReceiveHalf::new);
        if let Some(half) = receive.as_mut().filter(|_| self.named) {
            half.buffer.expect_places();
        }
        let key = self.streams.insert(Stream { id, send, receive, control: Control::default() });
        self.keys.insert(id, key);
        key
    }

    /// Opens the next stream of our own, if the peer's limit allows it.
    pub(crate) fn open(&mut self, dir: Dir, now: Time) -> Option<StreamId> {
        let local = &mut self.local[slot(dir)];
        if local.opened >= local.limit.min(MAX_NAMED_STREAMS) {
            local.wanted = true;
            return None;
        }
        let id = StreamId::new(self.side, dir, local.opened);
        local.opened += 1;
        let window = local.window;
        self.create(id, window, now);
        Some(id)
    }

    /// Returns the peer's next stream that the application has not seen.
    pub(crate) fn accept(&mut self, dir: Dir) -> Option<StreamId> {
        let initiator = self.side.peer();
        let remote = self.remote(dir);
        if remote.accepted == remote.opened {
            remote.notified = false;
            return None;
        }
        let id = StreamId::new(initiator, dir, remote.accepted);
        remote.accepted += 1;
        Some(id)
    }

    /// Returns the stream that a frame for our receiving half names; `opened` gets the streams that the frame
    /// opens.
    #[inline]
    pub(crate) fn receiving(
        &mut self,
        id: StreamId,
        now: Time,
        opened: impl FnOnce(Dir),
    ) -> Result<Found, TransportError> {
        if id.dir() == Dir::Uni && id.initiator() == self.side {
            return Err(state_error("a frame for the receiving half of a send-only stream"));
        }
        self.named(id, now, opened)
    }

    /// Returns the stream that a frame for our sending half names.
    pub(crate) fn sending(
        &mut self,
        id: StreamId,
        now: Time,
        opened: impl FnOnce(Dir),
    ) -> Result<Found, TransportError> {
        if id.dir() == Dir::Uni && id.initiator() != self.side {
            return Err(state_error("a frame for the sending half of a receive-only stream"));
        }
        self.named(id, now, opened)
    }

    #[inline]
    fn named(&mut self, id: StreamId, now: Time, opened: impl FnOnce(Dir)) -> Result<Found, TransportError> {
        if let Some(key) = self.find(id, now) {
            return Ok(Found::Open(key));
        }
        let index = id.index();
        if id.initiator() == self.side {
            // RFC 9000 §19.4, §19.5, §19.8, §19.10
            return match index < self.local[slot(id.dir())].opened {
                true => Ok(Found::Over),
                false => Err(state_error("a frame for a stream that has not been opened")),
            };
        }
        // Some clients do not count the stream that is skipped.
        let uncounted = u64::from(self.named && id.dir() == Dir::Bi && !self.side.is_client());
        let remote = &mut self.remote[slot(id.dir())];
        if index >= remote.limit + uncounted {
            // RFC 9000 §4.6
            return Err(TransportError::new(TransportErrorCode::STREAM_LIMIT_ERROR, "too many streams"));
        }
        if index < remote.opened {
            return Ok(Found::Over);
        }
        remote.untouched.insert(remote.opened..index);
        remote.opened = index + 1;
        if !std::mem::replace(&mut remote.notified, true) {
            opened(id.dir());
        }
        Ok(Found::Open(self.create(id, self.remote_send_window, now)))
    }

    /// Removes a stream that is over; says whether the peer should be told that it may open more.
    ///
    /// A stream of the peer's is over only once the application has read its end, its reset, or has stopped
    /// it. So a peer that opens and resets streams at once gets new ones no faster than the application deals
    /// with the old ones.
    pub(crate) fn remove(&mut self, key: usize) -> bool {
        let stream = self.streams.remove(key);
        self.keys.remove(&stream.id);
        self.last = None;
        if stream.id.initiator() == self.side {
            return false;
        }
        let remote = &mut self.remote[slot(stream.id.dir())];
        remote.closed += 1;
        remote.is_grant_due()
    }

    /// Keys of the streams that exist, in no particular but a deterministic order.
    pub(crate) fn keys(&self) -> Vec<usize> {
        self.streams.iter().map(|(key, _)| key).collect()
    }

    /// Sets the peer's limits; `Err` if they are lower than those that 0-RTT data was sent under.
    pub(crate) fn set_peer_parameters(
        &mut self,
        parameters: &TransportParameters,
    ) -> Result<(), TransportError> {
        let bidi = (parameters.initial_max_streams_bidi, parameters.initial_max_stream_data_bidi_remote);
        let uni = (parameters.initial_max_streams_uni, parameters.initial_max_stream_data_uni);
        let remote_window = parameters.initial_max_stream_data_bidi_local;
        let mut shrunk = remote_window < self.remote_send_window;
        for (local, (limit, window)) in self.local.iter_mut().zip([bidi, uni]) {
            shrunk |= limit < local.limit || window < local.window;
            local.limit = local.limit.max(limit.min(anabranch_wire::MAX_STREAM_COUNT));
            local.window = window;
        }
        self.remote_send_window = remote_window;
        if shrunk {
            return Err(reduced_limits());
        }
        Ok(())
    }

    /// Returns the offset up to which the peer's transport parameters let us send on a stream.
    pub(crate) fn initial_send_limit(&self, id: StreamId) -> u64 {
        if id.initiator() == self.side { self.local[slot(id.dir())].window } else { self.remote_send_window }
    }

    /// Forgets the remembered limits that 0-RTT data was sent under.
    pub(crate) fn forget_peer_parameters(&mut self) {
        for local in &mut self.local {
            *local = Local { opened: local.opened, wanted: local.wanted, ..Local::default() };
        }
        self.remote_send_window = 0;
    }
}

/// Returns the error of a server that accepts 0-RTT and lowers the limits that it was sent under (RFC 9000
/// §7.4.1).
pub(crate) fn reduced_limits() -> TransportError {
    TransportError::new(
        TransportErrorCode::PROTOCOL_VIOLATION,
        "limits lower than those remembered for 0-RTT",
    )
}

fn state_error(reason: &'static str) -> TransportError {
    TransportError::new(TransportErrorCode::STREAM_STATE_ERROR, reason)
}
