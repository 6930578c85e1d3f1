//! Tests of invalid input on the decoder stream, of the choice of entries, and of the encoder's limits.

use super::super::outstanding::{MAX_BLOCKING_STREAMS, MAX_OUTSTANDING_SECTIONS};
use super::*;

fn encoder(blocked_streams: u64) -> Encoder {
    let mut encoder = Encoder::new();
    encoder.set_limits(4096, blocked_streams);
    encoder.instructions().clear();
    encoder
}

fn encode(encoder: &mut Encoder, stream: u64, lines: &[(&str, &str)]) -> Vec<u8> {
    encode_with(encoder, stream, lines, false, usize::MAX)
}

fn encode_with(
    encoder: &mut Encoder,
    stream: u64,
    lines: &[(&str, &str)],
    sensitive: bool,
    room: usize,
) -> Vec<u8> {
    let mut out = Vec::new();
    let fields =
        lines.iter().map(|(name, value)| Field { name: name.as_bytes(), value: value.as_bytes(), sensitive });
    encoder.encode(stream, fields, room, &mut out);
    out
}

/// Creates an encoder whose table contains `x-a: 1`, acknowledged by the decoder.
fn with_entry(blocked_streams: u64) -> Encoder {
    let mut encoder = encoder(blocked_streams);
    encode(&mut encoder, 0, &[("x-a", "1")]);
    encode(&mut encoder, 4, &[("x-a", "1")]);
    assert_eq!(encoder.table.insert_count(), 1);
    if encoder.known_received_count == 0 {
        encoder.on_decoder_stream(&[1]).unwrap();
    }
    encoder
}

#[test]
fn without_settings_there_is_no_dynamic_table() {
    let mut encoder = Encoder::new();
    for stream in 0..4 {
        assert_eq!(
            encode(&mut encoder, stream, &[(":path", "/"), ("a", "b")]),
            [0, 0, 0xc1, 0x21, b'a', 1, b'b']
        );
    }
    assert!(encoder.instructions().is_empty());
    encoder.set_limits(31, 100);
    assert!(encoder.instructions().is_empty(), "a table without room for an entry is not used");
    encoder.set_limits(1 << 62, 100);
    assert_eq!(encoder.table.capacity(), MAX_ENCODER_TABLE);
    assert_eq!(*encoder.instructions(), [0x3f, 0xe1, 0x7f]);
    encoder.set_limits(100, 100);
    assert_eq!(encoder.instructions().len(), 3, "a table in use keeps its capacity");
}

#[test]
fn faults_of_the_decoder_stream() {
    for (what, bytes) in [
        ("an increment of zero", &[0x00][..]),
        ("an increment beyond what was inserted", &[0x01]),
        ("a large increment", &[0x3f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f]),
        ("an acknowledgment of an unknown stream", &[0x88]),
        ("an acknowledgment of a section without references", &[0x80]),
        ("an integer above all numbers", &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]),
    ] {
        let mut encoder = with_entry(0);
        let code = encoder.on_decoder_stream(bytes).unwrap_err().code;
        assert_eq!(code, Code::QPACK_DECODER_STREAM_ERROR, "{what}");
    }
    let mut encoder = with_entry(0);
    encode(&mut encoder, 8, &[("x-a", "1")]);
    encoder.on_decoder_stream(&[0x88]).unwrap();
    assert!(encoder.on_decoder_stream(&[0x88]).is_err(), "the section was acknowledged before");
}

#[test]
fn sections_of_a_stream_are_acknowledged_in_their_order() {
    let mut encoder = encoder(1);
    for _ in 0..2 {
        encode(&mut encoder, 0, &[("x-a", "1")]);
    }
    assert_eq!(encoder.table.insert_count(), 1);
    encode(&mut encoder, 0, &[("x-b", "1")]);
    encode(&mut encoder, 0, &[("x-b", "1")]);
    assert_eq!(encoder.table.insert_count(), 2);
    encoder.on_decoder_stream(&[0x80]).unwrap();
    assert_eq!(encoder.known_received_count, 1);
    encoder.on_decoder_stream(&[0x80]).unwrap();
    assert_eq!(encoder.known_received_count, 2);
    assert!(encoder.on_decoder_stream(&[0x80]).is_err());
}

