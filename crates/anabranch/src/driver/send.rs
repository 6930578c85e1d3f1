//! From the connections to the sockets.

use std::net::SocketAddr;
use std::sync::Arc;
use std::task::Context;

use anabranch_transport::{SocketBlock, Transmit, TransmitBuf};
use anabranch_wire::Time;

use crate::connection_inner::ConnectionInner;
use crate::socket::{Sent, Socket};

/// Batches that one connection may send before the next one has its turn.
const BATCHES: usize = 8;

/// Outcome of a connection's turn to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    /// Everything was sent.
    Done,
    /// There may be more.
    More,
    /// Some of its paths wait for their sockets; everything else was sent.
    PartlyBlocked,
    /// All of its paths wait for their sockets.
    Blocked,
}

/// Sends batches. What a full socket did not take is kept for it, and holds up nobody else.
#[derive(Default)]
pub(super) struct Sender {
    outlets: Vec<Outlet>,
    /// Outlets that hold something.
    held: usize,
    /// A buffer that is not in use.
    spare: Option<TransmitBuf>,
    /// Datagrams that the best socket takes at once.
    segments: usize,
}

/// A socket, and the batch that it has not taken yet.
struct Outlet {
    socket: Arc<Socket>,
    held: Option<Batch>,
}

struct Batch {
    transmit: Transmit,
    buffer: TransmitBuf,
    /// Bytes that are gone.
    done: usize,
}

impl Sender {
    pub(super) fn new(sockets: &[Arc<Socket>]) -> Self {
        let mut sender = Self::default();
        sender.set_sockets(sockets);
        sender
    }

    /// Replaces the endpoint's sockets. Batches held for sockets that stay are kept.
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

    /// Returns whether no refused batch still waits for a socket.
    pub(super) fn holds_nothing(&self) -> bool {
        self.held == 0
    }

    /// Hands over what sockets refused before, if they have room now. Says whether one has that had not.
    pub(super) fn flush(&mut self, cx: &mut Context<'_>) -> bool {
        let before = self.held;
        for at in 0..self.outlets.len() {
            while let Some(batch) = self.outlets[at].held.take() {
                // An error here is one of the socket itself; receiving meets it, too, and reports it.
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

    /// Sends what `connection` has to send.
    pub(super) fn send_from(&mut self, connection: &ConnectionInner, now: Time) -> Turn {
        // The kernel may withdraw segmentation offload when it turns out that an interface has none.
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
                // A probe from a local address that no path uses yet: it is lost, as it might be on the way.
                self.spare = Some(buffer);
                continue;
            }
            if let Some(code) = self.send(at, Batch { transmit, buffer, done: 0 }) {
                connection
                    .with_state(|state| state.on_unreachable(&connection.driver, now, transmit.tuple, code));
            }
        }
        if self.is_blocked() { Turn::Blocked } else { Turn::More }
    }

    /// Sends what is left of a batch; the socket's outlet holds nothing. Gives the system's code if the
    /// addresses are of no use.
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

    /// Returns a buffer for as many datagrams as the most capable socket takes at once.
    fn take_buffer(&mut self) -> TransmitBuf {
        let spare = self.spare.take().filter(|buffer| buffer.max_datagrams() == self.segments);
        spare.unwrap_or_else(|| TransmitBuf::new(self.segments))
    }

    /// Returns the socket that serves a path's local address; after a rebinding, the socket that replaced it.
    fn outlet_for(&self, local: SocketAddr) -> usize {
        self.outlets.iter().position(|outlet| outlet.socket.serves(local)).unwrap_or(0)
    }
}
