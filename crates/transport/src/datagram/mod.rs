//! DATAGRAM frames (RFC 9221): messages that are sent once and may be lost.

mod order;
mod outgoing;
mod terms;

use std::collections::VecDeque;
use std::time::Duration;

use anabranch_wire::{Direction, PathId, Time, TransportErrorCode, Writer, max_datagram_len, write_datagram};
use bytes::Bytes;

pub use self::order::Order;
pub use self::terms::Terms;

use self::outgoing::{Entry, Outgoing};
use crate::error::TransportError;
use crate::schedule::{Carrier, Route};
use crate::token::{Token, Tokens};

/// The `max_datagram_frame_size` that this endpoint announces if it supports datagrams: any frame that fits
/// into a packet (RFC 9221 §3).
pub const MAX_DATAGRAM_FRAME_SIZE: u64 = 65_535;

/// Overhead counted for each queued message, in bytes. It also bounds the number of empty messages in a
/// queue.
const MESSAGE_OVERHEAD: usize = 64;

/// Time after the last message of a flow for which paths keep short queues, because further messages are expected.
const LIVELY: Duration = Duration::from_millis(500);

/// Minimum overhead of a frame: its type, without a Length field.
const MIN_FRAME_OVERHEAD: u64 = 1;

/// Reasons why a message was not queued.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SendDatagramError {
    /// The peer does not support datagrams.
    #[error("the peer does not support datagrams")]
    UnsupportedByPeer,
    /// The message exceeds the peer's limit, or does not fit into a packet; see [`Datagrams::max_len`].
    #[error("the message is too large for a datagram")]
    TooLarge,
    /// The queue is full; an event reports when it has room again.
    #[error("the datagram queue is full")]
    Blocked,
}

/// Queues of a connection's messages: those waiting to be sent, and those waiting to be read.
#[derive(Debug, Default)]
pub struct Datagrams {
    outgoing: Outgoing,
    incoming: Queue,
    /// The peer's `max_datagram_frame_size`; 0 until it is known, and if the peer does not support datagrams.
    peer_maximum: u64,
    /// Flow of the last message that belongs to one, and the time at which it was queued.
    last_flow: Option<(u64, Time)>,
    /// Time at which a message was queued within [`LIVELY`] of one of another flow.
    last_change: Option<Time>,
    /// Maximum payload of a packet, in bytes.
    packet_room: usize,
    was_blocked: bool,
    /// `true` if the last packet that could carry either messages or stream data carried messages.
    had_turn: bool,
    unblocked: bool,
    received: bool,
    dropped: u64,
}

/// Queue of messages in order, bounded in bytes.
#[derive(Debug, Default)]
struct Queue {
    messages: VecDeque<(PathId, Bytes)>,
    /// Bytes of the messages, including the overhead.
    bytes: usize,
    capacity: usize,
}

impl Queue {
    fn fits(&self, len: usize) -> bool {
        // An empty queue accepts any message; otherwise a message larger than the capacity could never be
        // sent.
        self.messages.is_empty() || self.bytes + len + MESSAGE_OVERHEAD <= self.capacity
    }

    fn push(&mut self, path: PathId, message: Bytes) {
        self.bytes += message.len() + MESSAGE_OVERHEAD;
        self.messages.push_back((path, message));
    }

    fn pop(&mut self) -> Option<(PathId, Bytes)> {
        let message = self.messages.pop_front()?;
        self.bytes -= message.1.len() + MESSAGE_OVERHEAD;
        if self.messages.is_empty() {
            // The memory is freed, because an idle connection should keep none.
            self.messages = VecDeque::new();
        }
        Some(message)
    }
}

impl Datagrams {
    /// Creates queues that hold up to `send_buffer` and `receive_buffer` bytes. With a `receive_buffer` of 0
    /// the peer may not send messages.
    pub(crate) fn new(send_buffer: usize, receive_buffer: usize) -> Self {
        Self {
            outgoing: Outgoing::new(send_buffer),
            incoming: Queue { capacity: receive_buffer, ..Queue::default() },
            ..Self::default()
        }
    }

