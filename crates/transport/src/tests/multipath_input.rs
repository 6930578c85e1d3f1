//! Several paths (RFC 10069) and faulty peers: misplaced frames, exceeded limits, floods.

use std::cell::Cell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use anabranch_testkit::share_of;
use anabranch_wire::{
    ConnectionId, Frame, NewConnectionId, PacketKind, PathId, ResetToken, Side, TransportErrorCode as Code,
    VarInt, Writer, write_ack,
};
use bytes::Bytes;

use super::injector::{encode, encode_as_read};
use super::multipath::{multipath, numbered, second_addr, two_paths, two_paths_numbered};
use super::pair::{Pair, client_addr, direction, pattern, server_addr};
use super::paths::{NUMBERINGS, SECOND, SIDES, address, ids, open, open_and_wait, send, still_works};
use crate::connection::Forged;
use crate::path::MAX_CLOSING_PATHS;
use crate::{
    ConnectionError, Datagram, Endpoint, EndpointConfig, Event, FourTuple, MultipathConfig, Numbering,
    OpenPathError, TransmitBuf,
};

const VIOLATION: Option<Code> = Some(Code::PROTOCOL_VIOLATION);

/// Number of paths that the default configuration allows; their IDs start at 0.
const MAX_PATHS: u32 = 4;

fn new_cid(path: Option<u32>, sequence: u64, seed: u8) -> Frame<'static> {
    Frame::NewConnectionId(NewConnectionId {
        path: path.map(PathId),
        sequence,
        retire_prior_to: 0,
        cid: ConnectionId::new(&[seed; 8]).unwrap(),
        token: ResetToken([seed; 16]),
    })
}

fn path_ack(path: u32, largest: u64) -> Vec<u8> {
    let mut bytes = [0; 64];
    let mut writer = Writer::new(&mut bytes, direction());
    write_ack(&mut writer, Some(PathId(path)), [largest..=largest].into_iter(), 0, None).unwrap();
    writer.written().to_vec()
}

fn abandon(path: u32) -> Frame<'static> {
    Frame::PathAbandon { path: PathId(path), code: VarInt::from_u32(0x3e) }
}

fn status(path: u32, available: bool, sequence: u64) -> Frame<'static> {
    Frame::PathStatus { path: PathId(path), available, sequence }
}

fn cids_blocked(path: u32, next_sequence: u64) -> Frame<'static> {
    Frame::PathCidsBlocked { path: PathId(path), next_sequence }
}

/// Returns every frame that names a path, with its name for failure messages. The frames are valid if the
/// path is.
fn frames_naming(path: u32) -> Vec<(&'static str, Vec<u8>)> {
    let retire = Frame::RetireConnectionId { path: Some(PathId(path)), sequence: 0 };
    vec![
        ("PATH_ACK", path_ack(path, 0)),
        ("PATH_ABANDON", encode(&[abandon(path)])),
        ("PATH_STATUS_BACKUP", encode(&[status(path, false, 0)])),
        ("PATH_STATUS_AVAILABLE", encode(&[status(path, true, 0)])),
        ("PATH_NEW_CONNECTION_ID", encode(&[new_cid(Some(path), 2, 0xd0)])),
        ("PATH_RETIRE_CONNECTION_ID", encode(&[retire])),
        ("PATH_CIDS_BLOCKED", encode(&[cids_blocked(path, 0)])),
    ]
}

/// Returns the multipath frames that name no path.
fn frames_of_limits() -> Vec<(&'static str, Vec<u8>)> {
    vec![
        ("MAX_PATH_ID", encode(&[Frame::MaxPathId(9)])),
        ("PATHS_BLOCKED", encode(&[Frame::PathsBlocked(0)])),
    ]
}

/// Returns the code that `from` receives for a payload on an otherwise healthy multipath connection with one
/// path.
fn code(from: Side, payload: &[u8]) -> Option<Code> {
    let mut pair = multipath();
    send(&mut pair, from, payload);
    pair.code_seen_by(from)
}

// Packets in which the frames may appear.

#[test]
fn no_frame_of_multipath_without_negotiation() {
    for from in SIDES {
        for (name, payload) in frames_naming(0).into_iter().chain(frames_of_limits()) {
            let mut pair = Pair::new();
            pair.advance_to(PacketKind::OneRtt, from);
            send(&mut pair, from, &payload);
            assert_eq!(pair.code_seen_by(from), VIOLATION, "{name} from the {from:?}");
        }
    }
}

