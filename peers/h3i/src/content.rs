//! Faults in and after the content of a request, for a server that reads the content and echoes it to `POST
//! /echo`.
//!
//! A server that does not need the content may respond before it has read it (RFC 9114 §4.1). It then never
//! detects these faults.

use h3i::actions::h3::{Action, send_headers_frame};

use crate::case::Case;
use crate::script::*;

const POST: [(&str, &str); 4] =
    [(":method", "POST"), (":scheme", "https"), (":authority", "localhost"), (":path", "/echo")];

pub fn cases() -> Vec<Case> {
    let resets =
        |name, actions| Case::resets_before(name, 0x10e, after_preface(actions), post(SECOND, None, true));
    let path = || send_headers_frame(FIRST, true, fields(&[(":path", "/echo")]));
    let trailers = || send_headers_frame(FIRST, true, fields(&[("x-a", "b")]));
    let body = |text: &[u8]| send(FIRST, data(text));
    let last_body = |text: &[u8]| send_last(FIRST, data(text));
    vec![
        Case::answered("echo", after_preface([post(FIRST, Some("3"), false), body(b"abc"), trailers()])),
        Case::closes(
            "fin-in-data",
            0x106,
            after_preface([post(FIRST, None, false), last_bytes(FIRST, &[0, 5, b'a'])]),
        ),
        Case::closes(
            "frame-behind-content",
            0x105,
            after_preface([post(FIRST, None, false), body(b"a"), send(FIRST, settings(&[]))]),
        ),
        resets("content-too-short", vec![post(FIRST, Some("5"), false), last_body(b"abc")]),
        resets(
            "content-too-short-before-trailers",
            vec![post(FIRST, Some("5"), false), body(b"abc"), trailers()],
        ),
        resets("content-too-long", vec![post(FIRST, Some("5"), false), body(b"abc"), last_body(b"def")]),
        resets("pseudo-in-trailers", vec![post(FIRST, None, false), body(b"abc"), path()]),
    ]
}

fn post(stream: u64, length: Option<&str>, fin: bool) -> Action {
    let length = length.map(|length| ("content-length", length));
    let all: Vec<_> = POST.into_iter().chain(length).collect();
    send_headers_frame(stream, fin, fields(&all))
}
