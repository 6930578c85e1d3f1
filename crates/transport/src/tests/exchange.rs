//! Exchanges other than plain streams: datagrams, resets, priorities, acknowledgment frequency, greased bits,
//! MTU probes.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use anabranch_recovery::EcnState;
use anabranch_wire::{Dir, Ecn, PathId, Side, VarInt};
use bytes::Bytes;

use super::pair::{Pair, pattern, version};
use super::paths::SIDES;
use crate::datagram::SendDatagramError;
use crate::stream::{Priority, ReadError, StreamEvent, WriteError};
use crate::{ConnectionError, Event, FrequencyRule};

fn connected(pair: Pair) -> Pair {
    let mut pair = pair;
    pair.connect();
    pair.run_until_quiet();
    pair
}

#[test]
fn datagrams_go_both_ways() {
    let mut pair = connected(Pair::new());
    for from in [Side::Client, Side::Server] {
        let max = pair.end(from).datagrams().max_len().unwrap();
        assert!((1_380..1_472).contains(&max), "{max}");
        for len in [0, 1, max] {
            pair.end(from).datagrams().send(Bytes::from(pattern(len))).unwrap();
        }
        assert_eq!(
            pair.end(from).datagrams().send(Bytes::from(pattern(max + 1))),
            Err(SendDatagramError::TooLarge)
        );
        pair.run_until_quiet();
        let events = if from.is_client() { &pair.server_events } else { &pair.client_events };
        assert!(events.contains(&Event::DatagramReceived));
        for len in [0, 1, max] {
            assert_eq!(pair.end(from.peer()).datagrams().recv(), Some(Bytes::from(pattern(len))));
        }
        assert_eq!(pair.end(from.peer()).datagrams().recv(), None);
    }
}

#[test]
fn datagrams_are_only_sent_to_a_peer_that_takes_them() {
    let mut pair = Pair::with(|_, server| Arc::make_mut(&mut server.transport).datagram_receive_buffer = 0);
    pair.connect();
    assert_eq!(
        pair.client().datagrams().send(Bytes::from_static(b"hello")),
        Err(SendDatagramError::UnsupportedByPeer)
    );
    pair.server().datagrams().send(Bytes::from_static(b"hello")).unwrap();
    pair.run_until_quiet();
    assert_eq!(pair.client().datagrams().recv(), Some(Bytes::from_static(b"hello")));
}

#[test]
fn lost_datagrams_are_not_repeated() {
    let mut pair = connected(Pair::new());
    pair.network = Some(Box::new(|from, flying| if from.is_client() { Vec::new() } else { vec![flying] }));
    pair.client().datagrams().send(Bytes::from_static(b"lost")).unwrap();
    pair.run_for(Duration::from_millis(1));
    pair.network = None;
    pair.client().datagrams().send(Bytes::from_static(b"found")).unwrap();
    pair.run_for(Duration::from_secs(3));
    assert_eq!(pair.server().datagrams().recv(), Some(Bytes::from_static(b"found")));
    assert_eq!(pair.server().datagrams().recv(), None);
}

#[test]
fn a_reader_stops_a_stream_and_its_writer_learns_why() {
    let mut pair = connected(Pair::new());
    let id = pair.client().streams().open(Dir::Bi).unwrap();
    pair.client().streams().write(id, &pattern(100_000)).unwrap();
    pair.run_for(Duration::from_millis(15));
    assert_eq!(pair.server().streams().accept(Dir::Bi), Some(id));
    pair.server().streams().stop(id, VarInt::from_u32(77)).unwrap();
    pair.run_until_quiet();
    assert!(pair.client_events.contains(&Event::Stream(StreamEvent::Stopped(id, VarInt::from_u32(77)))));
    assert_eq!(pair.client().streams().write(id, b"more"), Err(WriteError::Stopped(VarInt::from_u32(77))));
    // The other direction continues.
    pair.server().streams().write(id, b"answer").unwrap();
    pair.server().streams().finish(id).unwrap();
    let mut answer = Vec::new();
    pair.run_until(Duration::from_secs(1), |pair| pair.read(Side::Client, id, &mut answer));
    assert_eq!(answer, b"answer");
}

