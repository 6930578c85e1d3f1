//! Tests of malformed messages: each resets its stream with the right code and does not reach the
//! application.

use anabranch_http3::{Code, Config, Event, ReadError};
use anabranch_transport::{TransportConfig, stream};
use anabranch_wire::{Side, StreamId};

use crate::by_hand::{Duel, REQUEST, RESPONSE, ROLES, data, frame, headers};

type Lines<'a> = Vec<(&'a str, &'a str)>;

/// Returns `lines` without those named `name`.
fn without<'a>(lines: &[(&'a str, &'a str)], name: &str) -> Lines<'a> {
    lines.iter().copied().filter(|line| line.0 != name).collect()
}

fn with<'a>(lines: &[(&'a str, &'a str)], more: &[(&'a str, &'a str)]) -> Lines<'a> {
    [lines, more].concat()
}

/// Checks that the peer's message was rejected: its stream was reset with `code`, the application saw nothing
/// of it, and the connection continues.
fn assert_spoiled(duel: &mut Duel, id: StreamId, code: Code, what: &str) {
    assert_eq!(duel.close_code(), None, "{what}: the connection is closed");
    match duel.side {
        Side::Server => {
            assert_eq!(duel.received(id), (Vec::new(), stream::ReadError::Reset(code.into())), "{what}");
            assert_eq!(duel.accept(), None, "{what}");
        }
        Side::Client => {
            let failures = duel.victim().events.iter().filter(|event| **event == Event::Failed(id)).count();
            assert_eq!(failures, 1, "{what}");
            assert_eq!(duel.read(id), (Vec::new(), ReadError::Malformed(code)), "{what}");
            assert!(duel.victim().session.as_mut().unwrap().response(id).is_none(), "{what}");
        }
    }
    duel.assert_quiet(&[id]);
}

fn malformed_requests() -> Vec<(&'static str, Lines<'static>)> {
    let get = &REQUEST;
    let connect = [(":method", "CONNECT"), (":authority", "server.lab:22")];
    let mut cases = vec![
        ("nothing", vec![]),
        ("a late pseudo-header", with(&without(get, ":path"), &[("a", "b"), (":path", "/")])),
        ("an unknown pseudo-header", with(get, &[(":colour", "red")])),
        ("a pseudo-header of responses", with(get, &[(":status", "200")])),
        ("an empty path", with(&without(get, ":path"), &[(":path", "")])),
        ("a path without a slash", with(&without(get, ":path"), &[(":path", "index.html")])),
        ("an asterisk, but not OPTIONS", with(&without(get, ":path"), &[(":path", "*")])),
        ("another host", with(get, &[("host", "other.lab")])),
        ("CONNECT with a path", with(&connect, &[(":path", "/")])),
        ("CONNECT with a scheme", with(&connect, &[(":scheme", "https")])),
        ("CONNECT to nowhere", without(&connect, ":authority")),
        (":protocol without CONNECT", with(get, &[(":protocol", "websocket")])),
        ("a method that is none", with(&without(get, ":method"), &[(":method", "G T")])),
    ];
    for name in [":method", ":scheme", ":path", ":authority"] {
        let line = get.iter().copied().find(|line| line.0 == name).unwrap();
        cases.push((name, without(get, name)));
        cases.push((name, with(get, &[line])));
    }
    cases
}

fn malformed_responses() -> Vec<(&'static str, Lines<'static>)> {
    let mut cases = vec![
        ("nothing", vec![]),
        ("no :status", vec![("server", "test")]),
        ("a late pseudo-header", vec![("server", "test"), (":status", "200")]),
        ("two :status", with(&RESPONSE, &RESPONSE)),
        ("status 101", vec![(":status", "101")]),
        ("a pseudo-header of requests", with(&RESPONSE, &[(":path", "/")])),
    ];
    for status in ["", "20", "2000", "abc", "+20", " 200"] {
        cases.push(("no status", vec![(":status", status)]));
    }
    cases
}

