//! Headers of IP packets.

use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;
use std::sync::LazyLock;

use super::super::copies::LIFETIME;
use crate::DatagramTerms;

/// Maximum number of extension headers of an IPv6 packet. The transport header of a packet with more is not found, so the
/// packet is refused.
const MAX_EXTENSIONS: usize = 8;
/// Length of an IPv6 header without extension headers, in bytes.
const V6_HEADER: usize = 40;
/// Minimum length of a TCP header (RFC 9293 §3.1) and, below, length of a UDP header, in bytes.
const TCP_HEADER: usize = 20;
const UDP_HEADER: usize = 8;

/// Protocol number of the fragment header (RFC 8200 §4.5).
const FRAGMENT: u8 = 44;
/// Protocol number of the authentication header (RFC 4302 §2).
const AUTHENTICATION: u8 = 51;

/// Hash function for flows, which clients cannot foresee.
static FLOWS: LazyLock<RandomState> = LazyLock::new(RandomState::new);

/// Protocol numbers.
pub mod transport_protocol {
    /// ICMP for IPv4 (RFC 792).
    pub const ICMP: u8 = 1;
    /// TCP (RFC 9293).
    pub const TCP: u8 = 6;
    /// UDP (RFC 768).
    pub const UDP: u8 = 17;
    /// ICMP for IPv6 (RFC 4443).
    pub const ICMPV6: u8 = 58;
}

/// Fields of an IP packet's headers by which a proxy decides whether it forwards the packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PacketHeader {
    /// Source address.
    pub source: IpAddr,
    /// Destination address.
    pub destination: IpAddr,
    /// Protocol number of the header at `transport`, which follows the extension headers.
    pub protocol: u8,
    /// Offset of the transport header, in bytes.
    pub transport: usize,
    /// Source port of TCP and UDP; `None` for other protocols, and for fragments other than the first.
    pub source_port: Option<u16>,
    /// Destination port, with the same exceptions as `source_port`.
    pub destination_port: Option<u16>,
    /// `true` if this is a fragment, the first one included.
    pub is_fragment: bool,
    /// `true` if this is a fragment but not the first one.
    pub is_later_fragment: bool,
    /// `true` if routers may fragment the packet: IPv4 without DF.
    pub may_fragment: bool,
}

impl PacketHeader {
    /// Returns the terms on which the packet is sent: as one of its flow, and not after the time that is usual for
    /// datagrams.
    pub(in crate::proxy) fn terms(&self) -> DatagramTerms {
        DatagramTerms::default().with_flow(self.flow()).with_lifetime(LIFETIME)
    }

    /// Returns a number for the packet's flow: its protocol, addresses and ports. Fragments other than the first have no ports, and
    /// are a flow of their own.
    fn flow(&self) -> u64 {
        // Two flows with the same number would only take their turns together.
        FLOWS.hash_one((
            self.protocol,
            self.source,
            self.source_port,
            self.destination,
            self.destination_port,
        ))
    }

    /// Parses the headers of a packet; `None` unless the bytes are exactly one IPv4 or IPv6 packet. A packet or first fragment
    /// must have its whole header chain, up to the TCP or UDP header (RFC 7112 §5), with at most 8 IPv6 extension headers.
    /// Otherwise rules for its ports could not be applied to it.
    pub fn parse(packet: &[u8]) -> Option<Self> {
        match packet.first()? >> 4 {
            4 => Self::parse_v4(packet),
            6 => Self::parse_v6(packet),
            _ => None,
        }
    }

    fn parse_v4(packet: &[u8]) -> Option<Self> {
        let transport = usize::from(packet[0] & 0xf) * 4;
        if transport < 20 || packet.len() < transport || usize::from(u16_at(packet, 2)?) != packet.len() {
            return None;
        }
        let fragment = u16_at(packet, 6)?;
        let header = Self {
            source: IpAddr::from(array::<4>(packet, 12)?),
            destination: IpAddr::from(array::<4>(packet, 16)?),
            protocol: packet[9],
            transport,
            source_port: None,
            destination_port: None,
            is_fragment: fragment & 0x3fff != 0,
            is_later_fragment: fragment & 0x1fff != 0,
            may_fragment: fragment & 0x4000 == 0,
        };
        header.with_ports(packet)
    }

    fn parse_v6(packet: &[u8]) -> Option<Self> {
        if packet.len() < V6_HEADER || usize::from(u16_at(packet, 4)?) + V6_HEADER != packet.len() {
            return None;
        }
        let mut header = Self {
            source: IpAddr::from(array::<16>(packet, 8)?),
            destination: IpAddr::from(array::<16>(packet, 24)?),
            protocol: packet[6],
            transport: V6_HEADER,
            source_port: None,
            destination_port: None,
            is_fragment: false,
            is_later_fragment: false,
            may_fragment: false,
        };
        let mut count = 0;
        while is_extension(header.protocol) && !header.is_later_fragment {
            if count == MAX_EXTENSIONS {
                return None;
            }
            count += 1;
            let at = header.transport;
            let (next, len) = (*packet.get(at)?, usize::from(*packet.get(at + 1)?));
            header.transport += match header.protocol {
                FRAGMENT => 8,
                AUTHENTICATION => 4 * (2 + len),
                _ => 8 * (1 + len),
            };
            if header.protocol == FRAGMENT {
                header.is_fragment = true;
                header.is_later_fragment = u16_at(packet, at + 2)? & 0xfff8 != 0;
            }
            header.protocol = next;
        }
        header.with_ports(packet)
    }

    /// Returns the header with its ports; `None` if the packet ends before or within the transport header.
    fn with_ports(mut self, packet: &[u8]) -> Option<Self> {
        let len = match self.protocol {
            _ if self.is_later_fragment => 0,
            transport_protocol::TCP => TCP_HEADER,
            transport_protocol::UDP => UDP_HEADER,
            _ => 0,
        };
        let transport = packet.get(self.transport..)?.get(..len)?;
        if len > 0 {
            self.source_port = u16_at(transport, 0);
            self.destination_port = u16_at(transport, 2);
        }
        Some(self)
    }
}

/// Returns whether a protocol number is that of an extension header behind which another header follows in plain text: also
/// hop-by-hop options, routing, destination options (RFC 8200 §4), mobility (RFC 6275 §6.1.1), HIP (RFC 7401 §5.1) and Shim6
/// (RFC 5533 §5).
fn is_extension(protocol: u8) -> bool {
    matches!(protocol, FRAGMENT | AUTHENTICATION | 0 | 43 | 60 | 135 | 139 | 140)
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    array::<2>(bytes, at).map(u16::from_be_bytes)
}

fn array<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..)?.first_chunk().copied()
}

#[cfg(test)]
mod tests;
