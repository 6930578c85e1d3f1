use std::time::Duration;

use anabranch_wire::{Direction, Frame, Frames, PathId};

use super::*;
use crate::schedule::{Kinds, Patience};

/// Path on which messages arrive.
const PATH: PathId = PathId(1);

fn open(send: usize, receive: usize) -> Datagrams {
    let mut datagrams = Datagrams::new(send, receive);
    datagrams.set_peer_maximum(MAX_DATAGRAM_FRAME_SIZE);
    datagrams.set_packet_room(1200);
    datagrams
}

fn carrier(path: u32, working: &[u32], patience: Patience) -> Carrier {
    let working = working.iter().map(|path| PathId(*path)).collect();
    Carrier { path: PathId(path), working, kinds: Kinds::ALL, patience }
}

fn packet(datagrams: &mut Datagrams, size: usize) -> Vec<Vec<u8>> {
    let mut buf = vec![0; size];
    let mut w = Writer::new(&mut buf, Direction::Forward);
    let mut tokens = Tokens::new();
    datagrams.write(Time::ZERO, &carrier(0, &[], NO_PATIENCE), &mut w, &mut tokens);
    let messages: Vec<Vec<u8>> = Frames::new(w.written(), Direction::Forward)
        .map(|frame| match frame.unwrap() {
            Frame::Datagram { data } => data.to_vec(),
            other => panic!("{other:?}"),
        })
        .collect();
    assert!(tokens.iter().all(|token| *token == Token::Datagram));
    assert_eq!(tokens.len(), messages.len());
    messages
}

#[test]
fn messages_arrive_in_order() {
    let (mut from, mut to) = (open(10_000, 10_000), open(10_000, 10_000));
    for len in [1, 0, 700, 600] {
        from.send(Bytes::from(vec![len as u8; len])).unwrap();
    }
    assert!(from.has_pending());
    let first = packet(&mut from, 1200);
    let second = packet(&mut from, 1200);
    assert_eq!((first.len(), second.len()), (3, 1));
    assert!(!from.has_pending());
    assert_eq!(from.pending_bytes(), 0);
    for message in first.iter().chain(&second) {
        to.on_frame(PATH, message).unwrap();
    }
    assert!(to.take_received());
    assert!(!to.take_received());
    let lens: Vec<usize> = std::iter::from_fn(|| to.recv()).map(|message| message.len()).collect();
    assert_eq!(lens, [1, 0, 700, 600]);
}

#[test]
fn the_limits_of_the_peer_and_of_the_path_hold() {
    let mut datagrams = Datagrams::new(10_000, 10_000);
    assert_eq!(datagrams.send(Bytes::new()), Err(SendDatagramError::UnsupportedByPeer));
    datagrams.set_peer_maximum(100);
    datagrams.set_packet_room(1200);
    let max = datagrams.max_len().unwrap();
    assert!((90..100).contains(&max));
    assert_eq!(datagrams.send(Bytes::from(vec![0; max + 1])), Err(SendDatagramError::TooLarge));
    datagrams.send(Bytes::from(vec![0; max])).unwrap();
    assert_eq!(packet(&mut datagrams, 1200)[0].len(), max);
    datagrams.set_peer_maximum(MAX_DATAGRAM_FRAME_SIZE);
    let max = datagrams.max_len().unwrap();
    datagrams.send(Bytes::from(vec![0; max])).unwrap();
    assert_eq!(packet(&mut datagrams, 1200)[0].len(), max);
    assert_eq!(datagrams.send(Bytes::from(vec![0; max + 1])), Err(SendDatagramError::TooLarge));
}

#[test]
fn a_full_queue_blocks_and_tells_when_it_does_not() {
    let mut datagrams = open(2000, 0);
    let message = Bytes::from(vec![0; 500]);
    for _ in 0..3 {
        datagrams.send(message.clone()).unwrap();
    }
    assert_eq!(datagrams.send(message.clone()), Err(SendDatagramError::Blocked));
    assert!(!datagrams.take_unblocked());
    assert_eq!(packet(&mut datagrams, 600).len(), 1);
    assert!(datagrams.take_unblocked());
    assert!(!datagrams.take_unblocked());
    datagrams.send(message).unwrap();
}

