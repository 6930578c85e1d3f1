//! IP packets in HTTP (RFC 9484): headers, ICMP messages and capsules that both ends of CONNECT-IP use.
//!
//! [`PacketHeader`] is what proxies look at in a packet. [`too_big`], [`prohibited`] and [`unreachable()`] are the ICMP messages
//! that they send back. [`AssignedAddress`] and [`IpRange`] are the contents of the capsules by which a proxy assigns addresses
//! and announces routes.

mod address;
mod capsule;
mod icmp;
mod packet;

pub use self::address::{AssignedAddress, IpRange};
pub use self::icmp::{IcmpLimit, MAX_ICMP_RATE, prohibited, too_big, unreachable};
pub use self::packet::{PacketHeader, transport_protocol};

pub(crate) use self::capsule::{ADDRESS_ASSIGN, ADDRESS_REQUEST, MAX_ENTRIES, ROUTE_ADVERTISEMENT};

use std::net::IpAddr;

/// Path of the default template (RFC 9484 §3) for all targets and all protocols.
pub(crate) const EVERYTHING: &str = "/.well-known/masque/ip/*/*/";
/// Path of the default template (RFC 9484 §3) in front of its variables.
pub(crate) const PREFIX: &str = "/.well-known/masque/ip/";
/// Context ID of IP packets (RFC 9484 §6).
pub(crate) const PACKETS: u8 = 0;
/// Minimum MTU of a tunnel, in bytes: the minimum MTU of IPv6 (RFC 8200 §5, RFC 9484 §10.1). Packets of up to this length
/// that do not fit into a DATAGRAM frame are sent as capsules.
pub const MIN_MTU: usize = 1_280;
/// Maximum length of an IP packet, in bytes.
pub(crate) const MAX_PACKET: usize = 65_535;

/// Returns the number of bits of an address.
pub(crate) fn bits(address: IpAddr) -> u8 {
    if address.is_ipv4() { 32 } else { 128 }
}
