use super::*;

fn v4(fragment: u16, protocol: u8, payload: &[u8]) -> Vec<u8> {
    let mut packet = vec![0x45, 0, 0, 0, 0, 1, 0, 0, 64, protocol, 0, 0, 10, 0, 0, 1, 192, 0, 2, 7];
    packet[6..8].copy_from_slice(&fragment.to_be_bytes());
    packet.extend(payload);
    let len = packet.len() as u16;
    packet[2..4].copy_from_slice(&len.to_be_bytes());
    packet
}

fn v6(next: u8, payload: &[u8]) -> Vec<u8> {
    let mut packet = vec![0x60, 0, 0, 0, 0, payload.len() as u8, next, 64];
    packet.extend([0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
    packet.extend([0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2]);
    packet.extend(payload);
    packet
}

#[test]
fn headers_of_both_families_are_read() {
    let packet = v4(0x4000, 17, &[0, 53, 1, 0, 0, 8, 0, 0]);
    let header = PacketHeader::parse(&packet).unwrap();
    assert_eq!(
        (header.source.to_string(), header.destination.to_string()),
        ("10.0.0.1".into(), "192.0.2.7".into())
    );
    assert_eq!((header.source_port, header.destination_port), (Some(53), Some(256)));
    assert_eq!((header.protocol, header.transport, header.may_fragment), (17, 20, false));
    // A later fragment has no ports.
    let later = PacketHeader::parse(&v4(0x2001, 17, &[0, 53, 1, 0])).unwrap();
    assert_eq!((later.source_port, later.is_later_fragment, later.may_fragment), (None, true, true));
    // Hop-by-hop options of 16 bytes, then the first fragment of TCP.
    let mut payload = vec![44, 1];
    payload.extend([0; 14]);
    payload.extend([6, 0, 0, 1, 0, 0, 0, 9, 0, 80, 1, 187]);
    let header = PacketHeader::parse(&v6(0, &payload)).unwrap();
    assert_eq!((header.protocol, header.transport), (6, 40 + 24));
    assert_eq!((header.source_port, header.destination_port), (Some(80), Some(443)));
    assert_eq!(header.destination.to_string(), "2001:db8::2");
}

#[test]
fn packets_that_are_not_whole_are_refused() {
    let packet = v4(0, 6, &[0; 20]);
    assert!(PacketHeader::parse(&packet[..packet.len() - 1]).is_none());
    assert!(PacketHeader::parse(&[&packet[..], &[0]].concat()).is_none());
    assert!(PacketHeader::parse(&[]).is_none());
    assert!(PacketHeader::parse(&[0x55; 40]).is_none());
    let mut short = packet;
    short[0] = 0x44;
    assert!(PacketHeader::parse(&short).is_none());
    assert!(PacketHeader::parse(&v6(17, &[0; 8])[..40]).is_none());
    // An extension header whose length exceeds the packet.
    let header = PacketHeader::parse(&v6(0, &[17, 9, 0, 0, 0, 0, 0, 0]));
    assert!(header.is_none_or(|header| header.destination_port.is_none()));
}

#[test]
fn at_most_max_extensions_are_skipped() {
    let chain = |count: usize| {
        let mut payload = Vec::new();
        for n in 0..count {
            payload.extend([if n + 1 == count { 17 } else { 60 }, 0, 0, 0, 0, 0, 0, 0]);
        }
        payload.extend([0, 1, 0, 2, 0, 8, 0, 0]);
        PacketHeader::parse(&v6(60, &payload)).unwrap().destination_port
    };
    assert_eq!(chain(MAX_EXTENSIONS), Some(2));
    assert_eq!(chain(MAX_EXTENSIONS + 1), None);
}
