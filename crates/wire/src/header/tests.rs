use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::Format;
use crate::testing::hex;

fn v1() -> &'static Format {
    Version::V1.format().unwrap()
}

fn v2() -> &'static Format {
    Version::V2.format().unwrap()
}

fn cid(bytes: &[u8]) -> ConnectionId {
    ConnectionId::new(bytes).unwrap()
}

fn mask(bytes: &str) -> [u8; 16] {
    let mut mask = [0; 16];
    let bytes = hex(bytes);
    mask[..bytes.len()].copy_from_slice(&bytes);
    mask
}

const CLIENT_DCID: &str = "8394c8f03e515708";
const SERVER_SCID: &str = "f067a5502a4262b5";

/// Checks the client's Initial packet of RFC 9001 A.2 and RFC 9369 A.2, whose Length is 1182.
#[test]
fn client_initial() {
    for (format, protected, unmasked, mask_bytes) in [
        (
            v1(),
            "c000000001088394c8f03e5157080000449e7b9aec34",
            "c300000001088394c8f03e5157080000449e00000002",
            "437b9aec36",
        ),
        (
            v2(),
            "d76b3343cf088394c8f03e5157080000449ea0c95e82",
            "d36b3343cf088394c8f03e5157080000449e00000002",
            "94a0c95e80",
        ),
    ] {
        let mut packet = hex(protected);
        packet.resize(1200, 0);
        let parsed = parse_packet(&packet, 0).unwrap();
        assert_eq!(
            parsed,
            Protected {
                kind: PacketKind::Initial,
                version: Some(format.version),
                dcid: cid(&hex(CLIENT_DCID)),
                scid: ConnectionId::EMPTY,
                token: 16..16,
                pn_offset: 18,
                end: 1200,
                fixed_bit: true,
            }
        );
        let opened = format.unmask(&mut packet, parsed.kind, parsed.pn_offset, &mask(mask_bytes));
        assert_eq!(packet[..22], hex(unmasked));
        assert_eq!(
            opened,
            Unmasked {
                pn_len: 4,
                truncated_pn: 2,
                pn_bits: 32,
                header_len: 22,
                key_phase: false,
                reserved_ok: true,
                spin: false,
                placement: None,
            }
        );
        let outgoing = Outgoing { kind: parsed.kind, pn_offset: 18, pn_len: 4, header_len: 22 };
        format.mask(&mut packet, &outgoing, &mask(mask_bytes));
        assert_eq!(packet[..22], hex(protected));
    }
}

/// Checks the server's Initial packet of RFC 9001 A.3 and RFC 9369 A.3, whose Length is 117.
#[test]
fn server_initial() {
    for (format, protected, unmasked, mask_bytes) in [
        (
            v1(),
            "cf000000010008f067a5502a4262b5004075c0d9",
            "c1000000010008f067a5502a4262b50040750001",
            "2ec0d8356a",
        ),
        (
            v2(),
            "dc6b3343cf0008f067a5502a4262b5004075d92f",
            "d16b3343cf0008f067a5502a4262b50040750001",
            "4dd92e91ea",
        ),
    ] {
        let mut packet = vec![0; 135];
        // The packet number has two bytes in the examples, as if more than 128 packets were unacknowledged.
        let scid = cid(&hex(SERVER_SCID));
        let mut outgoing = format
            .write_long(
                &mut packet,
                &NewLong {
                    kind: PacketKind::Initial,
                    dcid: &ConnectionId::EMPTY,
                    scid: &scid,
                    token: &[],
                    number: NewNumber { pn: 257, unacked: 258, announced: None },
                    fixed_bit: true,
                },
            )
            .unwrap();
        packet[18..20].copy_from_slice(&[0, 1]);
        outgoing.kind = PacketKind::Initial;
        format.set_length(&mut packet, &outgoing);
        assert_eq!(packet[..20], hex(unmasked));
        format.mask(&mut packet, &outgoing, &mask(mask_bytes));
        assert_eq!(packet[..20], hex(protected));

        let parsed = parse_packet(&packet, 0).unwrap();
        assert_eq!((parsed.scid, parsed.end, parsed.pn_offset), (scid, 135, 18));
        let opened = format.unmask(&mut packet, parsed.kind, parsed.pn_offset, &mask(mask_bytes));
        assert_eq!((opened.truncated_pn, opened.pn_bits, opened.header_len), (1, 16, 20));
    }
}

