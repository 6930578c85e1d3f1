//! A datagram on its way, and the buffers that datagrams are kept in.

use std::net::SocketAddr;

use anabranch_wire::Ecn;

/// A UDP datagram inside the network.
#[derive(Debug, PartialEq, Eq)]
pub struct Packet {
    /// Sender as the receiver will see it.
    pub source: SocketAddr,
    /// Receiver.
    pub destination: SocketAddr,
    /// ECN codepoint, `None` for Not-ECT.
    pub ecn: Option<Ecn>,
    /// UDP payload.
    pub payload: Vec<u8>,
}

/// Buffers of packets that have arrived or were dropped, ready for the next ones: in steady state nothing is
/// allocated.
#[derive(Debug, Default)]
pub struct Buffers {
    spare: Vec<Vec<u8>>,
}

/// Spare buffers kept at most: more than a long fat link ever has in flight in practice.
const MAX_SPARE: usize = 16_384;

impl Buffers {
    /// Returns a buffer that holds a copy of `payload`.
    pub fn copy(&mut self, payload: &[u8]) -> Vec<u8> {
        let mut buffer = self.spare.pop().unwrap_or_default();
        buffer.clear();
        buffer.extend_from_slice(payload);
        buffer
    }

    /// Gives a buffer back.
    pub fn give(&mut self, buffer: Vec<u8>) {
        if self.spare.len() < MAX_SPARE {
            self.spare.push(buffer);
        }
    }
}
