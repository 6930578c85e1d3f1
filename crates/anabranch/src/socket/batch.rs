//! Batches of datagrams that one system call receives.

use std::io::{self, IoSliceMut};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::atomic::Ordering;

use anabranch_transport::{Datagram, FourTuple};
use anabranch_wire::Ecn;
use quinn_udp::RecvMeta;

use super::Socket;

/// Maximum number of buffers that one system call fills. With GRO each can hold 64 datagrams.
pub(super) const RECEIVE_BUFFERS: usize = 16;
/// Size of a buffer in bytes. Neither a UDP payload nor a group of datagrams that GRO coalesces is longer.
const RECEIVE_BUFFER_BYTES: usize = 65_536;

/// Reusable memory for the datagrams of one system call.
pub(crate) struct ReceiveBatch {
    bytes: Vec<u8>,
    meta: [RecvMeta; RECEIVE_BUFFERS],
    filled: usize,
    local: SocketAddr,
}

impl Default for ReceiveBatch {
    /// Creates a batch without memory, as a placeholder for one that is in use.
    fn default() -> Self {
        Self {
            bytes: Vec::new(),
            meta: [RecvMeta::default(); RECEIVE_BUFFERS],
            filled: 0,
            local: SocketAddr::new(IpAddr::from([0, 0, 0, 0]), 0),
        }
    }
}

impl ReceiveBatch {
    pub(crate) fn new() -> Self {
        Self { bytes: vec![0; RECEIVE_BUFFERS * RECEIVE_BUFFER_BYTES], ..Self::default() }
    }

    pub(super) fn fill(&mut self, socket: &Socket) -> io::Result<()> {
        self.filled = 0;
        let mut chunks = self.bytes.chunks_exact_mut(RECEIVE_BUFFER_BYTES);
        let mut slices: [IoSliceMut<'_>; RECEIVE_BUFFERS] =
            std::array::from_fn(|_| IoSliceMut::new(chunks.next().unwrap_or_default()));
        let used = socket.receive_buffers.load(Ordering::Relaxed);
        self.filled =
            socket.state().recv((&socket.io).into(), &mut slices[..used], &mut self.meta[..used])?;
        self.local = socket.local;
        Ok(())
    }

    /// Returns the datagrams in order of arrival, borrowed from this memory. Multicast and broadcast
    /// datagrams are skipped: QUIC is unicast, and their destination address cannot be the source of a
    /// response.
    pub(crate) fn datagrams(&mut self) -> impl Iterator<Item = Datagram<'_>> {
        let local = self.local;
        let buffers = self.bytes.chunks_exact_mut(RECEIVE_BUFFER_BYTES);
        let received = self.meta[..self.filled].iter().zip(buffers);
        let unicast = received.filter(|(meta, _)| meta.dst_ip.is_none_or(is_unicast));
        unicast.flat_map(move |(meta, buffer)| {
            let ip = meta.dst_ip.unwrap_or_else(|| local.ip());
            let tuple = FourTuple { local: SocketAddr::new(ip, local.port()), remote: meta.addr };
            let ecn = meta.ecn.and_then(|ecn| Ecn::from_bits(ecn as u8));
            buffer[..meta.len].chunks_mut(meta.stride.max(1)).map(move |payload| Datagram {
                tuple,
                ecn,
                payload,
            })
        })
    }
}

fn is_unicast(ip: IpAddr) -> bool {
    let ip = ip.to_canonical();
    !ip.is_multicast() && ip != IpAddr::from(Ipv4Addr::BROADCAST)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn datagrams_to_a_group_are_dropped() {
        let to = |ip: &str| {
            let mut batch =
                ReceiveBatch { bytes: vec![0; RECEIVE_BUFFER_BYTES], filled: 1, ..ReceiveBatch::default() };
            batch.meta[0].len = 1200;
            batch.meta[0].stride = 1200;
            batch.meta[0].dst_ip = Some(ip.parse().unwrap());
            batch.datagrams().count()
        };
        assert_eq!([to("192.0.2.1"), to("2001:db8::1"), to("::ffff:192.0.2.1")], [1; 3]);
        assert_eq!([to("224.0.0.1"), to("255.255.255.255"), to("ff02::1"), to("::ffff:224.0.0.1")], [0; 4]);
    }
}