#[test]
fn one_end_that_offers_is_not_a_negotiation() {
    for offering in SIDES {
        let mut pair = Pair::with(|client, server| {
            let transport = match offering {
                Side::Client => &mut client.transport,
                Side::Server => &mut server.transport,
            };
            Arc::make_mut(transport).multipath = Some(MultipathConfig::default());
        });
        pair.connect();
        pair.run_until_quiet();
        assert!(!pair.client().is_multipath() && !pair.server().is_multipath());
        still_works(&mut pair);
        send(&mut pair, offering, &encode(&[status(0, true, 0)]));
        assert_eq!(pair.code_seen_by(offering), VIOLATION);
    }
}

#[test]
fn row_m2_only_one_rtt_packets_carry_frames_of_multipath() {
    for kind in [PacketKind::Initial, PacketKind::Handshake] {
        for from in SIDES {
            for (name, payload) in frames_naming(0).into_iter().chain(frames_of_limits()) {
                let mut pair =
                    Pair::with_transport(|config| config.multipath = Some(MultipathConfig::default()));
                pair.advance_to(kind, from);
                pair.inject(from, &Forged::new(kind, &[&payload[..], &[0; 4]].concat()));
                pair.run_until_quiet();
                assert_eq!(pair.code_seen_by(from), VIOLATION, "{name} from the {from:?} in {kind:?}");
            }
        }
    }
}

/// Returns a pair whose client has connected to the server before and now starts a second connection.
fn resuming() -> Pair {
    let mut pair = multipath();
    let now = pair.now;
    pair.client().close(now, VarInt::from_u32(0), Bytes::new());
    pair.run_until_quiet();
    pair.reconnect();
    pair
}

#[test]
fn row_m2_early_data_carries_no_frames_of_multipath() {
    for (name, payload) in frames_naming(0).into_iter().chain(frames_of_limits()) {
        let mut pair = resuming();
        pair.drain();
        pair.inject(Side::Client, &Forged::new(PacketKind::ZeroRtt, &[&payload[..], &[0; 4]].concat()));
        pair.run_until_quiet();
        assert_eq!(pair.code_seen_by(Side::Client), VIOLATION, "{name}");
    }
}

#[test]
fn the_parameter_is_not_remembered_for_early_data() {
    let mut pair = resuming();
    assert!(pair.client().has_early_keys() && !pair.client().is_multipath());
    pair.restart_server(|server| Arc::make_mut(&mut server.transport).multipath = None);
    let data = pattern(5_000);
    assert!(pair.transfer(Side::Client, &data) == data);
    pair.connect();
    assert!(pair.client_events.contains(&Event::Connected { early_data_accepted: true }));
    assert!(!pair.client().is_multipath(), "the server has taken it back, and may");
    still_works(&mut pair);
}

// Transport parameters.

/// Replaces the client's endpoint with one that uses zero-length connection IDs.
fn without_client_cids(mut pair: Pair) -> Pair {
    let config = EndpointConfig { cid_len: 0, ..EndpointConfig::new([1; 32]) };
    pair.client = Endpoint::new(&config, None);
    let tuple = FourTuple { local: client_addr(), remote: server_addr() };
    pair.client_handle = pair.client.connect(pair.now, &pair.client_config, tuple, "localhost").unwrap();
    pair
}

#[test]
fn row_m2_the_parameter_does_not_go_with_empty_connection_ids() {
    let mut pair = without_client_cids(Pair::with(|client, _| {
        let transport = Arc::make_mut(&mut client.transport);
        transport.hooks.parameters = Some(|parameters| parameters.initial_max_path_id = Some(3));
    }));
    pair.run_until_quiet();
    assert_eq!(pair.code_seen_by(Side::Client), VIOLATION);
    // Endpoints that observe the rule use a single path, even if they are configured for several.
    let mut pair = without_client_cids(Pair::with_transport(|transport| {
        let numbering = Numbering::Multiple.into();
        transport.multipath = Some(MultipathConfig { numbering, ..MultipathConfig::default() });
    }));
    pair.connect();
    assert!(!pair.client().is_multipath() && !pair.server().is_multipath());
    still_works(&mut pair);
}

#[test]
fn row_m1_the_parameter_has_32_bits() {
    let mut pair = Pair::with(|client, _| {
        let hooks = &mut Arc::make_mut(&mut client.transport).hooks;
        hooks.parameters = Some(|parameters| parameters.initial_max_path_id = Some(u32::MAX));
        hooks.crypto = Some(|_, bytes| {
            let at = bytes.windows(6).position(|bytes| bytes == [0x3e, 8, 0xc0, 0, 0, 0]);
            if let Some(at) = at {
                bytes[at + 5..at + 10].copy_from_slice(&[1, 0, 0, 0, 0]);
            }
        });
    });
    pair.run_until_quiet();
    assert_eq!(pair.code_seen_by(Side::Client), Some(Code::TRANSPORT_PARAMETER_ERROR));
}

