//! Tests of protocol violations that close the connection, with the code for each (RFC 9114 §8.1, RFC 9204
//! §6), and of input that must be ignored.

use anabranch_http3::frame::{FrameType, HeaderReader, MAX_CONTROL_PAYLOAD};
use anabranch_http3::{Code, Config, Event, MAX_SETTINGS, ReadError, reserved};
use anabranch_transport::TransportConfig;
use anabranch_wire::Side::{self, Client, Server};
use anabranch_wire::{Dir, MAX_VARINT, push_varint};

use crate::by_hand::{Duel, REQUEST, ROLES, data, decoder_stream, encoder_stream, frame, headers};

fn varint(value: u64) -> Vec<u8> {
    let mut out = Vec::new();
    push_varint(&mut out, value);
    out
}

/// Checks frames on the control stream after SETTINGS.
#[test]
fn frames_that_the_control_stream_must_not_have() {
    let twice =
        |kind, first: u64, second: u64| [frame(kind, &varint(first)), frame(kind, &varint(second))].concat();
    let limit = |over: u64| frame(0xf0700, &varint((128 + over) * 4));
    let mut cases: Vec<(&[Side], &str, Vec<u8>, Code)> = vec![
        (&ROLES, "DATA", data(b"x"), Code::FRAME_UNEXPECTED),
        (&ROLES, "HEADERS", headers(&[("a", "b")]), Code::FRAME_UNEXPECTED),
        (&ROLES, "PUSH_PROMISE", frame(0x5, b"\0\0\0"), Code::FRAME_UNEXPECTED),
        (&ROLES, "a second SETTINGS", frame(0x4, b""), Code::FRAME_UNEXPECTED),
        (&ROLES, "CANCEL_PUSH", frame(0x3, b"\0"), Code::ID_ERROR),
        (&[Client], "MAX_PUSH_ID", frame(0xd, b"\0"), Code::FRAME_UNEXPECTED),
        (&[Server], "MAX_PUSH_ID that falls", twice(0xd, 5, 4), Code::ID_ERROR),
        (&[Client], "GOAWAY that names no request", frame(0x7, b"\x01"), Code::ID_ERROR),
        (&[Client], "GOAWAY that rises", twice(0x7, 4, 8), Code::ID_ERROR),
        (&[Server], "GOAWAY that rises", twice(0x7, 0, 1), Code::ID_ERROR),
        (&[Client], "PRIORITY_UPDATE", frame(0xf0700, b"\0u=1"), Code::FRAME_UNEXPECTED),
        (&[Client], "PRIORITY_UPDATE of a push", frame(0xf0701, b"\0u=1"), Code::FRAME_UNEXPECTED),
        (&[Server], "PRIORITY_UPDATE of a push", frame(0xf0701, b"\0u=1"), Code::ID_ERROR),
        (&[Server], "PRIORITY_UPDATE of no request", frame(0xf0700, b"\x02u=1"), Code::ID_ERROR),
        (&[Server], "PRIORITY_UPDATE beyond the limit", limit(0), Code::ID_ERROR),
        (&[Server], "PRIORITY_UPDATE far beyond", frame(0xf0700, &varint(MAX_VARINT - 3)), Code::ID_ERROR),
        (&[Server], "PRIORITY_UPDATE without an element", frame(0xf0700, b""), Code::FRAME_ERROR),
        (&ROLES, "GOAWAY without an identifier", frame(0x7, b""), Code::FRAME_ERROR),
        (&ROLES, "GOAWAY with half an identifier", frame(0x7, b"\x40"), Code::FRAME_ERROR),
        (&ROLES, "GOAWAY with more than that", frame(0x7, b"\0\0"), Code::FRAME_ERROR),
        (&[Server], "MAX_PUSH_ID with more than that", frame(0xd, b"\0\0"), Code::FRAME_ERROR),
        (&ROLES, "CANCEL_PUSH without an identifier", frame(0x3, b""), Code::FRAME_ERROR),
    ];
    for kind in [0x2, 0x6, 0x8, 0x9] {
        cases.push((&ROLES, "a frame of HTTP/2", frame(kind, b"12345678"), Code::FRAME_UNEXPECTED));
    }
    for (sides, name, bytes, code) in cases {
        for side in sides {
            let mut duel = Duel::against(*side);
            let control = duel.control;
            duel.send(control, &bytes, false);
            assert_eq!(duel.close_code(), Some(code), "{name} to the {side:?}");
        }
    }
    // The highest possible request ID is no violation.
    let mut duel = Duel::against(Server);
    let control = duel.control;
    duel.send(control, &frame(0xf0700, &varint(127 * 4)), false);
    assert_eq!(duel.close_code(), None);
}

