//! Malformed requests (RFC 9114 §4.1.2, §4.2, §4.3). They are stream errors, never connection errors.

use h3i::actions::h3::{Action, send_headers_frame, send_headers_frame_literal};

use crate::case::Case;
use crate::script::*;

type Field = (&'static str, &'static str);

const METHOD: Field = (":method", "GET");
const SCHEME: Field = (":scheme", "https");
const AUTHORITY: Field = (":authority", "localhost");
const PATH: Field = (":path", "/bytes/1");

pub fn cases() -> Vec<Case> {
    [pseudo_headers(), fields_cases(), lengths()].into_iter().flatten().collect()
}

fn pseudo_headers() -> Vec<Case> {
    vec![
        malformed("pseudo-duplicate", &[METHOD, METHOD, SCHEME, AUTHORITY, PATH]),
        malformed("pseudo-duplicate-path", &[METHOD, SCHEME, AUTHORITY, PATH, PATH]),
        malformed("pseudo-no-method", &[SCHEME, AUTHORITY, PATH]),
        malformed("pseudo-no-scheme", &[METHOD, AUTHORITY, PATH]),
        malformed("pseudo-no-path", &[METHOD, SCHEME, AUTHORITY]),
        malformed("pseudo-no-authority-no-host", &[METHOD, SCHEME, PATH]),
        malformed("pseudo-empty-path", &[METHOD, SCHEME, AUTHORITY, (":path", "")]),
        malformed("pseudo-unknown", &[METHOD, SCHEME, AUTHORITY, PATH, (":unknown", "x")]),
        malformed("pseudo-of-a-response", &[METHOD, SCHEME, AUTHORITY, PATH, (":status", "200")]),
        malformed("pseudo-late", &[METHOD, SCHEME, AUTHORITY, ("x-a", "b"), PATH]),
        malformed("connect-with-path", &[(":method", "CONNECT"), SCHEME, AUTHORITY, PATH]),
        malformed("authority-is-not-host", &[METHOD, SCHEME, AUTHORITY, PATH, ("host", "elsewhere")]),
        // Encoded by hand, because h3i cannot encode an empty field section.
        Case::resets("empty-field-section", 0x10e, after_preface([send_last(FIRST, headers(&[0, 0]))])),
    ]
}

fn fields_cases() -> Vec<Case> {
    let with = |name, field| malformed(name, &[METHOD, SCHEME, AUTHORITY, PATH, field]);
    let upper = fields(&[METHOD, SCHEME, AUTHORITY, PATH, ("X-Upper", "b")]);
    vec![
        Case::resets(
            "uppercase-name",
            0x10e,
            after_preface([send_headers_frame_literal(FIRST, true, upper)]),
        ),
        with("empty-name", ("", "b")),
        with("name-with-space", ("x a", "b")),
        with("value-with-line-feed", ("x-a", "b\nc: d")),
        with("value-with-carriage-return", ("x-a", "b\rc")),
        with("value-with-nul", ("x-a", "b\0c")),
        with("connection-field", ("connection", "close")),
        with("keep-alive-field", ("keep-alive", "timeout=5")),
        with("transfer-encoding-field", ("transfer-encoding", "chunked")),
        with("upgrade-field", ("upgrade", "websocket")),
        with("te-other-than-trailers", ("te", "gzip")),
    ]
}

/// Returns the cases with a `content-length` that is detectably wrong without reading the content.
fn lengths() -> Vec<Case> {
    let request = |length| open_request(&[METHOD, SCHEME, AUTHORITY, PATH, ("content-length", length)]);
    let wrong = |name, length, last| Case::resets(name, 0x10e, after_preface([request(length), last]));
    vec![
        wrong("content-length-too-short", "5", send_last(FIRST, data(b"abcdefgh"))),
        wrong("content-length-without-content", "5", last_bytes(FIRST, &[])),
        wrong("content-length-not-a-number", "+5", send_last(FIRST, data(b"abcde"))),
        Case::answered("content-length-right", after_preface([request("3"), send_last(FIRST, data(b"abc"))])),
    ]
}

fn malformed(name: &'static str, request: &[Field]) -> Case {
    Case::resets(name, 0x10e, after_preface([send_headers_frame(FIRST, true, fields(request))]))
}

fn open_request(request: &[Field]) -> Action {
    send_headers_frame(FIRST, false, fields(request))
}
