//! Frames that are not allowed on a request stream, or not at that point (RFC 9114 §4.1, §7.1, §7.2).

use h3i::quiche::h3::frame::Frame;

use crate::case::Case;
use crate::script::*;

const RESERVED: u64 = 0x1f * 3 + 0x21;

pub fn cases() -> Vec<Case> {
    [unexpected(), order(), cut(), ignored()].into_iter().flatten().collect()
}

/// Returns the cases with frames of other streams, after a correct header section or instead of it.
fn unexpected() -> Vec<Case> {
    let behind_head =
        |name, frame| Case::closes(name, 0x105, after_preface([head(FIRST), send(FIRST, frame)]));
    let first = |name, frame| Case::closes(name, 0x105, after_preface([send(FIRST, frame)]));
    vec![
        first("request-begins-with-data", data(b"body")),
        first("request-begins-with-settings", settings(&[])),
        first("request-begins-with-cancel-push", Frame::CancelPush { push_id: 0 }),
        behind_head("request-cancel-push", Frame::CancelPush { push_id: 0 }),
        behind_head("request-settings", settings(&[])),
        behind_head("request-goaway", Frame::GoAway { id: 0 }),
        behind_head("request-max-push-id", Frame::MaxPushId { push_id: 1 }),
        behind_head(
            "request-push-promise",
            Frame::PushPromise { push_id: 0, header_block: vec![0, 0, 0xd1] },
        ),
        behind_head(
            "request-priority-update",
            Frame::PriorityUpdateRequest { prioritized_element_id: 0, priority_field_value: b"u=1".to_vec() },
        ),
        behind_head("request-http2-priority", frame(0x2, &[0; 5])),
        behind_head("request-http2-ping", frame(0x6, &[0; 8])),
        behind_head("request-http2-window-update", frame(0x8, &[0; 4])),
        behind_head("request-http2-continuation", frame(0x9, &[])),
    ]
}

/// Returns the cases with frames after trailers.
fn order() -> Vec<Case> {
    // x-a: b, as a literal.
    let trailers = || headers(&[0, 0, 0x23, b'x', b'-', b'a', 1, b'b']);
    let behind_trailers = |name, frame| {
        Case::closes(name, 0x105, after_preface([head(FIRST), send(FIRST, trailers()), send(FIRST, frame)]))
    };
    vec![
        behind_trailers("data-behind-trailers", data(b"body")),
        behind_trailers("headers-behind-trailers", trailers()),
    ]
}

/// Returns the cases with streams that end too early.
fn cut() -> Vec<Case> {
    vec![
        Case::closes("fin-in-frame-type", 0x106, after_preface([head(FIRST), last_bytes(FIRST, &[0x40])])),
        Case::closes(
            "fin-in-frame-length",
            0x106,
            after_preface([head(FIRST), last_bytes(FIRST, &[0, 0x40])]),
        ),
        Case::closes("fin-in-headers", 0x106, after_preface([last_bytes(FIRST, &[1, 5, 0])])),
        Case::resets("empty-request", 0x10d, after_preface([last_bytes(FIRST, &[])])),
        Case::resets(
            "request-without-headers",
            0x10d,
            after_preface([send_last(FIRST, frame(RESERVED, b"nothing"))]),
        ),
    ]
}

fn ignored() -> Vec<Case> {
    let nothing = || frame(RESERVED, b"nothing");
    vec![
        Case::answered(
            "request-reserved-frames",
            after_preface([
                send(FIRST, nothing()),
                head(FIRST),
                send(FIRST, nothing()),
                send_last(FIRST, nothing()),
            ]),
        ),
        Case::answered(
            "empty-data",
            after_preface([head(FIRST), send(FIRST, data(b"")), last_bytes(FIRST, &[])]),
        ),
    ]
}
