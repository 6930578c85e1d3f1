//! Headers of IP packets.

use std::net::IpAddr;

/// Maximum number of extension headers of an IPv6 packet that are parsed. The transport protocol and the ports of a packet
/// with more are not found.
const MAX_EXTENSIONS: usize = 8;
/// Length of an IPv6 header without extension headers, in bytes.
const V6_HEADER: usize = 40;

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
    /// Offset of the transport header, in bytes. It may be beyond the end of a malformed packet.
    pub transport: usize,
    /// Source port of TCP and UDP; `None` for other protocols, for fragments other than the first, and if the packet ends
    /// before it.
    pub source_port: Option<u16>,
    /// Destination port, with the same exceptions as `source_port`.
    pub destination_port: Option<u16>,
    /// `true` if this is a fragment but not the first one.
    pub is_later_fragment: bool,
    /// `true` if routers may fragment the packet: IPv4 without DF.
    pub may_fragment: bool,
}

impl PacketHeader {
    /// Parses the headers of a packet; `None` unless the bytes are exactly one IPv4 or IPv6 packet.
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
            is_later_fragment: fragment & 0x1fff != 0,
            may_fragment: fragment & 0x4000 == 0,
        };
        Some(header.with_ports(packet))
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
            is_later_fragment: false,
            may_fragment: false,
        };
        for _ in 0..MAX_EXTENSIONS {
            let at = header.transport;
            let len = match header.protocol {
                // Hop-by-hop options, routing, destination options (RFC 8200 §4).
                0 | 43 | 60 => 8 * (1 + usize::from(*packet.get(at + 1)?)),
                44 => {
                    header.is_later_fragment |= u16_at(packet, at + 2)? & 0xfff8 != 0;
                    8
                }
                // Authentication header (RFC 4302 §2.2).
                51 => 4 * (2 + usize::from(*packet.get(at + 1)?)),
                _ => break,
            };
            header.protocol = *packet.get(at)?;
            header.transport = at + len;
            if header.is_later_fragment {
                break;
            }
        }
        Some(header.with_ports(packet))
    }

    fn with_ports(mut self, packet: &[u8]) -> Self {
        if matches!(self.protocol, transport_protocol::TCP | transport_protocol::UDP)
            && !self.is_later_fragment
        {
            self.source_port = u16_at(packet, self.transport);
            self.destination_port = u16_at(packet, self.transport + 2);
        }
        self
    }
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    array::<2>(bytes, at).map(u16::from_be_bytes)
}

fn array<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..)?.first_chunk().copied()
}

#[cfg(test)]
mod tests;
