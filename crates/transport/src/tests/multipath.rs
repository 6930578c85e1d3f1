//! Several paths (RFC 10069): opening, joint use, failure, abandonment.

use std::cell::Cell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use anabranch_wire::{Frame, PathId, Side, VarInt};

use super::pair::{Pair, pattern, server_addr};
use super::paths::{SECOND, open, open_and_wait, sent};
use crate::{
    Event, FourTuple, MAX_CLOSED_PATHS, MultipathConfig, Numbering, OpenPathError, PathState, PathStatus,
};

pub(super) fn second_addr() -> SocketAddr {
    ([127, 0, 0, 3], 50_001).into()
}

pub(super) fn multipath() -> Pair {
    numbered(Numbering::Multiple)
}

/// Returns a connected pair whose paths are numbered in this way.
pub(super) fn numbered(numbering: Numbering) -> Pair {
    let config = MultipathConfig { numbering: numbering.into(), ..MultipathConfig::default() };
    let mut pair = Pair::with_transport(|transport| transport.multipath = Some(config.clone()));
    pair.connect();
    pair.run_until_quiet();
    assert_eq!(pair.client().numbering(), Some(numbering));
    pair
}

/// Returns a pair with a second path, validated at both endpoints.
pub(super) fn two_paths() -> Pair {
    two_paths_numbered(Numbering::Multiple)
}

/// Returns a pair with a second path, validated at both endpoints, whose paths are numbered in this way.
pub(super) fn two_paths_numbered(numbering: Numbering) -> Pair {
    let mut pair = numbered(numbering);
    assert_eq!(open_and_wait(&mut pair, second_addr()), PathId(1));
    pair
}

#[test]
fn both_ends_have_to_want_it() {
    let mut pair = Pair::new();
    pair.connect();
    assert!(!pair.client().is_multipath());
    let now = pair.now;
    let tuple = FourTuple { local: second_addr(), remote: server_addr() };
    assert_eq!(pair.client().open_path(now, tuple), Err(OpenPathError::NotNegotiated));
    let mut pair = multipath();
    assert!(pair.client().is_multipath() && pair.server().is_multipath());
}

#[test]
fn the_handshake_is_kept_going_on_its_own_path_alone() {
    const ROUND_TRIP: Duration = Duration::from_millis(300);
    let mut pair = Pair::with_transport(|transport| transport.multipath = Some(MultipathConfig::default()));
    let (began, until) = (pair.now, 2 * SECOND);
    pair.delay = ROUND_TRIP / 2;
    let of_second = Rc::new(Cell::new((0, 0)));
    let counted = Rc::clone(&of_second);
    // The client's Finished is late, so that it has several paths long before the handshake is confirmed.
    pair.network = Some(Box::new(move |from, flying| {
        let long = flying.bytes[0] & 0x80 != 0;
        if from.is_client() && flying.tuple.remote == second_addr() {
            let (handshake, all) = counted.get();
            counted.set((handshake + usize::from(long), all + 1));
        }
        let late = from.is_client() && long && (ROUND_TRIP..until).contains(&(flying.at - began));
        if late { Vec::new() } else { vec![flying] }
    }));
    let connected = Event::Connected { early_data_accepted: false };
    pair.run_until(SECOND, |pair| pair.client_events.contains(&connected));
    assert_eq!(open(&mut pair, second_addr()), Ok(PathId(1)));
    pair.connect();
    let data = pattern(300_000);
    assert!(pair.transfer(Side::Client, &data) == data);
    pair.run_for(30 * SECOND);
    let (handshake, all) = of_second.get();
    assert_eq!(handshake, 0, "packets of the handshake on another path");
    // If the second path were probed because of the handshake, it would carry many more packets.
    assert!((2..400).contains(&all), "{all} packets");
}

#[test]
fn data_goes_over_both_paths_and_arrives_whole() {
    for from in [Side::Client, Side::Server] {
        let mut pair = two_paths();
        let before = sent(&mut pair, from);
        let data = pattern(2_000_000);
        assert!(pair.transfer(from, &data) == data);
        let after = sent(&mut pair, from);
        for path in 0..2 {
            assert!(after[path] - before[path] > 200_000, "{from:?}: {before:?} {after:?}");
        }
    }
}

#[test]
fn a_path_that_goes_dead_costs_no_data() {
    for from in [Side::Client, Side::Server] {
        for dead in [super::pair::client_addr(), second_addr()] {
            let mut pair = two_paths();
            let mut seen = 0;
            // After some packets, one path drops everything in both directions.
            pair.network = Some(Box::new(move |side, flying| {
                let address = if side == Side::Client { flying.tuple.remote } else { flying.tuple.local };
                seen += usize::from(address == dead);
                if address == dead && seen > 200 { Vec::new() } else { vec![flying] }
            }));
            let data = pattern(2_000_000);
            let began = pair.now;
            assert!(pair.transfer(from, &data) == data);
            assert!(pair.now - began < Duration::from_secs(3), "{from:?} {dead}: {:?}", pair.now - began);
        }
    }
}

