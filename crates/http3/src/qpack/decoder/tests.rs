//! Tests of invalid input with its exact error code, and of the decoder's limits.

use super::super::integer::write;
use super::*;

const LIMITS: Limits = Limits { max_size: 64 * 1024, max_fields: 256 };

/// Creates a decoder with the entries `a: 1` and `b: 2` that permits one blocked stream.
fn decoder() -> Decoder {
    let mut decoder = Decoder::new(4096, 1);
    decoder.on_encoder_stream(&[0x3f, 0xe1, 0x1f, 0x41, b'a', 1, b'1', 0x41, b'b', 1, b'2']).unwrap();
    decoder
}

/// Creates a decoder with an empty table that uses its maximum capacity.
fn decoder_of(capacity: u64) -> Decoder {
    let mut decoder = Decoder::new(capacity, 0);
    let mut instruction = Vec::new();
    write(&mut instruction, 0x20, 5, capacity);
    decoder.on_encoder_stream(&instruction).unwrap();
    decoder
}

fn decode_code(decoder: &mut Decoder, section: &[u8]) -> Code {
    decoder.decode(0, section, &LIMITS, &mut |_| {}).unwrap_err().code
}

fn count(decoder: &mut Decoder, section: &[u8], limits: &Limits) -> (Decoded, usize, usize) {
    let (mut lines, mut bytes) = (0, 0);
    let mut sink = |line: FieldLine<'_>| {
        lines += 1;
        bytes += line.name.len() + line.value.len();
    };
    let decoded = decoder.decode(0, section, limits, &mut sink).unwrap();
    (decoded, lines, bytes)
}

#[test]
fn faults_of_a_field_section() {
    for (what, section) in [
        ("nothing", &[][..]),
        ("no base", &[0]),
        ("static index 99", &[0, 0, 0xff, 36]),
        ("static name 99", &[0, 0, 0x5f, 84, 0]),
        ("a large static index", &[0, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f]),
        (
            "an endless integer",
            &[0, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff],
        ),
        ("a cut index", &[0, 0, 0xff]),
        ("a cut name", &[0, 0, 0x23, b'a']),
        ("a cut value", &[0, 0, 0x21, b'a', 2, b'1']),
        ("no value", &[0, 0, 0x51]),
        ("a reference without a required insert count", &[0, 0, 0x80]),
        ("a post-base reference without a required insert count", &[0, 0, 0x10]),
        ("a reference beyond the required insert count", &[2, 1, 0x80]),
        ("a post-base reference beyond the required insert count", &[2, 0, 0x10]),
        ("a name beyond the required insert count", &[2, 1, 0x40, 0]),
        ("a post-base name beyond the required insert count", &[2, 0, 0, 0]),
        ("a reference before the first entry", &[3, 0, 0x82]),
        ("a negative base", &[2, 0x81, 0x80]),
        ("a base of zero has nothing before it", &[2, 0x80, 0x80]),
        ("a required insert count above the range", &[0xff, 2, 0]),
        ("Huffman padding of zeros", &[0, 0, 0x51, 0x81, 0b0001_1000]),
        ("Huffman padding of eight bits", &[0, 0, 0x51, 0x82, 0b0001_1111, 0xff]),
        ("end of string within a string", &[0, 0, 0x51, 0x84, 0xff, 0xff, 0xff, 0xff]),
        ("end of string within a name", &[0, 0, 0x2c, 0xff, 0xff, 0xff, 0xff, 0]),
    ] {
        assert_eq!(decode_code(&mut decoder(), section), Code::QPACK_DECOMPRESSION_FAILED, "{what}");
    }
}

#[test]
fn the_prefix_is_needed_without_a_table_too() {
    let mut decoder = Decoder::new(0, 0);
    assert_eq!(decode_code(&mut decoder, &[1, 0]), Code::QPACK_DECOMPRESSION_FAILED);
    assert_eq!(count(&mut decoder, &[0, 0], &LIMITS), (Decoded::Complete, 0, 0));
    assert_eq!(count(&mut decoder, &[0, 0x7f, 0xff, 0x7f, 0xd1], &LIMITS), (Decoded::Complete, 1, 10));
    decoder.cancel(0);
    assert!(decoder.instructions().is_empty(), "without a table there is nothing to tell");
}