#[test]
fn a_writer_resets_a_stream_and_its_reader_learns_why() {
    let mut pair = connected(Pair::new());
    let id = pair.server().streams().open(Dir::Uni).unwrap();
    pair.server().streams().write(id, &pattern(100_000)).unwrap();
    pair.run_for(Duration::from_millis(15));
    pair.server().streams().reset(id, VarInt::from_u32(55)).unwrap();
    pair.run_until_quiet();
    assert_eq!(pair.client().streams().accept(Dir::Uni), Some(id));
    assert_eq!(pair.client().streams().peek(id).unwrap_err(), ReadError::Reset(VarInt::from_u32(55)));
}

#[test]
fn a_stream_of_higher_priority_overtakes() {
    let mut pair = connected(Pair::new());
    let [low, high] = [0, 7].map(|level| {
        let id = pair.server().streams().open(Dir::Uni).unwrap();
        pair.server().streams().set_priority(id, Priority { level, incremental: true });
        pair.server().streams().write(id, &pattern(500_000)).unwrap();
        pair.server().streams().finish(id).unwrap();
        id
    });
    let (mut from_low, mut from_high) = (Vec::new(), Vec::new());
    pair.run_until(Duration::from_secs(10), |pair| {
        pair.read(Side::Client, low, &mut from_low);
        pair.read(Side::Client, high, &mut from_high)
    });
    assert!(from_high == pattern(500_000));
    // The stream of lower priority only filled up the last batch.
    assert!(from_low.len() < 15_000, "{} bytes came before", from_low.len());
    pair.run_until(Duration::from_secs(10), |pair| pair.read(Side::Client, low, &mut from_low));
    assert!(from_low == pattern(500_000));
}

/// Returns the number of datagrams that the client sends while it downloads 2 MB.
fn datagrams_of_a_download(frequency: bool) -> u64 {
    let mut pair = connected(Pair::with_transport(|config| config.ack.frequency = frequency));
    // Datagrams arrive one at a time, not in batches.
    let mut last = pair.now;
    pair.network = Some(Box::new(move |from, mut flying| {
        if from.is_server() {
            last = flying.at.max(last + Duration::from_micros(10));
            flying.at = last;
        }
        vec![flying]
    }));
    let data = pattern(2_000_000);
    let before = pair.client().stats().paths[0].datagrams_sent;
    assert!(pair.transfer(Side::Server, &data) == data);
    pair.client().stats().paths[0].datagrams_sent - before
}

#[test]
fn ack_frequency_spares_acknowledgments() {
    let (often, rarely) = (datagrams_of_a_download(false), datagrams_of_a_download(true));
    assert!(often > 600, "every second packet is acknowledged: {often}");
    assert!(rarely * 3 < often, "{rarely} of {often}");
}

/// Returns the number of datagrams that each end sends for 20 messages. Requests and responses follow 3 ms after each other, 30 round trips.
fn datagrams_of_a_slow_dialog(rule: FrequencyRule) -> [u64; 2] {
    let mut pair = Pair::with_transport(|config| config.ack.frequency_rule = rule);
    pair.delay = Duration::from_micros(50);
    let mut pair = connected(pair);
    assert!(pair.transfer(Side::Server, &pattern(300_000)) == pattern(300_000));
    pair.run_for(Duration::from_secs(1));
    let sent = |pair: &mut Pair, side| pair.end(side).stats().paths[0].datagrams_sent;
    let before = SIDES.map(|side| sent(&mut pair, side));
    for _ in 0..20 {
        for side in SIDES {
            assert!(pair.transfer(side, &pattern(100)) == pattern(100));
            pair.run_for(Duration::from_millis(3));
        }
    }
    std::array::from_fn(|side| sent(&mut pair, SIDES[side]) - before[side])
}

#[test]
fn the_response_of_a_busy_peer_carries_the_acknowledgment() {
    let adaptive = datagrams_of_a_slow_dialog(FrequencyRule::Adaptive);
    assert!(adaptive.iter().all(|sent| *sent <= 25), "{adaptive:?}");
    // A quarter of the round-trip time, without a minimum.
    let study = datagrams_of_a_slow_dialog(FrequencyRule::Study2022);
    assert!(study.iter().any(|sent| *sent >= 35), "{study:?}");
}