/// Lines that no section may contain.
const LINES: [(&str, &str); 15] = [
    ("X-Upper", "x"),
    ("", "x"),
    ("a b", "x"),
    ("a\n", "x"),
    ("a", "b\r\nc: d"),
    ("a", "b\0"),
    ("connection", "close"),
    ("keep-alive", "timeout=5"),
    ("proxy-connection", "close"),
    ("transfer-encoding", "chunked"),
    ("upgrade", "websocket"),
    ("te", "gzip"),
    ("content-length", "x"),
    ("content-length", "+1"),
    ("content-length", ""),
];

#[test]
fn heads_that_are_malformed() {
    for side in ROLES {
        let (base, mut cases) = match side {
            Side::Server => (&REQUEST[..], malformed_requests()),
            Side::Client => (&RESPONSE[..], malformed_responses()),
        };
        cases.extend(LINES.map(|line| (line.0, with(base, &[line]))));
        cases.push(("two lengths", with(base, &[("content-length", "1"), ("content-length", "2")])));
        let mut duel = Duel::against(side);
        for (what, lines) in cases {
            let id = duel.message();
            duel.victim().events.clear();
            duel.send(id, &headers(&lines), false);
            assert_spoiled(&mut duel, id, Code::MESSAGE_ERROR, what);
        }
        // The same connection still carries a valid message.
        let id = duel.message();
        let head = duel.head();
        duel.send(id, &head, true);
        assert_eq!(duel.read(id), (Vec::new(), ReadError::Finished));
        duel.assert_quiet(&[id]);
    }
}

#[test]
fn a_protocol_needs_our_word() {
    let config = Config::default().with_enable_connect_protocol(false);
    let mut duel = Duel::with(Side::Server, config, TransportConfig::default());
    let id = duel.message();
    let lines = with(&without(&REQUEST, ":method"), &[(":method", "CONNECT"), (":protocol", "websocket")]);
    duel.send(id, &headers(&lines), false);
    assert_spoiled(&mut duel, id, Code::MESSAGE_ERROR, "extended CONNECT");
}

#[test]
fn trailers_that_are_malformed() {
    for side in ROLES {
        let mut duel = Duel::against(side);
        let mut cases: Vec<(&str, &str)> = vec![(":status", "200"), (":path", "/"), (":x", "y")];
        cases.extend(LINES.iter().filter(|line| line.0 != "content-length"));
        for line in cases {
            let id = duel.message();
            let message = [duel.head(), data(b"body"), headers(&[line])].concat();
            duel.send(id, &message, true);
            assert_eq!(duel.accept().is_some(), side == Side::Server);
            // The content precedes the error.
            assert_eq!(
                duel.read(id),
                (b"body".to_vec(), ReadError::Malformed(Code::MESSAGE_ERROR)),
                "{line:?}"
            );
            assert_eq!(duel.victim().session.as_mut().unwrap().trailers(id), None);
            assert_eq!(duel.close_code(), None);
            if side == Side::Server {
                assert_eq!(
                    duel.received(id),
                    (Vec::new(), stream::ReadError::Reset(Code::MESSAGE_ERROR.into()))
                );
            }
            duel.assert_quiet(&[id]);
        }
    }
}

#[test]
fn content_that_is_not_as_long_as_it_says() {
    for side in ROLES {
        let base: &[_] = if side == Side::Server { &REQUEST } else { &RESPONSE };
        let head = headers(&with(base, &[("content-length", "5")]));
        // Frames of the content, the bytes that the application reads, and the reason that reading ends.
        // Bytes beyond content-length are never passed on.
        let malformed = ReadError::Malformed(Code::MESSAGE_ERROR);
        let cases: [(Vec<u8>, &[u8], ReadError); 8] = [
            (data(b"12345"), b"12345", ReadError::Finished),
            ([data(b"12"), data(b""), data(b"345")].concat(), b"12345", ReadError::Finished),
            (data(b"1234"), b"1234", malformed),
            (Vec::new(), b"", malformed),
            (headers(&[("x", "y")]), b"", malformed),
            (data(b"123456"), b"", malformed),
            ([data(b"12345"), data(b"6")].concat(), b"12345", malformed),
            // The frame header suffices for the error; the rest need not arrive.
            (b"\x00\xbf\xff\xff\xff123".to_vec(), b"", malformed),
        ];
        let mut duel = Duel::against(side);
        for (content, body, end) in cases {
            let id = duel.message();
            duel.send(id, &head, false);
            assert_eq!(duel.accept().is_some(), side == Side::Server);
            duel.send(id, &content, content[..].first_chunk() != Some(&[0, 0xbf]));
            assert_eq!(duel.read(id), (body.to_vec(), end), "{content:?}");
            duel.assert_quiet(&[id]);
        }
    }
}