#[test]
fn the_oldest_are_dropped_first() {
    let mut datagrams = open(0, 1000);
    for i in 0..100u8 {
        datagrams.on_frame(PATH, &[i; 36]).unwrap();
    }
    assert_eq!(datagrams.dropped(), 90);
    assert_eq!(datagrams.recv().unwrap()[0], 90);
}

#[test]
fn empty_messages_are_bounded_too() {
    let mut datagrams = open(0, 1 << 16);
    for _ in 0..100_000 {
        datagrams.on_frame(PATH, &[]).unwrap();
    }
    assert!(datagrams.incoming.messages.len() <= 1024);
}

#[test]
fn unwanted_or_oversized_datagrams_are_a_violation() {
    let mut closed = Datagrams::new(1000, 0);
    assert_eq!(closed.local_maximum(), 0);
    assert_eq!(closed.on_frame(PATH, b"x").unwrap_err().code, TransportErrorCode::PROTOCOL_VIOLATION);
    assert_eq!(closed.on_frame(PATH, b"").unwrap_err().code, TransportErrorCode::PROTOCOL_VIOLATION);
    let mut open = open(0, 1 << 20);
    assert_eq!(open.on_frame(PATH, &[0; 65_535]).unwrap_err().code, TransportErrorCode::PROTOCOL_VIOLATION);
    open.on_frame(PATH, &[0; 65_534]).unwrap();
}

#[test]
fn messages_that_no_longer_fit_are_dropped() {
    let mut datagrams = open(10_000, 0);
    datagrams.send(Bytes::from(vec![0; 1100])).unwrap();
    datagrams.send(Bytes::from(vec![0; 100])).unwrap();
    datagrams.set_packet_room(1000);
    assert_eq!(packet(&mut datagrams, 1000), [vec![0; 100]]);
    assert_eq!(datagrams.dropped(), 1);
}

/// Returns the messages, by their first bytes, in a packet of `size` bytes that `carrier` carries at `now`.
fn carried(datagrams: &mut Datagrams, now: Time, carrier: &Carrier, size: usize) -> Vec<u8> {
    let mut buf = vec![0; size];
    let mut w = Writer::new(&mut buf, Direction::Forward);
    datagrams.write(now, carrier, &mut w, &mut Tokens::new());
    if w.written().is_empty() {
        return Vec::new();
    }
    Frames::new(w.written(), Direction::Forward)
        .map(|frame| match frame.unwrap() {
            Frame::Datagram { data } => data[0],
            other => panic!("{other:?}"),
        })
        .collect()
}

fn message(name: u8, len: usize) -> Bytes {
    vec![name; len].into()
}

const NO_PATIENCE: Patience = Patience { ahead: 0, ordered: 0, time: Duration::ZERO };
const NONE: [u8; 0] = [];

#[test]
fn flows_have_the_same_share_however_much_they_queue() {
    let mut datagrams = open(1 << 20, 0);
    let now = Time::from_millis(1);
    for _ in 0..100 {
        datagrams.send_with(now, message(1, 1_000), &Terms::default().with_flow(1)).unwrap();
    }
    for name in [2, 2, 3] {
        datagrams.send_with(now, message(name, 100), &Terms::default().with_flow(name.into())).unwrap();
    }
    let mut sent = Vec::new();
    for _ in 0..4 {
        sent.extend(carried(&mut datagrams, now, &carrier(0, &[], NO_PATIENCE), 1_200));
    }
    // The first flow uses its credit, and then the others have their turns.
    assert_eq!(sent, [1, 2, 2, 3, 1, 1]);
    let mut bytes = [0; 2];
    for _ in 0..50 {
        datagrams.send_with(now, message(2, 500), &Terms::default().with_flow(2)).unwrap();
    }
    for _ in 0..30 {
        for name in carried(&mut datagrams, now, &carrier(0, &[], NO_PATIENCE), 1_200) {
            bytes[usize::from(name) - 1] += if name == 1 { 1_000 } else { 500 };
        }
    }
    assert!(bytes[0] <= bytes[1] + 2_500 && bytes[1] <= bytes[0] + 2_500, "{bytes:?}");
}

