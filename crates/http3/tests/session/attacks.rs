//! Tests of attacks with valid frames: their effect on a session is bounded.
//!
//! The session's private limits are repeated here under the same names, and the tests reach them exactly.

use std::collections::VecDeque;

use anabranch_http3::qpack::{Decoded, Decoder, Limits, MAX_UNSENT_INSTRUCTIONS};
use anabranch_http3::{Code, Config, Event, Priority, ReadError, encode_datagram, reserved};
use anabranch_transport::TransportConfig;
use anabranch_transport::stream::{self, StreamsConfig};
use anabranch_wire::{Dir, PathId, Side, StreamId, push_varint};
use bytes::Bytes;

use crate::by_hand::{Duel, REQUEST, RESPONSE, ROLES, data, encoder_stream, frame, headers};
use crate::pair::narrow;

/// Copy of the session's `MAX_EARLY_RESETS`.
const MAX_EARLY_RESETS: usize = 1_000;
/// Copy of `MAX_IDLE_FRAMES` of request and control streams.
const MAX_IDLE_FRAMES: usize = 256;
/// Number of streams that the transport permits a client to have open at once.
const AT_ONCE: usize = 128;

/// Way in which a client wastes the server's work.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Waste {
    /// The client resets a request before the server sees any of it.
    ResetUnseen,
    /// The client resets a request whose handler has begun.
    ResetBegun,
    /// The client makes a complete request and stops the response.
    Stop,
    /// The client resets the request and stops the response.
    Both,
    /// The client makes the server reset a request whose handler has begun.
    Spoil,
    /// The client sends a malformed request.
    Malform,
    /// The client sends more fields than the server accepts.
    TooLarge,
}

/// Makes and wastes one more request on each stream of `ids`. Returns the number of handlers that were
/// started.
pub(crate) fn waste(duel: &mut Duel, ids: &[StreamId], how: Waste) -> usize {
    let head = match how {
        Waste::Spoil => headers(&[&REQUEST[..], &[("content-length", "1")]].concat()),
        Waste::Malform => headers(&REQUEST[1..]),
        Waste::TooLarge => headers(&vec![("x", "y"); 300]),
        _ => headers(&REQUEST),
    };
    for id in ids {
        duel.peer().write(*id, &head, matches!(how, Waste::Stop | Waste::TooLarge));
        if let Waste::ResetUnseen = how {
            duel.peer().connection().streams().reset(*id, Code::REQUEST_CANCELLED.into()).unwrap();
        }
    }
    duel.pair.pump();
    let begun: Vec<StreamId> = match duel.victim().is_gone() {
        true => Vec::new(),
        false => std::iter::from_fn(|| duel.accept()).collect(),
    };
    for id in &begun {
        let streams = duel.peer().connection().streams();
        let code = Code::REQUEST_CANCELLED.into();
        match how {
            Waste::ResetBegun => streams.reset(*id, code).unwrap(),
            Waste::Stop => streams.stop(*id, code).unwrap(),
            Waste::Both => {
                streams.reset(*id, code).unwrap();
                streams.stop(*id, code).unwrap();
            }
            _ => duel.peer().write(*id, &data(b"two"), false),
        }
    }
    duel.pair.pump();
    for id in &begun {
        // The application notices the failure and releases the request.
        assert!(duel.victim().is_gone() || !matches!(duel.read(*id).1, ReadError::Blocked));
        if !duel.victim().is_gone() {
            duel.victim().http(|session, streams| session.release(streams, *id));
        }
    }
    duel.pair.pump();
    for id in ids {
        if !duel.peer().is_gone() {
            duel.received(*id);
        }
    }
    begun.len()
}