/// Checks that a control stream that does not begin with valid SETTINGS closes the connection with the right
/// code.
#[test]
fn the_control_stream_begins_with_settings_that_are_right() {
    let settings = |bytes: &[u8]| frame(0x4, bytes);
    let many: Vec<u8> =
        (0..=MAX_SETTINGS as u64).flat_map(|n| [varint(reserved(n)), varint(n)].concat()).collect();
    let mut cases = vec![
        ("GOAWAY", frame(0x7, b"\0"), Code::MISSING_SETTINGS),
        ("DATA", data(b""), Code::MISSING_SETTINGS),
        ("HEADERS", headers(&[]), Code::MISSING_SETTINGS),
        ("a reserved frame", frame(reserved(0), b""), Code::MISSING_SETTINGS),
        ("an identifier without a value", settings(b"\x06"), Code::FRAME_ERROR),
        ("half a value", settings(b"\x06\x40"), Code::FRAME_ERROR),
        ("a setting twice", settings(b"\x06\x20\x06\x20"), Code::SETTINGS_ERROR),
        ("an unknown setting twice", settings(b"\x21\x00\x21\x00"), Code::SETTINGS_ERROR),
        ("a flag that is 2", settings(b"\x08\x02"), Code::SETTINGS_ERROR),
        ("another flag that is 2", settings(b"\x33\x02"), Code::SETTINGS_ERROR),
        ("more settings than MAX_SETTINGS", settings(&many), Code::EXCESSIVE_LOAD),
    ];
    for identifier in [0x0, 0x2, 0x3, 0x4, 0x5] {
        cases.push(("a setting of HTTP/2", settings(&[identifier, 0]), Code::SETTINGS_ERROR));
    }
    for side in ROLES {
        for (name, bytes, code) in &cases {
            let mut pair = crate::pair::Pair::with(alone(side));
            let (victim, peer) = match side {
                Client => (&mut pair.client, &mut pair.server),
                Server => (&mut pair.server, &mut pair.client),
            };
            assert!(victim.session.is_some());
            peer.open(Dir::Uni, &[&b"\0"[..], bytes].concat(), false);
            pair.pump();
            let peer = if side == Client { &pair.server } else { &pair.client };
            assert_eq!(peer.close_code(), Some(*code), "{name} to the {side:?}");
        }
    }
}

fn alone(side: Side) -> crate::pair::Setup {
    let mut setup = crate::pair::Setup::default();
    let without = if side == Client { &mut setup.server } else { &mut setup.client };
    *without = None;
    setup
}

#[test]
fn control_frames_are_bounded_by_max_control_payload() {
    for side in ROLES {
        let mut duel = Duel::against(side);
        let control = duel.control;
        let mut header = varint(0xf0700);
        push_varint(&mut header, MAX_CONTROL_PAYLOAD + 1);
        duel.send(control, &header, false);
        assert_eq!(duel.close_code(), Some(Code::EXCESSIVE_LOAD));
        // A frame of unknown type is skipped without being buffered, regardless of its length.
        let mut duel = Duel::against(side);
        let control = duel.control;
        duel.send(control, &frame(reserved(3), &vec![0; 4 * MAX_CONTROL_PAYLOAD as usize]), false);
        assert_eq!(duel.close_code(), None);
    }
}

