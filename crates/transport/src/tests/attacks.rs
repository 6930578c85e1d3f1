//! Malicious peers: floods, withheld and forged acknowledgments (numbers are rows of the attack table).

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use anabranch_recovery::MAX_QUIET_TRACKED;
use anabranch_wire::{
    ConnectionId, Frame, NewConnectionId, PacketKind, ResetToken, Side, TransportErrorCode as Code, Writer,
    write_ack,
};

use super::injector::{encode, joined, ping, varint};
use super::pair::{Pair, direction, pattern};
use crate::connection::{Forged, MAX_NEW_TOKENS, MAX_NUDGES, MAX_PROMPT_ACKS, MAX_UNDECRYPTED_UNVALIDATED};
use crate::path::MAX_PATH_RESPONSES;
use crate::{ConnectionError, Event};

/// Payload that fits into a packet on any path, in bytes.
const ROOM: usize = 1_100;

/// Maximum number of packets tracked during a flood: acknowledgments, including those with a PING, and the
/// packets that the congestion window allows.
const MOST_SENT: usize = MAX_QUIET_TRACKED + MAX_NUDGES as usize + 30;

/// Returns a connected pair whose network drops all datagrams from now on, so that nothing is acknowledged.
fn withholding() -> Pair {
    let mut pair = Pair::new();
    pair.connect();
    pair.run_until_quiet();
    pair.network = Some(Box::new(|_, _| Vec::new()));
    pair
}

/// Sends `packets` packets from the peer of `victim`, in batches of 32. `payload` creates the content of
/// each.
fn flood(pair: &mut Pair, victim: Side, packets: usize, mut payload: impl FnMut(usize) -> Vec<u8>) {
    pair.delay = Duration::from_micros(10);
    for packet in 0..packets {
        let bytes = payload(packet);
        pair.inject(victim.peer(), &Forged::new(PacketKind::OneRtt, &bytes));
        if packet % 32 == 31 {
            pair.run_for(Duration::from_micros(20));
        }
    }
    pair.run_for(Duration::from_micros(20));
}

/// Returns the number of copies of a frame that fit into a packet, and these copies.
fn many(frame: &Frame<'_>) -> (usize, Vec<u8>) {
    let count = ROOM / frame.size();
    (count, encode(&vec![*frame; count]))
}

#[test]
fn row_1_a_flood_of_path_challenges_is_answered_with_the_newest_four() {
    for victim in [Side::Client, Side::Server] {
        let mut pair = withholding();
        let (count, payload) = many(&Frame::PathChallenge([5; 8]));
        let packets = 1_000_000 / count;
        let (mut left, before) = (packets, pair.bytes_to_client + pair.bytes_to_server);
        while left > 0 {
            let some = left.min(64);
            flood(&mut pair, victim, some, |_| payload.clone());
            left -= some;
            let held = pair.end(victim).held();
            assert!(held.path_responses <= MAX_PATH_RESPONSES && held.sent_packets <= MOST_SENT, "{held:?}");
        }
        // Congestion control limits the data sent to a peer that acknowledges nothing (RFC 9000 §8.2.2).
        let sent = pair.bytes_to_client + pair.bytes_to_server - before;
        assert!(sent < 1_000_000, "{sent} bytes for {packets} packets");
        assert_eq!(pair.closed(victim), None);
    }
}

#[test]
fn row_2_connection_ids_that_must_be_retired_at_once() {
    for victim in [Side::Client, Side::Server] {
        let mut pair = withholding();
        let mut sent = 0;
        while pair.closed(victim).is_none() {
            sent += 1;
            assert!(sent < 100, "cut off early");
            let sequence = 100 + sent as u64;
            let cid = ConnectionId::new(&sequence.to_be_bytes()).unwrap();
            let token = ResetToken([sent as u8; 16]);
            let issued = NewConnectionId { path: None, sequence, retire_prior_to: sequence, cid, token };
            flood(&mut pair, victim, 1, |_| encode(&[Frame::NewConnectionId(issued)]));
        }
        let Some(ConnectionError::Transport(error)) = pair.closed(victim) else { panic!("an error") };
        assert_eq!(error.code, Code::CONNECTION_ID_LIMIT_ERROR);
    }
}

