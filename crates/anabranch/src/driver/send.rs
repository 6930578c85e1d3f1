//! Sends the packets of the connections on the sockets.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;
use std::task::Context;

use anabranch_transport::{MAX_BATCH_BYTES, SocketBlock, Transmit, TransmitBuf};
use anabranch_wire::Time;

use crate::connection_inner::{ConnectionInner, State};
use crate::socket::{Sent, Socket};

/// Number of bytes after which a connection that has more to send waits for its next turn.
const TURN_BYTES: usize = 8 * MAX_BATCH_BYTES;
/// Maximum number of unused buffers that are kept.
const MAX_SPARE: usize = 4;

/// Outcome of a connection's turn to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    /// Everything was sent.
    Done,
    /// The connection may have more to send.
    More,
    /// Some paths wait for their sockets; everything else was sent.
    PartlyBlocked,
    /// All paths wait for their sockets.
    Blocked,
}

/// Sender of batches. Consecutive batches of a connection for one path become one, although batches for other paths may come in
/// between: a scheduler may choose another path for each packet. If a socket is full, the rest of its batches is kept until the socket
/// has room. Other sockets are not delayed.
#[derive(Default)]
pub(super) struct Sender {
    outlets: Vec<Outlet>,
    /// Number of outlets that hold a batch.
    held: usize,
    /// Batches of the connection whose turn it is, one for each path at most, with the indices of their outlets.
    gathered: Vec<(usize, Batch)>,
    /// Unused buffers.
    spare: Vec<TransmitBuf>,
    /// Maximum number of datagrams that the most capable socket takes in one call.
    segments: usize,
}

/// A socket, and the batches that it had no room for: those of one turn of a connection at most.
struct Outlet {
    socket: Arc<Socket>,
    held: VecDeque<Batch>,
}

struct Batch {
    transmit: Transmit,
    buffer: TransmitBuf,
    /// Number of bytes that have been sent.
    done: usize,
}

impl Sender {
    pub(super) fn new(sockets: &[Arc<Socket>]) -> Self {
        let mut sender = Self::default();
        sender.set_sockets(sockets);
        sender
    }

    /// Replaces the endpoint's sockets. Batches queued for sockets that remain are kept.
    pub(super) fn set_sockets(&mut self, sockets: &[Arc<Socket>]) {
        let mut before = std::mem::take(&mut self.outlets);
        self.outlets.extend(sockets.iter().map(|socket| {
            let same = before.iter_mut().find(|outlet| Arc::ptr_eq(&outlet.socket, socket));
            let held = same.map(|outlet| std::mem::take(&mut outlet.held)).unwrap_or_default();
            Outlet { socket: Arc::clone(socket), held }
        }));
        self.held = self.outlets.iter().filter(|outlet| !outlet.held.is_empty()).count();
    }

    /// Returns whether every socket is full.
    pub(super) fn is_blocked(&self) -> bool {
        self.held == self.outlets.len()
    }

    /// Returns whether no batch waits for a socket.
    pub(super) fn holds_nothing(&self) -> bool {
        self.held == 0
    }

    /// Sends batches that sockets refused before, if they have room now. Returns whether at least one socket
    /// has sent all of them.
    pub(super) fn flush(&mut self, cx: &mut Context<'_>) -> bool {
        let before = self.held;
        for at in 0..self.outlets.len() {
            let mut held = std::mem::take(&mut self.outlets[at].held);
            self.held -= usize::from(!held.is_empty());
            while let Some(batch) = held.pop_front() {
                // An error of the socket itself is ignored here, because receiving on the socket reports it,
                // too.
                if self.outlets[at].socket.poll_writable(cx).is_pending() {
                    held.push_front(batch);
                    break;
                }
                self.send(at, batch);
                if let Some(rest) = self.outlets[at].held.pop_front() {
                    held.push_front(rest);
                    self.held -= 1;
                }
            }
            self.held += usize::from(!held.is_empty());
            self.outlets[at].held = held;
        }
        self.held < before
    }

