//! Misbehavior of one end of a [`Pair`]: frames that it would never send, forged headers, datagrams changed
//! in transit.

use anabranch_wire::{Direction, Frame, PacketKind, Side, TransportErrorCode, Writer};

use super::pair::{Flying, Pair, client_addr, direction, server_addr};
use crate::connection::Forged;
use crate::{ConnectionError, Event, FourTuple};

/// Encodes `frames` in order.
pub(super) fn encode(frames: &[Frame<'_>]) -> Vec<u8> {
    let mut bytes = vec![0; frames.iter().map(Frame::size).sum()];
    let mut writer = Writer::new(&mut bytes, direction());
    for frame in frames {
        writer.frame(frame).unwrap();
    }
    bytes
}

/// Encodes `frames` so that the peer reads them in order. With [`encode`] they are in memory in order, and a
/// backward reader reads the last of them first.
pub(super) fn encode_as_read(frames: &[Frame<'_>]) -> Vec<u8> {
    let parts: Vec<Vec<u8>> = frames.iter().map(|frame| encode(&[*frame])).collect();
    joined(&parts)
}

/// Joins parts of a payload so that the peer reads them in order. The bytes of a part stay as they are.
pub(super) fn joined<P: AsRef<[u8]>>(parts: &[P]) -> Vec<u8> {
    let bytes = parts.iter().map(|part| part.as_ref().to_vec());
    match direction() {
        Direction::Forward => bytes.collect::<Vec<_>>().concat(),
        Direction::Backward => bytes.rev().collect::<Vec<_>>().concat(),
    }
}

/// Returns `value` as a varint of 2 to the power of `log2_len` bytes, which may be more than it needs.
pub(super) fn varint(value: u64, log2_len: u8) -> Vec<u8> {
    let len = 1 << log2_len;
    let word = match direction() {
        Direction::Forward => value | u64::from(log2_len) << (8 * len - 2),
        Direction::Backward => value << 2 | u64::from(log2_len),
    };
    word.to_be_bytes()[8 - len..].to_vec()
}

/// Returns the payload of a PING, padded to the length that every kind of packet can have.
pub(super) fn ping() -> Vec<u8> {
    encode(&[Frame::Ping, Frame::Padding(3)])
}

impl Pair {
    /// Sends a datagram as if it came from `from`.
    pub(super) fn send_raw(&mut self, from: Side, bytes: Vec<u8>) {
        let at = self.now + self.delay;
        match from {
            Side::Client => {
                let tuple = FourTuple { local: server_addr(), remote: self.client_seen_as };
                self.to_server.push_back(Flying { at, tuple, ecn: None, bytes });
            }
            Side::Server => {
                let tuple = FourTuple { local: client_addr(), remote: server_addr() };
                self.to_client.push_back(Flying { at, tuple, ecn: None, bytes });
            }
        }
    }

    /// Makes `from` send a forged packet.
    pub(super) fn inject(&mut self, from: Side, forged: &Forged<'_>) {
        let now = self.now;
        let mut bytes = self.end(from).forge(now, forged);
        if forged.kind == PacketKind::Initial {
            bytes.resize(bytes.len().max(1200), 0);
        }
        self.send_raw(from, bytes);
    }

    /// Makes `from` send these frames in a 1-RTT packet.
    pub(super) fn inject_frames(&mut self, from: Side, frames: &[Frame<'_>]) {
        self.inject(from, &Forged::new(PacketKind::OneRtt, &encode(frames)));
    }

    /// Advances until both ends have keys for `kind`, and discards the datagrams in flight.
    pub(super) fn advance_to(&mut self, kind: PacketKind, from: Side) {
        match (kind, from) {
            (PacketKind::OneRtt, _) => {
                self.connect();
                self.run_until_quiet();
            }
            (PacketKind::Handshake, Side::Server) => {
                self.run_until_client_connected();
            }
            // The server has keys for `kind`. Its flight is lost, and the client stays silent for a while.
            _ => {
                self.run_until(std::time::Duration::from_secs(1), |pair| pair.server_handle.is_some());
                if kind == PacketKind::Handshake {
                    self.run_until_client_connected();
                }
            }
        }
        self.to_server.clear();
        self.to_client.clear();
    }

    fn run_until_client_connected(&mut self) {
        self.run_until(std::time::Duration::from_secs(1), |pair| {
            pair.client_events.iter().any(|event| matches!(event, Event::Connected { .. }))
        });
    }

    /// Returns the code of the CONNECTION_CLOSE that `side` received.
    pub(super) fn code_seen_by(&self, side: Side) -> Option<TransportErrorCode> {
        match self.closed(side) {
            Some(ConnectionError::PeerTransport(error)) => Some(error.code),
            _ => None,
        }
    }
}