#[test]
fn a_peer_with_the_largest_maximum_gets_ids_for_as_many_paths_as_this_end_wants() {
    for side in SIDES {
        let mut pair = Pair::with(|client, server| {
            for transport in [&mut client.transport, &mut server.transport] {
                Arc::make_mut(transport).multipath = Some(MultipathConfig::default());
            }
            let transport = match side {
                Side::Client => &mut client.transport,
                Side::Server => &mut server.transport,
            };
            Arc::make_mut(transport).hooks.parameters =
                Some(|parameters| parameters.initial_max_path_id = Some(u32::MAX));
        });
        pair.connect();
        pair.run_until_quiet();
        let held = pair.end(side.peer()).held();
        assert_eq!((held.unopened, held.unopened_cids), (3, 6), "{side:?}");
        still_works(&mut pair);
    }
}

// Limits.

#[test]
fn row_m1_path_ids_above_the_own_maximum() {
    for from in SIDES {
        for path in [MAX_PATHS, u32::MAX] {
            for (name, payload) in frames_naming(path) {
                assert_eq!(code(from, &payload), VIOLATION, "{name} of path {path} from the {from:?}");
            }
        }
        for (name, payload) in frames_naming(MAX_PATHS - 1).into_iter().skip(1) {
            assert_eq!(code(from, &payload), None, "{name} of the last allowed path from the {from:?}");
        }
    }
}

#[test]
fn row_m1_path_ids_of_33_bits() {
    let kinds = [0x3e75, 0x3e76, 0x3e77, 0x3e79, 0x3e7a, 0x3e7b, 0x3e7c_u16];
    for from in SIDES {
        for kind in kinds {
            let field = (1_u64 << 32 | 0xc0 << 56).to_be_bytes();
            let mut payload = (kind | 0x4000).to_be_bytes().to_vec();
            payload.extend(field);
            if !matches!(kind, 0x3e7a | 0x3e7b) {
                payload.push(0);
            }
            assert_eq!(code(from, &payload), VIOLATION, "{kind:#x} from the {from:?}");
        }
    }
}

#[test]
fn row_m1_maximum_path_ids() {
    for from in SIDES {
        let maximum = |value| code(from, &encode(&[Frame::MaxPathId(value)]));
        assert_eq!(maximum(u64::from(MAX_PATHS) - 2), VIOLATION, "below the initial maximum");
        assert_eq!(maximum(u64::from(MAX_PATHS) - 1), None, "the initial maximum");
        assert_eq!(maximum(u64::from(u32::MAX)), None);
        assert_eq!(maximum(1 << 32), VIOLATION);
    }
}

#[test]
fn a_maximum_that_does_not_increase_is_ignored_and_no_maximum_costs_much() {
    for from in SIDES {
        let mut pair = multipath();
        let before = pair.end(from.peer()).held();
        for _ in 0..20 {
            let rising: Vec<Frame<'_>> = (4..200).map(Frame::MaxPathId).collect();
            send(&mut pair, from, &encode(&rising));
            send(&mut pair, from, &encode(&[Frame::MaxPathId(u64::from(u32::MAX))]));
            send(&mut pair, from, &encode(&[Frame::MaxPathId(3)]));
        }
        let held = pair.end(from.peer()).held();
        assert_eq!((held.unopened, held.unopened_cids), (before.unopened, before.unopened_cids));
        assert_eq!(held.endpoint_events, 0);
        still_works(&mut pair);
    }
}

#[test]
fn row_m9_blocked_frames_above_what_was_allowed() {
    for from in SIDES {
        let blocked = |frame| code(from, &encode(&[frame]));
        assert_eq!(blocked(Frame::PathsBlocked(u64::from(MAX_PATHS))), VIOLATION);
        assert_eq!(blocked(Frame::PathsBlocked(u64::from(MAX_PATHS) - 1)), None);
        assert_eq!(blocked(Frame::PathsBlocked(0)), None, "an old one");
        // Two connection IDs are issued in advance for each path, with sequence numbers 0 and 1.
        assert_eq!(blocked(cids_blocked(1, 3)), VIOLATION);
        assert_eq!(blocked(cids_blocked(1, 2)), None);
        assert_eq!(blocked(cids_blocked(0, 1 << 40)), VIOLATION);
    }
}

