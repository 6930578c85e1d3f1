//! Sends the packets of the connections on the sockets.

use std::net::SocketAddr;
use std::sync::Arc;
use std::task::Context;

use anabranch_transport::{SocketBlock, Transmit, TransmitBuf};
use anabranch_wire::Time;

use crate::connection_inner::{ConnectionInner, State};
use crate::socket::{Sent, Socket};

/// Maximum number of batches that a connection sends before the next one has its turn.
const BATCHES: usize = 8;

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

/// Sender of batches. If a socket is full, the rest of its batch is kept until the socket has room. Other
/// sockets are not delayed.
#[derive(Default)]
pub(super) struct Sender {
    outlets: Vec<Outlet>,
    /// Number of outlets that hold a batch.
    held: usize,
    /// Unused buffer.
    spare: Option<TransmitBuf>,
    /// Maximum number of datagrams that the most capable socket takes in one call.
    segments: usize,
}

/// A socket, and the batch that it had no room for.
struct Outlet {
    socket: Arc<Socket>,
    held: Option<Batch>,
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
            Outlet { socket: Arc::clone(socket), held: same.and_then(|outlet| outlet.held.take()) }
        }));
        self.held = self.outlets.iter().filter(|outlet| outlet.held.is_some()).count();
    }

    /// Returns whether every socket is full.
    pub(super) fn is_blocked(&self) -> bool {
        self.held == self.outlets.len()
    }

    /// Returns whether no batch waits for a socket.
    pub(super) fn holds_nothing(&self) -> bool {
        self.held == 0
    }

    /// Sends batches that sockets refused before, if they have room now. Returns whether at least one has
    /// been sent.
    pub(super) fn flush(&mut self, cx: &mut Context<'_>) -> bool {
        let before = self.held;
        for at in 0..self.outlets.len() {
            while let Some(batch) = self.outlets[at].held.take() {
                // An error of the socket itself is ignored here, because receiving on the socket reports it,
                // too.
                if self.outlets[at].socket.poll_writable(cx).is_pending() {
                    self.outlets[at].held = Some(batch);
                    break;
                }
                self.held -= 1;
                self.send(at, batch);
            }
        }
        self.held < before
    }

    /// Sends the pending packets of `connection`, as far as its turn allows.
    pub(super) fn send_from(&mut self, connection: &ConnectionInner, now: Time) -> Turn {
        // The limit is read again each time, because segmentation offload is switched off when an interface
        // turns out not to support it.
        self.segments = self.outlets.iter().map(|outlet| outlet.socket.max_segments()).max().unwrap_or(1);
        let mut held = SocketBlock::Nothing;
        for _ in 0..BATCHES {
            let mut buffer = self.take_buffer();
            let transmit = connection.with_state(|state| {
                if self.held > 0 || state.paths.has_socket_blocked {
                    held = state
                        .core
                        .set_socket_blocked(|local| self.outlets[self.outlet_for(local)].held.is_some());
                    state.paths.has_socket_blocked = held != SocketBlock::Nothing;
                }
                if held == SocketBlock::All { None } else { state.core.poll_transmit(now, &mut buffer) }
            });
            let Some(transmit) = transmit else {
                self.spare = Some(buffer);
                return match held {
                    SocketBlock::Nothing => Turn::Done,
                    SocketBlock::Some => Turn::PartlyBlocked,
                    SocketBlock::All => Turn::Blocked,
                };
            };
            let at = self.outlet_for(transmit.tuple.local);
            if self.outlets[at].held.is_some() {
                // The socket is full. Paths with full sockets have been excluded, so the batch is a probe
                // from a local address that no path uses yet. It is dropped, as if the network had lost it.
                self.spare = Some(buffer);
                continue;
            }
            if let Some(code) = self.send(at, Batch { transmit, buffer, done: 0 }) {
                let cannot_send =
                    |state: &mut State| state.on_unreachable(&connection.driver, now, transmit.tuple, code);
                connection.with_state(cannot_send).wake();
            }
        }
        if self.is_blocked() { Turn::Blocked } else { Turn::More }
    }

    /// Sends the rest of a batch; the socket's outlet must be empty. Returns the system's error code if the
    /// address pair cannot be used.
    fn send(&mut self, at: usize, mut batch: Batch) -> Option<i32> {
        let outlet = &mut self.outlets[at];
        let rest = &batch.buffer.filled(&batch.transmit)[batch.done..];
        let Sent { done, unreachable } = outlet.socket.send(&batch.transmit, rest);
        if done < rest.len() {
            batch.done += done;
            outlet.held = Some(batch);
            self.held += 1;
        } else {
            self.spare = Some(batch.buffer);
        }
        unreachable
    }

    /// Returns a buffer for as many datagrams as the most capable socket takes in one call.
    fn take_buffer(&mut self) -> TransmitBuf {
        let spare = self.spare.take().filter(|buffer| buffer.max_datagrams() == self.segments);
        spare.unwrap_or_else(|| TransmitBuf::new(self.segments))
    }

    /// Returns the index of the socket that serves a path's local address. If no socket serves it, returns
    /// the index of the endpoint's own socket, which may have replaced the path's socket.
    fn outlet_for(&self, local: SocketAddr) -> usize {
        self.outlets.iter().position(|outlet| outlet.socket.serves(local)).unwrap_or(0)
    }
}
