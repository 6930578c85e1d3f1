//! Invariants of the headers of any datagram. The first byte gives the length of short connection IDs.

use anabranch_wire::{HeaderError, Version, decode_packet_number, offered_versions, parse_packet};

pub(crate) fn run(data: &[u8]) {
    let Some((&short_cid_len, datagram)) = data.split_first() else { return };
    let mut datagram = datagram.to_vec();
    let mut rest = &mut datagram[..];
    loop {
        match parse_packet(rest, usize::from(short_cid_len % 24)) {
            Ok(packet) => {
                assert!(packet.pn_offset <= packet.end && packet.end <= rest.len());
                assert!(packet.token.start <= packet.token.end && packet.token.end <= packet.end);
                let (bytes, next) = rest.split_at_mut(packet.end);
                let _ = offered_versions(&bytes[packet.pn_offset..]).count();
                for format in Version::SUPPORTED.iter().filter_map(|version| version.format()) {
                    let Some(mask) = format.sample(bytes, packet.kind, packet.pn_offset) else { continue };
                    let opened = format.unmask(bytes, packet.kind, packet.pn_offset, &mask);
                    assert!(packet.pn_offset < opened.header_len && opened.header_len <= bytes.len());
                    let pn = decode_packet_number(Some(1 << 40), opened.truncated_pn, opened.pn_bits);
                    assert_eq!(pn & ((1 << opened.pn_bits) - 1), opened.truncated_pn);
                }
                rest = next;
            }
            Err(HeaderError::UnknownVersion { version, dcid, scid }) => {
                assert!(version.format().is_none());
                assert!(dcid.end < scid.start && scid.end <= rest.len());
                return;
            }
            Err(_) => return,
        }
    }
}