#[test]
fn row_2_a_packet_full_of_retirements_makes_no_more_ids_than_there_were() {
    for victim in [Side::Client, Side::Server] {
        let mut pair = withholding();
        let retire = |sequence| Frame::RetireConnectionId { path: None, sequence };
        let issued = pair.end(victim).held().local_cids as u64;
        let all: Vec<Frame<'_>> = (1..issued).map(retire).collect();
        flood(&mut pair, victim, 1, |_| encode(&all));
        assert_eq!(pair.closed(victim), None);
        assert_eq!(pair.end(victim).held().local_cids as u64, issued, "replaced");
        // This packet also retires connection IDs that are issued only in response to it.
        let all: Vec<Frame<'_>> = (issued..500).map(retire).collect();
        flood(&mut pair, victim, 1, |_| encode(&all));
        let Some(ConnectionError::Transport(error)) = pair.closed(victim) else { panic!("an error") };
        assert_eq!(error.code, Code::PROTOCOL_VIOLATION);
    }
}

#[test]
fn row_3_tokens_are_passed_on_up_to_a_bound() {
    let mut pair = withholding();
    flood(&mut pair, Side::Client, 1_000, |_| encode(&vec![Frame::NewToken { token: b"another token" }; 50]));
    let tokens = pair.client_events.iter().filter(|event| matches!(event, Event::NewToken(_))).count();
    assert_eq!(tokens as u64, MAX_NEW_TOKENS);
    assert_eq!(pair.closed(Side::Client), None);
}

/// The test sends about a million frames of each kind, a tenth of the table's ten million.
#[test]
fn row_3_churn_of_small_frames_leaves_nothing_behind() {
    let frames = [
        Frame::Ping,
        Frame::MaxData(1 << 30),
        Frame::DataBlocked(1 << 30),
        Frame::MaxStreams { dir: anabranch_wire::Dir::Bi, maximum: 1 << 20 },
        Frame::StreamsBlocked { dir: anabranch_wire::Dir::Uni, maximum: 128 },
        Frame::ImmediateAck,
    ];
    for victim in [Side::Client, Side::Server] {
        for frame in &frames {
            let mut pair = withholding();
            let (count, payload) = many(frame);
            flood(&mut pair, victim, (1_000_000 / count).clamp(500, 10_000), |_| payload.clone());
            let held = pair.end(victim).held();
            assert!(held.events <= 4 && held.endpoint_events == 0, "{frame:?} {held:?}");
            assert!(held.sent_packets <= MOST_SENT, "{frame:?} {held:?}");
            assert_eq!(pair.closed(victim), None, "{frame:?}");
        }
    }
}

/// Each packet draws an acknowledgment of its own, and every 33rd acknowledgment may carry a PING.
#[test]
fn row_3_pings_added_to_acknowledgments_end_at_max_nudges() {
    /// Probes after a PTO, which the bound does not count.
    const PROBES: u64 = 8;
    for victim in [Side::Client, Side::Server] {
        let mut pair = withholding();
        let payload = encode(&[Frame::ImmediateAck; 4]);
        let before = pair.end(victim).held().next_number;
        for _ in 0..4_000 {
            flood(&mut pair, victim, 1, |_| payload.clone());
        }
        let held = pair.end(victim).held();
        assert!(held.next_number - before > 3_900, "{held:?}");
        assert!((MAX_NUDGES..=MAX_NUDGES + PROBES).contains(&held.asking), "{held:?}");
        assert_eq!(pair.closed(victim), None);
    }
}

/// Sends `packets` packets, of which every other is lost, to a server that reports `max_ranges` ranges. Returns the
/// size of its longest acknowledgment in bytes.
fn longest_ack(max_ranges: usize, packets: usize) -> u64 {
    let mut pair = Pair::with_transport(|transport| transport.ack.max_ranges = max_ranges);
    pair.connect();
    pair.run_until_quiet();
    pair.network = Some(Box::new(|_, _| Vec::new()));
    let now = pair.now;
    let mut longest = 0;
    for _ in 0..packets {
        pair.client().forge(now, &Forged::new(PacketKind::OneRtt, &ping()));
        pair.inject(Side::Client, &Forged::new(PacketKind::OneRtt, &ping()));
        pair.delay = Duration::from_micros(10);
        let before = pair.bytes_to_client;
        pair.run_for(Duration::from_micros(20));
        longest = longest.max(pair.bytes_to_client - before);
    }
    assert_eq!(pair.closed(Side::Server), None);
    longest
}

/// The test sends a fiftieth of the table's million packets. The bound is reached after 128.
#[test]
fn row_4_odd_packet_numbers_only() {
    // 64 ranges of two bytes each, a header and a tag.
    let longest = longest_ack(64, 20_000);
    assert!((100..300).contains(&longest), "an acknowledgment of {longest} bytes");
    // Fewer ranges than are remembered.
    let longest = longest_ack(8, 1_000);
    assert!((40..80).contains(&longest), "an acknowledgment of {longest} bytes");
}

