//! Link of a flow's interface, which consists of two queues of packets.

use std::collections::VecDeque;

use smoltcp::phy::{Checksum, Device, DeviceCapabilities, Medium, RxToken, TxToken};
use smoltcp::time::Instant;

use super::numbers::Numbers;
use crate::tun::{HEADROOM, Packet};

/// Maximum number of packets of a flow that wait to be written. While they do, the flow's TCP handles no
/// packets.
pub(super) const MAX_OUTGOING: usize = 64;

/// Packets from a program to a flow's TCP, and from the flow's TCP to the program.
#[derive(Debug)]
pub(super) struct Link {
    pub(super) incoming: VecDeque<Packet>,
    pub(super) outgoing: VecDeque<Packet>,
    pub(super) numbers: Numbers,
    mtu: usize,
}

impl Link {
    pub(super) fn new(mtu: usize) -> Self {
        let (incoming, outgoing) = (VecDeque::new(), VecDeque::new());
        Self { incoming, outgoing, numbers: Numbers::default(), mtu }
    }

    fn room(&mut self) -> Room<'_> {
        Room { outgoing: &mut self.outgoing, numbers: &mut self.numbers }
    }

    fn has_room(&self) -> bool {
        self.outgoing.len() < MAX_OUTGOING
    }
}

impl Device for Link {
    type RxToken<'a> = Received;
    type TxToken<'a> = Room<'a>;

    fn receive(&mut self, _: Instant) -> Option<(Received, Room<'_>)> {
        let mut packet = if self.has_room() { self.incoming.pop_front()? } else { return None };
        self.numbers.on_received(packet.bytes_mut());
        Some((Received(packet), self.room()))
    }

    fn transmit(&mut self, _: Instant) -> Option<Room<'_>> {
        if self.has_room() { Some(self.room()) } else { None }
    }

    fn capabilities(&self) -> DeviceCapabilities {
        let mut capabilities = DeviceCapabilities::default();
        capabilities.medium = Medium::Ip;
        capabilities.max_transmission_unit = self.mtu;
        // Checksums of received packets are not verified, because the packets come from this host's kernel.
        capabilities.checksum.ipv4 = Checksum::Tx;
        // Filled in once the numbers are translated.
        capabilities.checksum.tcp = Checksum::None;
        capabilities
    }
}

/// A packet from this host.
pub(super) struct Received(Packet);

impl RxToken for Received {
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, read: F) -> R {
        read(self.0.bytes())
    }
}

/// Room for one packet to this host.
pub(super) struct Room<'a> {
    outgoing: &'a mut VecDeque<Packet>,
    numbers: &'a mut Numbers,
}

impl TxToken for Room<'_> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, len: usize, write: F) -> R {
        let mut packet = vec![0; HEADROOM + len];
        let result = write(&mut packet[HEADROOM..]);
        self.numbers.on_sent(&mut packet[HEADROOM..]);
        self.outgoing.push_back(Packet::with_headroom(packet));
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn at_most_max_outgoing_packets_wait() {
        let mut link = Link::new(1_500);
        let now = Instant::from_millis(0);
        for n in 0..MAX_OUTGOING {
            link.transmit(now).unwrap().consume(n, |_| ());
        }
        assert!(link.transmit(now).is_none());
        link.incoming.push_back(Packet::new(b"packet"));
        assert!(link.receive(now).is_none());
        assert_eq!(link.outgoing.pop_front().unwrap().bytes(), b"");
        let (received, _) = link.receive(now).unwrap();
        received.consume(|bytes| assert_eq!(bytes, b"packet"));
    }
}
