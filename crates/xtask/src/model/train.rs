//! Packet trains: a link, and the packets sent over it at given times.

use std::fmt::Write as _;

use anabranch_lab::link::Limit;

/// Size of the IPv4 and UDP headers of each packet, in bytes.
pub(super) const IPV4_UDP: u32 = 28;
/// Number of bytes that PPP adds to a packet in ns-3.
pub(super) const PPP: u32 = 2;

/// Arrival time of a packet's last bit in nanoseconds; `None` if the packet was dropped.
pub(super) type Arrival = Option<u64>;

/// Link in one direction, and the packets sent over it.
#[derive(Clone, Debug)]
pub(super) struct Train {
    /// Rate in bits per second.
    pub(super) rate: u64,
    /// Propagation delay in nanoseconds.
    pub(super) delay: u64,
    pub(super) limit: Limit,
    /// `true` if, in ns-3, a packet sent at the instant at which a transmission ends is handled before that
    /// end.
    pub(super) sends_first: bool,
    /// Packets in the order in which they are sent.
    pub(super) packets: Vec<Packet>,
}

/// Packet of a train.
#[derive(Clone, Copy, Debug)]
pub(super) struct Packet {
    /// Send time in nanoseconds after the train's start.
    pub(super) at: u64,
    /// Size in bytes, including the IPv4 and UDP headers.
    pub(super) size: u32,
}

impl Train {
    /// Appends the train in the text format that `peers/ns3/train.cc` describes.
    pub(super) fn write(&self, text: &mut String) {
        let limit = match self.limit {
            Limit::Packets(packets) => format!("{packets}p"),
            Limit::Bytes(bytes) => format!("{bytes}B"),
        };
        let first = if self.sends_first { "sends" } else { "link" };
        // Writing to a string cannot fail.
        let _ = writeln!(text, "train {} {} {limit} {first}", self.rate, self.delay);
        for packet in &self.packets {
            let _ = writeln!(text, "{} {}", packet.at, packet.size);
        }
    }
}
