//! Invariants of the headers of IP packets and of the ICMP messages about them. The first byte chooses what is
//! corrected, so that random bytes are a packet: nothing, the version and the lengths, or the protocol too.

use std::net::IpAddr;

use anabranch::proxy::ip::{MIN_MTU, PacketHeader, prohibited, too_big, transport_protocol, unreachable};

/// Maximum length of an ICMP message for IPv4, in bytes (RFC 1812 §4.3.2.3).
const MAX_V4: usize = 576;

pub(crate) fn run(data: &[u8]) {
    let Some((&choice, data)) = data.split_first() else { return };
    let mut packet = data.to_vec();
    if choice % 4 > 0 && packet.len() >= 40 {
        correct(&mut packet, choice);
    }
    let Some(header) = PacketHeader::parse(&packet) else {
        assert!(unreachable(&packet).is_none() && prohibited(&packet).is_none());
        assert!(too_big(&packet, MIN_MTU).is_none());
        return;
    };
    assert!(header.transport <= packet.len());
    assert_eq!(header.source.is_ipv4(), header.destination.is_ipv4());
    assert!(header.is_fragment || !header.is_later_fragment);
    let has_ports = matches!(header.protocol, transport_protocol::TCP | transport_protocol::UDP);
    assert_eq!(header.source_port.is_some(), has_ports && !header.is_later_fragment);
    assert_eq!(header.source_port.is_some(), header.destination_port.is_some());
    for message in [too_big(&packet, 1_280 + usize::from(choice)), prohibited(&packet), unreachable(&packet)]
    {
        message.iter().for_each(|message| report(message, &packet, &header));
    }
    // A packet that is cut or longer than its length says is refused.
    assert!(PacketHeader::parse(&packet[..packet.len() - 1]).is_none());
    packet.push(0);
    assert!(PacketHeader::parse(&packet).is_none());
}

/// Makes the version, the lengths and perhaps the protocol those of a packet.
fn correct(packet: &mut [u8], choice: u8) {
    let len = packet.len();
    if choice & 4 == 0 {
        packet[0] = 0x45 + packet[0] % 4;
        packet[2..4].copy_from_slice(&(len as u16).to_be_bytes());
    } else {
        packet[0] = 0x60 | packet[0] & 0xf;
        packet[4..6].copy_from_slice(&((len - 40) as u16).to_be_bytes());
    }
    if choice % 4 > 1 {
        let at = if choice & 4 == 0 { 9 } else { 6 };
        packet[at] = [0, 1, 6, 17, 43, 44, 51, 58, 60][usize::from(packet[at] % 9)];
    }
}

/// Checks a message about a packet: it is a packet to its sender, with right checksums, and causes no other message.
fn report(message: &[u8], packet: &[u8], about: &PacketHeader) {
    let header = PacketHeader::parse(message).expect("a message is a packet");
    assert_eq!((header.source, header.destination), (about.destination, about.source));
    assert!(unreachable(message).is_none(), "no message about a message");
    let icmp = &message[header.transport..];
    assert!(packet.starts_with(&icmp[8..]), "a message quotes the packet");
    match (header.source, header.destination) {
        (IpAddr::V4(_), IpAddr::V4(_)) => {
            assert!(message.len() <= MAX_V4);
            assert_eq!((sum(&message[..20]), sum(icmp)), (0xffff, 0xffff));
        }
        _ => {
            assert!(message.len() <= MIN_MTU);
            let pseudo = [&message[8..40], &(icmp.len() as u32).to_be_bytes(), &[0, 0, 0, 58]].concat();
            assert_eq!(sum(&[&pseudo, icmp].concat()), 0xffff);
        }
    }
}

/// Returns the sum of RFC 1071, which is all ones if the checksum in it is right.
fn sum(bytes: &[u8]) -> u64 {
    let pairs =
        bytes.chunks(2).map(|pair| u64::from(pair[0]) << 8 | pair.get(1).map_or(0, |low| u64::from(*low)));
    let sum: u64 = pairs.sum();
    let folded = (sum & 0xffff) + (sum >> 16);
    (folded & 0xffff) + (folded >> 16)
}
