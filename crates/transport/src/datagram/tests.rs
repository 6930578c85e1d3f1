use anabranch_wire::{Direction, Frame, Frames, PathId};
use smallvec::SmallVec;

use super::*;
use crate::schedule::Kinds;

fn open(send: usize, receive: usize) -> Datagrams {
    let mut datagrams = Datagrams::new(send, receive);
    datagrams.set_peer_maximum(MAX_DATAGRAM_FRAME_SIZE);
    datagrams.set_packet_room(1200);
    datagrams
}

fn packet(datagrams: &mut Datagrams, size: usize) -> Vec<Vec<u8>> {
    let mut buf = vec![0; size];
    let mut w = Writer::new(&mut buf, Direction::Forward);
    let mut tokens = Tokens::new();
    datagrams.write(
        &Carrier { path: PathId::ZERO, working: SmallVec::new(), kinds: Kinds::ALL },
        &mut w,
        &mut tokens,
    );
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
        to.on_frame(message).unwrap();
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
        datagrams.on_frame(&[i; 36]).unwrap();
    }
    assert_eq!(datagrams.dropped(), 90);
    assert_eq!(datagrams.recv().unwrap()[0], 90);
}

#[test]
fn empty_messages_are_bounded_too() {
    let mut datagrams = open(0, 1 << 16);
    for _ in 0..100_000 {
        datagrams.on_frame(&[]).unwrap();
    }
    assert!(datagrams.incoming.messages.len() <= 1024);
}

#[test]
fn unwanted_or_oversized_datagrams_are_a_violation() {
    let mut closed = Datagrams::new(1000, 0);
    assert_eq!(closed.local_maximum(), 0);
    assert_eq!(closed.on_frame(b"x").unwrap_err().code, TransportErrorCode::PROTOCOL_VIOLATION);
    assert_eq!(closed.on_frame(b"").unwrap_err().code, TransportErrorCode::PROTOCOL_VIOLATION);
    let mut open = open(0, 1 << 20);
    assert_eq!(open.on_frame(&[0; 65_535]).unwrap_err().code, TransportErrorCode::PROTOCOL_VIOLATION);
    open.on_frame(&[0; 65_534]).unwrap();
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
