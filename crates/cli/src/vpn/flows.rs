//! UDP flows with rules that IP packets cannot keep: copies on a second path, and order. They travel like those of `anabranch
//! forward` (RFC 9298).

use std::net::SocketAddr;
use std::time::Duration;

use anabranch::proxy::client::Target;
use anabranch::proxy::ip::PacketHeader;
use anabranch::proxy::ip::transport_protocol::UDP;
use bytes::Bytes;
use smoltcp::phy::ChecksumCapabilities;
use smoltcp::wire::{IpAddress, IpProtocol, IpRepr, UdpPacket, UdpRepr};
use tokio::sync::{mpsc, watch};

use crate::proxy::connect::flows::{self, Flows, Terms};
use crate::proxy::connect::link::Client;
use crate::tun::Packet;

/// Time without datagrams after which a flow ends.
const IDLE: Duration = Duration::from_secs(60);
/// Length of a UDP header, in bytes.
const HEADER: usize = 8;
/// Time to live of packets to programs.
const HOP_LIMIT: u8 = 64;

/// Source and destination of a program's datagrams.
type Ends = (SocketAddr, SocketAddr);

/// UDP flows of this host's programs.
pub(super) struct UdpFlows {
    /// Client of new flows.
    current: watch::Receiver<Client>,
    flows: Flows<Ends>,
    out: mpsc::Sender<Packet>,
    mtu: usize,
}

impl UdpFlows {
    /// Begins without flows. Packets to programs, of at most `mtu` bytes, go to `out`.
    pub(super) fn new(current: watch::Receiver<Client>, out: mpsc::Sender<Packet>, mtu: usize) -> Self {
        Self { current, flows: Flows::new(), out, mtu }
    }

    /// Sends the datagram of a packet if a rule demands copies or order for its port. Returns whether it does; otherwise the packet
    /// has to travel as it is.
    pub(super) fn take(&mut self, header: &PacketHeader, packet: &[u8]) -> bool {
        let Some(port) = header.destination_port.filter(|_| header.protocol == UDP) else { return false };
        let wishes = self.current.borrow().rules().of(port);
        if !wishes.has_copies() && wishes.order().is_none() {
            return false;
        }
        let Some((ends, payload)) = datagram(header, packet) else { return false };
        let Self { current, flows, out, mtu } = self;
        flows.pass(&ends, Bytes::copy_from_slice(payload), |inbox| {
            let terms = Terms { client: current.borrow().clone(), idle: IDLE };
            let (out, mtu) = (out.clone(), *mtu);
            let deliver = move |payload: Bytes| {
                // A device that is busy loses packets, as any link does.
                if let Some(packet) = answer(ends, &payload, mtu) {
                    let _ = out.try_send(packet);
                }
                std::future::ready(())
            };
            flows::carry(terms, Target::from(ends.1), inbox, deliver)
        });
        true
    }
}

/// Returns the ends and the payload of a whole UDP datagram; `None` for anything else.
fn datagram<'p>(header: &PacketHeader, packet: &'p [u8]) -> Option<(Ends, &'p [u8])> {
    if header.protocol != UDP || header.is_fragment {
        return None;
    }
    let source = SocketAddr::new(header.source, header.source_port?);
    let destination = SocketAddr::new(header.destination, header.destination_port.filter(|port| *port != 0)?);
    let udp = UdpPacket::new_checked(packet.get(header.transport..)?).ok()?;
    let len = usize::from(udp.len());
    let payload = packet.get(header.transport + HEADER..header.transport + len)?;
    Some(((source, destination), payload))
}

/// Returns the packet that answers a program; `None` if it is longer than `mtu`.
fn answer((program, target): Ends, payload: &[u8], mtu: usize) -> Option<Packet> {
    let (from, to) = (IpAddress::from(target.ip()), IpAddress::from(program.ip()));
    let udp = UdpRepr { src_port: target.port(), dst_port: program.port() };
    let ip = IpRepr::new(from, to, IpProtocol::Udp, HEADER + payload.len(), HOP_LIMIT);
    let header = ip.header_len();
    if ip.buffer_len() > mtu {
        return None;
    }
    let checksums = ChecksumCapabilities::default();
    let mut bytes = vec![0; ip.buffer_len()];
    ip.emit(&mut bytes, &checksums);
    let copy = |room: &mut [u8]| room.copy_from_slice(payload);
    let mut packet = UdpPacket::new_unchecked(&mut bytes[header..]);
    udp.emit(&mut packet, &from, &to, payload.len(), copy, &checksums);
    Some(Packet::new(&bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_have_the_ends_exchanged() {
        for (program, target) in [("10.9.0.2:5", "192.0.2.1:443"), ("[fd09::2]:5", "[2001:db8::1]:443")] {
            let (program, target): Ends = (program.parse().unwrap(), target.parse().unwrap());
            // The packet of a program is the answer in the other direction.
            let packet = answer((target, program), b"hello", 1_500).unwrap();
            let header = PacketHeader::parse(packet.bytes()).unwrap();
            let (ends, payload) = datagram(&header, packet.bytes()).unwrap();
            assert_eq!((ends, payload), ((program, target), &b"hello"[..]));
            assert!(answer((target, program), &[0; 1_473], 1_500).is_none());
        }
    }

    #[test]
    fn fragments_and_packets_that_are_cut_off_travel_as_they_are() {
        let ends: Ends = ("192.0.2.1:443".parse().unwrap(), "10.9.0.2:5".parse().unwrap());
        let whole = answer(ends, b"hello", 1_500).unwrap().bytes().to_vec();
        let taken = |packet: &[u8]| {
            PacketHeader::parse(packet).is_some_and(|header| datagram(&header, packet).is_some())
        };
        assert!(taken(&whole));
        let mut first = whole.clone();
        first[6] |= 0x20;
        assert!(!taken(&first));
        let mut longer = whole.clone();
        longer[25] += 1;
        assert!(!taken(&longer));
        let mut other = whole;
        other[9] = 1;
        assert!(!taken(&other));
    }
}