#[test]
fn an_abandoned_path_is_gone_at_both_ends_and_the_other_goes_on() {
    for (side, id) in [(Side::Client, 0), (Side::Client, 1), (Side::Server, 0), (Side::Server, 1)] {
        let mut pair = two_paths();
        let now = pair.now;
        pair.end(side).abandon_path(now, PathId(id), VarInt::from_u32(0x3e)).unwrap();
        pair.run_for(Duration::from_secs(5));
        let event = Event::PathAbandoned { path: PathId(id), code: VarInt::from_u32(0x3e) };
        assert!(pair.client_events.contains(&event) && pair.server_events.contains(&event));
        for side in [Side::Client, Side::Server] {
            let left: Vec<_> = pair.end(side).paths().map(|path| path.id.0).collect();
            assert_eq!(left, [1 - id], "{side:?}");
        }
        let now = pair.now;
        pair.end(side).abandon_path(now, PathId(1 - id), VarInt::from_u32(0x3e)).unwrap_err(); // the last one
        let data = pattern(300_000);
        assert!(pair.transfer(Side::Server, &data) == data);
        assert!(pair.transfer(Side::Client, &data) == data);
    }
}

#[test]
fn paths_can_be_opened_and_abandoned_over_and_over() {
    let mut pair = two_paths();
    for round in 1..40_u32 {
        let now = pair.now;
        pair.client().abandon_path(now, PathId(round), VarInt::from_u32(0x3e)).unwrap();
        pair.run_for(Duration::from_secs(2));
        let now = pair.now;
        let tuple = FourTuple { local: second_addr(), remote: server_addr() };
        assert_eq!(pair.client().open_path(now, tuple), Ok(PathId(round + 1)), "IDs are never used again");
        pair.run_until(SECOND, |pair| pair.server_events.contains(&Event::PathOpened(PathId(round + 1))));
    }
    let data = pattern(100_000);
    assert!(pair.transfer(Side::Client, &data) == data);
}

#[test]
fn a_path_that_does_not_answer_is_closed() {
    let mut pair = multipath();
    pair.network = Some(Box::new(|side, flying| {
        let address = if side == Side::Client { flying.tuple.remote } else { flying.tuple.local };
        if address == second_addr() { Vec::new() } else { vec![flying] }
    }));
    let now = pair.now;
    let tuple = FourTuple { local: second_addr(), remote: server_addr() };
    pair.client().open_path(now, tuple).unwrap();
    pair.run_until(Duration::from_secs(10), |pair| {
        pair.client_events.contains(&Event::PathAbandoned { path: PathId(1), code: VarInt::from_u32(0x3e76) })
    });
    pair.run_for(Duration::from_secs(10));
    assert_eq!((pair.closed(Side::Client), pair.closed(Side::Server)), (None, None));
    assert_eq!(pair.client().paths().count(), 1);
}

/// A peer may ignore the status of a path that it does not know yet, so the status is sent again.
#[test]
fn the_status_of_a_path_is_said_again_once_the_peer_knows_it() {
    let mut pair = multipath();
    pair.network = Some(Box::new(|side, mut flying| {
        let client = if side == Side::Client { flying.tuple.remote } else { flying.tuple.local };
        flying.at += Duration::from_millis(if client == second_addr() { 100 } else { 0 });
        vec![flying]
    }));
    let now = pair.now;
    let tuple = FourTuple { local: second_addr(), remote: server_addr() };
    let id = pair.client().open_path(now, tuple).unwrap();
    pair.client().set_path_status(id, PathStatus::Backup).unwrap();
    pair.run_for(Duration::from_millis(50));
    assert!(pair.server().ignore_early_statuses(), "it came");
    pair.run_for(Duration::from_secs(1));
    let state =
        |pair: &mut Pair, side: Side| pair.end(side).paths().find(|path| path.id == id).unwrap().state;
    assert_eq!(state(&mut pair, Side::Client), PathState::Backup);
    assert_eq!(state(&mut pair, Side::Server), PathState::Backup);
}

/// The health of a newly opened path must depend only on packets sent after its opening. Here the
/// PATH_RESPONSE was late, and no acknowledgment arrived with it.
#[test]
fn a_path_does_not_fail_right_after_it_was_opened() {
    let mut pair = multipath();
    pair.network = Some(Box::new(|side, flying| {
        let client = if side == Side::Client { flying.tuple.remote } else { flying.tuple.local };
        if client == second_addr() { Vec::new() } else { vec![flying] }
    }));
    let now = pair.now;
    let tuple = FourTuple { local: second_addr(), remote: server_addr() };
    let id = pair.client().open_path(now, tuple).unwrap();
    pair.run_for(Duration::from_millis(1_500));
    let asked = pair.client().asked(id).unwrap();
    pair.inject_frames(Side::Server, &[Frame::PathResponse(asked)]);
    pair.run_until(Duration::from_millis(50), |pair| pair.client_events.contains(&Event::PathOpened(id)));
    pair.run_for(Duration::from_millis(500));
    let failed = pair.client_events.iter().any(|event| matches!(event, Event::PathState { .. }));
    assert!(!failed, "{:?}", pair.client_events);
}