/// Checks row 12 of the attack table: the server closes a connection after [`MAX_EARLY_RESETS`] wasted
/// requests.
#[test]
fn requests_that_are_wasted_end_at_max_early_resets() {
    use Waste::{Both, Malform, ResetBegun, ResetUnseen, Spoil, Stop, TooLarge};
    for how in [ResetUnseen, ResetBegun, Stop, Both, Spoil, Malform, TooLarge] {
        let mut duel = Duel::against(Side::Server);
        let (mut made, mut begun) = (0, 0);
        while duel.peer().closed.is_none() {
            let ids: Vec<StreamId> = (0..100).map(|_| duel.peer().open(Dir::Bi, b"", false)).collect();
            made += ids.len();
            begun += waste(&mut duel, &ids, how);
            assert!(made <= MAX_EARLY_RESETS + AT_ONCE, "{how:?}");
            if duel.peer().closed.is_none() {
                duel.assert_quiet(&[]);
            }
        }
        assert_eq!(duel.peer().close_code(), Some(Code::EXCESSIVE_LOAD), "{how:?}");
        assert!(made > MAX_EARLY_RESETS, "{how:?} after {made}");
        let starts = matches!(how, ResetBegun | Stop | Both | Spoil);
        assert_eq!(begun > 0, starts, "{how:?} started {begun} handlers");
    }
}

/// Checks that requests that were cancelled before the application accepted them never reach it, and that no
/// state of them remains.
#[test]
fn requests_that_are_given_up_in_time_start_no_handler() {
    for how in [Waste::ResetBegun, Waste::Stop] {
        let mut duel = Duel::against(Side::Server);
        let ids: Vec<StreamId> = (0..10).map(|_| duel.message()).collect();
        for id in &ids {
            duel.send(*id, &headers(&REQUEST), matches!(how, Waste::Stop));
            match how {
                Waste::Stop => duel.stop(*id, Code::REQUEST_CANCELLED),
                _ => duel.reset(*id, Code::REQUEST_CANCELLED),
            }
        }
        assert_eq!(duel.victim().session.as_ref().unwrap().open_requests(), 0, "{how:?}");
        assert_eq!(duel.accept(), None, "{how:?}");
        duel.assert_quiet(&[]);
        // The next request reaches the application.
        duel.victim().events.clear();
        let id = duel.message();
        duel.send(id, &headers(&REQUEST), true);
        assert_eq!(*duel.victim().events.make_contiguous(), [Event::Request], "{how:?}");
        assert_eq!(duel.accept(), Some(id));
        duel.assert_quiet(&[id]);
    }
}

/// Checks that requests that arrive after GOAWAY, and are therefore rejected, count towards
/// [`MAX_EARLY_RESETS`].
#[test]
fn requests_after_the_farewell_end_at_max_early_resets() {
    let mut duel = Duel::against(Side::Server);
    duel.victim().http(|session, streams| session.shutdown(streams));
    duel.pair.pump();
    let mut made = 0;
    while duel.peer().closed.is_none() {
        assert!(made <= MAX_EARLY_RESETS + AT_ONCE);
        let ids: Vec<StreamId> = (0..100).map(|_| duel.peer().open(Dir::Bi, b"\x01", false)).collect();
        made += ids.len();
        duel.pair.pump();
        if !duel.peer().is_gone() {
            ids.iter().for_each(|id| _ = duel.received(*id));
        }
    }
    assert_eq!(duel.peer().close_code(), Some(Code::EXCESSIVE_LOAD));
    assert!(made > MAX_EARLY_RESETS);
}

#[test]
fn a_client_that_cancels_now_and_then_is_not_closed() {
    let mut duel = Duel::against(Side::Server);
    for round in 0..120 {
        let mut ids: VecDeque<StreamId> = (0..60).map(|_| duel.peer().open(Dir::Bi, b"", false)).collect();
        let cancelled: Vec<StreamId> = ids.drain(..20).collect();
        let how = [Waste::ResetUnseen, Waste::Both, Waste::Stop][round % 3];
        waste(&mut duel, &cancelled, how);
        for id in &ids {
            duel.peer().write(*id, &headers(&REQUEST), true);
        }
        duel.pair.pump();
        while let Some(id) = duel.accept() {
            answer(&mut duel, id);
        }
        duel.pair.pump();
        for id in ids {
            assert_eq!(duel.received(id).1, stream::ReadError::Finished);
        }
    }
    duel.assert_quiet(&[]);
}

pub(crate) fn answer(duel: &mut Duel, id: StreamId) {
    let parts = http::Response::new(()).into_parts().0;
    duel.victim().http(|session, streams| {
        session.respond_whole(streams, id, &parts, b"").unwrap();
        session.release(streams, id);
    });
}