/// Checks the short header without a connection ID of RFC 9001 A.5.
#[test]
fn short_header() {
    let mut packet = hex("00 00000000 655e5cd55c41f69080575d7999c25a5bfb");
    let pn = 654_360_564;
    let outgoing = v1()
        .write_short(
            &mut packet,
            &NewShort {
                dcid: &ConnectionId::EMPTY,
                spin: false,
                key_phase: false,
                number: NewNumber { pn, unacked: 40_000, announced: None },
                fixed_bit: true,
            },
        )
        .unwrap();
    assert_eq!(outgoing, Outgoing { kind: PacketKind::OneRtt, pn_offset: 1, pn_len: 3, header_len: 4 });
    assert_eq!(packet[..4], hex("4200bff4"));
    v1().mask(&mut packet, &outgoing, &mask("aefefe7d03"));
    assert_eq!(packet[..4], hex("4cfe4189"));

    // The complete packet of the RFC, as the receiver processes it.
    let mut packet = hex("4cfe4189655e5cd55c41f69080575d7999c25a5bfb");
    let parsed = parse_packet(&packet, 0).unwrap();
    assert_eq!((parsed.kind, parsed.pn_offset, parsed.end), (PacketKind::OneRtt, 1, 21));
    let sample = v1().sample(&packet, parsed.kind, parsed.pn_offset).unwrap();
    assert_eq!(sample.to_vec(), hex("5e5cd55c41f69080575d7999c25a5bfb"));
    let opened = v1().unmask(&mut packet, parsed.kind, parsed.pn_offset, &mask("aefefe7d03"));
    assert_eq!(decode_packet_number(Some(pn - 1), opened.truncated_pn, opened.pn_bits), pn);
    assert!(v1().sample(&packet[..20], parsed.kind, parsed.pn_offset).is_none(), "one byte is missing");
}

#[test]
fn short_header_bits() {
    for bits in 0..8u8 {
        let (spin, key_phase, fixed) = (bits & 1 != 0, bits & 2 != 0, bits & 4 != 0);
        let mut packet = [0; 32];
        let dcid = cid(&[1, 2, 3, 4]);
        v1().write_short(
            &mut packet,
            &NewShort {
                dcid: &dcid,
                spin,
                key_phase,
                number: NewNumber { pn: 9, unacked: 1, announced: None },
                fixed_bit: fixed,
            },
        )
        .unwrap();
        let parsed = parse_packet(&packet, 4).unwrap();
        assert_eq!((parsed.dcid, parsed.fixed_bit, parsed.version), (dcid, fixed, None));
        let opened = v1().unmask(&mut packet, PacketKind::OneRtt, parsed.pn_offset, &[0; 16]);
        assert_eq!((opened.spin, opened.key_phase, opened.reserved_ok), (spin, key_phase, true));
        assert_eq!((opened.truncated_pn, opened.pn_len), (9, 1));
    }
}

#[test]
fn reserved_bits_are_reported() {
    for (first, reserved_ok) in [(0x40, true), (0x48, false), (0x50, false), (0x64, true)] {
        let opened = v1().unmask(&mut [first, 0, 0, 0, 0], PacketKind::OneRtt, 1, &[0; 16]);
        assert_eq!(opened.reserved_ok, reserved_ok, "{first:#x}");
    }
    for (first, reserved_ok) in [(0xe0, true), (0xe4, false), (0xe8, false)] {
        let opened = v1().unmask(&mut [first, 0, 0, 0, 0], PacketKind::Handshake, 1, &[0; 16]);
        assert_eq!(opened.reserved_ok, reserved_ok, "{first:#x}");
        assert!(!opened.spin && !opened.key_phase, "long headers have neither");
    }
}