#[test]
fn a_blocked_client_tells_and_a_stale_blocked_frame_makes_the_server_tell_the_maximum_again() {
    let mut pair = multipath();
    for last in 1..MAX_PATHS {
        open_and_wait(&mut pair, address(10 + last as u8));
    }
    assert_eq!(open(&mut pair, address(99)), Err(OpenPathError::NoPathId));
    still_works(&mut pair);
    let sent = pair.bytes_to_client;
    send(&mut pair, Side::Client, &encode(&[Frame::PathsBlocked(0); 400]));
    assert!(pair.bytes_to_client - sent < 10_000, "{}", pair.bytes_to_client - sent);
    assert_eq!(pair.closed(Side::Server), None);
}

// Connection IDs.

#[test]
fn one_connection_id_for_two_paths() {
    for from in SIDES {
        let twice = |first, second| code(from, &encode(&[first, second]));
        assert_eq!(twice(new_cid(Some(1), 2, 0xd1), new_cid(Some(2), 2, 0xd1)), VIOLATION);
        assert_eq!(twice(new_cid(Some(1), 2, 0xd1), new_cid(None, 4, 0xd1)), VIOLATION);
        assert_eq!(twice(new_cid(Some(1), 2, 0xd1), new_cid(Some(1), 2, 0xd1)), None, "the same one again");
        let mut pair = multipath();
        let in_use = pair.end(from.peer()).remote_cid();
        let token = ResetToken([1; 16]);
        let issued =
            NewConnectionId { path: Some(PathId(1)), sequence: 2, retire_prior_to: 0, cid: in_use, token };
        send(&mut pair, from, &encode(&[Frame::NewConnectionId(issued)]));
        assert_eq!(pair.code_seen_by(from), VIOLATION, "path 0's ID in use");
    }
}

#[test]
fn more_connection_ids_than_the_limit_on_a_path_that_is_not_open() {
    for from in SIDES {
        let many: Vec<Frame<'_>> = (2..6).map(|at| new_cid(Some(1), at, 0xd0 + at as u8)).collect();
        assert_eq!(code(from, &encode(&many)), Some(Code::CONNECTION_ID_LIMIT_ERROR));
        let retire = Frame::RetireConnectionId { path: Some(PathId(1)), sequence: 2 };
        assert_eq!(code(from, &encode(&[retire])), VIOLATION, "never issued");
    }
}

#[test]
fn connection_ids_of_a_path_that_is_not_open_are_replaced_when_the_peer_retires_them() {
    for from in SIDES {
        let mut pair = multipath();
        let before = pair.end(from.peer()).held().unopened_cids;
        // Drops the victim's packets: otherwise its peer would notice the unexpected connection IDs.
        pair.network =
            Some(Box::new(move |side, flying| if side == from { vec![flying] } else { Vec::new() }));
        for round in 0..15 {
            let retire = |sequence| Frame::RetireConnectionId { path: Some(PathId(1)), sequence };
            send(&mut pair, from, &encode(&[retire(2 * round), retire(2 * round + 1)]));
            assert_eq!(pair.end(from.peer()).held().unopened_cids, before);
        }
        assert_eq!(pair.closed(from.peer()), None);
    }
}

#[test]
fn frames_without_a_path_id_mean_path_0_even_when_it_is_gone() {
    for from in SIDES {
        let mut pair = two_paths();
        let now = pair.now;
        pair.end(from).abandon_path(now, PathId(0), VarInt::from_u32(0x3e)).unwrap();
        pair.run_for(Duration::from_secs(5));
        assert_eq!(ids(&mut pair, from.peer()), [1]);
        // Both frames arrive on path 1 but concern path 0. If they concerned path 1, the first would change
        // the connection ID with sequence number 0, and the second would retire an ID that was never issued;
        // either is an error.
        send(&mut pair, from, &encode(&[new_cid(None, 0, 0xd1)]));
        send(&mut pair, from, &encode(&[Frame::RetireConnectionId { path: None, sequence: 99 }]));
        still_works(&mut pair);
    }
}

#[test]
fn a_client_moves_the_path_that_is_left_with_that_paths_connection_ids() {
    let mut pair = two_paths();
    let now = pair.now;
    pair.client().abandon_path(now, PathId(0), VarInt::from_u32(0x3e)).unwrap();
    pair.run_until_quiet();
    let now = pair.now;
    pair.client().migrate(now, address(77)).unwrap();
    pair.run_for(Duration::from_secs(3));
    let tuple = FourTuple { local: address(77), remote: server_addr() };
    assert!(pair.client_events.contains(&Event::PathChanged { path: PathId(1), tuple }));
    still_works(&mut pair);
}