#[test]
fn critical_streams_must_stay() {
    for side in ROLES {
        for kind in 0..3_u8 {
            for reset in [true, false] {
                let mut duel = Duel::against(side);
                let id = match kind {
                    0 => duel.control,
                    1 => duel.send_uni(&encoder_stream(b"")),
                    _ => duel.send_uni(&decoder_stream(b"")),
                };
                match reset {
                    true => duel.reset(id, Code::NO_ERROR),
                    false => duel.send(id, b"", true),
                }
                let code = duel.close_code();
                assert_eq!(
                    code,
                    Some(Code::CLOSED_CRITICAL_STREAM),
                    "{kind} of the {side:?}'s peer, reset: {reset}"
                );
            }
        }
        // The peer must not stop our critical streams either.
        for nth in 0..3 {
            let mut duel = Duel::against(side);
            let id = (0..=nth)
                .map(|_| duel.peer().connection().streams().accept(Dir::Uni).unwrap())
                .last()
                .unwrap();
            duel.stop(id, Code::NO_ERROR);
            assert_eq!(duel.close_code(), Some(Code::CLOSED_CRITICAL_STREAM), "{nth} of the {side:?}");
        }
        // A control stream that ends inside a frame also counts as a closed critical stream.
        let mut duel = Duel::against(side);
        let control = duel.control;
        duel.send(control, b"\x07\x08\x00", true);
        assert_eq!(duel.close_code(), Some(Code::CLOSED_CRITICAL_STREAM));
    }
}

#[test]
fn streams_that_must_not_be_opened() {
    for side in ROLES {
        for kind in [&b"\0\x04\0"[..], b"\x02", b"\x03"] {
            let mut duel = Duel::against(side);
            // The control stream exists already.
            for _ in 0..if kind[0] == 0 { 1 } else { 2 } {
                duel.send_uni(kind);
            }
            assert_eq!(duel.close_code(), Some(Code::STREAM_CREATION_ERROR), "{kind:?} to the {side:?}");
        }
        let mut duel = Duel::against(side);
        duel.send_uni(b"\x01\0");
        let code = if side == Server { Code::STREAM_CREATION_ERROR } else { Code::ID_ERROR };
        assert_eq!(duel.close_code(), Some(code), "a push stream to the {side:?}");
    }
    let mut duel = Duel::against(Client);
    duel.peer().open(Dir::Bi, b"\0", false);
    assert_eq!(duel.close_code(), Some(Code::STREAM_CREATION_ERROR));
}

/// Checks frames on a request stream that are not allowed at their position.
#[test]
fn frames_that_a_request_must_not_have() {
    for side in ROLES {
        let head = Duel::against(side).head();
        let body = [head.clone(), data(b"body")].concat();
        let trailed = [body.clone(), headers(&[("x-checksum", "1")])].concat();
        let behind = [(&b""[..], "nothing"), (&head, "a head"), (&body, "a body"), (&trailed, "trailers")];
        let anywhere = [0x2, 0x3, 0x4, 0x6, 0x7, 0x8, 0x9, 0xd, 0xf0700, 0xf0701];
        let mut cases: Vec<(&[u8], &str, Vec<u8>, Code)> = Vec::new();
        for (before, name) in behind {
            for kind in anywhere {
                cases.push((before, name, frame(kind, b"\0"), Code::FRAME_UNEXPECTED));
            }
            let code = if side == Client { Code::ID_ERROR } else { Code::FRAME_UNEXPECTED };
            cases.push((before, name, frame(0x5, b"\0\0\0"), code));
        }
        cases.push((b"", "nothing", data(b"body"), Code::FRAME_UNEXPECTED));
        cases.push((b"", "nothing", data(b""), Code::FRAME_UNEXPECTED));
        cases.push((&trailed, "trailers", data(b"more"), Code::FRAME_UNEXPECTED));
        cases.push((&trailed, "trailers", headers(&[("x", "y")]), Code::FRAME_UNEXPECTED));
        for (before, name, bytes, code) in cases {
            let mut duel = Duel::against(side);
            let id = duel.message();
            duel.send(id, &[before, &bytes].concat(), false);
            // Frames after the header section are parsed only when the application reads.
            duel.read(id);
            assert_eq!(duel.close_code(), Some(code), "{:?} behind {name} to the {side:?}", &bytes[..2]);
        }
    }
}