#[test]
fn a_backup_carries_nothing_while_another_path_works() {
    let mut pair = two_paths();
    pair.client().set_path_status(PathId(1), PathStatus::Backup).unwrap();
    pair.run_until_quiet();
    for from in [Side::Client, Side::Server] {
        let before = sent(&mut pair, from);
        let data = pattern(500_000);
        assert!(pair.transfer(from, &data) == data);
        let after = sent(&mut pair, from);
        assert!(after[1] - before[1] < 20_000, "{from:?}: {before:?} {after:?}");
    }
}

/// Bytes of removed paths remain in the totals. Each removed path is listed with the time and reason of its
/// end.
#[test]
fn the_bytes_of_closed_paths_stay_in_the_totals() {
    for (side, id) in [(Side::Client, 0), (Side::Client, 1), (Side::Server, 0), (Side::Server, 1)] {
        let mut pair = two_paths();
        let data = pattern(1_000_000);
        assert!(pair.transfer(Side::Server, &data) == data);
        let now = pair.now;
        pair.end(side).abandon_path(now, PathId(id), VarInt::from_u32(0x3e)).unwrap();
        pair.run_for(Duration::from_secs(5));
        assert!(pair.transfer(Side::Server, &data) == data);
        for end in [Side::Client, Side::Server] {
            let stats = pair.end(end).stats();
            assert_eq!(stats.paths.len(), 1);
            let [gone] = &stats.closed[..] else { panic!("{:?}", stats.closed) };
            let closure = gone.closure.unwrap();
            assert_eq!((gone.id.0, closure.code.get(), closure.by_peer), (id, 0x3e, end != side));
            assert_eq!(closure.reason(), "application");
            assert!(closure.after > Duration::ZERO && closure.after < Duration::from_secs(60));
        }
        let (received, sent) = (pair.client().stats().bytes_received(), pair.server().stats().bytes_sent());
        assert!(received >= 2_000_000, "{received} bytes of two transfers of a million");
        assert!(sent >= received, "{sent} sent, {received} received");
    }
}

/// At most [`MAX_CLOSED_PATHS`] removed paths are listed, and the totals still add up.
#[test]
fn entries_of_closed_paths_are_bounded() {
    let mut pair = two_paths();
    for round in 1..MAX_CLOSED_PATHS as u32 + 10 {
        let now = pair.now;
        let before = pair.client().stats().bytes_sent();
        pair.client().abandon_path(now, PathId(round), VarInt::from_u32(0x3e)).unwrap();
        pair.run_for(Duration::from_secs(2));
        assert!(pair.client().stats().bytes_sent() >= before);
        let now = pair.now;
        let tuple = FourTuple { local: second_addr(), remote: server_addr() };
        assert_eq!(pair.client().open_path(now, tuple), Ok(PathId(round + 1)));
        pair.run_until(SECOND, |pair| pair.server_events.contains(&Event::PathOpened(PathId(round + 1))));
    }
    let stats = pair.client().stats();
    assert_eq!((stats.closed.len(), stats.merged.paths), (MAX_CLOSED_PATHS, 9));
    assert!(stats.merged.bytes_sent > 0);
}

/// A path reports on which path its round trips returned, or that no round trip has been measured yet.
#[test]
fn round_trips_say_where_they_came_back() {
    let mut pair = multipath();
    let mut silent = true;
    pair.network = Some(Box::new(move |side, flying| {
        let address = if side == Side::Client { flying.tuple.remote } else { flying.tuple.local };
        if silent && address == second_addr() {
            silent = false;
            return Vec::new();
        }
        vec![flying]
    }));
    let now = pair.now;
    let tuple = FourTuple { local: second_addr(), remote: server_addr() };
    pair.client().open_path(now, tuple).unwrap();
    let via = |pair: &mut Pair| pair.client().paths().map(|path| path.rtt_via).collect::<Vec<_>>();
    assert_eq!(via(&mut pair), [Some(PathId(0)), None], "nothing was measured on the second one");
    pair.run_until(SECOND * 5, |pair| pair.client_events.contains(&Event::PathOpened(PathId(1))));
    let data = pattern(300_000);
    assert!(pair.transfer(Side::Client, &data) == data);
    assert!(via(&mut pair)[1].is_some());
}