#[test]
fn a_full_queue_makes_room_at_the_expense_of_the_largest_flow() {
    let mut datagrams = open(10_000, 0);
    let (bulk, call) = (Terms::default().with_flow(1), Terms::default().with_flow(2));
    let now = Time::ZERO;
    let mut queued = 0;
    while datagrams.send_with(now, message(queued, 936), &bulk).is_ok() {
        queued += 1;
    }
    assert_eq!((queued, datagrams.dropped()), (10, 0), "a flow blocks itself");
    datagrams.send_with(now, message(99, 100), &call).unwrap();
    assert_eq!(datagrams.dropped(), 1);
    assert!(datagrams.pending_bytes() <= 10_000);
    // The oldest one was dropped.
    let sent = carried(&mut datagrams, now, &carrier(0, &[], NO_PATIENCE), 1_200);
    assert_eq!(sent, [1, 99]);
}

#[test]
fn a_message_that_is_refused_drops_no_others() {
    let mut datagrams = open(10_000, 0);
    let [own, other] = [1, 2].map(|flow| Terms::default().with_flow(flow));
    let now = Time::ZERO;
    // With the overhead of each message, the flows have 4,900 and 5,100 bytes.
    let own_lens = [[936; 4].as_slice(), &[36; 9]].concat();
    for (len, terms) in own_lens.into_iter().map(|len| (len, &own)).chain([(36, &other); 51]) {
        datagrams.send_with(now, message(0, len), terms).unwrap();
    }
    assert_eq!(datagrams.pending_bytes(), 10_000);
    assert_eq!(datagrams.send_with(now, message(1, 936), &own), Err(SendDatagramError::Blocked));
    assert_eq!((datagrams.dropped(), datagrams.pending_bytes()), (0, 10_000));
    datagrams.send_with(now, message(1, 136), &own).unwrap();
    assert_eq!((datagrams.dropped(), datagrams.pending_bytes()), (2, 10_000));
}

#[test]
fn messages_that_are_too_old_are_dropped_at_the_front_and_counted() {
    let mut datagrams = open(10_000, 0);
    let terms = Terms::default().with_flow(1).with_lifetime(Duration::from_millis(20));
    for (at, name) in [(0, 1), (10, 2), (15, 3)] {
        datagrams.send_with(Time::from_millis(at), message(name, 10), &terms).unwrap();
    }
    datagrams.send_with(Time::ZERO, message(4, 10), &Terms::default().with_flow(1)).unwrap();
    let sent = carried(&mut datagrams, Time::from_millis(30), &carrier(0, &[], NO_PATIENCE), 1_200);
    assert_eq!(sent, [3, 4]);
    assert_eq!((datagrams.expired(), datagrams.dropped()), (2, 0));
    assert_eq!((datagrams.has_pending(), datagrams.pending_bytes()), (false, 0));
    // A queue in which all messages are too old is emptied.
    datagrams.send_with(Time::ZERO, message(5, 10), &terms).unwrap();
    assert!(carried(&mut datagrams, Time::from_millis(20), &carrier(0, &[], NO_PATIENCE), 1_200).is_empty());
    assert_eq!((datagrams.has_pending(), datagrams.expired()), (false, 3));
}