/// Creates the insertion of a table entry of 4,000 bytes, and a HEADERS frame of 1 KB that repeats
/// `reference`. If `reference` is the index of the entry, the frame would decode to 4 MB.
pub(crate) fn expansion(head: &[u8], reference: &[u8]) -> (Vec<u8>, Vec<u8>) {
    let mut instructions = b"\x3f\xe1\x1f\x41a\x7f\xa1\x1e".to_vec();
    instructions.extend([b'v'; 4000]);
    let section = [b"\x02\0", head, &reference.repeat(1000 / reference.len())].concat();
    (encoder_stream(&instructions), frame(0x1, &section))
}

/// Returns the status of a response that the peer received.
fn status(received: &[u8]) -> String {
    assert_eq!(received[0], 1, "a HEADERS frame");
    let section = &received[2..2 + usize::from(received[1])];
    let limits = Limits { max_size: 1000, max_fields: 10 };
    let mut status = String::new();
    let mut read = |line: anabranch_http3::qpack::FieldLine<'_>| {
        assert_eq!(line.name, b":status");
        status = String::from_utf8(line.value.to_vec()).unwrap();
    };
    assert_eq!(Decoder::new(0, 0).decode(0, section, &limits, &mut read), Ok(Decoded::Complete));
    status
}

/// Checks row 14 of the attack table: 1 KB decodes to at most 64 KiB.
#[test]
fn sections_that_expand_are_refused_and_the_connection_goes_on() {
    // Indexed lines; literals with names from the dynamic table; a large number of small lines.
    for reference in [&b"\x80"[..], b"\x40\0", b"\xdd"] {
        let mut duel = Duel::against(Side::Server);
        let (instructions, bomb) = expansion(b"\xd4\xd7\xc1\x50\x0aserver.lab", reference);
        assert!(bomb.len() < 1100);
        duel.send_uni(&instructions);
        duel.keeps_one_more();
        for _ in 0..50 {
            let id = duel.message();
            duel.send(id, &bomb, true);
            assert_eq!(status(&duel.received(id).0), "431");
            assert_eq!(duel.accept(), None);
        }
        // The length in the frame header suffices for the rejection.
        let id = duel.message();
        duel.send(id, b"\x01\x80\x01\x00\x01", false);
        assert_eq!(status(&duel.received(id).0), "431");
        duel.assert_quiet(&[]);
        for side in ROLES {
            let mut duel = Duel::against(side);
            duel.send_uni(&instructions);
            duel.keeps_one_more();
            let head: &[u8] = if side == Side::Client { b"\xd9" } else { b"" };
            let (_, bomb) = expansion(head, reference);
            let before = if side == Side::Client { Vec::new() } else { [duel.head(), data(b"x")].concat() };
            let id = duel.message();
            duel.send(id, &[&before[..], &bomb].concat(), true);
            duel.accept();
            assert_eq!(duel.read(id).1, ReadError::Malformed(Code::EXCESSIVE_LOAD));
            duel.assert_quiet(&[id]);
        }
    }
    // Fewer lines than `max_fields`, but each of 4 KB: 16 of them are permitted, 17 are too large.
    for lines in [16, 17] {
        let mut duel = Duel::against(Side::Server);
        let (instructions, _) = expansion(b"", b"\x80");
        duel.send_uni(&instructions);
        duel.keeps_one_more();
        let section = [&b"\x02\0\xd4\xd7\xc1\x50\x0aserver.lab"[..], &vec![0x80; lines]].concat();
        let id = duel.message();
        duel.send(id, &frame(0x1, &section), true);
        if lines == 16 {
            assert_eq!(duel.accept(), Some(id));
        } else {
            assert_eq!(status(&duel.received(id).0), "431");
            assert_eq!(duel.accept(), None);
        }
    }
    // The trailers of a response are also rejected if they expand.
    let mut duel = Duel::against(Side::Client);
    let (instructions, bomb) = expansion(b"", b"\x80");
    duel.send_uni(&instructions);
    duel.keeps_one_more();
    let id = duel.message();
    duel.send(id, &[headers(&RESPONSE), data(b"x"), bomb].concat(), true);
    assert_eq!(duel.read(id), (b"x".to_vec(), ReadError::Malformed(Code::EXCESSIVE_LOAD)));
    duel.assert_quiet(&[id]);
}