    /// Returns the value of our `max_datagram_frame_size` transport parameter.
    pub fn local_maximum(&self) -> u64 {
        if self.incoming.capacity == 0 { 0 } else { MAX_DATAGRAM_FRAME_SIZE }
    }

    /// Sets the peer's `max_datagram_frame_size` transport parameter, perhaps a remembered one.
    pub(crate) fn set_peer_maximum(&mut self, max_datagram_frame_size: u64) {
        self.peer_maximum = max_datagram_frame_size;
    }

    /// Sets the maximum payload of a packet, in bytes, on the path with the smallest packets. Queued messages
    /// that no longer fit are dropped when they would be sent.
    pub(crate) fn set_packet_room(&mut self, bytes: usize) {
        self.packet_room = bytes;
    }

    /// Returns the length of the longest message that can be sent now, in bytes; `None` if the peer does not
    /// support messages.
    pub fn max_len(&self) -> Option<usize> {
        if self.peer_maximum == 0 {
            return None;
        }
        let room =
            usize::try_from(self.peer_maximum).map_or(self.packet_room, |max| max.min(self.packet_room));
        max_datagram_len(room)
    }

    /// Queues a message; the scheduler picks its path.
    pub fn send(&mut self, message: Bytes) -> Result<(), SendDatagramError> {
        self.send_on(message, Route::Any)
    }

    /// Queues a message for the paths that `route` permits.
    pub fn send_on(&mut self, message: Bytes, route: Route) -> Result<(), SendDatagramError> {
        self.send_with(Time::ZERO, message, &Terms::default().with_route(route))
    }

    /// Queues a message on these terms. If the queue is full, the oldest messages of the flow that has the most bytes in it
    /// are dropped, if that is not the flow of this message.
    pub fn send_with(&mut self, now: Time, message: Bytes, terms: &Terms) -> Result<(), SendDatagramError> {
        let max = self.max_len().ok_or(SendDatagramError::UnsupportedByPeer)?;
        if message.len() > max {
            return Err(SendDatagramError::TooLarge);
        }
        if let Some(flow) = terms.flow() {
            let last = self.last_flow.replace((flow, now));
            if last.is_some_and(|(other, last)| other != flow && now - last < LIVELY) {
                self.last_change = Some(now);
            }
        }
        if self.outgoing.push(terms.flow(), Entry::new(now, message, terms)) {
            return Ok(());
        }
        self.was_blocked = true;
        Err(SendDatagramError::Blocked)
    }

    /// Removes and returns the oldest received message.
    pub fn recv(&mut self) -> Option<Bytes> {
        self.incoming.pop().map(|(_, message)| message)
    }

    /// Removes and returns the oldest received message, like [`Self::recv`], with the path on which it arrived.
    pub fn recv_from(&mut self) -> Option<(PathId, Bytes)> {
        self.incoming.pop()
    }

    /// Handles a DATAGRAM frame with this `data`, which arrived on `path`. If the queue is full, the oldest messages are dropped.
    pub(crate) fn on_frame(&mut self, path: PathId, data: &[u8]) -> Result<(), TransportError> {
        // RFC 9221 §3: the limit applies to the whole frame. The frame exceeds the limit for certain only if
        // its smallest encoding does.
        if data.len() as u64 + MIN_FRAME_OVERHEAD > self.local_maximum() {
            let reason = "a DATAGRAM larger than allowed";
            return Err(TransportError::new(TransportErrorCode::PROTOCOL_VIOLATION, reason));
        }
        self.received |= self.incoming.messages.is_empty();
        while !self.incoming.fits(data.len()) {
            self.incoming.pop();
            self.dropped += 1;
        }
        self.incoming.push(path, Bytes::copy_from_slice(data));
        Ok(())
    }

