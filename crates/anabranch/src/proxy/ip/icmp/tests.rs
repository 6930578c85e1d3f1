use super::*;

fn udp_v4(len: usize) -> Vec<u8> {
    let mut packet = vec![0x45, 0, 0, 0, 0, 1, 0x40, 0, 64, 17, 0, 0, 10, 0, 0, 1, 192, 0, 2, 7];
    packet.resize(len, 7);
    packet[2..4].copy_from_slice(&(len as u16).to_be_bytes());
    packet
}

fn udp_v6(len: usize) -> Vec<u8> {
    let mut packet = vec![0x60, 0, 0, 0, 0, 0, 17, 64];
    packet.extend([0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
    packet.extend([0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2]);
    packet.resize(len, 7);
    packet[4..6].copy_from_slice(&((len - 40) as u16).to_be_bytes());
    packet
}

#[test]
fn senders_learn_which_packets_fit() {
    let packet = udp_v4(1_500);
    let icmp = too_big(&packet, 1_380).unwrap();
    let header = PacketHeader::parse(&icmp).unwrap();
    assert_eq!(
        (header.source.to_string(), header.destination.to_string()),
        ("192.0.2.7".into(), "10.0.0.1".into())
    );
    assert_eq!((header.protocol, icmp.len()), (1, MAX_V4));
    assert_eq!((&icmp[20..22], &icmp[26..28]), (&[3, 4][..], &1_380_u16.to_be_bytes()[..]));
    // A checksum over bytes that include a right checksum is zero.
    assert_eq!((checksum(&[&icmp[..20]]), checksum(&[&icmp[20..]])), ([0; 2], [0; 2]));
    assert_eq!(icmp[28..], packet[..MAX_V4 - 28]);

    let packet = udp_v6(1_500);
    let icmp = too_big(&packet, 1_380).unwrap();
    assert_eq!((icmp.len(), icmp[6], &icmp[40..42]), (MIN_MTU, 58, &[2, 0][..]));
    assert_eq!(icmp[46..48], 1_380_u16.to_be_bytes());
    let len = ((icmp.len() - 40) as u32).to_be_bytes();
    assert_eq!(checksum(&[&icmp[8..40], &len, &[0, 0, 0, 58], &icmp[40..]]), [0; 2]);
    assert_eq!(prohibited(&udp_v6(100)).unwrap()[40..42], [1, 1]);
    assert_eq!(prohibited(&udp_v4(101)).unwrap()[20..22], [3, 13]);
    assert_eq!(unreachable(&udp_v4(101)).unwrap()[20..22], [3, 1]);
    assert_eq!(unreachable(&udp_v6(101)).unwrap()[40..42], [1, 3]);
}

#[test]
fn nothing_is_reported_about_errors_fragments_and_groups() {
    let mut error = too_big(&udp_v4(1_500), 1_380).unwrap();
    assert!(too_big(&error, 500).is_none());
    // An echo request may be reported.
    error[20] = 8;
    assert!(too_big(&error, 500).is_some());
    assert!(too_big(&too_big(&udp_v6(1_500), 1_380).unwrap(), 1_280).is_none());
    let mut later = udp_v4(100);
    later[7] = 1;
    assert!(too_big(&later, 50).is_none());
    for (first, is_single) in [(0, false), (1, true), (127, false), (223, true), (224, false), (240, false)] {
        // The first byte of the source, and that of the destination.
        for at in [12, 16] {
            let mut packet = udp_v4(100);
            packet[at] = first;
            assert_eq!(prohibited(&packet).is_some(), is_single, "{at} {first}");
        }
    }
    for (source, is_single) in [("::", false), ("::1", false), ("ff02::1", false), ("fe80::1", true)] {
        let mut packet = udp_v6(100);
        packet[8..24].copy_from_slice(&source.parse::<std::net::Ipv6Addr>().unwrap().octets());
        assert_eq!(prohibited(&packet).is_some(), is_single, "{source}");
    }
}

#[tokio::test(start_paused = true)]
async fn messages_are_limited_to_max_icmp_rate() {
    let mut limit = IcmpLimit::default();
    for _ in 0..2 {
        let allowed = (0..10 * MAX_ICMP_RATE).filter(|_| limit.allows()).count();
        assert_eq!(allowed, MAX_ICMP_RATE as usize);
        tokio::time::advance(Duration::from_secs(1)).await;
    }
}
