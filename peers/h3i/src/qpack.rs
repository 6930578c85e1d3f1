//! Faults in field sections and on QPACK streams (RFC 9204 §2.2.3, §4, §6).

use h3i::actions::h3::Action;
use h3i::{QPACK_DECODER_STREAM_TYPE_ID, QPACK_ENCODER_STREAM_TYPE_ID};

use crate::case::Case;
use crate::script::*;

pub fn cases() -> Vec<Case> {
    [sections(), encoder_stream(), decoder_stream(), streams()].into_iter().flatten().collect()
}

fn sections() -> Vec<Case> {
    let section =
        |name, block: &[u8]| Case::closes(name, 0x200, after_preface([send_last(FIRST, headers(block))]));
    vec![
        // Static index 99; the table ends at 98.
        section("section-static-index", &[0, 0, 0xff, 0x24]),
        // A name from static index 99.
        section("section-static-name", &[0, 0, 0x5f, 0x54, 0]),
        // Dynamic index 0, although the section's required insert count is zero.
        section("section-dynamic-index", &[0, 0, 0x80]),
        // Post-base index 0, although the section's required insert count is zero.
        section("section-post-base-index", &[0, 0, 0x10]),
        // A required insert count that no table can reach.
        section("section-required-insert-count", &[0xff, 0xff, 0xff, 0xff, 0x7f, 0, 0x80]),
        // A three-byte literal name of which only one byte is present.
        section("section-cut-literal", &[0, 0, 0x23, b'x']),
        // A prefix of which only half is present.
        section("section-cut-prefix", &[0]),
        // :authority with a Huffman string that contains EOS.
        section("section-huffman-eos", &[0, 0, 0x50, 0x84, 0xff, 0xff, 0xff, 0xff]),
        // :authority with a Huffman string padded with zeros: "a" is 00011.
        section("section-huffman-padding", &[0, 0, 0x50, 0x81, 0x18]),
    ]
}

fn encoder_stream() -> Vec<Case> {
    let instruction = |name, bytes| on_stream(name, 0x201, QPACK_ENCODER_STREAM_TYPE_ID, bytes);
    vec![
        // Set Dynamic Table Capacity to more than a gigabyte.
        instruction("encoder-capacity", &[0x3f, 0xff, 0xff, 0xff, 0xff, 0x07]),
        // Insert with a name from static index 99.
        instruction("encoder-static-name", &[0xff, 0x24, 0]),
        // Duplicate an entry of an empty table.
        instruction("encoder-duplicate", &[0]),
        // An integer that does not end.
        instruction(
            "encoder-endless-integer",
            &[0x3f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff],
        ),
    ]
}

fn decoder_stream() -> Vec<Case> {
    let instruction = |name, bytes| on_stream(name, 0x202, QPACK_DECODER_STREAM_TYPE_ID, bytes);
    vec![
        instruction("decoder-increment-0", &[0]),
        // Insert count increment beyond the server's insertions.
        instruction("decoder-increment-too-large", &[0x05]),
        // Section Acknowledgment for a stream without a section that requires one.
        instruction("decoder-acknowledgment-of-nothing", &[0x80]),
    ]
}

fn streams() -> Vec<Case> {
    let kinds = [
        (QPACK_ENCODER_STREAM_TYPE_ID, "encoder-twice", "encoder-fin", "encoder-reset"),
        (QPACK_DECODER_STREAM_TYPE_ID, "decoder-twice", "decoder-fin", "decoder-reset"),
    ];
    let of_kind = |(kind, twice, fin, reset)| {
        let reset_stream = Action::ResetStream { stream_id: OTHER, error_code: 0x100 };
        [
            Case::closes(twice, 0x103, after_preface([open(OTHER, kind), open(ANOTHER, kind)])),
            Case::closes(fin, 0x104, after_preface([open(OTHER, kind), last_bytes(OTHER, &[])])),
            Case::closes(reset, 0x104, after_preface([open(OTHER, kind), pause(), reset_stream])),
        ]
    };
    kinds.into_iter().flat_map(of_kind).collect()
}

fn on_stream(name: &'static str, code: u64, kind: u64, instruction: &[u8]) -> Case {
    Case::closes(name, code, after_preface([open(OTHER, kind), bytes(OTHER, instruction)]))
}