#[test]
fn a_stream_must_not_end_within_a_frame() {
    for side in ROLES {
        let head = Duel::against(side).head();
        let message = [head.clone(), frame(reserved(9), b"ignored"), data(b"body"), headers(&[("x", "y")])];
        let ends: Vec<usize> = message
            .iter()
            .scan(0, |at, part| {
                *at += part.len();
                Some(*at)
            })
            .collect();
        let message = message.concat();
        for cut in 1..message.len() {
            if ends.contains(&cut) {
                continue;
            }
            let mut duel = Duel::against(side);
            let id = duel.message();
            duel.send(id, &message[..cut], true);
            duel.read(id);
            assert_eq!(duel.close_code(), Some(Code::FRAME_ERROR), "cut at {cut} of {}", message.len());
        }
    }
}

#[test]
fn what_is_unknown_is_ignored() {
    for side in ROLES {
        let mut duel = Duel::against(side);
        let control = duel.control;
        let grease =
            || [frame(reserved(77), b"grease"), frame(MAX_VARINT, b""), frame(0x21, &[0; 300])].concat();
        duel.send(control, &grease(), false);
        for kind in [reserved(0), reserved(5), 0x54, MAX_VARINT] {
            let id = duel.send_uni(&[varint(kind), vec![1, 2, 3]].concat());
            let stopped = duel.peer().connection().streams().stopped(id);
            assert!(stopped.is_none_or(|code| code == Code::STREAM_CREATION_ERROR.get()));
        }
        // A stream may end before its type is complete.
        for bytes in [&b""[..], b"\x40"] {
            duel.peer().open(Dir::Uni, bytes, true);
            let id = duel.send_uni(bytes);
            duel.reset(id, Code::NO_ERROR);
        }
        let id = duel.message();
        let head = duel.head();
        let message = [
            grease(),
            head,
            grease(),
            data(b"bo"),
            grease(),
            data(b""),
            data(b"dy"),
            headers(&[("x", "y")]),
            grease(),
        ];
        duel.send(id, &message.concat(), true);
        assert_eq!(duel.read(id), (b"body".to_vec(), ReadError::Finished));
        let trailers = duel.victim().session.as_mut().unwrap().trailers(id).unwrap();
        assert_eq!(trailers["x"], "y");
        duel.assert_quiet(&[id]);
    }
}

#[test]
fn settings_that_are_unknown_are_ignored() {
    for side in ROLES {
        let mut pair = crate::pair::Pair::with(alone(side));
        let peer = if side == Client { &mut pair.server } else { &mut pair.client };
        let unknown =
            [varint(reserved(1)), varint(MAX_VARINT), varint(0x4d44), varint(1), vec![0x06, 0x20]].concat();
        peer.open(Dir::Uni, &[&b"\0"[..], &frame(0x4, &unknown)].concat(), false);
        pair.pump();
        let victim = if side == Client { &mut pair.client } else { &mut pair.server };
        assert!(victim.events.contains(&Event::Settings));
        let settings = victim.session.as_ref().unwrap().peer_settings().unwrap();
        assert_eq!(settings.max_field_section_size, Some(0x20));
        assert_eq!(victim.closed, None);
    }
}