#[test]
fn responses_that_have_no_content() {
    let mut duel = Duel::against(Side::Client);
    for (method, status) in [("HEAD", "200"), ("GET", "204"), ("GET", "304")] {
        for (content, end) in [
            (Vec::new(), ReadError::Finished),
            (data(b""), ReadError::Finished),
            (data(b"x"), ReadError::Malformed(Code::MESSAGE_ERROR)),
        ] {
            let id = duel.request(method);
            let head = headers(&[(":status", status), ("content-length", "7")]);
            duel.send(id, &[head, content].concat(), true);
            assert_eq!(duel.read(id), (Vec::new(), end), "{method} {status}");
            duel.assert_quiet(&[id]);
        }
    }
}

#[test]
fn a_response_has_one_final_head() {
    for (first, second) in [("200", "200"), ("200", "103"), ("404", "100")] {
        let mut duel = Duel::against(Side::Client);
        let id = duel.message();
        duel.send(id, &[headers(&[(":status", first)]), headers(&[(":status", second)])].concat(), true);
        let status = duel.victim().session.as_mut().unwrap().response(id).unwrap().status;
        assert_eq!(status.as_str(), first);
        assert_eq!(duel.read(id), (Vec::new(), ReadError::Malformed(Code::MESSAGE_ERROR)));
        duel.assert_quiet(&[id]);
    }
}

#[test]
fn a_message_that_ends_before_it_begins() {
    for side in ROLES {
        let code = if side == Side::Server { Code::REQUEST_INCOMPLETE } else { Code::MESSAGE_ERROR };
        for bytes in [Vec::new(), frame(0x21, b"nothing"), frame(0x21, b"")] {
            let mut duel = Duel::against(side);
            let id = duel.message();
            duel.victim().events.clear();
            duel.send(id, &bytes, false);
            duel.send(id, b"", true);
            assert_spoiled(&mut duel, id, code, "an empty message");
        }
    }
    // Interim responses without a final response are malformed.
    let mut duel = Duel::against(Side::Client);
    let id = duel.message();
    duel.send(id, &headers(&[(":status", "103")]), true);
    assert!(duel.victim().session.as_mut().unwrap().response(id).is_some());
    assert_eq!(duel.read(id), (Vec::new(), ReadError::Malformed(Code::MESSAGE_ERROR)));
    duel.assert_quiet(&[id]);
}

#[test]
fn a_tunnel_carries_nothing_but_data() {
    for side in ROLES {
        let mut duel = Duel::against(side);
        let head = headers(&[(":method", "CONNECT"), (":authority", "server.lab:22")]);
        let (id, head) = match side {
            Side::Server => (duel.message(), head),
            Side::Client => {
                let request = http::Request::connect("server.lab:22").body(()).unwrap().into_parts().0;
                let id = duel.victim().http(|session, streams| session.request(streams, &request, false));
                duel.pair.pump();
                (id.unwrap(), headers(&RESPONSE))
            }
        };
        duel.send(id, &[head, data(b"bytes"), frame(0x21, b"ignored")].concat(), false);
        assert_eq!(duel.read(id), (b"bytes".to_vec(), ReadError::Blocked));
        duel.send(id, &headers(&[("x", "y")]), false);
        duel.read(id);
        assert_eq!(duel.close_code(), Some(Code::FRAME_UNEXPECTED));
    }
}

#[test]
fn a_late_rejection_is_a_reset() {
    for (bytes, end) in
        [(Vec::new(), ReadError::Rejected), (headers(&RESPONSE), ReadError::Reset(Code::REQUEST_REJECTED))]
    {
        let mut duel = Duel::against(Side::Client);
        let id = duel.message();
        duel.send(id, &bytes, false);
        duel.reset(id, Code::REQUEST_REJECTED);
        assert_eq!(duel.read(id), (Vec::new(), end));
        duel.assert_quiet(&[id]);
    }
}