#[test]
fn a_path_that_comes_before_its_connection_ids_waits_for_them() {
    // At first the server permits no further path, so the client issues no connection IDs for any.
    let mut pair = Pair::with(|client, server| {
        for transport in [&mut client.transport, &mut server.transport] {
            Arc::make_mut(transport).multipath = Some(MultipathConfig::default());
        }
        Arc::make_mut(&mut server.transport).hooks.parameters =
            Some(|parameters| parameters.initial_max_path_id = Some(0));
    });
    pair.connect();
    pair.run_until_quiet();
    assert_eq!(open(&mut pair, second_addr()), Err(OpenPathError::NoPathId));
    // Now the server permits paths, but the client's PATH_NEW_CONNECTION_ID frames, sent on path 0, are lost
    // at first.
    let lossy = Rc::new(Cell::new(true));
    let lost = Rc::clone(&lossy);
    pair.network = Some(Box::new(move |from, flying| {
        let first = from.is_client() && flying.tuple.remote == client_addr();
        if lost.get() && first { Vec::new() } else { vec![flying] }
    }));
    pair.inject_frames(Side::Server, &[Frame::MaxPathId(3)]);
    pair.run_for(Duration::from_millis(20));
    assert_eq!(available(&pair), 1, "the client learns that it may try again");
    open(&mut pair, second_addr()).unwrap();
    pair.run_for(Duration::from_millis(20));
    assert!(pair.client().paths().nth(1).unwrap().bytes_sent >= 1200, "the client has asked");
    assert_eq!(ids(&mut pair, Side::Server), [0], "nowhere to answer to");
    lossy.set(false);
    pair.run_until(Duration::from_secs(3), |pair| pair.server_events.contains(&Event::PathOpened(PathId(1))));
    still_works(&mut pair);
}

fn available(pair: &Pair) -> usize {
    pair.client_events.iter().filter(|event| **event == Event::PathsAvailable).count()
}

// Acknowledgments and path statuses.

#[test]
fn acknowledgments_for_a_path_that_was_never_open() {
    for from in SIDES {
        assert_eq!(code(from, &path_ack(1, 0)), VIOLATION);
        assert_eq!(code(from, &path_ack(0, 1 << 20)), VIOLATION, "packets that were never sent");
        let mut pair = two_paths();
        send(&mut pair, from, &path_ack(1, 1 << 20));
        assert_eq!(pair.code_seen_by(from), VIOLATION, "the same on the second path");
    }
}

#[test]
fn row_m9_stale_statuses_are_ignored() {
    for from in SIDES {
        let mut pair = two_paths();
        let mut learn = |frames: &[Frame<'_>]| {
            send(&mut pair, from, &encode(frames));
            pair.end(from.peer()).peer_available(PathId(1))
        };
        assert!(!learn(&[status(1, false, 7)]));
        assert!(!learn(&[status(1, true, 6), status(1, true, 7), status(0, true, 9)]));
        assert!(learn(&[status(1, true, 8)]));
    }
}

#[test]
fn a_status_may_come_before_its_path() {
    let mut pair = multipath();
    send(&mut pair, Side::Client, &encode(&[status(1, false, 3)]));
    open_and_wait(&mut pair, second_addr());
    assert!(!pair.server().peer_available(PathId(1)));
    send(&mut pair, Side::Client, &encode(&[status(1, true, 3)]));
    assert!(!pair.server().peer_available(PathId(1)), "stale");
}

// Abandonment.

#[test]
fn row_m3_frames_for_an_abandoned_path_are_ignored() {
    for from in SIDES {
        for wait in [Duration::ZERO, Duration::from_secs(5)] {
            let mut pair = two_paths();
            let now = pair.now;
            pair.end(from.peer()).abandon_path(now, PathId(1), VarInt::from_u32(0x3e)).unwrap();
            pair.run_until_quiet();
            pair.run_for(wait);
            let before = (pair.end(from.peer()).held().abandons, ids(&mut pair, from.peer()));
            for (name, payload) in frames_naming(1) {
                send(&mut pair, from, &payload);
                assert_eq!(pair.closed(from.peer()), None, "{name} from the {from:?} after {wait:?}");
            }
            let after = (pair.end(from.peer()).held().abandons, ids(&mut pair, from.peer()));
            assert!(after.0 <= before.0 && after.1.len() <= before.1.len(), "{before:?} {after:?}");
            still_works(&mut pair);
        }
    }
}

