//! Packets in the network, and a pool of buffers for their payloads.

use std::net::SocketAddr;

use anabranch_wire::Ecn;

/// A UDP datagram inside the network.
#[derive(Debug, PartialEq, Eq)]
pub struct Packet {
    /// Source address as the receiver sees it.
    pub source: SocketAddr,
    /// Destination address.
    pub destination: SocketAddr,
    /// ECN codepoint, `None` for Not-ECT.
    pub ecn: Option<Ecn>,
    /// UDP payload.
    pub payload: Vec<u8>,
}

/// Pool of buffers of packets that have arrived or were dropped. In steady state no memory is allocated.
#[derive(Debug, Default)]
pub struct Buffers {
    spare: Vec<Vec<u8>>,
}

/// Maximum number of spare buffers. In practice even a long fat link has fewer packets in flight.
const MAX_SPARE: usize = 16_384;

impl Buffers {
    /// Returns a buffer that holds a copy of `payload`.
    pub fn copy(&mut self, payload: &[u8]) -> Vec<u8> {
        let mut buffer = self.spare.pop().unwrap_or_default();
        buffer.clear();
        buffer.extend_from_slice(payload);
        buffer
    }

    /// Returns a buffer to the pool.
    pub fn give(&mut self, buffer: Vec<u8>) {
        if self.spare.len() < MAX_SPARE {
            self.spare.push(buffer);
        }
    }
}