#[test]
fn instructions_may_come_byte_by_byte() {
    let mut encoder = encoder(4);
    for stream in [1000, 2000] {
        encode(&mut encoder, stream, &[("x-a", "1")]);
    }
    for byte in [0xff, 0xd1] {
        encoder.on_decoder_stream(&[byte]).unwrap();
        assert_eq!(encoder.known_received_count, 0);
    }
    encoder.on_decoder_stream(&[0x0e]).unwrap();
    assert_eq!(encoder.known_received_count, 1);
}

#[test]
fn the_second_sight_inserts() {
    let mut encoder = encoder(0);
    encode(&mut encoder, 0, &[("x-a", "1"), (":path", "X"), (":path", "Z")]);
    assert!(encoder.instructions().is_empty());
    encode(&mut encoder, 4, &[("x-a", "2"), (":path", "X"), (":path", "&")]);
    // Two insertions: a name from the dynamic table with a new value, and a name from the static table.
    assert_eq!(*encoder.instructions(), b"\x43x-a\x012\xc1\x01X");
    // The section refers to no entry that the decoder may lack, because no stream may block.
    assert_eq!(encode(&mut encoder, 8, &[(":path", "X")]), b"\0\0\x51\x01X");
    encoder.on_decoder_stream(&[2]).unwrap();
    assert_eq!(encode(&mut encoder, 8, &[(":path", "X")]), [3, 0, 0x80]);
    assert_eq!(encode(&mut encoder, 8, &[("x-a", "3")]), [2, 1, 0x41, 1, b'3'], "its name alone");
    assert_eq!(encoder.instructions().len(), 9);
}

#[test]
fn sensitive_lines_are_literals_for_ever() {
    let mut encoder = with_entry(4);
    let inserted = encoder.table.insert_count();
    for stream in 0..4 {
        let section =
            encode_with(&mut encoder, stream, &[("x-a", "1"), (":method", "GET")], true, usize::MAX);
        assert_eq!(section, b"\x02\0\x60\x011\x7f\x02\x03GET");
        for (name, value) in [("authorization", "Basic dTpw"), ("cookie", "id=1")] {
            let section = encode(&mut encoder, stream, &[(name, value)]);
            assert_eq!(section[2] & 0xf0, 0x70, "{name}");
        }
    }
    assert_eq!(encoder.table.insert_count(), inserted);
    for stream in 4..6 {
        encode(&mut encoder, stream, &[("cookie", "id=0123456789abcdef0123456789abcdef")]);
    }
    assert_eq!(
        encoder.table.insert_count(),
        inserted + 1,
        "a cookie that nobody guesses is not literal for ever"
    );
}

#[test]
fn large_lines_stay_out() {
    let mut encoder = encoder(4);
    let (large, small) = ("x".repeat(1024 - 32), "x".repeat(1024 - 32 - 3));
    for stream in 0..4 {
        encode(&mut encoder, stream, &[("x-a", &large)]);
    }
    assert_eq!(encoder.table.insert_count(), 0);
    for stream in 0..4 {
        encode(&mut encoder, stream, &[("x-a", &small)]);
    }
    assert_eq!(encoder.table.insert_count(), 1);
}

#[test]
fn instructions_stay_within_the_room() {
    let mut encoder = encoder(4);
    for stream in 0..4 {
        encode_with(&mut encoder, stream, &[("x-a", "1")], false, 5);
    }
    assert!(encoder.instructions().is_empty());
    encode_with(&mut encoder, 4, &[("x-a", "1"), ("x-b", "1")], false, 6);
    assert_eq!(*encoder.instructions(), b"\x43x-a\x011");
    // Bytes that were queued by earlier calls do not count towards the room.
    encode_with(&mut encoder, 5, &[("x-b", "1")], false, 5);
    assert_eq!(encoder.instructions().len(), 6);
    encode_with(&mut encoder, 5, &[("x-b", "1")], false, 6);
    assert_eq!(encoder.instructions().len(), 12);
}