#[test]
fn frames_that_bring_nothing_end_at_max_idle_frames() {
    for side in ROLES {
        for idle in [data(b""), frame(reserved(1), b""), frame(reserved(1), b"long enough to be something")] {
            for (count, code) in [(MAX_IDLE_FRAMES, None), (MAX_IDLE_FRAMES + 1, Some(Code::EXCESSIVE_LOAD))]
            {
                let mut duel = Duel::against(side);
                let id = duel.message();
                // A frame with an effect resets the count.
                let message = [duel.head(), idle.repeat(200), data(b"x"), idle.repeat(count)].concat();
                duel.send(id, &message, false);
                duel.read(id);
                assert_eq!(duel.close_code(), code, "{count} frames on a request");
            }
        }
        for (count, code) in [(MAX_IDLE_FRAMES, None), (MAX_IDLE_FRAMES + 1, Some(Code::EXCESSIVE_LOAD))] {
            let mut duel = Duel::against(side);
            let control = duel.control;
            let idle = frame(reserved(1), b"");
            let bytes = [idle.repeat(200), frame(0x7, b"\0"), idle.repeat(count)].concat();
            duel.send(control, &bytes, false);
            assert_eq!(duel.close_code(), code, "{count} frames on the control stream");
        }
    }
}

/// Checks MAX_INTERIM, the limit of interim responses that wait for the application.
#[test]
fn interim_responses_end_at_max_interim() {
    const MAX_INTERIM: usize = 16;
    let interim = headers(&[(":status", "103")]);
    let mut duel = Duel::against(Side::Client);
    let id = duel.message();
    duel.send(id, &interim.repeat(MAX_INTERIM), false);
    assert!(!duel.victim().events.contains(&Event::Failed(id)));
    duel.send(id, &interim, false);
    assert!(duel.victim().events.contains(&Event::Failed(id)));
    assert_eq!(duel.read(id).1, ReadError::Malformed(Code::EXCESSIVE_LOAD));
    duel.assert_quiet(&[id]);
    // An application that takes interim responses in time can receive any number of them.
    let id = duel.message();
    for _ in 0..10 * MAX_INTERIM {
        duel.send(id, &interim, false);
        assert!(duel.victim().session.as_mut().unwrap().response(id).is_some());
    }
    duel.send(id, &headers(&RESPONSE), true);
    assert_eq!(duel.read(id).1, ReadError::Finished);
    duel.assert_quiet(&[id]);
}

/// Checks that interim responses which wait have together at most the size that one may have.
#[test]
fn interim_responses_end_at_the_limit_of_a_field_section() {
    let value = "v".repeat(30_000);
    let interim = headers(&[(":status", "103"), ("link", &value)]);
    let mut duel = Duel::against(Side::Client);
    let id = duel.message();
    duel.send(id, &interim.repeat(2), false);
    assert!(!duel.victim().events.contains(&Event::Failed(id)));
    // Sections that the application has taken do not count.
    assert!(duel.victim().session.as_mut().unwrap().response(id).is_some());
    duel.send(id, &interim, false);
    assert!(!duel.victim().events.contains(&Event::Failed(id)));
    duel.send(id, &interim, false);
    assert!(duel.victim().events.contains(&Event::Failed(id)));
    assert_eq!(duel.read(id).1, ReadError::Malformed(Code::EXCESSIVE_LOAD));
    duel.assert_quiet(&[id]);
}

pub(crate) fn priority_update(id: u64, urgency: u8) -> Vec<u8> {
    let mut payload = Vec::new();
    push_varint(&mut payload, id);
    payload.extend(format!("u={urgency}").bytes());
    frame(0xf0700, &payload)
}