/// Checks the example of RFC 9204 §4.5.1.1, and the values at the edges of the window.
#[test]
fn required_insert_counts_wrap() {
    let mut decoder = Decoder::new(100, 1);
    decoder.on_encoder_stream(&[0x3f, 69]).unwrap();
    for _ in 0..10 {
        decoder.on_encoder_stream(&[0x40, 0]).unwrap();
    }
    let required = |encoded| decoder.required_insert_count(encoded);
    assert_eq!(required(4), Ok(9));
    assert_eq!([1, 2, 3, 5, 6].map(|encoded| required(encoded).unwrap()), [12, 13, 8, 10, 11]);
    assert!(required(7).is_err());

    let fresh = Decoder::new(100, 1);
    assert_eq!(fresh.required_insert_count(4), Ok(3));
    assert!(fresh.required_insert_count(1).is_err(), "zero is not written as a wrapped zero");
    assert!(fresh.required_insert_count(5).is_err(), "four entries do not fit");
}

#[test]
fn faults_of_the_encoder_stream() {
    for (what, bytes) in [
        ("a capacity above the limit", &[0x3f, 0xe2, 0x1f][..]),
        (
            "a capacity above all numbers",
            &[0x3f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff],
        ),
        ("a static name of index 99", &[0xff, 36, 0]),
        ("a dynamic name before the first entry", &[0x82, 0]),
        ("a duplicate before the first entry", &[0x02]),
        ("a value larger than the table", &[0xc1, 0x7f, 0xe2, 0x1e]),
        ("a name larger than the table", &[0x5f, 0xe2, 0x1f]),
        ("Huffman padding of zeros", &[0xc1, 0x81, 0b0001_1000]),
        ("Huffman padding of zeros in a name", &[0x61, 0b0001_1000, 0]),
        ("end of string within a string", &[0xc1, 0x84, 0xff, 0xff, 0xff, 0xff]),
    ] {
        let code = decoder().on_encoder_stream(bytes).unwrap_err().code;
        assert_eq!(code, Code::QPACK_ENCODER_STREAM_ERROR, "{what}");
        // The same input byte by byte: an error is reported as soon as the bytes are invalid.
        let mut decoder = decoder();
        let code = bytes.iter().find_map(|byte| decoder.on_encoder_stream(&[*byte]).err());
        assert_eq!(code.map(|error| error.code), Some(Code::QPACK_ENCODER_STREAM_ERROR), "{what}");
    }
}

#[test]
fn instructions_cannot_use_what_was_evicted() {
    for (what, latest, evicted) in
        [("a duplicate", &[0x00][..], &[0x01][..]), ("an insertion with its name", &[0x80, 0], &[0x81, 0])]
    {
        let decoder = || {
            let mut decoder = decoder_of(40);
            decoder.on_encoder_stream(&[0x41, b'a', 1, b'1', 0x41, b'b', 1, b'2']).unwrap();
            decoder
        };
        decoder().on_encoder_stream(latest).unwrap();
        let code = decoder().on_encoder_stream(evicted).unwrap_err().code;
        assert_eq!(code, Code::QPACK_ENCODER_STREAM_ERROR, "{what}");
    }
}

#[test]
fn an_entry_that_does_not_fit_is_a_fault() {
    for insert in [&[0x40, 0][..], &[0xc1, 0], &[0x41, b'a', 1, b'1']] {
        let code = Decoder::new(4096, 0).on_encoder_stream(insert).unwrap_err().code;
        assert_eq!(code, Code::QPACK_ENCODER_STREAM_ERROR, "nothing fits before a capacity is set");
    }
    let mut decoder = Decoder::new(34, 0);
    decoder.on_encoder_stream(&[0x3f, 3, 0x41, b'a', 1, b'1']).unwrap();
    let insert = decoder.on_encoder_stream(&[0x41, b'a', 2, b'1', b'2']);
    assert_eq!(insert.unwrap_err().code, Code::QPACK_ENCODER_STREAM_ERROR);
}

#[test]
fn an_entry_may_take_its_name_from_the_entry_that_it_displaces() {
    let mut decoder = Decoder::new(40, 0);
    decoder.on_encoder_stream(&[0x3f, 9, 0x41, b'a', 1, b'1', 0x80, 1, b'2', 0x00]).unwrap();
    assert_eq!(decoder.table.oldest(), 2);
    let entry = decoder.table.get(2).unwrap();
    assert_eq!((entry.name(), entry.value()), (&b"a"[..], &b"2"[..]));
}