    /// Sends the pending packets of `connection`, as far as its turn allows.
    pub(super) fn send_from(&mut self, connection: &ConnectionInner, now: Time) -> Turn {
        // The limit is read again each time, because segmentation offload is switched off when an interface
        // turns out not to support it.
        self.segments = self.outlets.iter().map(|outlet| outlet.socket.max_segments()).max().unwrap_or(1);
        let mut held = SocketBlock::Nothing;
        let mut sent = 0;
        while sent < TURN_BYTES {
            let mut buffer = self.take_buffer();
            let transmit = connection.with_state(|state| {
                if self.held > 0 || state.paths.has_socket_blocked {
                    held = state
                        .core
                        .set_socket_blocked(|local| !self.outlets[self.outlet_for(local)].held.is_empty());
                    state.paths.has_socket_blocked = held != SocketBlock::Nothing;
                }
                if held == SocketBlock::All { None } else { state.core.poll_transmit(now, &mut buffer) }
            });
            let Some(transmit) = transmit else {
                self.keep(buffer);
                let is_unreachable = self.send_gathered(connection, now);
                return match held {
                    // The connection may have something to send on its other paths.
                    _ if is_unreachable => Turn::More,
                    SocketBlock::Nothing => Turn::Done,
                    SocketBlock::Some => Turn::PartlyBlocked,
                    SocketBlock::All => Turn::Blocked,
                };
            };
            sent += transmit.len;
            let at = self.outlet_for(transmit.tuple.local);
            if self.outlets[at].held.is_empty() {
                self.gather(connection, now, at, Batch { transmit, buffer, done: 0 });
            } else {
                // The socket is full. Paths with full sockets have been excluded, so the batch is a probe
                // from a local address that no path uses yet. It is dropped, as if the network had lost it.
                self.keep(buffer);
            }
        }
        self.send_gathered(connection, now);
        if self.is_blocked() { Turn::Blocked } else { Turn::More }
    }

    /// Adds a batch to those of its connection that are sent next. Sends those that are full, or that the new one does not
    /// continue.
    fn gather(&mut self, connection: &ConnectionInner, now: Time, at: usize, batch: Batch) {
        let tuple = batch.transmit.tuple;
        if let Some(index) = self.gathered.iter().position(|(_, other)| other.transmit.tuple == tuple) {
            let (_, before) = &mut self.gathered[index];
            if before.buffer.append(
                &mut before.transmit,
                &batch.transmit,
                batch.buffer.filled(&batch.transmit),
            ) {
                self.keep(batch.buffer);
                if self.gathered[index].1.is_full() {
                    let (at, full) = self.gathered.swap_remove(index);
                    self.send_for(connection, now, at, full);
                }
                return;
            }
            let (at, before) = self.gathered.swap_remove(index);
            self.send_for(connection, now, at, before);
        }
        if batch.is_full() {
            self.send_for(connection, now, at, batch);
        } else {
            self.gathered.push((at, batch));
        }
    }

    /// Sends the gathered batches. Returns whether addresses of one cannot be used.
    fn send_gathered(&mut self, connection: &ConnectionInner, now: Time) -> bool {
        let mut gathered = std::mem::take(&mut self.gathered);
        let mut is_unreachable = false;
        for (at, batch) in gathered.drain(..) {
            is_unreachable |= self.send_for(connection, now, at, batch);
        }
        self.gathered = gathered;
        is_unreachable
    }

    /// Sends a batch of `connection`, which learns if its addresses cannot be used. Returns whether that is so.
    fn send_for(&mut self, connection: &ConnectionInner, now: Time, at: usize, batch: Batch) -> bool {
        let tuple = batch.transmit.tuple;
        let unreachable = self.send(at, batch);
        if let Some(code) = unreachable {
            let cannot_send = |state: &mut State| state.on_unreachable(&connection.driver, now, tuple, code);
            connection.with_state(cannot_send).wake();
        }
        unreachable.is_some()
    }

    /// Sends the rest of a batch, or keeps it if the socket is full. Returns the system's error code if the
    /// address pair cannot be used.
    fn send(&mut self, at: usize, mut batch: Batch) -> Option<i32> {
        let outlet = &mut self.outlets[at];
        if !outlet.held.is_empty() {
            // The socket became full with another batch of the same turn.
            outlet.held.push_back(batch);
            return None;
        }
        let rest = &batch.buffer.filled(&batch.transmit)[batch.done..];
        let Sent { done, unreachable } = outlet.socket.send(&batch.transmit, rest);
        if done < rest.len() {
            batch.done += done;
            outlet.held.push_back(batch);
            self.held += 1;
        } else {
            self.keep(batch.buffer);
        }
        unreachable
    }

    /// Returns a buffer for as many datagrams as the most capable socket takes in one call.
    fn take_buffer(&mut self) -> TransmitBuf {
        let spare = self.spare.pop().filter(|buffer| buffer.max_datagrams() == self.segments);
        spare.unwrap_or_else(|| TransmitBuf::new(self.segments))
    }

    fn keep(&mut self, buffer: TransmitBuf) {
        if self.spare.len() < MAX_SPARE {
            self.spare.push(buffer);
        }
    }

    /// Returns the index of the socket that serves a path's local address. If no socket serves it, returns
    /// the index of the endpoint's own socket, which may have replaced the path's socket.
    fn outlet_for(&self, local: SocketAddr) -> usize {
        self.outlets.iter().position(|outlet| outlet.socket.serves(local)).unwrap_or(0)
    }
}

impl Batch {
    /// Returns whether nothing can be appended.
    fn is_full(&self) -> bool {
        let Transmit { len, segment_size, .. } = self.transmit;
        len.div_ceil(segment_size) >= self.buffer.max_datagrams()
            || len + segment_size > MAX_BATCH_BYTES
            || !len.is_multiple_of(segment_size)
    }
}