/// Until the peer has abandoned the path too, its connection IDs stay as they are.
#[test]
fn row_m3_connection_ids_of_an_abandoned_path_are_not_retired() {
    for from in SIDES {
        let mut pair = two_paths();
        let (now, victim) = (pair.now, from.peer());
        let issued = pair.end(victim).issued_cids(PathId(1));
        pair.end(victim).abandon_path(now, PathId(1), VarInt::from_u32(0x3e)).unwrap();
        let retire = |sequence| Frame::RetireConnectionId { path: Some(PathId(1)), sequence };
        pair.inject_frames(from, &[retire(0), retire(1), Frame::Ping]);
        pair.run_for(pair.delay + Duration::from_millis(1));
        assert_eq!(pair.end(victim).issued_cids(PathId(1)), issued, "{from:?}");
        pair.run_until_quiet();
        assert_eq!(pair.closed(victim), None, "{from:?}");
        still_works(&mut pair);
    }
}

#[test]
fn row_m8_an_abandon_that_is_doubled_or_lost_counts_once() {
    let cases = SIDES.into_iter().flat_map(|side| [(side, 0), (side, 3)]);
    for ((from, lost), numbering) in cases.flat_map(|case| NUMBERINGS.map(|one| (case, one))) {
        let mut pair = two_paths_numbered(numbering);
        let left = Cell::new(lost);
        pair.network = Some(Box::new(move |_, flying| match left.get() {
            0 => vec![flying],
            some => {
                left.set(some - 1);
                Vec::new()
            }
        }));
        let now = pair.now;
        pair.end(from).abandon_path(now, PathId(1), VarInt::from_u32(0x3e)).unwrap();
        send(&mut pair, from, &encode(&[abandon(1), abandon(1)]));
        pair.run_for(Duration::from_secs(5));
        for side in SIDES {
            assert_eq!(ids(&mut pair, side), [0]);
            let held = pair.end(side).held();
            // In a single space, path IDs are not issued.
            let unopened = if numbering == Numbering::Single { 0 } else { 3 };
            assert_eq!((held.abandons, held.unopened), (0, unopened), "one path ID takes its place");
        }
        let gone = |events: &[Event]| {
            events.iter().filter(|event| matches!(event, Event::PathAbandoned { .. })).count()
        };
        assert_eq!((gone(&pair.client_events), gone(&pair.server_events)), (1, 1));
        assert_eq!(open_and_wait(&mut pair, second_addr()), PathId(2));
        still_works(&mut pair);
    }
}

#[test]
fn row_m8_abandoning_the_last_path_closes_the_connection() {
    for (from, numbering) in SIDES.into_iter().flat_map(|side| NUMBERINGS.map(|one| (side, one))) {
        let mut pair = numbered(numbering);
        send(&mut pair, from, &encode(&[abandon(0)]));
        assert_eq!(pair.code_seen_by(from), Some(Code::NO_VIABLE_PATH), "one path");
        let mut pair = two_paths_numbered(numbering);
        send(&mut pair, from, &encode(&[abandon(1), abandon(0)]));
        assert_eq!(pair.code_seen_by(from), Some(Code::NO_VIABLE_PATH), "two paths");
    }
}

#[test]
fn row_m8_the_last_path_may_be_one_that_never_opens() {
    for numbering in NUMBERINGS {
        let mut pair = numbered(numbering);
        pair.network = Some(Box::new(|side, flying| {
            let address = if side.is_client() { flying.tuple.remote } else { flying.tuple.local };
            if address == second_addr() { Vec::new() } else { vec![flying] }
        }));
        open(&mut pair, second_addr()).unwrap();
        let now = pair.now;
        pair.client().abandon_path(now, PathId(0), VarInt::from_u32(0x3e)).unwrap_err(); // nothing else is in use
        send(&mut pair, Side::Server, &encode(&[abandon(0)]));
        pair.run_for(Duration::from_secs(10));
        let Some(ConnectionError::Transport(error)) = pair.closed(Side::Client) else { panic!("the end") };
        assert_eq!(error.code, Code::NO_VIABLE_PATH);
    }
}

#[test]
fn row_m8_a_path_that_is_abandoned_before_it_opens_is_skipped_for_ever() {
    for from in SIDES {
        let mut pair = multipath();
        send(&mut pair, from, &encode(&[abandon(2)]));
        pair.run_for(SECOND);
        for side in SIDES {
            let held = pair.end(side).held();
            assert_eq!((held.abandons, held.unopened), (0, 3), "{side:?}");
        }
        send(&mut pair, from, &encode(&[abandon(2)]));
        assert_eq!(pair.end(from.peer()).held().abandons, 0, "answered once");
        for (last, id) in [(10, 1), (11, 3), (12, 4)] {
            assert_eq!(open_and_wait(&mut pair, address(last)), PathId(id));
        }
        assert_eq!(open(&mut pair, address(13)), Err(OpenPathError::NoPathId));
        still_works(&mut pair);
    }
}

