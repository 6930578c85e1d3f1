//! Invariants of Version Negotiation and Retry: the fields that were written are read, and no offer has more
//! versions than are allowed.

use anabranch_testkit::source::Source;
use anabranch_wire::{
    ConnectionId, MAX_OFFERED_VERSIONS, PacketKind, RETRY_TAG_LEN, Version, offered_versions, parse_packet,
    write_retry, write_version_negotiation,
};

pub(crate) fn run(data: &[u8]) {
    let mut source = Source::new(data);
    let seed = source.byte();
    let (dcid, scid) = (source.string(20), source.string(20));
    let (dcid, scid) = (ConnectionId::new(&dcid).expect("short"), ConnectionId::new(&scid).expect("short"));
    let format = source.choose(Version::SUPPORTED).format().expect("a version that is spoken");
    let token = source.string(255);

    let mut retry = Vec::new();
    write_retry(format, &mut retry, &dcid, &scid, &token, seed);
    let tag: [u8; RETRY_TAG_LEN] = source.array();
    retry.extend(tag);
    if token.is_empty() {
        // RFC 9000 §17.2.5.2: a client discards a Retry whose token is empty, which the transport does.
        let _ = parse_packet(&retry, 0);
    } else {
        let parsed = parse_packet(&retry, 0).expect("a packet of our own");
        assert_eq!((parsed.kind, parsed.version), (PacketKind::Retry, Some(format.version)));
        assert_eq!((parsed.dcid, parsed.scid, parsed.end), (dcid, scid, retry.len()));
        assert_eq!(retry[parsed.token], token);
    }

    let versions: Vec<_> = source.rest().chunks_exact(4).map(version).collect();
    let mut offer = Vec::new();
    write_version_negotiation(&mut offer, &dcid, &scid, &versions, seed);
    let Ok(parsed) = parse_packet(&offer, 0) else {
        assert!(versions.is_empty(), "an offer of versions");
        return;
    };
    assert_eq!((parsed.kind, parsed.dcid, parsed.scid), (PacketKind::VersionNegotiation, dcid, scid));
    let offered = offered_versions(&offer[parsed.pn_offset..]);
    assert!(offered.eq(versions.iter().take(MAX_OFFERED_VERSIONS).copied()));
}

fn version(bytes: &[u8]) -> Version {
    Version(bytes.iter().fold(0, |version, byte| version << 8 | u32::from(*byte)))
}