/// Checks MAX_EARLY_PRIORITIES, the limit of priorities of requests that have not arrived.
#[test]
fn early_priorities_end_at_max_early_priorities() {
    const MAX_EARLY_PRIORITIES: u64 = 128;
    let streams = StreamsConfig::default().with_max_bidi(400);
    let transport = TransportConfig::default().with_streams(streams);
    let mut duel = Duel::with(Side::Server, Config::default(), transport);
    let control = duel.control;
    let updates = |urgency| (0..200).flat_map(move |n| priority_update(n * 4, urgency)).collect::<Vec<u8>>();
    duel.send(control, &[updates(5), updates(0)].concat(), false);
    // The priorities of requests that are then cancelled make room for others.
    for _ in 0..100 {
        let id = duel.message();
        duel.reset(id, Code::REQUEST_CANCELLED);
    }
    duel.send(control, &(200..300).flat_map(|n| priority_update(n * 4, 0)).collect::<Vec<u8>>(), false);
    // Requests without a priority share the connection.
    let expected = |urgency| Some(Priority::new(urgency, urgency == 3).into());
    for n in 100..350 {
        let id = duel.message();
        assert_eq!(id.as_u64(), n * 4);
        duel.send(id, &headers(&REQUEST), false);
        let known = n < MAX_EARLY_PRIORITIES || (200..300).contains(&n);
        let priority = duel.victim().connection().streams().priority(id);
        assert_eq!(priority, expected(if known { 0 } else { 3 }), "request {n}");
        if n > 250 {
            duel.accept();
        }
    }
    assert_eq!(duel.close_code(), None);
}

/// Checks that PRIORITY_UPDATE overrides the header, regardless of the order of arrival (RFC 9218 §7).
#[test]
fn a_priority_update_overrules_the_header() {
    let mut duel = Duel::against(Side::Server);
    let (control, id) = (duel.control, duel.message());
    let head = headers(&[&REQUEST[..], &[("priority", "u=7")]].concat());
    duel.send(id, &head[..5], false);
    duel.send(control, &priority_update(id.as_u64(), 1), false);
    duel.send(id, &head[5..], false);
    let priority = |duel: &mut Duel| duel.victim().connection().streams().priority(id);
    assert_eq!(priority(&mut duel), Some(Priority::new(1, false).into()));
    duel.send(control, &priority_update(id.as_u64(), 6), false);
    assert_eq!(priority(&mut duel), Some(Priority::new(6, false).into()));
    duel.assert_quiet(&[]);
}

/// Checks MAX_CONTROL_BACKLOG: a session closes the connection if its control stream gets no flow control
/// credit.
#[test]
fn a_control_stream_without_credit_ends_at_max_control_backlog() {
    const MAX_CONTROL_BACKLOG: usize = 16 * 1024;
    let mut duel = Duel::with(Side::Client, Config::default(), narrow(64));
    let id = duel.message();
    let len = priority_update(id.as_u64(), 1).len();
    let sent = duel.victim().http(|session, streams| {
        (1..10_000_usize).find(|n| {
            let urgency = if n % 2 == 0 { 1 } else { 2 };
            session.set_priority(streams, id, Priority::new(urgency, false));
            session.take_fault().is_some_and(|fault| fault.code == Code::EXCESSIVE_LOAD)
        })
    });
    let bytes = len * sent.unwrap();
    assert!((MAX_CONTROL_BACKLOG..MAX_CONTROL_BACKLOG + 100).contains(&bytes), "{bytes} bytes");
}