/// Checks the Retry packets of RFC 9001 A.4 and RFC 9369 A.4, without their tags.
#[test]
fn retry() {
    for (format, bytes) in [
        (v1(), "ff000000010008f067a5502a4262b5746f6b656e"),
        (v2(), "cf6b3343cf0008f067a5502a4262b5746f6b656e"),
    ] {
        let mut packet = Vec::new();
        let scid = cid(&hex(SERVER_SCID));
        write_retry(format, &mut packet, &ConnectionId::EMPTY, &scid, b"token", 0xff);
        assert_eq!(packet, hex(bytes));
        packet.extend([0x55; RETRY_TAG_LEN]);
        let parsed = parse_packet(&packet, 0).unwrap();
        assert_eq!((parsed.kind, parsed.scid, parsed.end), (PacketKind::Retry, scid, packet.len()));
        assert_eq!(&packet[parsed.token], b"token");
        packet.truncate(15 + RETRY_TAG_LEN);
        assert_eq!(parse_packet(&packet, 0), Err(HeaderError::Malformed), "the token is empty");
    }
}

#[test]
fn version_negotiation() {
    let versions = [Version::V2, Version::V1, Version::grease(7)];
    let mut packet = Vec::new();
    write_version_negotiation(&mut packet, &[1, 2, 3], &[4; 20], &versions, 0x3f);
    let parsed = parse_packet(&packet, 0).unwrap();
    assert_eq!(parsed.kind, PacketKind::VersionNegotiation);
    assert_eq!(
        (parsed.version, parsed.dcid, parsed.scid),
        (Some(Version(0)), cid(&[1, 2, 3]), cid(&[4; 20]))
    );
    assert!(parsed.fixed_bit);
    assert!(offered_versions(&packet[parsed.pn_offset..]).eq(versions));
    assert_eq!(offered_versions(&[1; 4000]).count(), MAX_OFFERED_VERSIONS);
    assert_eq!(offered_versions(&[1; 7]).count(), 1, "a cut-off version is none");
}

/// Checks that connection IDs of other versions may have 255 bytes, which a Version Negotiation packet
/// repeats (RFC 8999).
#[test]
fn unknown_versions_keep_their_long_connection_ids() {
    let mut packet = vec![0xc0, 0xba, 0xba, 0xba, 0xba, 255];
    packet.extend([7; 255]);
    packet.push(21);
    packet.extend([8; 21]);
    let Err(HeaderError::UnknownVersion { version, dcid, scid }) = parse_packet(&packet, 0) else {
        panic!("the version is not known")
    };
    assert_eq!(version, Version(0xbaba_baba));
    let mut answer = Vec::new();
    write_version_negotiation(&mut answer, &packet[scid], &packet[dcid], Version::SUPPORTED, 0);
    assert_eq!(answer[..6], hex("c0 00000000 15"));
    assert_eq!(answer.len(), 5 + 1 + 21 + 1 + 255 + 4 * Version::SUPPORTED.len());
}

#[test]
fn malformed_headers() {
    for (name, bytes) in [
        ("nothing", ""),
        ("a first byte alone", "c0"),
        ("a version cut off", "c0000000"),
        ("an ID cut off", "c00000000104aabb"),
        ("an ID of 21 bytes", &format!("c000000001 15 {} 00 00 01 00", "aa".repeat(21))),
        ("a source ID of 21 bytes", &format!("c000000001 00 15 {} 00 01 00", "aa".repeat(21))),
        ("a token beyond the end", "c000000001 00 00 04 aabb"),
        ("a token length beyond memory", "c000000001 00 00 ffffffffffffffff"),
        ("no length", "c000000001 00 00 00"),
        ("a length beyond the end", "c000000001 00 00 00 4100 00"),
        ("a length beyond memory", "e000000001 00 00 ffffffffffffffff"),
        ("a Retry without a tag", "f000000001 00 00 aabbcc"),
    ] {
        assert_eq!(parse_packet(&hex(bytes), 8), Err(HeaderError::Malformed), "{name}");
    }
    assert_eq!(parse_packet(&[0x40, 1, 2, 3], 4), Err(HeaderError::Malformed), "a short ID cut off");
    assert!(parse_packet(&[0x40, 1, 2, 3, 4], 4).is_ok());
}