#[test]
fn the_rule_of_2022_asks_for_a_longer_delay_than_the_peer_announced() {
    let acks = |rule| {
        let mut pair = connected(Pair::with_transport(|config| {
            config.ack.max_delay = Duration::from_millis(1);
            config.ack.frequency_rule = rule;
        }));
        assert!(pair.transfer(Side::Server, &pattern(300_000)) == pattern(300_000));
        pair.run_for(Duration::from_secs(1));
        let before = pair.client().stats().acks.frames;
        pair.server().ping(PathId::ZERO);
        // The packet reaches the client after 10 ms. The client delays its ACK by its max_ack_delay of 1 ms
        // or, with the rule of the 2022 study, by a quarter of the RTT of 20 ms.
        pair.run_for(Duration::from_millis(13));
        let early = pair.client().stats().acks.frames - before;
        pair.run_for(Duration::from_millis(3));
        (early, pair.client().stats().acks.frames - before)
    };
    assert_eq!(acks(FrequencyRule::Adaptive), (1, 1));
    assert_eq!(acks(FrequencyRule::Study2022), (0, 1));
}

#[test]
fn probe_timeouts_wait_no_longer_than_the_peer_was_asked_to_hold_acknowledgments_back() {
    let pto = |rule, data: &[u8]| {
        let mut pair = connected(Pair::with_transport(|config| config.ack.frequency_rule = rule));
        assert!(pair.transfer(Side::Server, data) == data);
        pair.server().paths().next().unwrap().pto
    };
    let data = pattern(300_000);
    // Once the peer has acknowledged the request, the PTO includes the requested delay, a quarter of 20 ms,
    // instead of the peer's own 25 ms. The stack of 2022 did not take the request into account.
    let (adaptive, study) = (pto(FrequencyRule::Adaptive, &data), pto(FrequencyRule::Study2022, &data));
    assert!(study > adaptive + Duration::from_millis(15), "{adaptive:?}, {study:?}");
}

/// Returns the number of short headers without the fixed bit that each side sends.
fn greased(client: bool, server: bool) -> (usize, usize) {
    let mut pair = Pair::with(|client_config, server_config| {
        Arc::make_mut(&mut client_config.transport).grease = client;
        Arc::make_mut(&mut server_config.transport).grease = server;
    });
    let counts = Rc::new(RefCell::new((0, 0)));
    let into = Rc::clone(&counts);
    pair.network = Some(Box::new(move |from, flying| {
        if flying.bytes[0] & 0xc0 == 0 {
            let counts = &mut *into.borrow_mut();
            *(if from.is_client() { &mut counts.0 } else { &mut counts.1 }) += 1;
        }
        vec![flying]
    }));
    pair.connect();
    let data = pattern(300_000);
    assert!(pair.transfer(Side::Client, &data) == data);
    assert!(pair.transfer(Side::Server, &data) == data);
    *counts.borrow()
}

#[test]
fn the_fixed_bit_is_greased_if_both_ends_like() {
    let (client, server) = greased(true, true);
    assert!(client > 20 && server > 20, "{client} {server}");
    assert_eq!(greased(false, true), (0, 0));
    assert_eq!(greased(true, false), (0, 0));
}

/// Sets a network that drops datagrams longer than `limit`.
fn narrow(pair: &mut Pair, limit: usize) {
    pair.network =
        Some(Box::new(move |_, flying| if flying.bytes.len() > limit { Vec::new() } else { vec![flying] }));
}

#[test]
fn the_mtu_is_found() {
    for (limit, at_least, at_most) in
        [(1_200, 1_200, 1_200), (1_300, 1_280, 1_300), (1_472, 1_472, 1_472), (9_000, 1_472, 1_472)]
    {
        let mut pair = Pair::new();
        narrow(&mut pair, limit);
        pair.connect();
        let data = pattern(500_000);
        assert!(pair.transfer(Side::Server, &data) == data);
        pair.run_for(Duration::from_secs(10));
        assert!(pair.transfer(Side::Server, &data) == data);
        let mtu = pair.server().stats().paths[0].mtu;
        assert!((at_least..=at_most).contains(&mtu), "{mtu} for {limit}");
        assert_eq!(pair.server().stats().paths[0].recovery.lost_packets, 0, "probes are not losses");
    }
}

