//! Checks that the peer decodes the settings that this end encodes, and that settings do not depend on their order.

use anabranch_http3::{Settings, datagram_overhead, decode_datagram, encode_datagram};
use anabranch_testkit::source::Source;
use anabranch_wire::{Dir, Side, StreamId, push_varint};

/// Maximum number of further settings in a frame.
const MAX_FURTHER: usize = 12;

pub(crate) fn run(data: &[u8]) {
    let mut source = Source::new(data);
    let mut settings = Settings::default();
    settings.qpack_max_table_capacity = source.value();
    settings.qpack_blocked_streams = source.value();
    settings.max_field_section_size = source.flag().then(|| source.value());
    settings.enable_connect_protocol = source.flag();
    settings.h3_datagram = source.flag();
    let grease = source.flag().then(|| source.value());
    let mut payload = Vec::new();
    settings.encode(grease, &mut payload);
    assert_eq!(Settings::decode(&payload), Ok(settings));
    datagram(&mut source);
    further(settings, &mut source);
}

/// Encodes settings of which this end knows none behind those that it knows.
fn further(settings: Settings, source: &mut Source<'_>) {
    let (mut before, mut after) = (Vec::new(), Vec::new());
    settings.encode(None, &mut after);
    for index in 0..source.byte() as usize % MAX_FURTHER {
        // Identifiers that no specification uses, and each only once.
        push_varint(&mut before, 0x1000 + source.value() % (1 << 40) * 256 + index as u64);
        push_varint(&mut before, source.value());
    }
    let one = Settings::decode(&[&before[..], &after].concat());
    let other = Settings::decode(&[&after[..], &before].concat());
    assert_eq!(one.is_ok(), other.is_ok());
    if let Ok(one) = one {
        assert_eq!((one, other), (settings, Ok(settings)));
    }
}

/// Encodes an HTTP datagram of a request.
fn datagram(source: &mut Source<'_>) {
    let stream = StreamId::new(Side::Client, Dir::Bi, source.value() >> 2);
    let payload = source.string(255);
    let encoded = encode_datagram(stream, &payload);
    assert_eq!(encoded.len(), payload.len() + datagram_overhead(stream));
    assert_eq!(decode_datagram(encoded), Ok((stream, payload.into())));
}
