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
    payload.extend([0; TCP_HEADER - 4]);
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
    // Extension headers whose lengths exceed the packet.
    for (next, extension) in [(0, [17, 9, 0, 0, 0, 0, 0, 0]), (60, [58, 1, 0, 0, 0, 0, 0, 0])] {
        assert!(PacketHeader::parse(&v6(next, &extension)).is_none());
    }
}

#[test]
fn packets_without_a_whole_transport_header_are_refused() {
    for (protocol, len) in [(transport_protocol::TCP, TCP_HEADER), (transport_protocol::UDP, UDP_HEADER)] {
        // IPv4: a packet, and a first fragment.
        for fragment in [0, 0x2000] {
            assert!(PacketHeader::parse(&v4(fragment, protocol, &vec![0; len])).is_some());
            for short in [0, 3, len - 1] {
                assert!(PacketHeader::parse(&v4(fragment, protocol, &vec![0; short])).is_none(), "{short}");
            }
        }
        // IPv6: a packet, and first fragments. In the last one the chain has a further extension header.
        for chain in [
            &[][..],
            &[protocol, 0, 0, 1, 0, 0, 0, 9],
            &[60, 0, 0, 1, 0, 0, 0, 9, protocol, 0, 0, 0, 0, 0, 0, 0],
        ] {
            let next = if chain.is_empty() { protocol } else { FRAGMENT };
            for short in [0, 3, len - 1] {
                let packet = v6(next, &[chain, &vec![0; short]].concat());
                assert!(PacketHeader::parse(&packet).is_none(), "{chain:?} {short}");
            }
            assert!(PacketHeader::parse(&v6(next, &[chain, &vec![0; len]].concat())).is_some());
        }
    }
    // A first fragment that ends within its header chain.
    assert!(PacketHeader::parse(&v6(FRAGMENT, &[60, 0, 0, 1, 0, 0, 0, 9])).is_none());
    // A later fragment has no transport header, and other protocols have no ports.
    assert!(PacketHeader::parse(&v6(FRAGMENT, &[6, 0, 0, 9, 0, 0, 0, 9, 1])).is_some());
    assert!(PacketHeader::parse(&v6(transport_protocol::ICMPV6, &[128, 0])).is_some());
}

#[test]
fn packets_with_more_than_max_extensions_are_refused() {
    let chain = |kind: u8, count: usize| {
        let mut payload = Vec::new();
        for n in 0..count {
            payload.extend([if n + 1 == count { 17 } else { kind }, 0, 0, 0, 0, 0, 0, 0]);
        }
        payload.extend([0, 1, 0, 2, 0, 8, 0, 0]);
        PacketHeader::parse(&v6(kind, &payload)).map(|header| header.destination_port)
    };
    for kind in [60, 140] {
        assert_eq!(chain(kind, MAX_EXTENSIONS), Some(Some(2)));
        assert_eq!(chain(kind, MAX_EXTENSIONS + 1), None);
    }
}