#[test]
fn row_23_a_black_hole_makes_the_mtu_fall_to_the_floor_and_no_further() {
    let mut pair = connected(Pair::new());
    let data = pattern(500_000);
    assert!(pair.transfer(Side::Server, &data) == data);
    assert_eq!(pair.server().stats().paths[0].mtu, 1_472);
    narrow(&mut pair, 1_250);
    // A message queued for larger packets is dropped; it does not block the queue.
    let max = pair.server().datagrams().max_len().unwrap();
    pair.server().datagrams().send(Bytes::from(pattern(max))).unwrap();
    assert!(pair.transfer(Side::Server, &data) == data);
    assert_eq!(pair.server().stats().paths[0].mtu, 1_200);
    pair.server().datagrams().send(Bytes::from_static(b"small")).unwrap();
    pair.run_for(Duration::from_secs(2));
    assert_eq!(pair.client().datagrams().recv(), Some(Bytes::from_static(b"small")));
    assert!(pair.transfer(Side::Client, &data) == data);
}

/// Runs a transfer over a network that changes ECN marks with `treat`. Returns whether the server marks its
/// last packets, its ECN state, and the pair.
fn with_marks(treat: fn(Ecn) -> Option<Ecn>) -> (bool, EcnState, Pair) {
    let mut pair = Pair::new();
    let marked = Rc::new(Cell::new(false));
    let last = Rc::clone(&marked);
    pair.network = Some(Box::new(move |from, mut flying| {
        if from.is_server() && flying.bytes.len() > 1_000 {
            last.set(flying.ecn.is_some());
        }
        flying.ecn = flying.ecn.and_then(treat);
        vec![flying]
    }));
    pair.connect();
    let data = pattern(600_000);
    assert!(pair.transfer(Side::Server, &data) == data);
    let state = pair.server().ecn_state();
    (marked.get(), state, pair)
}

#[test]
fn row_26_ecn_is_used_where_it_works_and_only_there() {
    let (marked, state, mut pair) = with_marks(Some);
    assert_eq!((marked, state), (true, EcnState::Capable));
    assert_eq!(pair.server().stats().paths[0].recovery.congestion_events, 0);
    // ECN marks bleached, and changed to a codepoint that was never sent.
    for treat in [|_| None, |_| Some(Ecn::Ect1)] as [fn(Ecn) -> Option<Ecn>; 2] {
        let (marked, state, mut pair) = with_marks(treat);
        assert_eq!((marked, state), (false, EcnState::Failed));
        assert_eq!(pair.server().stats().paths[0].recovery.congestion_events, 0);
    }
    // CE on every packet counts as congestion.
    let (_, state, mut pair) = with_marks(|_| Some(Ecn::Ce));
    assert_eq!(state, EcnState::Capable);
    let stats = pair.server().stats().paths[0].recovery.clone();
    assert!(stats.ecn_ce > 100 && stats.congestion_events > 3 && stats.lost_packets == 0);
}

#[test]
fn row_26_a_network_that_drops_marked_packets_is_survived() {
    let mut pair = Pair::new();
    pair.network = Some(Box::new(|_, flying| if flying.ecn.is_some() { Vec::new() } else { vec![flying] }));
    pair.connect();
    let data = pattern(200_000);
    assert!(pair.transfer(Side::Server, &data) == data);
    assert!(pair.transfer(Side::Client, &data) == data);
    assert_eq!(pair.closed(Side::Client), None::<&ConnectionError>);
    // An end may discard some of its marked packets with the keys of the handshake: the client does, and over VReverso both ends.
    if version() == anabranch_wire::Version::V1 {
        assert_eq!(pair.server().ecn_state(), EcnState::Failed);
    }
    assert_ne!(pair.server().ecn_state(), EcnState::Capable);
    assert_ne!(pair.client().ecn_state(), EcnState::Capable);
}
