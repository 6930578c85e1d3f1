//! Packet trains: a link, and packets sent over it at given times.

use std::fmt::Write as _;

use anabranch_lab::link::Limit;

/// Bytes of IPv4 and UDP headers in each packet.
pub(super) const IPV4_UDP: u32 = 28;
/// Bytes that PPP adds to a packet in ns-3.
pub(super) const PPP: u32 = 2;

/// Arrival of a packet's last bit in nanoseconds, or nothing if the packet was dropped.
pub(super) type Arrival = Option<u64>;

/// One link in one direction, and what is sent over it.
#[derive(Clone, Debug)]
pub(super) struct Train {
    /// Bits per second.
    pub(super) rate: u64,
    /// Nanoseconds of propagation.
    pub(super) delay: u64,
    pub(super) limit: Limit,
    /// In ns-3, a packet that is sent in the instant in which a transmission ends comes before that.
    pub(super) sends_first: bool,
    /// In the order in which they are sent.
    pub(super) packets: Vec<Packet>,
}

/// A packet of a train.
#[derive(Clone, Copy, Debug)]
pub(super) struct Packet {
    /// Nanoseconds after the train's start.
    pub(super) at: u64,
    /// Bytes, IPv4 and UDP headers included.
    pub(super) size: u32,
}

impl Train {
    /// Adds its text form, as `peers/ns3/train.cc` describes it.
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
