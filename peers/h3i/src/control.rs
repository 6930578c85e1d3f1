//! Faults on unidirectional streams (RFC 9114 §6.2, §7.2).

use h3i::actions::h3::Action;
use h3i::quiche::h3::frame::Frame;
use h3i::{HTTP3_CONTROL_STREAM_TYPE_ID, HTTP3_PUSH_STREAM_TYPE_ID};

use crate::case::Case;
use crate::script::*;

/// Reserved type without a meaning, 0x1f * N + 0x21 (RFC 9114 §6.2.3, §7.2.8).
const RESERVED: u64 = 0x1f * 7 + 0x21;

pub fn cases() -> Vec<Case> {
    [streams(), frames(), settings_cases(), identifiers(), ignored()].into_iter().flatten().collect()
}

/// Returns the cases about unidirectional streams themselves.
fn streams() -> Vec<Case> {
    vec![
        Case::closes("control-fin", 0x104, after_preface([last_bytes(CONTROL, &[])])),
        Case::closes(
            "control-reset",
            0x104,
            after_preface([pause(), Action::ResetStream { stream_id: CONTROL, error_code: 0x100 }]),
        ),
        Case::closes(
            "control-stopped",
            0x104,
            // The pause lets the server's stream arrive; otherwise there is no stream to stop.
            after_preface([pause(), Action::StopSending { stream_id: SERVER_CONTROL, error_code: 0x100 }]),
        ),
        Case::closes("control-twice", 0x103, after_preface([open(OTHER, HTTP3_CONTROL_STREAM_TYPE_ID)])),
        Case::closes(
            "push-stream",
            0x103,
            after_preface([open(OTHER, HTTP3_PUSH_STREAM_TYPE_ID), bytes(OTHER, &[0])]),
        ),
    ]
}

/// Returns the cases about frames that are not allowed on the control stream, and about its first frame.
fn frames() -> Vec<Case> {
    let on_control = |name, code, frame| Case::closes(name, code, after_preface([send(CONTROL, frame)]));
    let first = |frame| vec![open(CONTROL, HTTP3_CONTROL_STREAM_TYPE_ID), send(CONTROL, frame)];
    vec![
        Case::closes("control-begins-with-max-push-id", 0x10a, first(Frame::MaxPushId { push_id: 1 })),
        Case::closes("control-begins-with-reserved", 0x10a, first(frame(RESERVED, b"nothing"))),
        on_control("control-data", 0x105, data(b"body")),
        on_control("control-headers", 0x105, headers(&[0, 0, 0xd1])),
        on_control(
            "control-push-promise",
            0x105,
            Frame::PushPromise { push_id: 0, header_block: vec![0, 0, 0xd1] },
        ),
        on_control("control-second-settings", 0x105, settings(&[])),
        on_control("control-http2-priority", 0x105, frame(0x2, &[0; 5])),
        on_control("control-http2-ping", 0x105, frame(0x6, &[0; 8])),
        on_control("control-http2-window-update", 0x105, frame(0x8, &[0; 4])),
        on_control("control-http2-continuation", 0x105, frame(0x9, &[])),
        on_control("control-max-push-id-empty", 0x106, frame(0xd, &[])),
        on_control("control-max-push-id-too-long", 0x106, frame(0xd, &[1, 1])),
        on_control("control-goaway-cut-varint", 0x106, frame(0x7, &[0x40])),
    ]
}

fn settings_cases() -> Vec<Case> {
    let with = |name, code, frame| {
        Case::closes(name, code, vec![open(CONTROL, HTTP3_CONTROL_STREAM_TYPE_ID), send(CONTROL, frame)])
    };
    vec![
        with("settings-http2-enable-push", 0x109, settings(&[(0x2, 0)])),
        with("settings-http2-max-streams", 0x109, settings(&[(0x3, 100)])),
        with("settings-http2-window", 0x109, settings(&[(0x4, 65_535)])),
        with("settings-http2-frame-size", 0x109, settings(&[(0x5, 16_384)])),
        with("settings-twice-the-same", 0x109, settings(&[(0x6, 4_096), (0x6, 4_096)])),
        with("settings-h3-datagram-2", 0x109, settings(&[(0x33, 2)])),
        // A two-byte identifier of which only one byte is present.
        with("settings-cut", 0x106, frame(0x4, &[0x40])),
        // An identifier without a value.
        with("settings-no-value", 0x106, frame(0x4, &[0x6])),
    ]
}

/// Returns the cases with identifiers that are invalid, or that change in the wrong direction.
fn identifiers() -> Vec<Case> {
    let on_control = |name, frames: Vec<Frame>| {
        Case::closes(name, 0x108, after_preface(frames.into_iter().map(|frame| send(CONTROL, frame))))
    };
    let priority = b"u=1".to_vec();
    vec![
        on_control("goaway-grows", vec![Frame::GoAway { id: 4 }, Frame::GoAway { id: 8 }]),
        on_control(
            "max-push-id-falls",
            vec![Frame::MaxPushId { push_id: 8 }, Frame::MaxPushId { push_id: 4 }],
        ),
        on_control("cancel-push-of-nothing", vec![Frame::CancelPush { push_id: 3 }]),
        on_control(
            "priority-of-no-request",
            vec![Frame::PriorityUpdateRequest {
                prioritized_element_id: 2,
                priority_field_value: priority.clone(),
            }],
        ),
        on_control(
            "priority-of-no-push",
            vec![Frame::PriorityUpdatePush { prioritized_element_id: 0, priority_field_value: priority }],
        ),
    ]
}

/// Returns the cases that a server must tolerate.
fn ignored() -> Vec<Case> {
    vec![
        Case::answered("plain", after_preface([get(FIRST)])),
        Case::answered(
            "control-reserved-frames",
            after_preface([
                send(CONTROL, frame(RESERVED, b"nothing")),
                send(CONTROL, frame(RESERVED, b"")),
                get(FIRST),
            ]),
        ),
        Case::answered(
            "settings-reserved",
            vec![
                open(CONTROL, HTTP3_CONTROL_STREAM_TYPE_ID),
                send(CONTROL, settings(&[(RESERVED, 5), (RESERVED + 0x1f, 0)])),
                get(FIRST),
            ],
        ),
        Case::answered(
            "reserved-stream",
            after_preface([open(OTHER, RESERVED), bytes(OTHER, b"nothing at all"), pause(), get(FIRST)]),
        ),
        Case::answered("request-before-settings", vec![get(FIRST)]),
    ]
}