#[test]
fn coalesced_packets_follow_each_other() {
    let (dcid, scid) = (cid(&[1; 8]), cid(&[2; 4]));
    let mut datagram = Vec::new();
    let kinds = [PacketKind::Initial, PacketKind::ZeroRtt, PacketKind::Handshake, PacketKind::OneRtt];
    for (kind, size) in kinds.into_iter().zip([100, 64, 80, 50]) {
        let mut packet = vec![0; size];
        if kind == PacketKind::OneRtt {
            v2().write_short(
                &mut packet,
                &NewShort {
                    dcid: &dcid,
                    spin: false,
                    key_phase: false,
                    number: NewNumber { pn: 0, unacked: 1, announced: None },
                    fixed_bit: true,
                },
            )
            .unwrap();
        } else {
            let outgoing = v2()
                .write_long(
                    &mut packet,
                    &NewLong {
                        kind,
                        dcid: &dcid,
                        scid: &scid,
                        token: &[9; 10],
                        number: NewNumber { pn: 0, unacked: 1, announced: None },
                        fixed_bit: true,
                    },
                )
                .unwrap();
            v2().set_length(&mut packet, &outgoing);
        }
        datagram.extend(packet);
    }
    let mut rest = &datagram[..];
    for (kind, size) in kinds.into_iter().zip([100, 64, 80, 50]) {
        let parsed = parse_packet(rest, 8).unwrap();
        assert_eq!((parsed.kind, parsed.dcid, parsed.end), (kind, dcid, size));
        assert_eq!(rest[parsed.token.clone()], [9; 10][..if kind == PacketKind::Initial { 10 } else { 0 }]);
        rest = &rest[parsed.end..];
    }
    assert!(rest.is_empty());
}

#[test]
fn a_header_that_does_not_fit_is_not_written() {
    let (dcid, scid) = (cid(&[1; 8]), cid(&[2; 4]));
    let long_len = 1 + 4 + 9 + 5 + 1 + 3 + 2 + 1;
    for len in 0..40 {
        let mut buf = vec![0; len];
        let long = v1().write_long(
            &mut buf,
            &NewLong {
                kind: PacketKind::Initial,
                dcid: &dcid,
                scid: &scid,
                token: b"tok",
                number: NewNumber { pn: 0, unacked: 1, announced: None },
                fixed_bit: true,
            },
        );
        assert_eq!(long.is_some(), len >= long_len, "{len}");
        let short = v1().write_short(
            &mut buf,
            &NewShort {
                dcid: &dcid,
                spin: false,
                key_phase: false,
                number: NewNumber { pn: 0, unacked: 1, announced: None },
                fixed_bit: true,
            },
        );
        assert_eq!(short.is_some(), len >= 10, "{len}");
    }
    assert!(
        v1().write_long(
            &mut [0; 99],
            &NewLong {
                kind: PacketKind::OneRtt,
                dcid: &dcid,
                scid: &scid,
                token: &[],
                number: NewNumber { pn: 0, unacked: 1, announced: None },
                fixed_bit: true
            }
        )
        .is_none()
    );
}

