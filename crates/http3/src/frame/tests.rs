use proptest::prelude::*;

use super::*;
use crate::error::Code;
use crate::priority::Priority;
use crate::settings::{MAX_SETTINGS, Settings};

const MAX: u64 = (1 << 62) - 1;

fn varint() -> impl Strategy<Value = u64> {
    prop_oneof![0..64u64, 0..1u64 << 14, 0..1u64 << 30, 0..=MAX]
}

fn control_frame() -> impl Strategy<Value = ControlFrame> {
    let priority =
        (0..8u8, any::<bool>()).prop_map(|(urgency, incremental)| Priority { urgency, incremental });
    prop_oneof![
        varint().prop_map(ControlFrame::GoAway),
        varint().prop_map(ControlFrame::CancelPush),
        varint().prop_map(ControlFrame::MaxPushId),
        (any::<bool>(), varint(), priority)
            .prop_map(|(push, element, priority)| ControlFrame::PriorityUpdate { push, element, priority }),
        (varint(), varint(), proptest::option::of(varint()), any::<bool>(), any::<bool>()).prop_map(
            |(capacity, blocked, size, connect, datagram)| ControlFrame::Settings(Settings {
                qpack_max_table_capacity: capacity,
                qpack_blocked_streams: blocked,
                max_field_section_size: size,
                enable_connect_protocol: connect,
                h3_datagram: datagram,
            })
        ),
    ]
}

fn code(kind: FrameType, payload: &[u8]) -> Code {
    ControlFrame::decode(kind, payload).unwrap_err().code
}

proptest! {
    #[test]
    fn a_header_may_be_split_anywhere(kind in varint(), len in varint(), cut in 0..17usize) {
        let header = FrameHeader { kind: FrameType(kind), len };
        let mut bytes = Vec::new();
        write_header(header.kind, len, &mut bytes);
        prop_assert_eq!(bytes.len(), header_len(header.kind, len));
        let cut = cut.min(bytes.len() - 1);
        let (first, second) = bytes.split_at(cut);
        let mut reader = HeaderReader::default();
        prop_assert_eq!(reader.read(first), (cut, None));
        prop_assert_eq!(reader.is_empty(), cut == 0);
        prop_assert_eq!(reader.read(&[second, b"payload"].concat()), (second.len(), Some(header)));
        prop_assert!(reader.is_empty());
    }

    #[test]
    fn what_is_written_is_read(frame in control_frame()) {
        let mut bytes = Vec::new();
        frame.encode(&mut bytes);
        let (taken, header) = HeaderReader::default().read(&bytes);
        let header = header.unwrap();
        prop_assert_eq!(header.len as usize, bytes.len() - taken);
        prop_assert!(header.len <= MAX_CONTROL_PAYLOAD);
        prop_assert_eq!(ControlFrame::decode(header.kind, &bytes[taken..]), Ok(Some(frame)));
    }
}

#[test]
fn a_header_may_come_byte_by_byte() {
    let mut bytes = Vec::new();
    write_header(FrameType(MAX), MAX, &mut bytes);
    assert_eq!(bytes.len(), 16);
    let mut reader = HeaderReader::default();
    let (last, first) = bytes.split_last().unwrap();
    for byte in first {
        assert_eq!(reader.read(&[*byte]), (1, None));
    }
    assert_eq!(reader.read(&[]), (0, None));
    assert_eq!(reader.read(&[*last]), (1, Some(FrameHeader { kind: FrameType(MAX), len: MAX })));
}

#[test]
fn numbers_need_not_be_in_their_shortest_form() {
    let (taken, header) = HeaderReader::default().read(b"\x40\x04\x80\0\0\x02..");
    assert_eq!((taken, header), (6, Some(FrameHeader { kind: FrameType::SETTINGS, len: 2 })));
}

#[test]
fn a_payload_must_be_exactly_its_fields() {
    for kind in [FrameType::GOAWAY, FrameType::CANCEL_PUSH, FrameType::MAX_PUSH_ID] {
        for payload in [&b""[..], b"\x40", b"\x80\0\0", b"\0\0", b"\x40\x01\x01"] {
            assert_eq!(code(kind, payload), Code::FRAME_ERROR, "{kind:?} {payload:?}");
        }
    }
    for kind in [FrameType::PRIORITY_UPDATE_REQUEST, FrameType::PRIORITY_UPDATE_PUSH] {
        for payload in [&b""[..], b"\x40", b"\xc0\0\0\0\0\0\0"] {
            assert_eq!(code(kind, payload), Code::FRAME_ERROR, "{kind:?} {payload:?}");
        }
    }
}

#[test]
fn a_priority_that_does_not_parse_is_the_default() {
    for (value, priority) in [
        (&b"\x04u=1, i"[..], Priority { urgency: 1, incremental: true }),
        (b"\x04", Priority::default()),
        (b"\x04u=1, \xff", Priority::default()),
    ] {
        let frame = ControlFrame::decode(FrameType::PRIORITY_UPDATE_REQUEST, value);
        assert_eq!(frame, Ok(Some(ControlFrame::PriorityUpdate { push: false, element: 4, priority })));
    }
}

#[test]
fn other_frames_are_none_of_the_control_stream() {
    for kind in [0x0, 0x1, 0x2, 0x5, 0x6, 0x8, 0x9, 0x21, MAX] {
        assert_eq!(ControlFrame::decode(FrameType(kind), b"anything"), Ok(None));
    }
}

#[test]
fn types_of_http2_are_reserved_and_not_known() {
    let reserved: Vec<u64> = (0..0x100).filter(|kind| FrameType(*kind).is_http2_reserved()).collect();
    assert_eq!(reserved, [0x2, 0x6, 0x8, 0x9]);
    let known: Vec<u64> = (0..0x10_0000).filter(|kind| FrameType(*kind).is_known()).collect();
    assert_eq!(known, [0x0, 0x1, 0x3, 0x4, 0x5, 0x7, 0xd, 0xf0700, 0xf0701]);
    for kind in known {
        assert!(!["unknown", "reserved"].contains(&FrameType(kind).name()));
    }
    assert_eq!((FrameType(0x6).name(), FrameType(0x21).name()), ("reserved", "unknown"));
}

#[test]
fn all_settings_that_are_taken_fit_into_max_control_payload() {
    assert!(MAX_SETTINGS as u64 * 16 <= MAX_CONTROL_PAYLOAD);
}
