//! Sequence numbers of a connection whose socket was replaced by one with other numbers.

use smoltcp::wire::{
    IpAddress, IpProtocol, IpVersion, Ipv4Packet, Ipv6Packet, TcpPacket, TcpSeqNumber as Number,
};

use crate::tun::Packet;

/// Length of a TCP header without options, in bytes.
const HEADER: u8 = 20;

/// Source and destination of a packet.
type Ends = (IpAddress, IpAddress);

/// Numbers of a connection as the program's host sees them, and the difference to those of the socket.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Numbers {
    /// By how much the socket's own numbers exceed those that the program's host sees, modulo 2^32.
    pub(super) shift: i32,
    /// Number after the last byte that was sent to the program.
    pub(super) sent: Option<Number>,
    /// Number after the last byte that the program has sent, received or not.
    pub(super) received: Option<Number>,
    /// Newest acknowledgment to the program.
    pub(super) acknowledged: Option<Number>,
    /// Newest window of the program, as it is written in packets.
    pub(super) window: u16,
}

impl Numbers {
    /// Translates a packet of the program for the socket.
    pub(super) fn on_received(&mut self, packet: &mut [u8]) {
        let Some((_, mut tcp)) = tcp(packet) else { return };
        keep_last(&mut self.received, tcp.seq_number() + tcp.segment_len());
        self.window = tcp.window_len();
        if tcp.ack() {
            let number = tcp.ack_number().0.wrapping_add(self.shift);
            tcp.set_ack_number(Number(number));
        }
    }

    /// Translates a packet of the socket for the program, and fills in its checksum.
    pub(super) fn on_sent(&mut self, packet: &mut [u8]) {
        let Some((ends, mut tcp)) = tcp(packet) else { return };
        let number = Number(tcp.seq_number().0.wrapping_sub(self.shift));
        tcp.set_seq_number(number);
        keep_last(&mut self.sent, number + tcp.segment_len());
        if tcp.ack() {
            self.acknowledged = Some(tcp.ack_number());
        }
        tcp.fill_checksum(&ends.0, &ends.1);
    }
}

fn keep_last(last: &mut Option<Number>, number: Number) {
    if last.is_none_or(|last| number > last) {
        *last = Some(number);
    }
}

/// Returns the SYN of a program with another number.
pub(super) fn syn(syn: &Packet, number: Number) -> Option<Packet> {
    let mut packet = syn.clone();
    tcp(packet.bytes_mut())?.1.set_seq_number(number);
    Some(packet)
}

/// Returns an acknowledgment of the program whose SYN this is.
pub(super) fn acknowledgment(
    syn: &Packet,
    number: Number,
    acknowledged: Number,
    window: u16,
) -> Option<Packet> {
    let (start, _) = place(syn.bytes())?;
    let mut bytes = syn.bytes().get(..start + usize::from(HEADER))?.to_vec();
    let len = u16::try_from(bytes.len()).ok()?;
    match IpVersion::of_packet(&bytes).ok()? {
        IpVersion::Ipv4 => Ipv4Packet::new_unchecked(&mut bytes).set_total_len(len),
        IpVersion::Ipv6 => Ipv6Packet::new_unchecked(&mut bytes).set_payload_len(HEADER.into()),
    }
    let mut tcp = TcpPacket::new_unchecked(bytes.get_mut(start..)?);
    tcp.set_header_len(HEADER);
    tcp.clear_flags();
    tcp.set_ack(true);
    tcp.set_seq_number(number);
    tcp.set_ack_number(acknowledged);
    tcp.set_window_len(window);
    Some(Packet::new(&bytes))
}

/// Returns the source and the destination of a TCP packet, and its TCP segment.
fn tcp(packet: &mut [u8]) -> Option<(Ends, TcpPacket<&mut [u8]>)> {
    let (start, end) = place(packet)?;
    let ends: Ends = match IpVersion::of_packet(packet).ok()? {
        IpVersion::Ipv4 => {
            let ip = Ipv4Packet::new_unchecked(&*packet);
            (ip.src_addr().into(), ip.dst_addr().into())
        }
        IpVersion::Ipv6 => {
            let ip = Ipv6Packet::new_unchecked(&*packet);
            (ip.src_addr().into(), ip.dst_addr().into())
        }
    };
    Some((ends, TcpPacket::new_checked(packet.get_mut(start..end)?).ok()?))
}

/// Returns where the TCP segment of a packet begins and ends; `None` if it is no TCP packet.
fn place(packet: &[u8]) -> Option<(usize, usize)> {
    packet.first()?;
    let (protocol, start, end) = match IpVersion::of_packet(packet).ok()? {
        IpVersion::Ipv4 => {
            let ip = Ipv4Packet::new_checked(packet).ok()?;
            (ip.next_header(), usize::from(ip.header_len()), usize::from(ip.total_len()))
        }
        IpVersion::Ipv6 => {
            let ip = Ipv6Packet::new_checked(packet).ok()?;
            (ip.next_header(), ip.header_len(), ip.total_len())
        }
    };
    (protocol == IpProtocol::Tcp).then_some((start, end))
}