    /// Returns whether a message is queued for sending.
    pub(crate) fn has_pending(&self) -> bool {
        !self.outgoing.is_empty()
    }

    /// Returns whether a message of a flow was queued within [`LIVELY`], so that paths should have short queues.
    pub(crate) fn wants_short_queues(&self, now: Time) -> bool {
        self.last_flow.is_some_and(|(_, last)| now - last < LIVELY)
    }

    /// Returns whether all messages of flows that were queued within [`LIVELY`] belong to one flow. A longer queue delays no other
    /// flow then.
    pub(crate) fn is_one_flow(&self, now: Time) -> bool {
        self.last_change.is_none_or(|last| now - last >= LIVELY)
    }

    /// Returns whether any queued message belongs to a flow.
    pub(crate) fn has_flows(&self) -> bool {
        self.outgoing.has_flows()
    }

    /// Returns whether the next packet, which can carry either messages or stream data, carries messages. If
    /// stream data is pending as well (`streams_wait`), messages and stream data take turns.
    pub(crate) fn take_turn(&mut self, now: Time, carrier: &Carrier, streams_wait: bool) -> bool {
        let max = self.max_len();
        let is_pending = self.change(|outgoing| outgoing.find(now, carrier, max).is_some());
        let turn = is_pending && !(self.had_turn && streams_wait);
        self.had_turn = turn;
        turn
    }

    /// Returns the size of the messages queued for sending, including the overhead, in bytes.
    pub fn pending_bytes(&self) -> u64 {
        self.outgoing.bytes() as u64
    }

    /// Returns whether any queued message is for particular paths or has to be copied.
    pub(crate) fn is_routed(&self) -> bool {
        self.outgoing.is_routed()
    }

    /// Writes the queued messages that `carrier` may carry, until one does not fit.
    pub(crate) fn write(&mut self, now: Time, carrier: &Carrier, w: &mut Writer<'_>, tokens: &mut Tokens) {
        let max = self.max_len();
        self.change(|outgoing| {
            while let Some(place) = outgoing.find(now, carrier, max) {
                if !outgoing.get(place).is_some_and(|message| write_in_order(w, message)) {
                    return;
                }
                tokens.push(Token::Datagram);
                outgoing.on_sent(now, place, carrier);
            }
        });
    }

    /// Changes the queue for sending, and records whether it has gained room.
    fn change<R>(&mut self, change: impl FnOnce(&mut Outgoing) -> R) -> R {
        let before = self.outgoing.bytes();
        let result = change(&mut self.outgoing);
        if self.outgoing.bytes() < before {
            self.unblocked |= std::mem::take(&mut self.was_blocked);
        }
        result
    }

    /// Returns whether a message has arrived since the last call while the receive queue was empty.
    pub(crate) fn take_received(&mut self) -> bool {
        std::mem::take(&mut self.received)
    }

    /// Returns whether the send queue has gained room since the last call, after it had refused a message
    /// ([`SendDatagramError::Blocked`]).
    pub(crate) fn take_unblocked(&mut self) -> bool {
        std::mem::take(&mut self.unblocked)
    }

    /// Returns the number of messages dropped in either direction because a queue was full or they were too
    /// large.
    pub fn dropped(&self) -> u64 {
        self.dropped + self.outgoing.drops.dropped
    }

    /// Returns the number of messages that were not sent because their lifetime had ended.
    pub fn expired(&self) -> u64 {
        self.outgoing.drops.expired
    }
}

/// Writes a DATAGRAM frame so that the receiver reads it after all frames written before. Returns whether the
/// frame fits.
fn write_in_order(w: &mut Writer<'_>, message: &[u8]) -> bool {
    let before = w.len();
    let fits = write_datagram(w, message.len(), |to| to.copy_from_slice(message)).is_ok();
    if fits && w.direction() == Direction::Backward {
        w.lead(before);
    }
    fits
}

#[cfg(test)]
mod tests;
