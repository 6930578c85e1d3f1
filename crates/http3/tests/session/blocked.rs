//! Tests of QPACK between a session and a peer whose instructions are written by hand (RFC 9204).

use anabranch_http3::{Code, Config, Event, ReadError};
use anabranch_transport::TransportConfig;
use anabranch_wire::{Dir, Side, StreamId};

use crate::by_hand::{Duel, ROLES, data, decoder_stream, encoder_stream, frame};

/// Instruction that sets the capacity of the dynamic table to 220.
const CAPACITY: &[u8] = b"\x3f\xbd\x01";
/// Instruction that inserts `x-a: b`.
const INSERT: &[u8] = b"\x43x-a\x01b";

/// Creates a HEADERS frame that consists of a prefix, the lines of a request or response, and `lines`.
/// `required` is the encoded required insert count. The base is equal to the required insert count.
fn section(side: Side, required: u8, lines: &[u8]) -> Vec<u8> {
    let head: &[u8] = match side {
        Side::Server => b"\xd4\xd7\xc1\x50\x0aserver.lab",
        Side::Client => b"\xd9",
    };
    frame(0x1, &[&[required, 0], head, lines].concat())
}

/// Creates the section of a message that requires `inserts` entries and refers to the newest one.
fn waiting(side: Side, inserts: u8) -> Vec<u8> {
    section(side, inserts + 1, b"\x80")
}

fn is_delivered(duel: &mut Duel, id: StreamId) -> bool {
    match duel.side {
        Side::Server => duel.accept() == Some(id),
        Side::Client => duel.victim().session.as_mut().unwrap().response(id).is_some(),
    }
}

/// Reader of new instructions on the victim's decoder stream. It skips the stream type.
struct Instructions {
    stream: StreamId,
}

impl Instructions {
    fn of(duel: &mut Duel) -> Self {
        let streams = duel.peer().connection().streams();
        let ids: Vec<StreamId> = std::iter::from_fn(|| streams.accept(Dir::Uni)).collect();
        let stream =
            ids.into_iter().find(|id| duel.peer().connection().streams().peek(*id).unwrap()[0] == 3).unwrap();
        duel.peer().connection().streams().consume(stream, 1).unwrap();
        Self { stream }
    }

    fn take(&self, duel: &mut Duel) -> Vec<u8> {
        duel.received(self.stream).0
    }
}