/// Returns an ACK frame for all packets up to `largest`.
fn ack_all(largest: u64) -> Vec<u8> {
    let mut bytes = [0; 64];
    let mut writer = Writer::new(&mut bytes, direction());
    write_ack(&mut writer, None, [0..=largest].into_iter(), 0, None).unwrap();
    writer.written().to_vec()
}

#[test]
fn row_5_optimistic_acknowledgments_are_found_out_within_a_window() {
    for victim in [Side::Client, Side::Server] {
        let mut pair = withholding();
        let id = pair.end(victim).streams().open(anabranch_wire::Dir::Uni).unwrap();
        let data = pattern(900_000);
        let _ = pair.end(victim).streams().write(id, &data);
        let mut largest = 0;
        while pair.closed(victim).is_none() {
            // Acknowledges exactly the packets sent so far, although none arrived.
            largest = pair.end(victim).held().next_number - 1;
            assert!(largest < 400, "not found out by packet {largest}");
            pair.inject(victim.peer(), &Forged::new(PacketKind::OneRtt, &ack_all(largest)));
            pair.run_for(Duration::from_millis(20));
        }
        let Some(ConnectionError::Transport(error)) = pair.closed(victim) else { panic!("an error") };
        assert_eq!(error.code, Code::PROTOCOL_VIOLATION, "after packet {largest}");
    }
}

#[test]
fn row_8_a_client_hello_without_end() {
    let mut pair = Pair::new();
    pair.drain();
    pair.to_server.clear();
    let mut offset = 0u64;
    while pair.server_handle.is_none() || pair.closed(Side::Server).is_none() {
        let mut data = vec![0; 1_000];
        if offset == 0 {
            data[..4].copy_from_slice(&[1, 0xff, 0xff, 0xff]);
        }
        let frames = encode(&[Frame::Crypto { offset, data: &data }]);
        pair.inject(Side::Client, &Forged::new(PacketKind::Initial, &frames));
        pair.run_for(Duration::from_millis(15));
        offset += 1_000;
        assert!(offset < 80_000, "no end in sight");
    }
    let Some(ConnectionError::Transport(error)) = pair.closed(Side::Server) else { panic!("an error") };
    // Alert decode_error, as soon as the length is known.
    assert_eq!((error.code, offset), (Code(0x132), 1_000));
}

/// Returns whether the peer's TLS has finished the level that [`Pair::advance_to`] has reached. TLS then
/// accepts no new data of that level (RFC 9001 §4.1.3).
pub(super) fn level_is_over(kind: PacketKind, from: Side) -> bool {
    matches!((kind, from), (PacketKind::Initial, Side::Client) | (PacketKind::Handshake, Side::Server))
}

#[test]
fn row_8_crypto_gaps_within_the_window_cost_no_more_than_the_window() {
    for kind in [PacketKind::Initial, PacketKind::Handshake, PacketKind::OneRtt] {
        for from in [Side::Client, Side::Server] {
            let mut pair = Pair::new();
            pair.advance_to(kind, from);
            pair.network = Some(Box::new(|_, _| Vec::new()));
            // Single bytes with gaps between them, never more than 64 KiB ahead.
            for packet in 0..80u64 {
                let frames: Vec<Frame<'_>> = (0..100)
                    .map(|index| Frame::Crypto { offset: 20_000 + (packet * 100 + index) * 2, data: b"x" })
                    .collect();
                pair.inject(from, &Forged::new(kind, &encode(&frames)));
                pair.run_for(Duration::from_millis(1));
            }
            match pair.closed(from.peer()) {
                None => {}
                Some(ConnectionError::Transport(error)) => {
                    let code = if level_is_over(kind, from) {
                        Code::PROTOCOL_VIOLATION
                    } else {
                        Code::CRYPTO_BUFFER_EXCEEDED
                    };
                    assert_eq!(error.code, code);
                }
                other => panic!("{other:?}"),
            }
        }
    }
}

