//! Tokens that prove a client's address, from the client's side (RFC 9000 §8.1).

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;

use anabranch_wire::{PacketKind, Side, VarInt, parse_packet};
use bytes::Bytes;

use super::pair::Pair;
use crate::{Event, RetryPolicy};

fn tokens(pair: &Pair) -> Vec<Bytes> {
    let token = |event: &Event| match event {
        Event::NewToken(token) => Some(token.clone()),
        _ => None,
    };
    pair.client_events.iter().filter_map(token).collect()
}

/// Records the token of each Initial that a client sends.
fn watch_tokens(pair: &mut Pair) -> Rc<RefCell<Vec<Vec<u8>>>> {
    let seen = Rc::<RefCell<Vec<_>>>::default();
    let into = Rc::clone(&seen);
    pair.network = Some(Box::new(move |from, flying| {
        if from.is_client()
            && let Ok(header) = parse_packet(&flying.bytes, 8)
            && header.kind == PacketKind::Initial
        {
            into.borrow_mut().push(flying.bytes[header.token.clone()].to_vec());
        }
        vec![flying]
    }));
    seen
}

fn close_and_reconnect(pair: &mut Pair) {
    let now = pair.now;
    pair.client().close(now, VarInt::from_u32(0), Bytes::new());
    pair.run_until_quiet();
    pair.reconnect();
}

#[test]
fn a_retry_token_is_kept_for_nothing_else() {
    let mut pair = Pair::with(|_, server| {
        server.retry = RetryPolicy::Always;
        server.new_tokens = 0;
    });
    let seen = watch_tokens(&mut pair);
    pair.connect();
    pair.run_until_quiet();
    let first = std::mem::take(&mut *seen.borrow_mut());
    assert!(first[0].is_empty() && first.len() >= 2);
    assert!(!first[1].is_empty() && first[1..].iter().all(|token| *token == first[1]));
    assert_eq!(tokens(&pair), Vec::<Bytes>::new());
    close_and_reconnect(&mut pair);
    pair.connect();
    let second = seen.borrow();
    assert!(second[0].is_empty() && second[1..].iter().all(|token| !token.is_empty() && *token != first[1]));
}

#[test]
fn no_token_is_issued_twice() {
    let mut pair = Pair::with(|_, server| server.new_tokens = 8);
    let mut all = BTreeSet::new();
    let mut count = 0;
    for round in 0..20 {
        // The server's first datagram with tokens is lost, and the tokens are sent again.
        let mut short = 0;
        pair.network = Some(Box::new(move |from, flying| {
            short += u32::from(from == Side::Server && flying.bytes[0] & 0x80 == 0);
            if from == Side::Server && short == 1 { Vec::new() } else { vec![flying] }
        }));
        pair.connect();
        pair.run_until_quiet();
        let tokens = tokens(&pair);
        assert!(tokens.len() >= 8, "{} in round {round}", tokens.len());
        count += tokens.len();
        all.extend(tokens);
        close_and_reconnect(&mut pair);
    }
    assert_eq!(all.len(), count);
}