#[test]
fn blocked_streams_stay_within_the_allowance() {
    for (allowance, streams) in [(0, 0), (3, 3), (1 << 40, MAX_BLOCKING_STREAMS as u64)] {
        let mut encoder = encoder(allowance);
        encode(&mut encoder, 0, &[("x-a", "1")]);
        encode(&mut encoder, 0, &[("x-a", "1")]);
        assert_eq!(encoder.table.insert_count(), 1);
        let mut blocking = 0;
        for stream in (0..1000).chain(0..1000) {
            let section = encode(&mut encoder, stream, &[("x-a", "1")]);
            blocking += u64::from(section[0] > 0);
        }
        // Only `streams` streams may block. Each of them may refer to the entry in both of its sections.
        assert_eq!(blocking, 2 * streams);
        encoder.on_decoder_stream(&[1]).unwrap();
        assert!(encode(&mut encoder, 2000, &[("x-a", "1")])[0] > 0);
    }
}

#[test]
fn a_cancelled_stream_gives_its_allowance_back() {
    let mut encoder = encoder(1);
    for stream in [0, 4] {
        encode(&mut encoder, stream, &[("x-a", "1")]);
    }
    assert_eq!(encode(&mut encoder, 8, &[("x-a", "1")])[0], 0);
    encoder.on_decoder_stream(&[0x44]).unwrap();
    assert_eq!(encoder.known_received_count, 0, "a cancellation says nothing about entries");
    assert_eq!(encode(&mut encoder, 8, &[("x-a", "1")])[0], 2);
    encoder.on_decoder_stream(&[0x44, 0x7f, 0xff, 0x01]).unwrap();
}

#[test]
fn outstanding_sections_are_bounded() {
    let mut encoder = with_entry(0);
    for stream in 0..MAX_OUTSTANDING_SECTIONS as u64 {
        assert_eq!(encode(&mut encoder, 4 * stream, &[("x-a", "1")]), [2, 0, 0x80]);
    }
    assert_eq!(encode(&mut encoder, 0, &[("x-a", "1")])[..2], [0, 0]);
    encoder.on_decoder_stream(&[0x80]).unwrap();
    assert_eq!(encode(&mut encoder, 0, &[("x-a", "1")]), [2, 0, 0x80]);
}

/// Checks that entries to which a section refers, and entries that the decoder may lack, are not evicted (RFC
/// 9204 §2.1.1).
#[test]
fn referenced_and_unacknowledged_entries_stay() {
    let mut encoder = Encoder::new();
    encoder.set_limits(200, 1);
    let fill = |encoder: &mut Encoder, name: &str| {
        for stream in [100, 104] {
            encode(encoder, stream, &[(name, "1")]);
        }
    };
    for name in ["x-a", "x-b", "x-c", "x-d", "x-e"] {
        fill(&mut encoder, name);
    }
    assert_eq!(encoder.table.insert_count(), 5);
    fill(&mut encoder, "x-f");
    assert_eq!(encoder.table.insert_count(), 5, "nothing is acknowledged");
    encoder.on_decoder_stream(&[5]).unwrap();
    fill(&mut encoder, "x-f");
    assert_eq!(encoder.table.insert_count(), 5, "stream 104 refers to the first entry");
    encoder.on_decoder_stream(&[0x7f, 104 - 63]).unwrap();
    fill(&mut encoder, "x-f");
    assert_eq!(encoder.table.insert_count(), 6);
    assert!(!encoder.table.contains(0) && encoder.table.contains(1));
}

/// Checks that lines of one section do not displace each other from the history.
#[test]
fn every_line_of_a_repeated_section_enters_the_table() {
    let mut encoder = encoder(0);
    let lines: Vec<(String, String)> =
        (0..16).map(|line| (format!("x-{line}"), "value".to_owned())).collect();
    let lines: Vec<(&str, &str)> =
        lines.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    for stream in 0..3 {
        encode(&mut encoder, stream, &lines);
    }
    assert_eq!(encoder.table.insert_count(), 16);
}
