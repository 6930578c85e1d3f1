use proptest::prelude::*;

use super::*;
use crate::NewShort;
use crate::testing::hex;
use crate::{ConnectionId, PacketKind, decode_packet_number};

fn field(pn: u64, unacked: u64, announced: Option<Announced>) -> Option<Vec<u8>> {
    let mut buf = [0xaa; MAX_FIELD];
    let len = write(&mut buf, NewNumber { pn, unacked, announced })?.len;
    Some(buf[..len].to_vec())
}

fn at(stream: u64, offset: u64, distance: u64) -> Option<Announced> {
    Some(Announced { stream: StreamId::from_u64(stream), offset, distance })
}

fn read(field: &[u8], pn_len: usize) -> Unmasked {
    let mut bytes = [0; 28];
    bytes[..field.len()].copy_from_slice(field);
    unmask(Front { first: pn_len as u8 - 1, len: 0 }, &mut bytes, &[0; 16])
}

#[test]
fn vectors() {
    // A packet number of 64 needs seven bits, and therefore two bytes.
    assert_eq!(field(64, 65, at(4, 100_000, 0)).unwrap(), hex("0040 44 86a0"));
    assert_eq!(field(5, 1, None).unwrap(), hex("05 00 00"), "a packet without data");
    assert_eq!(field(0x3fff_ffff, 1 << 40, at((1 << 30) - 1, u64::MAX, u64::MAX)).unwrap().len(), MAX_FIELD);
    let number = read(&hex("0040 44 86a0"), 2);
    assert_eq!((number.pn_len, number.truncated_pn, number.pn_bits, number.header_len), (2, 64, 14, 5));
    let placement = Placement { stream: StreamId::from_u64(4), offset_low: 0x86a0, offset_bits: 16 };
    assert_eq!(number.placement, Some(placement));
    assert_eq!(read(&hex("05 00 00"), 1).placement, None);
}

/// Checks values at the edges where the encoded length changes.
#[test]
fn lengths_at_their_edges() {
    for (stream, len) in [
        (1, 1),
        (63, 1),
        (64, 2),
        (16_383, 2),
        (16_384, 3),
        (4_194_303, 3),
        (4_194_304, 4),
        (1_073_741_822, 4),
        (1_073_741_823, 4),
    ] {
        assert_eq!(stream_len(stream), len, "{stream}");
        let field = field(0, 1, at(stream, 7, 0)).unwrap();
        assert_eq!(read(&field, 1).placement.unwrap().stream, StreamId::from_u64(stream));
    }
    assert!(field(0, 1, at(STREAM_ID_END, 0, 0)).is_none());
    for (unacked, len) in [(1, 1), (32, 1), (33, 2), (8192, 2), (8193, 3), (1 << 21, 3), ((1 << 21) + 1, 4)] {
        assert_eq!(pn_len(unacked), len, "{unacked}");
    }
    for (distance, len) in [(0, 2), (32_767, 2), (32_768, 3), (8_388_607, 3), (8_388_608, 4), (u64::MAX, 4)] {
        assert_eq!(offset_len(distance), len, "{distance}");
    }
}

#[test]
fn only_data_packets_differ_from_version_1() {
    assert_eq!(FORMAT.version, Version::REVERSO);
    assert_eq!((FORMAT.initial_salt, FORMAT.labels), (v1::FORMAT.initial_salt, v1::FORMAT.labels));
    for kind in [PacketKind::Initial, PacketKind::Handshake] {
        assert_eq!((FORMAT.sample_offset(kind), FORMAT.mask_len(kind)), (4, 5));
    }
    for kind in [PacketKind::ZeroRtt, PacketKind::OneRtt] {
        assert_eq!((FORMAT.sample_offset(kind), FORMAT.mask_len(kind)), (12, 13));
    }
}

proptest! {
    #[test]
    fn fields_round_trip(
        acked in 0..1u64 << 60,
        ahead in 1..1u64 << 29,
        stream in 1u64..STREAM_ID_END,
        shift in 0..30u32,
        received in 0..1u64 << 60,
        distance in 0..1u64 << 31,
        below: bool,
        mask: [u8; 16],
    ) {
        let (pn, stream) = (acked + ahead, (stream >> shift).max(1));
        let offset = if below { received.saturating_sub(distance) } else { received + distance };
        let dcid = ConnectionId::new(&[7; 8]).unwrap();
        let mut packet = [0x55; 80];
        let outgoing = FORMAT
            .write_short(&mut packet, &NewShort { dcid: &dcid, spin: false, key_phase: true, number: NewNumber { pn, unacked: ahead, announced: at(stream, offset, distance) }, fixed_bit: true })
            .unwrap();
        let plain = packet;
        FORMAT.mask(&mut packet, &outgoing, &mask);
        let opened = FORMAT.unmask(&mut packet, PacketKind::OneRtt, outgoing.pn_offset, &mask);
        prop_assert_eq!(packet, plain);
        prop_assert_eq!((opened.pn_len, opened.header_len), (outgoing.pn_len, outgoing.header_len));
        prop_assert!(opened.reserved_ok && opened.key_phase);
        prop_assert_eq!(decode_packet_number(Some(acked), opened.truncated_pn, opened.pn_bits), pn);
        let placement = opened.placement.unwrap();
        prop_assert_eq!(placement.stream, StreamId::from_u64(stream));
        prop_assert!(placement.matches(placement.stream, offset));
        prop_assert!(!placement.matches(placement.stream, offset ^ 1));
        prop_assert_eq!(placement.offset(received), offset);
    }

    #[test]
    fn any_field_is_read_within_its_bounds(first: u8, mut bytes: [u8; 28], mask: [u8; 16]) {
        let number = unmask(Front { first, len: 0 }, &mut bytes, &mask);
        prop_assert!((3..=MAX_FIELD).contains(&number.header_len));
        prop_assert!(number.truncated_pn < 1 << number.pn_bits);
    }
}