/// Checks [`MAX_UNSENT_INSTRUCTIONS`]: a session closes the connection if its decoder stream gets no flow
/// control credit while each section causes an acknowledgment.
#[test]
fn a_decoder_stream_without_credit_ends_at_max_unsent_instructions() {
    let mut duel = Duel::with(Side::Server, Config::default(), narrow(100));
    duel.send_uni(&encoder_stream(b"\x3f\xbd\x01\x43x-a\x01b"));
    let request = frame(0x1, b"\x02\0\xd4\xd7\xc1\x50\x0aserver.lab\x80");
    let mut owed = 0;
    while duel.peer().closed.is_none() {
        assert!(owed < MAX_UNSENT_INSTRUCTIONS + 1000, "{owed} bytes");
        let ids: Vec<StreamId> = (0..100).map(|_| duel.peer().open(Dir::Bi, &request, true)).collect();
        duel.pair.pump();
        while !duel.victim().is_gone()
            && let Some(id) = duel.accept()
        {
            answer(&mut duel, id);
            // RFC 9204 §4.4.1: an integer with a prefix of 7 bits.
            owed += match id.as_u64() {
                0..0x7f => 1,
                0x7f..0xff => 2,
                0xff..0x407f => 3,
                _ => 4,
            };
        }
        duel.pair.pump();
        if !duel.peer().is_gone() {
            ids.iter().for_each(|id| _ = duel.received(*id));
        }
    }
    assert_eq!(duel.peer().close_code(), Some(Code::EXCESSIVE_LOAD));
    assert!(owed + 1000 > MAX_UNSENT_INSTRUCTIONS, "{owed} bytes");
}

/// Checks MAX_WAITING_DATAGRAMS: the latest datagrams are kept.
#[test]
fn datagrams_that_wait_end_at_max_waiting_datagrams() {
    const MAX_WAITING_DATAGRAMS: usize = 512;
    for side in ROLES {
        let mut duel = Duel::against(side);
        let id = duel.tunnel();
        for n in 0..700_u16 {
            let datagram = encode_datagram(id, &n.to_be_bytes());
            duel.peer().connection().datagrams().send(datagram).unwrap();
            duel.pair.pump();
        }
        let session = duel.victim().session.as_mut().unwrap();
        let waiting: Vec<Bytes> = std::iter::from_fn(|| session.recv_datagram(id)).collect();
        assert_eq!(waiting.len(), MAX_WAITING_DATAGRAMS);
        assert_eq!(waiting[0], 188_u16.to_be_bytes()[..]);
        duel.assert_quiet(&[id]);
    }
}

/// Checks MAX_WAITING_BYTES: all requests share this limit, and a released request returns its share.
#[test]
fn datagrams_that_wait_end_at_max_waiting_bytes() {
    const MAX_WAITING_BYTES: usize = 1024 * 1024;
    let mut duel = Duel::against(Side::Server);
    for _ in 0..2 {
        let ids: Vec<StreamId> = (0..20).map(|_| duel.tunnel()).collect();
        for id in &ids {
            assert_eq!(duel.accept(), Some(*id));
            for _ in 0..100 {
                let datagram = encode_datagram(*id, &[7; 1000]);
                duel.peer().connection().datagrams().send(datagram).unwrap();
                duel.pair.pump();
            }
        }
        let session = duel.victim().session.as_mut().unwrap();
        // Datagrams of all requests are queued up to the limit. Releasing the requests makes room for the
        // datagrams of the next ones.
        let waiting = ids[1..]
            .iter()
            .map(|id| std::iter::from_fn(|| session.recv_datagram(*id)).count())
            .sum::<usize>();
        let bytes = (100 + waiting) * (1000 + size_of::<(PathId, Bytes)>());
        assert!((MAX_WAITING_BYTES - 2000..=MAX_WAITING_BYTES).contains(&bytes), "{bytes} bytes");
        duel.assert_quiet(&ids);
    }
}

/// Sends a datagram for a request, and checks that it ends the request alone.
fn assert_ended_by_a_datagram(duel: &mut Duel, id: StreamId, rest: &[u8]) {
    duel.peer().connection().datagrams().send(encode_datagram(id, b"stray")).unwrap();
    duel.pair.pump();
    duel.send(id, rest, false);
    assert_eq!(duel.victim().session.as_mut().unwrap().recv_datagram(id), None);
    let code = Code::DATAGRAM_ERROR.into();
    assert_eq!(duel.received(id).1, stream::ReadError::Reset(code));
    assert!(duel.peer().raw.contains(&stream::StreamEvent::Stopped(id, code)), "{:?}", duel.peer().raw);
    assert_eq!(duel.close_code(), None);
}

