//! From the connections to the sockets.

use std::sync::Arc;
use std::task::{Context, Poll, ready};

use anabranch_transport::{Transmit, TransmitBuf};
use anabranch_wire::Time;

use crate::member::Member;
use crate::socket::Socket;

/// Batches that one connection may send before the next one has its turn.
const BATCHES: usize = 8;

/// Sends batches; keeps the one that a full socket did not take.
pub(super) struct Sender {
    sockets: Vec<Arc<Socket>>,
    buffer: TransmitBuf,
    /// With the number of its bytes that are gone.
    blocked: Option<(Transmit, usize)>,
}

impl Sender {
    pub(super) fn new(sockets: &[Arc<Socket>]) -> Self {
        let mut sender = Self { sockets: sockets.to_vec(), buffer: TransmitBuf::new(1), blocked: None };
        sender.fit_buffer();
        sender
    }

    /// The kernel may withdraw segmentation offload when it turns out that the interface has none.
    fn fit_buffer(&mut self) {
        let segments = self.sockets.iter().map(|socket| socket.max_segments()).min().unwrap_or(1);
        if self.buffer.max_datagrams() != segments {
            self.buffer = TransmitBuf::new(segments);
        }
    }

    pub(super) fn is_blocked(&self) -> bool {
        self.blocked.is_some()
    }

    /// Ready once the socket has taken what it refused before.
    pub(super) fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        while let Some((transmit, done)) = self.blocked {
            // An error here is one of the socket itself; receiving meets it, too, and reports it.
            let _ = ready!(self.socket_for(&transmit).poll_writable(cx));
            self.send(transmit, done);
        }
        Poll::Ready(())
    }

    /// Sends what `member` has to send. Says whether there may be more.
    pub(super) fn send_from(&mut self, member: &Member, now: Time) -> bool {
        self.fit_buffer();
        for _ in 0..BATCHES {
            let Some(transmit) = member.look(|state| state.core.poll_transmit(now, &mut self.buffer)) else {
                return false;
            };
            self.send(transmit, 0);
            if self.is_blocked() {
                break;
            }
        }
        true
    }

    /// Sends what is left of the batch after its first `done` bytes.
    fn send(&mut self, transmit: Transmit, done: usize) {
        let rest = &self.buffer.filled(&transmit)[done..];
        let sent = self.socket_for(&transmit).send(&transmit, rest);
        self.blocked = (sent < rest.len()).then_some((transmit, done + sent));
    }

    /// The socket that serves the path's local address; after a rebinding, whatever took its place.
    fn socket_for(&self, transmit: &Transmit) -> &Arc<Socket> {
        let serving = self.sockets.iter().find(|socket| socket.serves(transmit.tuple.local));
        serving.unwrap_or(&self.sockets[0])
    }
}