// Floods.

#[test]
fn row_m5_what_a_peer_can_abandon_at_once_is_bounded() {
    let bound = MAX_CLOSING_PATHS + MAX_PATHS - 1;
    for from in SIDES {
        // All acknowledgments are lost.
        let mut pair = multipath();
        pair.network = Some(Box::new(|_, _| Vec::new()));
        let all = encode_as_read(&(1..=bound).map(abandon).collect::<Vec<_>>());
        pair.inject(from, &Forged::new(PacketKind::OneRtt, &all));
        pair.run_for(Duration::from_millis(20));
        assert_eq!(pair.closed(from.peer()), None);
        let held = pair.end(from.peer()).held();
        assert_eq!((held.abandons, held.unopened, held.paths), (bound as usize, 0, 1));
        pair.inject_frames(from, &[abandon(bound + 1)]);
        pair.run_for(Duration::from_millis(20));
        let Some(ConnectionError::Transport(error)) = pair.closed(from.peer()) else { panic!("the end") };
        assert_eq!(error.code, Code::PROTOCOL_VIOLATION);
    }
}

#[test]
fn row_m5_opening_and_abandoning_without_a_pause_leaves_nothing_behind() {
    let cycles = share_of(100_000);
    for abandoning in SIDES {
        let mut pair = multipath();
        let most = (MAX_PATHS + MAX_CLOSING_PATHS) as usize;
        let mut opened = 0;
        for _ in 0..cycles {
            pair.client_events.clear();
            pair.server_events.clear();
            if let Ok(id) = open(&mut pair, second_addr()) {
                opened += 1;
                pair.run_for(Duration::from_millis(45));
                let now = pair.now;
                pair.end(abandoning).abandon_path(now, id, VarInt::from_u32(0x3e)).unwrap();
            }
            pair.run_for(Duration::from_millis(45));
            for side in SIDES {
                let held = pair.end(side).held();
                assert!(held.paths <= most && held.abandons <= most && held.unopened < 4, "{held:?}");
            }
        }
        assert!(opened > cycles / 5, "{opened}");
        pair.run_for(Duration::from_secs(5));
        for side in SIDES {
            let held = pair.end(side).held();
            assert_eq!((held.paths, held.abandons, held.unopened, held.unopened_cids), (1, 0, 3, 6));
        }
        still_works(&mut pair);
    }
}

/// Lets a client open paths that seem to come from `victim`, where nothing responds. Returns the bytes that
/// the server sends to the victim and the bytes that it received from there. Each datagram must count for one
/// path only.
fn aim(pair: &mut Pair, victim: SocketAddr, locals: &[SocketAddr]) -> (u64, u64) {
    let seen = Rc::new(Cell::new(0));
    let (count, spoofed) = (Rc::clone(&seen), locals.to_vec());
    pair.network = Some(Box::new(move |from, mut flying| {
        if from.is_client() && spoofed.contains(&flying.tuple.remote) {
            flying.tuple.remote = victim;
            count.set(count.get() + flying.bytes.len() as u64);
        }
        vec![flying]
    }));
    for local in locals {
        open(pair, *local).unwrap();
    }
    // Data for the server to send.
    let id = pair.server().streams().open(anabranch_wire::Dir::Uni).unwrap();
    pair.server().streams().write(id, &pattern(200_000)).unwrap();
    for _ in 0..1_000 {
        pair.run_for(Duration::from_millis(10));
        let paths = pair.server().paths().filter(|path| path.tuple.remote == victim);
        let counted: u64 = paths.map(|path| path.bytes_received).sum();
        assert!(counted <= seen.get(), "{counted} bytes count of {}", seen.get());
    }
    (pair.sent_to.get(&victim).copied().unwrap_or(0), seen.get())
}

#[test]
fn row_m6_many_paths_aimed_at_one_address_get_three_times_what_comes_from_there() {
    let victim = address(200);
    for paths in 1..=3_u8 {
        let mut pair = multipath();
        let locals: Vec<SocketAddr> = (0..paths).map(|path| address(20 + path)).collect();
        let (sent, received) = aim(&mut pair, victim, &locals);
        assert!(sent > 0 && sent <= 3 * received, "{paths} paths: {sent} for {received}");
        assert_eq!(pair.closed(Side::Server), None);
    }
}