#[test]
fn streams_beyond_the_allowance_may_not_block() {
    let mut decoder = decoder();
    let blocked = [4, 0, 0x80];
    assert_eq!(decoder.decode(0, &blocked, &LIMITS, &mut |_| {}), Ok(Decoded::Blocked));
    assert_eq!(
        decoder.decode(0, &blocked, &LIMITS, &mut |_| {}),
        Ok(Decoded::Blocked),
        "it is the same stream"
    );
    assert_eq!(decode_code_of(&mut decoder, 4, &blocked), Code::QPACK_DECOMPRESSION_FAILED);
    decoder.cancel(0);
    assert_eq!(decoder.decode(4, &blocked, &LIMITS, &mut |_| {}), Ok(Decoded::Blocked));
    decoder.on_encoder_stream(&[0x00]).unwrap();
    // A stream that is no longer blocked does not count towards the limit, even before it is decoded.
    assert_eq!(decoder.decode(8, &[5, 0, 0x80], &LIMITS, &mut |_| {}), Ok(Decoded::Blocked));
    assert_eq!((decoder.take_unblocked(), decoder.take_unblocked()), (Some(4), None));
    assert_eq!(decoder.decode(4, &blocked, &LIMITS, &mut |_| {}), Ok(Decoded::Complete));
}

fn decode_code_of(decoder: &mut Decoder, stream: u64, section: &[u8]) -> Code {
    decoder.decode(stream, section, &LIMITS, &mut |_| {}).unwrap_err().code
}

/// Checks row 14 of the attack table: 1 KB of input decodes to at most 64 KiB, in every encoding.
#[test]
fn expansion_is_bounded() {
    let mut decoder = decoder_of(4096);
    decoder.on_encoder_stream(&[0x5f, 0xa0, 0x1f]).unwrap();
    decoder.on_encoder_stream(&[b'x'; 4031]).unwrap();
    decoder.on_encoder_stream(&[0]).unwrap();
    let limits = Limits { max_size: 64 * 1024, max_fields: usize::MAX };

    let indexed = [&[2, 0][..], &[0x80; 1000]].concat();
    let names = [&[2, 0][..], &[0x40, 0].repeat(500)].concat();
    for section in [indexed, names] {
        let (decoded, lines, bytes) = count(&mut decoder, &section, &limits);
        assert_eq!((decoded, lines), (Decoded::TooLarge, 64 * 1024 / (4031 + 32)));
        assert!(bytes + 32 * lines <= 64 * 1024, "{lines} lines of {bytes} bytes");
    }
    let huffman = [&[0, 0][..], &[0x51, 0x85, 0, 0, 0, 0, 0].repeat(140)].concat();
    let (decoded, lines, bytes) = count(&mut decoder, &huffman, &Limits { max_size: 1024, ..limits });
    assert_eq!((decoded, lines, bytes), (Decoded::TooLarge, 1024 / (32 + 5 + 8), 22 * (5 + 8)));
    let empty = [&[0, 0][..], &[0xc0; 1000]].concat();
    let (decoded, lines, _) = count(&mut decoder, &empty, &Limits { max_fields: 256, ..limits });
    assert_eq!((decoded, lines), (Decoded::TooLarge, 256));
    let told = std::mem::take(decoder.instructions());
    assert_eq!(told, [0x40, 0x40, 0x40, 0x40, 0x01], "cancelled four times; the entry has come");
}

#[test]
fn limits_are_exact() {
    let section = [0, 0, 0xd1, 0x21, b'a', 2, b'1', b'2', 0x51, 0x85, 0, 0, 0, 0, 0];
    let sizes = [42, 42 + 35, 42 + 35 + 45];
    for (lines, size) in sizes.into_iter().enumerate().map(|(index, size)| (index + 1, size)) {
        let limits = Limits { max_size: size, max_fields: 3 };
        assert_eq!(count(&mut decoder(), &section, &limits).1, lines, "{size} bytes");
        let limits = Limits { max_size: size - 1, max_fields: 3 };
        assert_eq!(count(&mut decoder(), &section, &limits).1, lines - 1, "{} bytes", size - 1);
        let limits = Limits { max_size: 1000, max_fields: lines };
        assert_eq!(count(&mut decoder(), &section, &limits).1, lines, "{lines} lines");
    }
    let exact = Limits { max_size: sizes[2], max_fields: 3 };
    assert_eq!(count(&mut decoder(), &section, &exact).0, Decoded::Complete);
    assert_eq!(count(&mut decoder(), &section, &Limits { max_fields: 2, ..exact }).0, Decoded::TooLarge);
    assert_eq!(
        count(&mut decoder(), &section, &Limits { max_size: sizes[2] - 1, ..exact }).0,
        Decoded::TooLarge
    );
    // The decoder does not wait for a string whose declared length exceeds the remaining limit.
    assert_eq!(
        count(&mut decoder(), &[0, 0, 0x51, 101], &Limits { max_size: 132, max_fields: 1 }).0,
        Decoded::TooLarge
    );
}