/// Datagrams of a method that defines none end the request (RFC 9297 §2).
#[test]
fn a_datagram_for_a_get_resets_it() {
    let mut duel = Duel::against(Side::Server);
    let id = duel.message();
    duel.send(id, &headers(&REQUEST), false);
    assert_eq!(duel.accept(), Some(id));
    assert_ended_by_a_datagram(&mut duel, id, b"");
    assert_eq!(duel.read(id).1, ReadError::Malformed(Code::DATAGRAM_ERROR));
    duel.assert_quiet(&[id]);
    // The application does not learn of a request that it has not accepted, and whose datagram came before the head.
    let id = duel.message();
    let head = headers(&REQUEST);
    duel.send(id, &head[..5], false);
    assert_ended_by_a_datagram(&mut duel, id, &head[5..]);
    assert_eq!(duel.accept(), None);
    duel.assert_quiet(&[]);
    // A client's request has ended, so there is only the response to stop.
    let mut duel = Duel::against(Side::Client);
    let id = duel.request("GET");
    duel.peer().connection().datagrams().send(encode_datagram(id, b"stray")).unwrap();
    duel.pair.pump();
    assert!(duel.victim().events.contains(&Event::Failed(id)));
    assert_eq!(duel.read(id).1, ReadError::Malformed(Code::DATAGRAM_ERROR));
    let code = Code::DATAGRAM_ERROR.into();
    assert!(duel.peer().raw.contains(&stream::StreamEvent::Stopped(id, code)), "{:?}", duel.peer().raw);
    duel.assert_quiet(&[id]);
}

#[test]
fn datagrams_that_belong_to_nothing() {
    for side in ROLES {
        // Datagrams of requests that do not exist or have ended are dropped.
        let mut duel = Duel::against(side);
        let id = duel.message();
        let head = duel.head();
        duel.send(id, &head, true);
        duel.accept();
        for request in [id, StreamId::from_u64(400)] {
            duel.peer().connection().datagrams().send(encode_datagram(request, b"late")).unwrap();
        }
        duel.pair.pump();
        assert_eq!(duel.victim().session.as_mut().unwrap().recv_datagram(id), None);
        duel.assert_quiet(&[id]);
        // A server rejects datagrams of requests beyond the stream limit.
        let config = Config::default();
        let streams = StreamsConfig::default();
        let transport = TransportConfig::default().with_streams(streams.clone());
        let mut duel = Duel::with(side, config, transport);
        let [last, beyond] = [streams.max_bidi() - 1, streams.max_bidi()].map(|n| StreamId::from_u64(4 * n));
        duel.peer().connection().datagrams().send(encode_datagram(last, b"")).unwrap();
        assert_eq!(duel.close_code(), None);
        duel.peer().connection().datagrams().send(encode_datagram(beyond, b"")).unwrap();
        // Only a server knows the stream limit, so only a server reports an error.
        assert_eq!(duel.close_code(), (side == Side::Server).then_some(Code::ID_ERROR));
        // A datagram without a complete quarter stream ID is an error, as is any datagram if SETTINGS did not
        // permit datagrams.
        for h3_datagram in [true, false] {
            let mut duel =
                Duel::with(side, Config::default().with_h3_datagram(h3_datagram), TransportConfig::default());
            let datagram = if h3_datagram { Bytes::from_static(b"\x40") } else { encode_datagram(id, b"") };
            duel.peer().connection().datagrams().send(datagram).unwrap();
            assert_eq!(duel.close_code(), Some(Code::DATAGRAM_ERROR));
        }
    }
}

/// Checks that repeated GOAWAY frames are handled one by one but cause only one event.
#[test]
fn repeated_goaways_are_one_event() {
    let mut duel = Duel::against(Side::Client);
    let ids: Vec<StreamId> = (0..100).map(|_| duel.message()).collect();
    duel.victim().events.clear();
    let control = duel.control;
    for last in (0..100).rev() {
        let mut payload = Vec::new();
        push_varint(&mut payload, last * 4);
        duel.send(control, &frame(0x7, &payload).repeat(100), false);
    }
    let events: Vec<Event> = duel.victim().events.drain(..).collect();
    let failures = ids.iter().rev().map(|id| Event::Failed(*id));
    assert_eq!(events, [Event::GoingAway].into_iter().chain(failures).collect::<Vec<_>>());
    duel.assert_quiet(&ids);
}