/// The client responds to each ACK of an Initial packet with another padded PING.
#[test]
fn a_handshake_without_end_is_acknowledged_at_a_bounded_rate() {
    let mut pair = Pair::new();
    pair.advance_to(PacketKind::Initial, Side::Client);
    let (answers, counted) = (Rc::new(Cell::new(0u64)), Rc::new(Cell::new(0u64)));
    let (into, bytes) = (Rc::clone(&answers), Rc::clone(&counted));
    pair.network = Some(Box::new(move |from, flying| {
        if from.is_server() {
            into.set(into.get() + 1);
            bytes.set(bytes.get() + flying.bytes.len() as u64);
        }
        Vec::new()
    }));
    pair.delay = Duration::from_micros(200);
    let mut pings = 0;
    let seconds = 29;
    for _ in 0..seconds * 2_500 {
        pair.inject(Side::Client, &Forged::new(PacketKind::Initial, &encode(&[Frame::Ping; 4])));
        pings += 1;
        pair.run_for(Duration::from_micros(400));
    }
    // The permitted burst, then 40 per second, and the server's own flight at each probe timeout.
    let most = u64::from(MAX_PROMPT_ACKS) + 40 * seconds + 100;
    assert!(answers.get() <= most, "{} answers to {pings} packets", answers.get());
    assert!(answers.get() > 0, "still answers");
    assert!(pair.server().poll_timeout().is_some_and(|next| next > pair.now));
    pair.run_for(Duration::from_secs(3));
    assert_eq!(pair.closed(Side::Server), Some(&ConnectionError::HandshakeTimedOut));
}

#[test]
fn packets_that_wait_for_keys_are_few() {
    let mut pair = Pair::new();
    pair.run_until(Duration::from_secs(1), |pair| pair.server_handle.is_some());
    // The server has not received a Handshake packet yet, so the client's address is not validated.
    let (dcid, now) = (pair.client().remote_cid(), pair.now);
    assert!(!dcid.is_empty() && now > anabranch_wire::Time::ZERO);
    pair.network = Some(Box::new(|_, _| Vec::new()));
    let server_cid = {
        let header = anabranch_wire::parse_packet(&pair.to_client[0].bytes, 8).unwrap();
        header.scid
    };
    pair.to_client.clear();
    for byte in 0..200u8 {
        let mut bytes = vec![byte; 1_200];
        bytes[0] = 0x40;
        bytes[1..9].copy_from_slice(&server_cid);
        pair.send_raw(Side::Client, bytes);
    }
    pair.run_for(Duration::from_millis(20));
    assert_eq!(pair.server().held().undecrypted, MAX_UNDECRYPTED_UNVALIDATED);
    assert_eq!(pair.closed(Side::Server), None);
}

#[test]
fn replays_change_nothing() {
    let mut pair = Pair::new();
    let copies = Rc::new(RefCell::new(Vec::new()));
    let into = Rc::clone(&copies);
    pair.network = Some(Box::new(move |from, flying| {
        into.borrow_mut().push((from, flying.bytes.clone()));
        vec![flying]
    }));
    pair.connect();
    let data = pattern(200_000);
    assert!(pair.transfer(Side::Client, &data) == data);
    pair.run_until_quiet();
    pair.network = None;
    let before = (pair.client().held(), pair.server().held(), pair.server_events.len());
    let sent = (pair.bytes_to_client, pair.bytes_to_server);
    for (from, bytes) in copies.borrow_mut().drain(..) {
        pair.send_raw(from, bytes);
    }
    pair.run_until_quiet();
    assert_eq!((pair.client().held(), pair.server().held(), pair.server_events.len()), before);
    assert_eq!((pair.bytes_to_client, pair.bytes_to_server), sent, "no replay is answered");
}

/// Returns whether a connection may close with this code because of its peer's packets.
pub(super) fn is_transport_code(code: Code) -> bool {
    code.name().is_some() || (0x100..0x200).contains(&code.0)
}

proptest::proptest! {
    #![proptest_config(proptest::test_runner::Config { cases: 200, ..Default::default() })]

    #[test]
    fn any_payload_is_taken_or_refused(
        payload in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..200),
        kind in proptest::sample::select(vec![PacketKind::Initial, PacketKind::Handshake, PacketKind::OneRtt]),
        from_client in proptest::prelude::any::<bool>(),
        // A small frame type comes first; otherwise hardly any payload would contain a frame.
        first in 0..0x32u8,
    ) {
        let from = if from_client { Side::Client } else { Side::Server };
        let mut pair = Pair::new();
        pair.advance_to(kind, from);
        let payload = joined(&[varint(first.into(), 0), payload]);
        pair.inject(from, &Forged::new(kind, &payload));
        pair.run_for(Duration::from_secs(3));
        match pair.closed(from.peer()) {
            Some(ConnectionError::Transport(error)) => assert!(is_transport_code(error.code), "{error}"),
            Some(ConnectionError::LocallyClosed | ConnectionError::TimedOut(_)) => panic!("for no reason"),
            _ => {}
        }
    }
}