#[test]
fn row_10_challenges_in_one_datagram_from_elsewhere_draw_no_more_than_three_times_its_size() {
    let victim = address(200);
    for (path, frames) in [(0, 1), (0, 4), (0, 100), (1, 4), (1, 100)] {
        let mut pair = two_paths();
        let payload = encode(&vec![Frame::PathChallenge([7; 8]); frames]);
        let forged = Forged { path: Some(PathId(path)), ..Forged::new(PacketKind::OneRtt, &payload) };
        let now = pair.now;
        let bytes = pair.client().forge(now, &forged);
        let received = bytes.len() as u64;
        pair.client_seen_as = victim;
        pair.send_raw(Side::Client, bytes);
        pair.client_seen_as = client_addr();
        pair.run_until_quiet();
        let sent = pair.sent_to.get(&victim).copied().unwrap_or(0);
        assert!(sent > 0 && sent <= 3 * received, "{frames} on path {path}: {sent} for {received}");
    }
}

// Packets and connection IDs stay on their path.

#[test]
fn row_m7_a_rebound_path_keeps_to_its_own_connection_ids() {
    let mut pair = two_paths();
    let rebound = SocketAddr::new(second_addr().ip(), 61_000);
    pair.client_locals.push(rebound);
    let seen = Rc::new(std::cell::RefCell::new(Vec::new()));
    let into = Rc::clone(&seen);
    let mut issued = pair.client().issued_cids(PathId(1));
    pair.network = Some(Box::new(move |from, mut flying| {
        if from.is_client() && flying.tuple.remote == second_addr() {
            flying.tuple.remote = rebound;
        } else if !from.is_client() && flying.tuple.local == rebound {
            into.borrow_mut().push(ConnectionId::new(&flying.bytes[1..9]).unwrap());
            flying.tuple.local = second_addr();
        }
        vec![flying]
    }));
    for side in SIDES {
        let data = pattern(500_000);
        assert!(pair.transfer(side, &data) == data);
    }
    issued.extend(pair.client().issued_cids(PathId(1)));
    let path: Vec<_> =
        pair.server().paths().map(|path| (path.id.0, path.tuple.remote, path.validated)).collect();
    assert_eq!(path, [(0, client_addr(), true), (1, rebound, true)]);
    let seen = seen.borrow();
    assert!(seen.len() > 50 && seen.iter().all(|cid| issued.contains(cid)), "{} packets", seen.len());
}

#[test]
fn row_m10_keys_change_on_all_paths_at_once() {
    for side in SIDES {
        let mut pair = two_paths();
        for round in 1..=4_u64 {
            pair.end(side).update_keys();
            for from in SIDES {
                let data = pattern(500_000);
                assert!(pair.transfer(from, &data) == data);
            }
            let (client, server) = (pair.client().stats(), pair.server().stats());
            assert_eq!((client.key_updates, server.key_updates), (round, round));
            assert_eq!(client.undecryptable + server.undecryptable, 0);
            assert!(server.paths.iter().all(|path| path.bytes_sent > 50_000 * round), "both carry data");
            pair.run_for(SECOND);
        }
    }
}

/// Returns the stateless reset for a datagram of path 1 from a server that has lost all state but its keys.
fn reset_of_path_1(pair: &mut Pair) -> Vec<u8> {
    let now = pair.now;
    let payload = [1; 100];
    let forged = Forged { path: Some(PathId(1)), ..Forged::new(PacketKind::OneRtt, &payload) };
    let mut bytes = pair.client().forge(now, &forged);
    let config = Arc::new(pair.server_config().clone());
    let mut amnesic = Endpoint::new(&EndpointConfig::new([2; 32]), Some(config));
    let tuple = FourTuple { local: server_addr(), remote: second_addr() };
    amnesic.handle_batch(now, &mut [Datagram { tuple, ecn: None, payload: &mut bytes }]);
    let mut buf = TransmitBuf::new(1);
    let transmit = amnesic.poll_transmit(now, &mut buf).expect("a stateless reset");
    buf.filled(&transmit).to_vec()
}

#[test]
fn stateless_resets_count_for_every_path_in_use_and_for_no_other() {
    let mut pair = two_paths();
    let reset = reset_of_path_1(&mut pair);
    pair.send_raw(Side::Server, reset);
    pair.run_for(Duration::from_millis(30));
    assert_eq!(pair.closed(Side::Client), Some(&ConnectionError::Reset));

    let mut pair = two_paths();
    let reset = reset_of_path_1(&mut pair);
    let now = pair.now;
    pair.client().abandon_path(now, PathId(1), VarInt::from_u32(0x3e)).unwrap();
    pair.run_until_quiet();
    pair.send_raw(Side::Server, reset);
    pair.run_until_quiet();
    assert_eq!(pair.closed(Side::Client), None, "the path is given up, and its tokens with it");
    still_works(&mut pair);
}
