//! Invariants of headers that are written: after their protection is applied and removed, every version reads
//! the fields that were written.

use anabranch_testkit::source::Source;
use anabranch_wire::{
    Announced, ConnectionId, Format, NewLong, NewNumber, NewShort, PacketKind, StreamId, Version,
    decode_packet_number, parse_packet,
};

/// Maximum number of packets in a datagram.
const MAX_PACKETS: usize = 6;

/// Size of each packet.
const SIZE: usize = 200;

pub(crate) fn run(data: &[u8]) {
    let mut source = Source::new(data);
    let format = source.choose(Version::SUPPORTED).format().expect("a version that is spoken");
    let dcid = cid(&mut source);
    let mut datagram = Vec::new();
    let mut written = Vec::new();
    for _ in 0..1 + usize::from(source.byte()) % MAX_PACKETS {
        let Some((packet, expected)) = write(format, &dcid, &mut source) else { continue };
        datagram.extend(packet);
        let is_last = expected.kind == PacketKind::OneRtt;
        written.push(expected);
        if is_last {
            break;
        }
    }
    let mut rest = &mut datagram[..];
    for expected in written {
        rest = read(format, &dcid, rest, &expected);
    }
    assert!(rest.is_empty());
}

/// Fields of a packet that was written.
struct Expected {
    kind: PacketKind,
    scid: ConnectionId,
    token: Vec<u8>,
    number: NewNumber,
    bits: [bool; 3],
    mask: [u8; 16],
    header_len: usize,
}

fn cid(source: &mut Source<'_>) -> ConnectionId {
    ConnectionId::new(&source.string(20)).expect("at most 20 bytes")
}

fn write(format: &Format, dcid: &ConnectionId, source: &mut Source<'_>) -> Option<(Vec<u8>, Expected)> {
    let kinds = [PacketKind::Initial, PacketKind::ZeroRtt, PacketKind::Handshake, PacketKind::OneRtt];
    let kind = source.choose(&kinds);
    let bits @ [spin, key_phase, fixed_bit] = [source.flag(), source.flag(), source.flag()];
    let unacked = 1 + source.value() % (1 << 29);
    let pn = source.value() % (1 << 60) + unacked;
    let announced = source.flag().then(|| Announced {
        // Stream 0 has no name (docs/vreverso.md).
        stream: StreamId::from_u64(1 + source.value() % (1 << 29)),
        offset: source.value(),
        distance: u64::from(source.number()),
    });
    let is_data = matches!(kind, PacketKind::ZeroRtt | PacketKind::OneRtt);
    let announced = announced.filter(|_| format.names_stream && is_data);
    let number = NewNumber { pn, unacked, announced };
    let (scid, token) = (cid(source), source.string(60));
    let mut packet = source.bytes(SIZE);
    let outgoing = if kind == PacketKind::OneRtt {
        format.write_short(&mut packet, &NewShort { dcid, spin, key_phase, number, fixed_bit })?
    } else {
        let header = NewLong { kind, dcid, scid: &scid, token: &token, number, fixed_bit };
        let outgoing = format.write_long(&mut packet, &header)?;
        format.set_length(&mut packet, &outgoing);
        outgoing
    };
    assert_eq!(outgoing.kind, kind);
    let mask = source.array();
    format.mask(&mut packet, &outgoing, &mask);
    let header_len = outgoing.header_len;
    Some((packet, Expected { kind, scid, token, number, bits, mask, header_len }))
}

/// Reads the first packet. Returns the bytes after it.
fn read<'a>(
    format: &Format,
    dcid: &ConnectionId,
    datagram: &'a mut [u8],
    expected: &Expected,
) -> &'a mut [u8] {
    let parsed = parse_packet(datagram, dcid.len()).expect("a packet of our own");
    assert_eq!((parsed.kind, parsed.dcid, parsed.end), (expected.kind, *dcid, SIZE));
    let [spin, key_phase, fixed_bit] = expected.bits;
    assert_eq!(parsed.fixed_bit, fixed_bit);
    if expected.kind == PacketKind::Initial {
        assert_eq!(datagram[parsed.token.clone()], expected.token);
    }
    let (packet, rest) = datagram.split_at_mut(parsed.end);
    let opened = format.unmask(packet, parsed.kind, parsed.pn_offset, &expected.mask);
    assert_eq!((opened.header_len, opened.reserved_ok), (expected.header_len, true));
    let NewNumber { pn, unacked, announced } = expected.number;
    assert_eq!(decode_packet_number(Some(pn - unacked), opened.truncated_pn, opened.pn_bits), pn);
    if expected.kind == PacketKind::OneRtt {
        assert_eq!(
            (opened.spin && format.version == Version::V1, opened.key_phase),
            (spin && format.version == Version::V1, key_phase)
        );
    } else {
        assert_eq!((parsed.scid, parsed.version), (expected.scid, Some(format.version)));
    }
    if let Some(announced) = announced {
        let placement = opened.placement.expect("the header names a stream");
        assert!(placement.matches(announced.stream, announced.offset));
    }
    rest
}