#[test]
fn instructions_that_are_wrong() {
    let oversized = [&b"\x22"[..], INSERT].concat();
    let encoder: [(&str, &[u8]); 7] = [
        ("a capacity above the limit", b"\x3f\xe2\x1f"),
        ("an entry larger than the table", &oversized),
        ("an entry before the capacity", INSERT),
        ("an index beyond the static table", b"\x3f\xbd\x01\xff\x24\x01x"),
        ("a name of no entry", b"\x3f\xbd\x01\x80\x01x"),
        ("a duplicate of no entry", b"\x3f\xbd\x01\x00"),
        ("a number without an end", b"\x3f\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"),
    ];
    let decoder: [(&str, &[u8]); 4] = [
        ("an increment of 0", b"\x00"),
        ("an increment beyond what was inserted", b"\x01"),
        ("an acknowledgment of no section", b"\x80"),
        ("a number without an end", b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"),
    ];
    for side in ROLES {
        for (what, bytes) in encoder {
            let mut duel = Duel::against(side);
            duel.send_uni(&encoder_stream(bytes));
            assert_eq!(duel.close_code(), Some(Code::QPACK_ENCODER_STREAM_ERROR), "{what} to the {side:?}");
        }
        for (what, bytes) in decoder {
            let mut duel = Duel::against(side);
            duel.send_uni(&decoder_stream(bytes));
            assert_eq!(duel.close_code(), Some(Code::QPACK_DECODER_STREAM_ERROR), "{what} to the {side:?}");
        }
        // A cancellation of a stream without sections is no error (RFC 9204 §4.4.2).
        let mut duel = Duel::against(side);
        duel.send_uni(&decoder_stream(b"\x40\x44"));
        assert_eq!(duel.close_code(), None);
    }
}

#[test]
fn sections_that_cannot_be_decoded() {
    // Six entries of 36 bytes fit; the seventh evicts the first.
    let inserts = INSERT.repeat(7);
    for side in ROLES {
        let cases: [(&str, Vec<u8>); 8] = [
            ("an index beyond the static table", section(side, 0, b"\xff\x24")),
            ("an entry although none is required", section(side, 0, b"\x80")),
            ("an entry beyond the required ones", section(side, 7, b"\x10")),
            ("an entry that was evicted", section(side, 8, b"\x86")),
            ("an entry before the first", section(side, 8, b"\x87")),
            ("an impossible required insert count", section(side, 0xff, b"\x02")),
            ("a base below zero", frame(0x1, b"\x08\x87\xd9")),
            ("no prefix", frame(0x1, b"\0")),
        ];
        for (what, bytes) in cases {
            let mut duel = Duel::against(side);
            duel.send_uni(&encoder_stream(&[CAPACITY, &inserts].concat()));
            let id = duel.message();
            duel.send(id, &bytes, true);
            assert_eq!(duel.close_code(), Some(Code::QPACK_DECOMPRESSION_FAILED), "{what} to the {side:?}");
        }
    }
}

#[test]
fn sections_wait_for_their_entries_and_go_on_in_their_order() {
    for side in ROLES {
        let mut duel = Duel::against(side);
        let instructions = Instructions::of(&mut duel);
        let encoder = duel.send_uni(&encoder_stream(CAPACITY));
        duel.keeps_one_more();
        let ids: Vec<StreamId> = (1..=4).map(|_| duel.message()).collect();
        // The later sections need fewer entries.
        for (id, inserts) in ids.iter().zip([4, 3, 2, 1]) {
            duel.send(*id, &[waiting(side, inserts), data(b"body")].concat(), true);
        }
        duel.victim().events.clear();
        assert_eq!(instructions.take(&mut duel), b"");
        for id in ids.iter().rev() {
            assert!(!is_delivered(&mut duel, *id));
            duel.send(encoder, INSERT, false);
            assert!(is_delivered(&mut duel, *id));
            assert_eq!(duel.read(*id), (b"body".to_vec(), ReadError::Finished));
            // A section acknowledgment also acknowledges the entry.
            assert_eq!(instructions.take(&mut duel), [0x80 | id.as_u64() as u8]);
        }
        duel.assert_quiet(&ids);
    }
}

/// Checks that acknowledgments of sections wait until they are worth a frame beside a response, or until the
/// peer's encoder may lack them.
#[test]
fn acknowledgments_of_sections_accompany_responses_together() {
    let mut duel = Duel::against(Side::Server);
    let instructions = Instructions::of(&mut duel);
    duel.send_uni(&encoder_stream(&[CAPACITY, INSERT].concat()));
    assert_eq!(instructions.take(&mut duel), [1], "the entry is acknowledged at once");
    let exchange = |duel: &mut Duel, section: &[u8]| {
        let id = duel.message();
        duel.send(id, section, true);
        assert_eq!(duel.accept(), Some(id));
        let head = http::Response::new(()).into_parts().0;
        duel.victim().http(|session, streams| session.respond(streams, id, &head, true)).unwrap();
        assert_eq!(duel.close_code(), None);
        (0x80 | id.as_u64() as u8, instructions.take(duel))
    };
    let mut waits = Vec::new();
    for round in 1..=16 {
        let (acknowledgment, sent) = exchange(&mut duel, &waiting(Side::Server, 1));
        waits.push(acknowledgment);
        assert_eq!(sent, if round == 16 { std::mem::take(&mut waits) } else { Vec::new() }, "round {round}");
    }
    let (acknowledgment, sent) = exchange(&mut duel, &waiting(Side::Server, 1));
    assert_eq!(sent, b"");
    // An encoder that refers to nothing may be unable to evict entries.
    let (_, sent) = exchange(&mut duel, &section(Side::Server, 0, b""));
    assert_eq!(sent, [acknowledgment]);
}

#[test]
fn the_limit_of_blocked_streams_is_ours() {
    for side in ROLES {
        for (limit, code) in [(5, None), (4, Some(Code::QPACK_DECOMPRESSION_FAILED)), (0, None)] {
            let config = Config::default().with_qpack_blocked_streams(limit);
            let mut duel = Duel::with(side, config, TransportConfig::default());
            duel.send_uni(&encoder_stream(CAPACITY));
            for _ in 0..5 {
                let id = duel.message();
                let section = waiting(side, if limit == 0 { 0 } else { 1 });
                let bytes = if limit == 0 { self::section(side, 0, b"") } else { section };
                duel.send(id, &bytes, false);
            }
            assert_eq!(duel.close_code(), code, "{limit} to the {side:?}");
        }
    }
}

#[test]
fn trailers_may_wait_too() {
    for side in ROLES {
        let mut duel = Duel::against(side);
        let encoder = duel.send_uni(&encoder_stream(CAPACITY));
        duel.keeps_one_more();
        let id = duel.message();
        let message = [section(side, 0, b""), data(b"body"), frame(0x1, b"\x02\0\x80")].concat();
        duel.send(id, &message, true);
        assert!(is_delivered(&mut duel, id));
        assert_eq!(duel.read(id), (b"body".to_vec(), ReadError::Blocked));
        duel.victim().events.clear();
        duel.send(encoder, INSERT, false);
        assert!(duel.victim().events.contains(&Event::Readable(id)));
        assert_eq!(duel.read(id), (Vec::new(), ReadError::Finished));
        assert_eq!(duel.victim().session.as_mut().unwrap().trailers(id).unwrap()["x-a"], "b");
        duel.assert_quiet(&[id]);
    }
}

/// Checks that the encoder gets exactly one Stream Cancellation for each message that is not read to its end
/// (RFC 9204 §2.2.2.2).
#[test]
fn streams_that_are_given_up_are_cancelled() {
    for side in ROLES {
        for behind in [&b""[..], &data(b"body")] {
            // The peer resets the stream while the section is blocked.
            let mut duel = Duel::against(side);
            let instructions = Instructions::of(&mut duel);
            let encoder = duel.send_uni(&encoder_stream(CAPACITY));
            duel.keeps_one_more();
            let id = duel.message();
            let cancellation = [0x40 | id.as_u64() as u8];
            duel.send(id, &[&waiting(side, 1), behind].concat(), false);
            duel.reset(id, Code::REQUEST_CANCELLED);
            assert_eq!(instructions.take(&mut duel), cancellation, "reset");
            duel.send(encoder, INSERT, false);
            assert_eq!(instructions.take(&mut duel), [1], "the entry, and no section");
            assert!(!is_delivered(&mut duel, id));
            duel.assert_quiet(&[id]);
            assert_eq!(instructions.take(&mut duel), b"", "nothing after that");
        }
        // The peer resets the stream before any data arrived. A section may have been lost.
        let mut duel = Duel::against(side);
        let instructions = Instructions::of(&mut duel);
        let id = duel.message();
        duel.reset(id, Code::REQUEST_CANCELLED);
        assert_eq!(instructions.take(&mut duel), [0x40 | id.as_u64() as u8]);
        duel.assert_quiet(&[id]);
        assert_eq!(instructions.take(&mut duel), b"");
        // The application releases the message in the middle of the content.
        let id = duel.message();
        let message = [duel.head(), data(b"body")].concat();
        duel.send(id, &message, false);
        assert!(is_delivered(&mut duel, id));
        duel.assert_quiet(&[id]);
        assert_eq!(instructions.take(&mut duel), [0x40 | id.as_u64() as u8]);
        // The message is read to its end, so nothing is cancelled.
        let id = duel.message();
        let message = duel.head();
        duel.send(id, &message, true);
        assert!(is_delivered(&mut duel, id));
        duel.assert_quiet(&[id]);
        assert_eq!(instructions.take(&mut duel), b"");
    }
    // A server that has sent GOAWAY rejects the request.
    let mut duel = Duel::against(Side::Server);
    let instructions = Instructions::of(&mut duel);
    duel.victim().http(|session, streams| session.shutdown(streams));
    let id = duel.message();
    let message = duel.head();
    duel.send(id, &message, true);
    assert_eq!(instructions.take(&mut duel), [0x40 | id.as_u64() as u8]);
    assert_eq!(
        duel.received(id).1,
        anabranch_transport::stream::ReadError::Reset(Code::REQUEST_REJECTED.into())
    );
    duel.assert_quiet(&[]);
}

#[test]
fn a_rejection_by_goaway_cancels_what_waits() {
    let mut duel = Duel::against(Side::Client);
    let instructions = Instructions::of(&mut duel);
    let encoder = duel.send_uni(&encoder_stream(CAPACITY));
    duel.keeps_one_more();
    let id = duel.message();
    duel.send(id, &waiting(Side::Client, 1), false);
    let control = duel.control;
    duel.send(control, &frame(0x7, b"\0"), false);
    assert_eq!(duel.read(id), (Vec::new(), ReadError::Rejected));
    assert_eq!(instructions.take(&mut duel), [0x40]);
    duel.send(encoder, INSERT, false);
    assert_eq!(duel.read(id), (Vec::new(), ReadError::Rejected));
    duel.assert_quiet(&[id]);
}