#[test]
fn everything_may_come_byte_by_byte() {
    for side in ROLES {
        let mut duel = Duel::against(side);
        let id = duel.message();
        let message =
            [duel.head(), data(b"some"), frame(reserved(2), b"xyz"), data(b" body"), headers(&[("x", "y")])]
                .concat();
        let mut body = Vec::new();
        for byte in message {
            duel.send(id, &[byte], false);
            body.extend(duel.read(id).0);
        }
        duel.send(id, b"", true);
        assert_eq!(duel.read(id), (Vec::new(), ReadError::Finished));
        assert_eq!(body, b"some body");
        assert_eq!(duel.victim().session.as_mut().unwrap().trailers(id).unwrap()["x"], "y");
        // The bytes of critical streams may arrive one by one, too.
        let control = duel.control;
        for byte in [frame(0x7, b"\x40\0"), frame(reserved(4), b"ab")].concat() {
            duel.send(control, &[byte], false);
        }
        assert!(duel.victim().events.contains(&Event::GoingAway));
        let mut streams = [b"\x80\0\0\x02".to_vec(), b"\xc0\0\0\0\0\0\0\x03".to_vec()];
        streams[0].extend(b"\x3f\xbd\x01\x43x-a\x01b");
        for bytes in streams {
            let id = duel.send_uni(b"");
            for byte in bytes {
                duel.send(id, &[byte], false);
            }
        }
        assert_eq!(duel.close_code(), None);
        assert_eq!(duel.victim().closed, None);
    }
}

/// Each side opens its control stream with SETTINGS and both QPACK streams at once, and no others (RFC 9114 §7.2.4.2).
#[test]
fn each_side_opens_three_streams_without_waiting() {
    for side in ROLES {
        let mut pair = crate::pair::Pair::with(alone(side));
        let peer = if side == Client { &mut pair.server } else { &mut pair.client };
        let streams = peer.connection().streams();
        let opened: Vec<_> = std::iter::from_fn(|| streams.accept(Dir::Uni)).collect();
        let begins = opened.iter().map(|id| streams.take(*id, usize::MAX).unwrap()).collect::<Vec<_>>();
        assert_eq!(begins.iter().map(|bytes| bytes[0]).collect::<Vec<_>>(), [0, 2, 3], "{side:?}");
        assert_eq!(begins[0][1], 4, "SETTINGS of the {side:?}");
    }
}

/// The peer may open its QPACK streams although no table is permitted (RFC 9204 §4.2).
#[test]
fn qpack_streams_may_be_opened_without_a_table() {
    for side in ROLES {
        let config = Config::default().with_qpack_max_table_capacity(0);
        let mut duel = Duel::with(side, config, TransportConfig::default());
        duel.send_uni(&encoder_stream(b"\x20"));
        duel.send_uni(&decoder_stream(b""));
        assert_eq!(duel.close_code(), None);
        // The encoder stream is read: this capacity is above the maximum.
        let mut duel =
            Duel::with(side, Config::default().with_qpack_max_table_capacity(0), TransportConfig::default());
        duel.send_uni(&encoder_stream(b"\x21"));
        assert_eq!(duel.close_code(), Some(Code::QPACK_ENCODER_STREAM_ERROR));
    }
}

/// A second shutdown does not name a later request than the first one, although one has arrived since (RFC 9114 §5.2).
#[test]
fn a_second_shutdown_does_not_raise_the_goaway() {
    let mut duel = Duel::against(Server);
    for _ in 0..2 {
        duel.victim().http(|session, streams| session.shutdown(streams));
        duel.pair.pump();
        let id = duel.message();
        duel.send(id, &headers(&REQUEST), true);
        assert_eq!(duel.accept(), None);
    }
    let control = duel.peer().connection().streams().accept(Dir::Uni).unwrap();
    let (received, _) = duel.received(control);
    let mut rest = &received[1..];
    let mut identifiers = Vec::new();
    while let (taken, Some(frame)) = HeaderReader::default().read(rest) {
        let (payload, next) = rest[taken..].split_at(frame.len as usize);
        if frame.kind == FrameType::GOAWAY {
            identifiers.push(payload.to_vec());
        }
        rest = next;
    }
    assert_eq!(identifiers, [[0]]);
}