/// Checks that the bytes kept while an instruction is incomplete are bounded by the largest possible entry.
#[test]
fn pending_instructions_are_bounded() {
    let mut decoder = decoder_of(4096);
    // Longest encoded name and value that can still be valid: 30 bits for each byte of an entry.
    let longest = 4064 * 30 / 8;
    let mut insert = Vec::new();
    write(&mut insert, 0x60, 5, longest);
    insert.resize(insert.len() + longest as usize, 0x55);
    write(&mut insert, 0x80, 7, longest);
    insert.resize(insert.len() + longest as usize - 1, 0x55);
    for piece in insert.chunks(100) {
        decoder.on_encoder_stream(piece).unwrap();
    }
    assert_eq!(decoder.pending.len(), insert.len());
    assert!(insert.len() < 8 * 4096);
    let code = decoder.on_encoder_stream(&[0x55]).unwrap_err().code;
    assert_eq!(code, Code::QPACK_ENCODER_STREAM_ERROR);

    let mut insert = Vec::new();
    write(&mut insert, 0x60, 5, longest + 8);
    let code = decoder_of(4096).on_encoder_stream(&insert).unwrap_err().code;
    assert_eq!(code, Code::QPACK_ENCODER_STREAM_ERROR, "more is refused before it comes");
}

#[test]
fn unsent_instructions_are_bounded() {
    let mut decoder = decoder();
    let mut last = Ok(Decoded::Complete);
    let mut acknowledged = 0;
    while last.is_ok() && acknowledged < 2 * MAX_UNSENT_INSTRUCTIONS {
        last = decoder.decode(0, &[2, 0, 0x80], &LIMITS, &mut |_| {});
        acknowledged += 1;
    }
    assert_eq!(last.unwrap_err().code, Code::EXCESSIVE_LOAD);
    for stream in 0..1000 {
        decoder.cancel(stream);
    }
    assert!(decoder.instructions().len() <= MAX_UNSENT_INSTRUCTIONS + 10);
}

#[test]
fn increments_tell_what_no_section_told() {
    let mut decoder = decoder();
    assert_eq!(decoder.decode(4, &[2, 0, 0x80], &LIMITS, &mut |_| {}), Ok(Decoded::Complete));
    assert_eq!(std::mem::take(decoder.instructions()), [0x84, 0x01]);
    assert!(decoder.instructions().is_empty());
    decoder.on_encoder_stream(&[0x00, 0x00]).unwrap();
    assert_eq!(std::mem::take(decoder.instructions()), [0x02]);
}

#[test]
fn the_never_indexed_bit_is_passed_on() {
    let mut decoder = decoder();
    // Static name, dynamic name, literal name, post-base name; each without and with the never-indexed bit.
    for (plain, never) in [(0x51, 0x71), (0x40, 0x60), (0x21, 0x31), (0x00, 0x08)] {
        for (first, never_indexed) in [(plain, false), (never, true)] {
            let name: &[u8] = if first & 0xe0 == 0x20 { b"n" } else { b"" };
            let base = if first & 0xf0 == 0 { 0x80 } else { 0x00 };
            let section = [&[2, base, first][..], name, &[1, b'v']].concat();
            let mut got = None;
            let mut sink = |line: FieldLine<'_>| got = Some((line.value == b"v", line.never_indexed));
            assert_eq!(decoder.decode(0, &section, &LIMITS, &mut sink), Ok(Decoded::Complete));
            assert_eq!(got, Some((true, never_indexed)), "{first:#x}");
        }
    }
}