#[test]
fn a_flow_spills_from_the_depth_at_which_both_paths_are_equally_quick() {
    let mut datagrams = open(1 << 20, 0);
    let patience = Patience { ahead: 3_000, ordered: 1_000, time: Duration::from_millis(45) };
    let (home, slower) = (carrier(0, &[], NO_PATIENCE), carrier(1, &[], patience));
    let (terms, now) = (Terms::default().with_flow(7), Time::from_millis(1));
    for name in 1..=5 {
        datagrams.send_with(now, message(name, 1_000), &terms).unwrap();
    }
    datagrams.send(message(9, 100)).unwrap();
    assert_eq!(
        carried(&mut datagrams, now, &slower, 1_200),
        [4, 9],
        "3,192 bytes and the other one are before"
    );
    assert_eq!(carried(&mut datagrams, now, &slower, 1_200), [5]);
    assert_eq!(carried(&mut datagrams, now, &slower, 1_200), NONE);
    assert_eq!(carried(&mut datagrams, now, &home, 1_200), [1]);
    // If the home path sends nothing, a message waits for 45 ms only.
    assert_eq!(carried(&mut datagrams, Time::from_millis(45), &slower, 1_200), NONE);
    assert_eq!(carried(&mut datagrams, Time::from_millis(46), &slower, 1_200), [2]);
    // It spills sooner if the receiver restores the order.
    let mut datagrams = open(1 << 20, 0);
    for name in 1..=3 {
        datagrams.send_with(now, message(name, 1_000), &terms.with_restored_order()).unwrap();
    }
    assert_eq!(carried(&mut datagrams, now, &slower, 1_200), [2]);
    assert_eq!(carried(&mut datagrams, now, &slower, 1_200), [3]);
    assert_eq!(carried(&mut datagrams, now, &slower, 1_200), NONE);
}

#[test]
fn a_copy_takes_another_path_within_max_copy_wait() {
    let mut datagrams = open(10_000, 0);
    let [first, second] = [0, 1].map(|path| carrier(path, &[0, 1], NO_PATIENCE));
    let terms = Terms::default().with_flow(1).with_copy();
    let now = Time::from_millis(1);
    datagrams.send_with(now, message(1, 10), &terms).unwrap();
    assert!(datagrams.is_routed());
    assert_eq!(carried(&mut datagrams, now, &first, 1_200), [1], "once on a path");
    assert_eq!(carried(&mut datagrams, now, &first, 1_200), NONE);
    assert_eq!(carried(&mut datagrams, now, &second, 1_200), [1]);
    assert!(!datagrams.has_pending() && !datagrams.is_routed());
    // Without a second path there is no copy.
    datagrams.send_with(now, message(2, 10), &terms).unwrap();
    assert_eq!(carried(&mut datagrams, now, &carrier(0, &[0], NO_PATIENCE), 1_200), [2]);
    assert!(!datagrams.has_pending());
    // If no second path has room within MAX_COPY_WAIT, the copy is dropped.
    datagrams.send_with(now, message(3, 10), &terms).unwrap();
    assert_eq!(carried(&mut datagrams, now, &first, 1_200), [3]);
    assert_eq!(carried(&mut datagrams, now + outgoing::MAX_COPY_WAIT, &second, 1_200), NONE);
    assert_eq!((datagrams.has_pending(), datagrams.expired()), (false, 1));
}

#[test]
fn a_search_looks_at_max_searched_flows() {
    let mut datagrams = open(1 << 20, 0);
    let flows = outgoing::MAX_SEARCHED as u64;
    for flow in 0..flows {
        datagrams.send_with(Time::ZERO, message(0, 10), &Terms::default().with_flow(flow)).unwrap();
    }
    datagrams.send(message(1, 10)).unwrap();
    let slower =
        carrier(1, &[], Patience { ahead: u64::MAX, ordered: u64::MAX, time: Duration::from_millis(20) });
    assert_eq!(carried(&mut datagrams, Time::from_millis(1), &slower, 1_200), NONE, "behind too many");
    assert_eq!(carried(&mut datagrams, Time::from_millis(1), &carrier(0, &[], NO_PATIENCE), 14), [0]);
    assert_eq!(carried(&mut datagrams, Time::from_millis(1), &slower, 1_200), [1]);
}
