//! ICMP messages about packets that are not forwarded (RFC 792, RFC 4443).

use std::net::IpAddr;
use std::time::Duration;

use tokio::time::Instant;

use super::MIN_MTU;
use super::packet::{PacketHeader, transport_protocol};

/// Maximum number of ICMP messages for one tunnel in an interval of one second (RFC 4443 §2.4 (f), RFC 1812 §4.3.2.8).
pub const MAX_ICMP_RATE: u32 = 100;
/// Maximum length of an ICMP message for IPv4, in bytes (RFC 1812 §4.3.2.3).
const MAX_V4: usize = 576;

/// Returns the ICMP message that reports to the sender of `packet` that at most `mtu` bytes fit. Its source is the
/// destination of `packet`, because the network into which the message is sent has a route to that address. Returns `None`
/// if no message may be sent.
pub fn too_big(packet: &[u8], mtu: usize) -> Option<Vec<u8>> {
    let mtu = u16::try_from(mtu).unwrap_or(u16::MAX);
    let [high, low] = mtu.to_be_bytes();
    match PacketHeader::parse(packet)?.source {
        // "Fragmentation needed and DF set" (RFC 792, RFC 1191 §4).
        IpAddr::V4(_) => message(packet, [3, 4], [0, 0, high, low]),
        // "Packet too big" (RFC 4443 §3.2).
        IpAddr::V6(_) => message(packet, [2, 0], [0, 0, high, low]),
    }
}

/// Returns the ICMP message that reports to the sender of `packet` that a rule denies its destination; `None` if no message
/// may be sent.
pub fn prohibited(packet: &[u8]) -> Option<Vec<u8>> {
    match PacketHeader::parse(packet)?.source {
        // "Communication administratively prohibited" (RFC 1812 §5.2.7.1).
        IpAddr::V4(_) => message(packet, [3, 13], [0; 4]),
        // "Communication with destination administratively prohibited" (RFC 4443 §3.1).
        IpAddr::V6(_) => message(packet, [1, 1], [0; 4]),
    }
}

/// Returns the ICMP message that reports to the sender of `packet` that its destination cannot be reached; `None` if no
/// message may be sent.
pub fn unreachable(packet: &[u8]) -> Option<Vec<u8>> {
    match PacketHeader::parse(packet)?.source {
        // "Host unreachable" (RFC 792).
        IpAddr::V4(_) => message(packet, [3, 1], [0; 4]),
        // "Address unreachable" (RFC 4443 §3.1).
        IpAddr::V6(_) => message(packet, [1, 3], [0; 4]),
    }
}

/// Builds a message. `kind` is its type and code, and `rest` the four bytes between its checksum and the quoted part of
/// `packet`.
fn message(packet: &[u8], kind: [u8; 2], rest: [u8; 4]) -> Option<Vec<u8>> {
    let header = PacketHeader::parse(packet)?;
    if !may_report(packet, &header) {
        return None;
    }
    let icmp = [&kind[..], &[0, 0], &rest].concat();
    Some(match (header.source, header.destination) {
        (IpAddr::V4(to), IpAddr::V4(from)) => {
            let quoted = &packet[..packet.len().min(MAX_V4 - 28)];
            let icmp = [&icmp, quoted].concat();
            let mut ip = vec![0x45, 0, 0, 0, 0, 0, 0, 0, 64, transport_protocol::ICMP, 0, 0];
            ip.extend(from.octets());
            ip.extend(to.octets());
            ip[2..4].copy_from_slice(&u16::try_from(20 + icmp.len()).ok()?.to_be_bytes());
            let sum = checksum(&[&ip]);
            ip[10..12].copy_from_slice(&sum);
            ip.extend(with_checksum(icmp, &[]));
            ip
        }
        (IpAddr::V6(to), IpAddr::V6(from)) => {
            let quoted = &packet[..packet.len().min(MIN_MTU - 48)];
            let icmp = [&icmp, quoted].concat();
            let len = u16::try_from(icmp.len()).ok()?.to_be_bytes();
            let mut ip = vec![0x60, 0, 0, 0, len[0], len[1], transport_protocol::ICMPV6, 64];
            ip.extend(from.octets());
            ip.extend(to.octets());
            // The pseudo-header of RFC 8200 §8.1.
            let pseudo = [&ip[8..40], &[0, 0, len[0], len[1], 0, 0, 0, transport_protocol::ICMPV6]].concat();
            ip.extend(with_checksum(icmp, &pseudo));
            ip
        }
        _ => return None,
    })
}

/// Returns whether a message about the packet may be sent (RFC 1122 §3.2.2, RFC 4443 §2.4 (e)): not about ICMP errors,
/// fragments other than the first, or packets whose source or destination is no address of a single host.
fn may_report(packet: &[u8], header: &PacketHeader) -> bool {
    let kind = packet.get(header.transport).copied();
    let is_error = match header.protocol {
        transport_protocol::ICMP => !matches!(kind, Some(0 | 8 | 13..=18)),
        transport_protocol::ICMPV6 => kind.is_none_or(|kind| kind < 128),
        _ => false,
    };
    !is_error && !header.is_later_fragment && is_single(header.source) && is_single(header.destination)
}

/// Returns whether an address is that of a single host. Zero, loopback, multicast, broadcast and class E addresses are not
/// (RFC 1122 §3.2.2).
fn is_single(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => !matches!(address.octets()[0], 0 | 127 | 224..),
        IpAddr::V6(address) => !address.is_unspecified() && !address.is_loopback() && !address.is_multicast(),
    }
}

fn with_checksum(mut icmp: Vec<u8>, pseudo: &[u8]) -> Vec<u8> {
    let sum = checksum(&[pseudo, &icmp]);
    icmp[2..4].copy_from_slice(&sum);
    icmp
}

/// Computes the checksum of RFC 1071 over parts of which all but the last have an even length.
fn checksum(parts: &[&[u8]]) -> [u8; 2] {
    let mut sum = 0_u32;
    for part in parts {
        for pair in part.chunks(2) {
            sum += u32::from(u16::from_be_bytes([pair[0], pair.get(1).copied().unwrap_or(0)]));
        }
    }
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    (!(sum as u16)).to_be_bytes()
}

/// Limit on the ICMP messages of one tunnel.
#[derive(Debug)]
pub struct IcmpLimit {
    begun: Instant,
    sent: u32,
}

impl Default for IcmpLimit {
    fn default() -> Self {
        Self { begun: Instant::now(), sent: 0 }
    }
}

impl IcmpLimit {
    /// Counts a message. Returns whether it may be sent: the first [`MAX_ICMP_RATE`] ones of each interval of one second.
    pub fn allows(&mut self) -> bool {
        let now = Instant::now();
        if now.duration_since(self.begun) >= Duration::from_secs(1) {
            (self.begun, self.sent) = (now, 0);
        }
        self.sent += 1;
        self.sent <= MAX_ICMP_RATE
    }
}

#[cfg(test)]
mod tests;