proptest! {
    #[test]
    fn long_headers_round_trip(
        dcid in vec(any::<u8>(), 0..=20),
        scid in vec(any::<u8>(), 0..=20),
        token in vec(any::<u8>(), 0..200),
        which in 0..3usize,
        version in 0..Version::SUPPORTED.len(),
        fixed_bit: bool,
        acked in 0..1u64 << 60,
        ahead in 1..1u64 << 29,
        mask: [u8; 16],
    ) {
        let format = Version::SUPPORTED[version].format().unwrap();
        let kind = [PacketKind::Initial, PacketKind::ZeroRtt, PacketKind::Handshake][which];
        let (dcid, scid, pn) = (cid(&dcid), cid(&scid), acked + ahead);
        let mut packet = vec![0x77; 600];
        let outgoing =
            format.write_long(&mut packet, &NewLong { kind, dcid: &dcid, scid: &scid, token: &token, number: NewNumber { pn, unacked: pn - acked, announced: None }, fixed_bit }).unwrap();
        format.set_length(&mut packet, &outgoing);
        let plain = packet.clone();
        format.mask(&mut packet, &outgoing, &mask);

        let parsed = parse_packet(&packet, 20).unwrap();
        prop_assert_eq!((parsed.kind, parsed.version), (kind, Some(format.version)));
        prop_assert_eq!((parsed.dcid, parsed.scid, parsed.end), (dcid, scid, 600));
        prop_assert_eq!((parsed.pn_offset, parsed.fixed_bit), (outgoing.pn_offset, fixed_bit));
        if kind == PacketKind::Initial {
            prop_assert_eq!(&packet[parsed.token], &token);
        }
        let opened = format.unmask(&mut packet, kind, parsed.pn_offset, &mask);
        prop_assert_eq!(packet, plain);
        prop_assert_eq!((opened.pn_len, opened.header_len), (outgoing.pn_len, outgoing.header_len));
        prop_assert!(opened.reserved_ok);
        prop_assert_eq!(decode_packet_number(Some(acked), opened.truncated_pn, opened.pn_bits), pn);
    }

    #[test]
    fn short_headers_round_trip(
        dcid in vec(any::<u8>(), 0..=20),
        spin: bool,
        key_phase: bool,
        fixed_bit: bool,
        acked in 0..1u64 << 60,
        ahead in 1..1u64 << 31,
        mask: [u8; 16],
    ) {
        let (dcid, pn) = (cid(&dcid), acked + ahead);
        let mut packet = vec![0x77; 60];
        let outgoing =
            v1().write_short(&mut packet, &NewShort { dcid: &dcid, spin, key_phase, number: NewNumber { pn, unacked: pn - acked, announced: None }, fixed_bit }).unwrap();
        v1().mask(&mut packet, &outgoing, &mask);
        let parsed = parse_packet(&packet, dcid.len()).unwrap();
        prop_assert_eq!((parsed.dcid, parsed.fixed_bit, parsed.end), (dcid, fixed_bit, 60));
        let opened = v1().unmask(&mut packet, parsed.kind, parsed.pn_offset, &mask);
        prop_assert_eq!((opened.spin, opened.key_phase, opened.reserved_ok), (spin, key_phase, true));
        prop_assert_eq!(opened.header_len, outgoing.header_len);
        prop_assert_eq!(decode_packet_number(Some(acked), opened.truncated_pn, opened.pn_bits), pn);
    }

    /// Checks that any bytes are a packet or an error, and that the packet lies inside the datagram.
    #[test]
    fn any_datagram_is_split_without_panic(
        mut bytes in vec(any::<u8>(), 0..300),
        version in prop_oneof![Just(None), Just(Some(1u32)), Just(Some(0x6b33_43cf)), Just(Some(0x0079_1097)), Just(Some(0))],
        short_cid_len in 0..=25usize,
    ) {
        if let (Some(version), Some(place)) = (version, bytes.get_mut(1..5)) {
            place.copy_from_slice(&version.to_be_bytes());
        }
        match parse_packet(&bytes, short_cid_len) {
            Ok(parsed) => {
                prop_assert!(parsed.pn_offset > 0 && parsed.pn_offset <= parsed.end && parsed.end <= bytes.len());
                prop_assert!(parsed.token.end <= parsed.end);
                let format = parsed.version.unwrap_or(Version::REVERSO).format();
                let packet = &mut bytes[..parsed.end];
                if let (Some(format), Some(_)) = (format, parsed.kind.space())
                    && format.sample(packet, parsed.kind, parsed.pn_offset).is_some()
                {
                    let opened = format.unmask(packet, parsed.kind, parsed.pn_offset, &[0xa5; 16]);
                    prop_assert!(opened.header_len <= packet.len());
                }
            }
            Err(HeaderError::UnknownVersion { dcid, scid, .. }) => {
                prop_assert!(dcid.end <= scid.start && scid.end <= bytes.len());
            }
            Err(HeaderError::Malformed) => {}
        }
    }
}
