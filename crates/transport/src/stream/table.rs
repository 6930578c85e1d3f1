//! Table of existing streams: identifiers, stream limits, creation on first use, removal.

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

/// Maximum number of streams of one kind that an end opens. Packet headers that name streams have 30 bits for
/// their identifiers. No connection is expected to live long enough to open that many.
const MAX_NAMED_STREAMS: u64 = 1 << 28;

/// A stream: one or two halves, and its pending control frames.
#[derive(Debug)]
pub(crate) struct Stream {
    pub(crate) id: StreamId,
    pub(crate) send: Option<SendHalf>,
    pub(crate) receive: Option<ReceiveHalf>,
    pub(crate) control: Control,
}

/// Pending control frames of a stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Control {
    pub(crate) reset: bool,
    pub(crate) stop: bool,
    pub(crate) max_data: bool,
    pub(crate) blocked: bool,
    /// `true` if the stream is in the queue of streams with control frames.
    pub(crate) queued: bool,
}

impl Stream {
    /// Returns whether the stream is over: neither the peer nor the application can still use it.
    pub(crate) fn is_done(&self) -> bool {
        self.send.as_ref().is_none_or(|send| send.state.is_terminal())
            && self.receive.as_ref().is_none_or(ReceiveHalf::is_done)
    }
}

/// Streams of one direction that this end opens.
#[derive(Debug, Default)]
pub(crate) struct Local {
    /// Number of streams opened so far.
    pub(crate) opened: u64,
    /// Cumulative number of streams that the peer allows.
    pub(crate) limit: u64,
    /// `true` if the application could not open a stream because of the limit.
    pub(crate) wanted: bool,
    /// Limit in the last STREAMS_BLOCKED frame.
    pub(crate) reported: Option<u64>,
    /// Initial send limit of these streams, from the peer's transport parameters.
    window: u64,
}

/// Streams of one direction that the peer opens.
#[derive(Debug, Default)]
pub(crate) struct Remote {
    /// Number of streams opened so far, including all below the highest index seen (RFC 9000 §3.2).
    opened: u64,
    /// Number of streams returned to the application.
    accepted: u64,
    /// Opened streams without an object yet, because no frame for them has arrived.
    untouched: RangeSet,
    /// Cumulative number of streams that the peer may open, as announced to it.
    limit: u64,
    /// Number of streams that are over.
    closed: u64,
    /// Maximum number of streams that are open at the same time.
    concurrent: u64,
    /// `true` if an Opened event was emitted, and the application has not accepted all streams since.
    notified: bool,
}

impl Remote {
    fn allowed(&self) -> u64 {
        self.closed.saturating_add(self.concurrent).min(anabranch_wire::MAX_STREAM_COUNT)
    }

    /// Returns the limit that was last sent to the peer, or is about to be sent.
    pub(crate) fn limit(&self) -> u64 {
        self.limit
    }

    /// Returns the limit to send to the peer now.
    pub(crate) fn grant(&mut self) -> u64 {
        self.limit = self.limit.max(self.allowed());
        self.limit
    }

    /// Returns whether a new limit would be higher at all.
    pub(crate) fn can_grant(&self) -> bool {
        self.allowed() > self.limit
    }

    /// Returns whether a new limit is worth a frame: it is much higher, or the peer has few streams left.
    fn is_grant_due(&self) -> bool {
        let gain = self.allowed().saturating_sub(self.limit);
        let left = self.limit.saturating_sub(self.opened);
        gain > 0 && (gain >= self.concurrent / 4 || left < self.concurrent / 4)
    }
}

/// Stream that a frame refers to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// An existing stream, by its key.
    Open(usize),
    /// A stream that is over. The frame is late and has no effect.
    Over,
}

/// All streams of a connection.
#[derive(Debug)]
pub(crate) struct Table {
    side: Side,
    streams: Slab<Stream>,
    keys: HashMap<StreamId, usize, Seeded>,
    /// Last stream looked up, which is often the stream of the next packet too.
    last: Option<(StreamId, usize)>,
    local: [Local; 2],
    remote: [Remote; 2],
    receive_window: u64,
    receive_window_max: u64,
    window_rule: WindowRule,
    /// Initial send limit of streams that the peer opens.
    remote_send_window: u64,
    /// `true` if packet headers name streams.
    named: bool,
}

/// Fast hash with a secret seed. A peer chooses which of its streams stay open, and must not be able to
/// choose many whose hashes collide.
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

    /// Sets whether the client's first bidirectional stream is skipped. A skipped stream counts in the limits
    /// as one that is over. Does nothing once streams are open. Returns whether a new limit should be sent to
    /// the peer.
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

    /// Returns the number of streams and keys for which memory is allocated.
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

    /// Returns whether the peer's stream limit permits sending on a stream. Returns `false` only for streams
    /// that were opened in 0-RTT that the server refused.
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

    /// Returns the key of stream `id` if the stream exists. Creates its object if no frame for it has arrived
    /// yet.
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

    /// Returns the key of stream `id` if it has an object. Creates none.
    #[inline]
    pub(crate) fn existing(&self, id: StreamId) -> Option<usize> {
        match self.last {
            Some((last, key)) if last == id => Some(key),
            _ => self.keys.get(&id).copied(),
        }
    }

    /// Creates the object of a stream that the peer has opened by using a higher stream ID.
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

    /// Opens this end's next stream, if the peer's limit allows it.
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

    /// Returns the next stream of the peer that the application has not seen.
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

    /// Returns the stream of a frame for this end's receiving half. `opened` is called if the frame opens
    /// streams.
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

    /// Returns the stream of a frame for this end's sending half. `opened` is called if the frame opens
    /// streams.
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
        // Some clients do not count the skipped stream.
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

    /// Removes a stream that is over. Returns whether a new stream limit should be sent to the peer.
    ///
    /// A stream of the peer is over only when the application has read its end or its reset, or has stopped
    /// it. A peer that opens and resets streams at once therefore gets new ones no faster than the
    /// application handles the old ones.
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

    /// Returns the keys of all streams, in an unspecified but deterministic order.
    pub(crate) fn keys(&self) -> Vec<usize> {
        self.streams.iter().map(|(key, _)| key).collect()
    }

    /// Applies the peer's limits. Fails if they are lower than those under which 0-RTT data was sent.
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

    /// Returns the initial send limit of a stream, from the peer's transport parameters.
    pub(crate) fn initial_send_limit(&self, id: StreamId) -> u64 {
        if id.initiator() == self.side { self.local[slot(id.dir())].window } else { self.remote_send_window }
    }

    /// Removes the remembered limits under which 0-RTT data was sent.
    pub(crate) fn forget_peer_parameters(&mut self) {
        for local in &mut self.local {
            *local = Local { opened: local.opened, wanted: local.wanted, ..Local::default() };
        }
        self.remote_send_window = 0;
    }
}

/// Returns the error for a server that accepts 0-RTT but lowers the remembered limits (RFC 9000 §7.4.1).
pub(crate) fn reduced_limits() -> TransportError {
    TransportError::new(
        TransportErrorCode::PROTOCOL_VIOLATION,
        "limits lower than those remembered for 0-RTT",
    )
}

fn state_error(reason: &'static str) -> TransportError {
    TransportError::new(TransportErrorCode::STREAM_STATE_ERROR, reason)
}
