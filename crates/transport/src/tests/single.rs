//! Several paths in a single packet number space: negotiation, opening, use, failure, address changes,
//! abandonment.

use std::cell::Cell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use anabranch_wire::{
    ConnectionId, Ecn, Frame, NewConnectionId, PacketKind, PathId, ResetToken, Side,
    TransportErrorCode as Code, VarInt, Writer, write_ack,
};

use super::injector::encode;
use super::pair::{Pair, client_addr, direction, pattern, server_addr};
use super::paths::{SECOND, SIDES, address, ids, open, open_and_wait, send, sent, still_works};
use crate::connection::Forged;
use crate::{
    Endpoint, EndpointConfig, Event, FourTuple, MultipathConfig, Numbering, NumberingChoice, OpenPathError,
    PathStatus,
};

const VIOLATION: Option<Code> = Some(Code::PROTOCOL_VIOLATION);

fn config(numbering: impl Into<NumberingChoice>) -> Option<MultipathConfig> {
    Some(MultipathConfig { numbering: numbering.into(), ..MultipathConfig::default() })
}

/// Returns a pair with these configurations. Without `cids` the client uses zero-length connection IDs.
fn ends(client: Option<MultipathConfig>, server: Option<MultipathConfig>, cids: bool) -> Pair {
    let mut pair = Pair::with(|client_config, server_config| {
        Arc::make_mut(&mut client_config.transport).multipath = client;
        Arc::make_mut(&mut server_config.transport).multipath = server;
    });
    if !cids {
        let config = EndpointConfig { cid_len: 0, ..EndpointConfig::new([1; 32]) };
        pair.client = Endpoint::new(&config, None);
        let tuple = FourTuple { local: client_addr(), remote: server_addr() };
        pair.client_handle = pair.client.connect(pair.now, &pair.client_config, tuple, "localhost").unwrap();
    }
    pair
}

fn connected(cids: bool) -> Pair {
    let mut pair = ends(config(Numbering::Single), config(Numbering::Single), cids);
    pair.connect();
    pair.run_until_quiet();
    pair
}

/// Opens paths until there are `paths`, and waits until both endpoints may use them.
fn with_paths(paths: u8, cids: bool) -> Pair {
    let mut pair = connected(cids);
    for path in 1..paths {
        let id = PathId(path.into());
        assert_eq!(open_and_wait(&mut pair, address(path)), id);
    }
    pair.run_until_quiet();
    pair
}

/// Returns the client's address of a datagram.
fn client_end(side: Side, tuple: &FourTuple) -> SocketAddr {
    if side == Side::Client { tuple.remote } else { tuple.local }
}

// Negotiation.

#[test]
fn what_is_offered_and_what_is_chosen() {
    use Numbering::{Multiple, Single};
    use NumberingChoice::{Only, Prefer};
    let choices =
        [None, Some(Only(Multiple)), Some(Only(Single)), Some(Prefer(Multiple)), Some(Prefer(Single))];
    for client in choices {
        for server in choices {
            for cids in [true, false] {
                let both = |numbering| {
                    let allows =
                        |choice: Option<NumberingChoice>| choice.is_some_and(|c| c.allows(numbering));
                    allows(client) && allows(server) && (cids || numbering == Single)
                };
                let expected = match (both(Multiple), both(Single)) {
                    (true, true) => server.map(NumberingChoice::preferred),
                    (true, false) => Some(Multiple),
                    (false, true) => Some(Single),
                    (false, false) => None,
                };
                let end = |choice: Option<NumberingChoice>| choice.and_then(config);
                let mut pair = ends(end(client), end(server), cids);
                pair.connect();
                pair.run_until_quiet();
                let what = format!("{client:?} {server:?} {cids}");
                assert_eq!(pair.client().numbering(), expected, "{what}");
                assert_eq!(pair.server().numbering(), expected, "{what}");
                still_works(&mut pair);
                let opened = open(&mut pair, address(1));
                match expected {
                    None => assert_eq!(opened, Err(OpenPathError::NotNegotiated), "{what}"),
                    Some(_) => {
                        assert_eq!(opened, Ok(PathId(1)), "{what}");
                        pair.run_until_quiet();
                        assert!(pair.client_events.contains(&Event::PathOpened(PathId(1))), "{what}");
                        still_works(&mut pair);
                    }
                }
            }
        }
    }
}

#[test]
fn a_server_that_does_not_choose_is_wrong() {
    let mut pair = Pair::with(|client, server| {
        Arc::make_mut(&mut client.transport).multipath = Some(MultipathConfig::default());
        let transport = Arc::make_mut(&mut server.transport);
        transport.multipath = Some(MultipathConfig::default());
        transport.hooks.parameters = Some(|parameters| parameters.single_number_space = Some(1));
    });
    pair.run_until_quiet();
    assert_eq!(pair.code_seen_by(Side::Server), Some(Code::TRANSPORT_PARAMETER_ERROR));
}

#[test]
fn the_parameter_has_one_value() {
    for side in SIDES {
        let mut pair = Pair::with(|client, server| {
            let (client, server) = (&mut client.transport, &mut server.transport);
            let transport = Arc::make_mut(if side == Side::Client { client } else { server });
            transport.hooks.parameters = Some(|parameters| parameters.single_number_space = Some(2));
        });
        pair.run_until_quiet();
        assert_eq!(pair.code_seen_by(side), Some(Code::TRANSPORT_PARAMETER_ERROR));
    }
}

#[test]
fn early_data_begins_the_line_of_numbers() {
    let mut pair = connected(true);
    let now = pair.now;
    pair.client().close(now, VarInt::from_u32(0), bytes::Bytes::new());
    pair.run_until_quiet();
    pair.reconnect();
    assert!(pair.client().has_early_keys() && pair.client().numbering().is_none());
    let data = pattern(5_000);
    assert!(pair.transfer(Side::Client, &data) == data);
    pair.connect();
    assert!(pair.client_events.contains(&Event::Connected { early_data_accepted: true }));
    assert_eq!(pair.client().numbering(), Some(Numbering::Single));
    assert_eq!(open(&mut pair, address(1)), Ok(PathId(1)));
    pair.run_until_quiet();
    still_works(&mut pair);
    let lost: u64 = pair.client().paths().map(|path| path.recovery.lost_packets).sum();
    assert_eq!(lost, 0);
}

// Use.

#[test]
fn data_goes_over_all_paths_and_arrives_whole_in_spite_of_losses() {
    for (paths, cids) in [(2, true), (2, false), (3, true), (3, false)] {
        for from in SIDES {
            let mut pair = with_paths(paths, cids);
            let mut count = 0_u32;
            pair.network = Some(Box::new(move |_, flying| {
                count += 1;
                if count.is_multiple_of(37) { Vec::new() } else { vec![flying] }
            }));
            let before = sent(&mut pair, from);
            let data = pattern(3_000_000);
            assert!(pair.transfer(from, &data) == data);
            let after = sent(&mut pair, from);
            for path in 0..usize::from(paths) {
                let here = after[path] - before[path];
                assert!(here > 200_000, "{paths} {cids} {from:?}: {before:?} {after:?}");
            }
            assert_eq!((pair.closed(Side::Client), pair.closed(Side::Server)), (None, None));
        }
    }
}

#[test]
fn a_path_that_goes_dead_costs_no_data() {
    for cids in [true, false] {
        for from in SIDES {
            for dead in [client_addr(), address(1)] {
                let mut pair = with_paths(2, cids);
                let mut seen = 0;
                // After some packets, one path drops everything in both directions.
                pair.network = Some(Box::new(move |side, flying| {
                    let here = client_end(side, &flying.tuple) == dead;
                    seen += usize::from(here);
                    if here && seen > 200 { Vec::new() } else { vec![flying] }
                }));
                let data = pattern(2_000_000);
                let began = pair.now;
                assert!(pair.transfer(from, &data) == data);
                let time = pair.now - began;
                assert!(time < Duration::from_secs(3), "{cids} {from:?} {dead}: {time:?}");
            }
        }
    }
}

#[test]
fn an_abandoned_path_is_gone_at_both_ends_and_the_other_goes_on() {
    for cids in [true, false] {
        for (side, id) in [(Side::Client, 0), (Side::Client, 1), (Side::Server, 0), (Side::Server, 1)] {
            let mut pair = with_paths(2, cids);
            let now = pair.now;
            pair.end(side).abandon_path(now, PathId(id), VarInt::from_u32(0x3e)).unwrap();
            pair.run_for(Duration::from_secs(5));
            let event = Event::PathAbandoned { path: PathId(id), code: VarInt::from_u32(0x3e) };
            assert!(pair.client_events.contains(&event) && pair.server_events.contains(&event));
            for side in SIDES {
                assert_eq!(ids(&mut pair, side), [1 - id], "{side:?}");
            }
            still_works(&mut pair);
        }
    }
}

/// Data is in flight on both paths when one is abandoned. Its late packets are processed or ignored, and are
/// no violation.
#[test]
fn a_path_is_abandoned_in_the_middle_of_a_transfer() {
    for (side, id) in [(Side::Client, 0), (Side::Client, 1), (Side::Server, 0), (Side::Server, 1)] {
        let mut pair = with_paths(2, true);
        // One path is slow, so its packets and their acknowledgments are late.
        pair.network = Some(Box::new(move |side, mut flying| {
            if client_end(side, &flying.tuple) == address(1) {
                flying.at += Duration::from_millis(150);
            }
            vec![flying]
        }));
        let stream = pair.server().streams().open(anabranch_wire::Dir::Uni).unwrap();
        let data = pattern(1_500_000);
        let mut rest = bytes::Bytes::copy_from_slice(&data);
        let (mut read, mut finished, mut abandoned) = (Vec::new(), false, false);
        pair.run_until(Duration::from_secs(60), |pair| {
            while !rest.is_empty() && pair.server().streams().write_bytes(stream, &mut rest).is_ok() {}
            if rest.is_empty() && !std::mem::replace(&mut finished, true) {
                pair.server().streams().finish(stream).unwrap();
            }
            if read.len() > 500_000 && !std::mem::replace(&mut abandoned, true) {
                let now = pair.now;
                pair.end(side).abandon_path(now, PathId(id), VarInt::from_u32(0x3e)).unwrap();
            }
            pair.read(Side::Client, stream, &mut read)
        });
        assert!(read == data);
        pair.run_for(Duration::from_secs(5));
        assert_eq!((pair.closed(Side::Client), pair.closed(Side::Server)), (None, None));
        assert_eq!(ids(&mut pair, Side::Client), [1 - id]);
        assert_eq!(ids(&mut pair, Side::Server), [1 - id]);
    }
}

#[test]
fn paths_can_be_opened_and_abandoned_over_and_over() {
    for cids in [true, false] {
        let mut pair = with_paths(2, cids);
        for round in 1..40_u32 {
            let now = pair.now;
            let side = if round % 2 == 0 { Side::Client } else { Side::Server };
            pair.end(side).abandon_path(now, PathId(round), VarInt::from_u32(0x3e)).unwrap();
            pair.run_for(Duration::from_millis(100));
            assert_eq!(open(&mut pair, address(1)), Ok(PathId(round + 1)), "IDs are never used again");
            pair.run_until(SECOND, |pair| pair.server_events.contains(&Event::PathOpened(PathId(round + 1))));
            pair.run_for(Duration::from_secs(2));
            assert_eq!(ids(&mut pair, Side::Client), [0, round + 1]);
            assert_eq!(ids(&mut pair, Side::Server), [0, round + 1]);
        }
        still_works(&mut pair);
    }
}

#[test]
fn the_server_has_the_last_word_on_how_many_paths_there_are() {
    let few = |max_paths| config(Numbering::Single).map(|config| MultipathConfig { max_paths, ..config });
    let mut pair = ends(few(4), few(2), true);
    pair.connect();
    pair.run_until_quiet();
    for path in 1..4 {
        assert_eq!(open(&mut pair, address(path)), Ok(PathId(path.into())));
        pair.run_until_quiet();
    }
    for refused in [2, 3] {
        let code = Code::PATH_RESOURCE_LIMIT_REACHED.into();
        assert!(pair.client_events.contains(&Event::PathAbandoned { path: PathId(refused), code }));
    }
    pair.run_for(Duration::from_secs(5));
    assert_eq!(ids(&mut pair, Side::Client), [0, 1]);
    assert_eq!(ids(&mut pair, Side::Server), [0, 1]);
    still_works(&mut pair);
    // The client limits the number of paths too.
    let mut pair = with_paths(4, false);
    assert_eq!(open(&mut pair, address(9)), Err(OpenPathError::NoPathId));
}

#[test]
fn a_path_that_does_not_answer_is_closed() {
    let mut pair = connected(true);
    pair.network =
        Some(Box::new(
            |side, flying| {
                if client_end(side, &flying.tuple) == address(1) { Vec::new() } else { vec![flying] }
            },
        ));
    open(&mut pair, address(1)).unwrap();
    pair.run_until(Duration::from_secs(10), |pair| {
        pair.client_events.contains(&Event::PathAbandoned { path: PathId(1), code: VarInt::from_u32(0x3e76) })
    });
    pair.run_for(Duration::from_secs(10));
    assert_eq!((pair.closed(Side::Client), pair.closed(Side::Server)), (None, None));
    assert_eq!((ids(&mut pair, Side::Client), ids(&mut pair, Side::Server)), (vec![0], vec![0]));
    pair.network = None;
    assert_eq!(open(&mut pair, address(1)), Ok(PathId(2)));
    pair.run_until_quiet();
    still_works(&mut pair);
}

#[test]
fn a_backup_carries_nothing_while_another_path_works() {
    let mut pair = with_paths(2, true);
    pair.client().set_path_status(PathId(1), PathStatus::Backup).unwrap();
    pair.run_until_quiet();
    for from in SIDES {
        let before = sent(&mut pair, from);
        let data = pattern(500_000);
        assert!(pair.transfer(from, &data) == data);
        let after = sent(&mut pair, from);
        assert!(after[1] - before[1] < 20_000, "{from:?}: {before:?} {after:?}");
    }
}

#[test]
fn keys_change_in_the_middle() {
    for updating in SIDES {
        let mut pair = with_paths(2, true);
        // Old packets of the slow path arrive long after newer ones of the fast path.
        pair.network = Some(Box::new(|side, mut flying| {
            if client_end(side, &flying.tuple) == address(1) {
                flying.at += Duration::from_millis(40);
            }
            vec![flying]
        }));
        let data = pattern(800_000);
        for round in 1..4 {
            pair.end(updating).update_keys();
            for from in SIDES {
                assert!(pair.transfer(from, &data) == data);
            }
            pair.run_for(SECOND);
            for side in SIDES {
                let stats = pair.end(side).stats();
                assert_eq!((stats.key_updates, stats.undecryptable), (round, 0), "{updating:?} at {side:?}");
            }
        }
    }
}

/// The server uses the fast path only as a backup, so its acknowledgments of packets received there take the
/// slow path.
#[test]
fn answers_that_come_round_by_a_slow_path_draw_no_probes_for_good() {
    let kept_alive = || {
        let config = config(Numbering::Single)?;
        Some(MultipathConfig { path_keep_alive: Some(3 * SECOND), ..config })
    };
    let mut pair = ends(kept_alive(), kept_alive(), true);
    pair.connect();
    open(&mut pair, address(1)).unwrap();
    pair.delay = Duration::from_millis(1);
    pair.network = Some(Box::new(|side, mut flying| {
        if client_end(side, &flying.tuple) == address(1) {
            flying.at += Duration::from_millis(299);
        }
        vec![flying]
    }));
    for _ in 0..5 {
        still_works(&mut pair);
    }
    pair.client().set_path_status(PathId(0), PathStatus::Backup).unwrap();
    pair.run_for(30 * SECOND);
    let packets = |pair: &mut Pair| pair.client().paths().next().unwrap().recovery.sent_packets;
    let before = packets(&mut pair);
    pair.run_for(30 * SECOND);
    let sent = packets(&mut pair) - before;
    assert!((10..40).contains(&sent), "{sent} packets to keep a path alive for 30 s");
}

// Addresses.

/// A NAT assigns another port to one path of the client.
#[test]
fn a_rebinding_keeps_the_path() {
    for cids in [true, false] {
        for path in [0_u32, 1] {
            let mut pair = with_paths(2, cids);
            let home = if path == 0 { client_addr() } else { address(1) };
            let outside: SocketAddr = (home.ip(), 60_000).into();
            if path == 0 {
                pair.client_seen_as = outside;
            } else {
                pair.client_locals.push(outside);
                pair.network = Some(Box::new(move |side, mut flying| {
                    if side == Side::Client && flying.tuple.remote == home {
                        flying.tuple.remote = outside;
                    } else if side == Side::Server && flying.tuple.local == home {
                        return Vec::new(); // The NAT has forgotten the old mapping.
                    } else if side == Side::Server && flying.tuple.local == outside {
                        flying.tuple.local = home;
                    }
                    vec![flying]
                }));
            }
            still_works(&mut pair);
            pair.run_until_quiet();
            let moved: Vec<_> = pair.server().paths().map(|path| (path.id.0, path.tuple.remote)).collect();
            let expected = match path {
                0 => [(0, outside), (1, address(1))],
                _ => [(0, client_addr()), (1, outside)],
            };
            assert_eq!(moved, expected, "path {path}, {cids}");
            let data = pattern(1_000_000);
            let before = sent(&mut pair, Side::Server);
            assert!(pair.transfer(Side::Server, &data) == data);
            let after = sent(&mut pair, Side::Server);
            assert!((0..2).all(|path| after[path] - before[path] > 100_000), "{before:?} {after:?}");
        }
    }
}

#[test]
fn a_client_moves_a_path_to_another_address() {
    for cids in [true, false] {
        let mut pair = with_paths(2, cids);
        let now = pair.now;
        pair.client().migrate(now, address(7)).unwrap();
        pair.run_until(SECOND, |pair| {
            let tuple = FourTuple { local: address(7), remote: server_addr() };
            pair.client_events.contains(&Event::PathChanged { path: PathId(0), tuple })
        });
        still_works(&mut pair);
        pair.run_until_quiet();
        let paths: Vec<_> = pair.server().paths().map(|path| (path.id.0, path.tuple.remote)).collect();
        assert_eq!(paths, [(0, address(7)), (1, address(1))], "{cids}");
    }
}

#[test]
fn a_challenge_for_a_path_that_cannot_be_opened_is_not_answered_on_another() {
    let mut pair = Pair::with(|client, server| {
        Arc::make_mut(&mut client.transport).multipath = config(Numbering::Single);
        let server = Arc::make_mut(&mut server.transport);
        server.multipath = config(Numbering::Single);
        server.active_connection_id_limit = 2;
    });
    pair.connect();
    pair.run_until_quiet();
    for path in [1, 2] {
        assert_eq!(open(&mut pair, address(path)), Ok(PathId(path.into())));
        pair.run_for(SECOND);
    }
    // Both of the client's connection IDs are in use.
    assert!(pair.client_events.contains(&Event::PathOpened(PathId(1))));
    assert!(!pair.client_events.contains(&Event::PathOpened(PathId(2))));
    let now = pair.now;
    pair.client().abandon_path(now, PathId(1), VarInt::from_u32(0x3e)).unwrap();
    pair.run_for(10 * SECOND);
    assert!(pair.client_events.contains(&Event::PathOpened(PathId(2))), "there is one to spare now");
    for side in SIDES {
        assert_eq!(ids(&mut pair, side), [0, 2], "{side:?}");
    }
    still_works(&mut pair);
}

#[test]
fn addresses_that_another_path_has_left_do_not_hide_a_new_one() {
    for cids in [true, false] {
        let mut pair = with_paths(2, cids);
        // The server does not learn that path 1 was abandoned before path 2 replaces it.
        let main = client_addr();
        let is_cut = Rc::new(Cell::new(true));
        let cut = Rc::clone(&is_cut);
        pair.network = Some(Box::new(move |from, flying| {
            let lost = cut.get() && client_end(from, &flying.tuple) == main;
            if lost { Vec::new() } else { vec![flying] }
        }));
        let now = pair.now;
        pair.client().abandon_path(now, PathId(1), VarInt::from_u32(0x3e)).unwrap();
        assert_eq!(open(&mut pair, address(1)), Ok(PathId(2)));
        pair.run_for(SECOND / 2);
        is_cut.set(false);
        pair.run_for(5 * SECOND);
        for side in SIDES {
            assert_eq!(ids(&mut pair, side), [0, 2], "{side:?}, {cids}");
        }
        still_works(&mut pair);
    }
}

// Acknowledgments and ECN.

fn marked_by(
    pair: &mut Pair,
    from: Side,
    bleach: impl Fn(SocketAddr) -> bool + 'static,
) -> Vec<(SocketAddr, bool)> {
    let seen = Rc::new(std::cell::RefCell::new(Vec::new()));
    let log = seen.clone();
    pair.network = Some(Box::new(move |side, mut flying| {
        let end = client_end(side, &flying.tuple);
        if side == from {
            log.borrow_mut().push((end, flying.ecn.is_some()));
        }
        if bleach(end) {
            flying.ecn = None;
        }
        vec![flying]
    }));
    let data = pattern(6_000_000);
    assert!(pair.transfer(from, &data) == data);
    seen.borrow().clone()
}

#[test]
fn marks_that_get_lost_on_one_path_end_marking_on_all() {
    for from in SIDES {
        let mut pair = with_paths(2, true);
        let seen = marked_by(&mut pair, from, |_| false);
        for end in [client_addr(), address(1)] {
            let marked = seen.iter().filter(|(at, marked)| *at == end && *marked).count();
            assert!(marked > 100, "marks work on both paths: {marked} at {end}");
        }
        let seen = marked_by(&mut pair, from, |end| end == address(1));
        let last = seen.iter().rposition(|(_, marked)| *marked).unwrap_or(0);
        assert!(last < seen.len() / 2, "{last} of {}", seen.len());
        for end in [client_addr(), address(1)] {
            assert!(seen[last..].iter().filter(|(at, _)| *at == end).count() > 50, "unmarked on {end}");
        }
        // A path that is opened later does not send marked packets again.
        assert_eq!(open(&mut pair, address(2)), Ok(PathId(2)));
        pair.run_until_quiet();
        assert!(marked_by(&mut pair, from, |_| false).iter().all(|(_, marked)| !marked));
        assert_eq!((pair.closed(Side::Client), pair.closed(Side::Server)), (None, None));
    }
}

#[test]
fn congestion_marks_slow_down_every_path_of_the_acknowledgment() {
    let mut pair = with_paths(2, true);
    let mut count = 0;
    pair.network = Some(Box::new(move |side, mut flying| {
        count += usize::from(side == Side::Server);
        if side == Side::Server && flying.ecn.is_some() && count % 100 == 99 {
            flying.ecn = Some(Ecn::Ce);
        }
        vec![flying]
    }));
    let data = pattern(2_000_000);
    assert!(pair.transfer(Side::Server, &data) == data);
    for path in pair.server().paths() {
        assert!(path.recovery.ecn_ce > 0 && path.recovery.congestion_events > 0, "{:?}", path.recovery);
        assert_eq!(path.recovery.lost_packets, 0);
    }
}

/// Row M12: one path is 200 times slower than the other.
#[test]
fn row_m12_a_path_200_times_as_slow() {
    for cids in [true, false] {
        for from in SIDES {
            let robin = || {
                let scheduler = crate::schedule::Algorithm::RoundRobin;
                config(Numbering::Single).map(|config| MultipathConfig { scheduler, ..config })
            };
            let mut pair = ends(robin(), robin(), cids);
            pair.connect();
            pair.run_until_quiet();
            pair.delay = Duration::from_millis(1);
            pair.network = Some(Box::new(|side, mut flying| {
                if client_end(side, &flying.tuple) == address(1) {
                    flying.at += Duration::from_millis(199);
                }
                vec![flying]
            }));
            open(&mut pair, address(1)).unwrap();
            pair.run_until(Duration::from_secs(5), |pair| {
                pair.server_events.contains(&Event::PathOpened(PathId(1)))
            });
            let data = pattern(4_000_000);
            for _ in 0..6 {
                assert!(pair.transfer(from, &data) == data);
                pair.run_for(SECOND);
            }
            assert_eq!((pair.closed(Side::Client), pair.closed(Side::Server)), (None, None));
            let paths: Vec<_> = pair.end(from).paths().collect();
            assert!(paths[1].recovery.sent_packets > 50, "{:?}", paths[1].recovery);
            for path in paths {
                let stats = &path.recovery;
                assert!(stats.lost_packets <= stats.sent_packets / 100, "{stats:?}");
                assert!(stats.spurious_losses <= stats.sent_packets / 100, "{stats:?}");
            }
            assert_eq!(pair.end(from.peer()).stats().undecryptable, 0, "numbers are told apart");
        }
    }
}

#[test]
fn round_trips_are_measured_on_the_path_of_the_largest_packet() {
    // Both paths must carry data, whichever is better.
    let scheduler = crate::schedule::Algorithm::RoundRobin;
    let mut pair = Pair::with_transport(|transport| {
        transport.multipath = config(Numbering::Single).map(|config| MultipathConfig { scheduler, ..config });
    });
    pair.connect();
    pair.run_until_quiet();
    assert_eq!(open(&mut pair, address(1)), Ok(PathId(1)));
    pair.run_until_quiet();
    pair.network = Some(Box::new(|side, mut flying| {
        if client_end(side, &flying.tuple) == address(1) {
            flying.at += Duration::from_millis(90);
        }
        vec![flying]
    }));
    let data = pattern(1_000_000);
    for from in SIDES {
        for _ in 0..10 {
            assert!(pair.transfer(from, &data) == data);
            pair.run_until_quiet();
        }
        let rtts: Vec<_> = pair.end(from).paths().map(|path| path.smoothed_rtt.as_millis()).collect();
        assert!((20..60).contains(&rtts[0]) && (150..260).contains(&rtts[1]), "{rtts:?}");
    }
}

fn ack(ranges: &[std::ops::RangeInclusive<u64>]) -> Vec<u8> {
    let mut bytes = [0; 64];
    let mut writer = Writer::new(&mut bytes, direction());
    write_ack(&mut writer, None, ranges.iter().cloned(), 0, None).unwrap();
    writer.written().to_vec()
}

#[test]
fn acknowledgments_of_what_was_never_sent_are_found() {
    for from in SIDES {
        let mut pair = with_paths(2, true);
        send(&mut pair, from, &ack(&[900_000..=900_000]));
        assert_eq!(pair.code_seen_by(from), VIOLATION);
        // Acknowledges everything at once, including a skipped packet number.
        let mut pair = with_paths(2, true);
        let data = pattern(1_000_000);
        assert!(pair.transfer(from.peer(), &data) == data);
        send(&mut pair, from, &ack(&[0..=300]));
        assert_eq!(pair.code_seen_by(from), VIOLATION);
    }
}

// Frames.

fn new_cid(path: Option<u32>, sequence: u64) -> Frame<'static> {
    Frame::NewConnectionId(NewConnectionId {
        path: path.map(PathId),
        sequence,
        retire_prior_to: 0,
        cid: ConnectionId::new(&[0xd0; 8]).unwrap(),
        token: ResetToken([0xd1; 16]),
    })
}

#[test]
fn frames_of_the_other_numbering_are_violations() {
    let path_ack = {
        let mut bytes = [0; 64];
        let mut writer = Writer::new(&mut bytes, direction());
        write_ack(&mut writer, Some(PathId(0)), [0..=0].into_iter(), 0, None).unwrap();
        writer.written().to_vec()
    };
    let retire = Frame::RetireConnectionId { path: Some(PathId(0)), sequence: 0 };
    let blocked = Frame::PathCidsBlocked { path: PathId(0), next_sequence: 0 };
    for (name, payload) in [
        ("PATH_ACK", path_ack),
        ("PATH_NEW_CONNECTION_ID", encode(&[new_cid(Some(0), 9)])),
        ("PATH_RETIRE_CONNECTION_ID", encode(&[retire])),
        ("MAX_PATH_ID", encode(&[Frame::MaxPathId(9)])),
        ("PATHS_BLOCKED", encode(&[Frame::PathsBlocked(0)])),
        ("PATH_CIDS_BLOCKED", encode(&[blocked])),
    ] {
        for from in SIDES {
            let mut pair = connected(true);
            send(&mut pair, from, &payload);
            assert_eq!(pair.code_seen_by(from), VIOLATION, "{name} from the {from:?}");
        }
    }
}

#[test]
fn path_ids_are_the_clients_to_begin_and_in_order() {
    let status = |path| encode(&[Frame::PathStatus { path: PathId(path), available: true, sequence: 0 }]);
    let abandon = |path| encode(&[Frame::PathAbandon { path: PathId(path), code: VarInt::from_u32(0x3e) }]);
    for (from, path, expected) in [
        (Side::Server, 1, VIOLATION),
        (Side::Client, 1, None),
        (Side::Client, 64, None),
        (Side::Client, 65, VIOLATION),
        (Side::Client, u32::MAX, VIOLATION),
    ] {
        for payload in [status(path), abandon(path)] {
            let mut pair = connected(true);
            send(&mut pair, from, &payload);
            assert_eq!(pair.code_seen_by(from), expected, "{path} from the {from:?}");
        }
    }
}

/// A client abandons one path ID after another. It never opens a path, and never acknowledges the server's
/// PATH_ABANDON.
#[test]
fn abandoning_what_was_never_opened_is_bounded() {
    let mut pair = connected(true);
    pair.network =
        Some(Box::new(|side, flying| if side == Side::Client { vec![flying] } else { Vec::new() }));
    for round in 0..200 {
        let id = PathId(1 + 3 * (round % 20));
        pair.inject(
            Side::Client,
            &Forged::new(
                PacketKind::OneRtt,
                &encode(&[Frame::PathAbandon { path: id, code: VarInt::from_u32(0) }]),
            ),
        );
    }
    pair.run_for(Duration::from_millis(50));
    let held = pair.server().held();
    assert!(held.abandons <= 8, "{held:?}");
}

#[test]
fn more_connection_ids_than_the_limit_are_refused_wherever_they_are() {
    for from in SIDES {
        let mut pair = with_paths(3, true);
        // The pool and the paths together may have at most 5 connection IDs, and 5 have been issued.
        send(&mut pair, from, &encode(&[new_cid(None, 40)]));
        assert_eq!(pair.code_seen_by(from), Some(Code::CONNECTION_ID_LIMIT_ERROR));
    }
}

#[test]
fn the_peer_rotates_its_connection_ids_under_all_paths() {
    for from in SIDES {
        let mut pair = with_paths(3, true);
        pair.end(from).rotate_cids();
        pair.run_until_quiet();
        still_works(&mut pair);
        assert_eq!(ids(&mut pair, Side::Client), [0, 1, 2]);
        assert_eq!(ids(&mut pair, Side::Server), [0, 1, 2]);
    }
}

// Senders and receivers of the 2022 study.

/// Returns a pair with two paths and a changed configuration. The second path adds 40 ms in each direction.
fn uneven(change: impl Fn(&mut crate::TransportConfig)) -> Pair {
    let mut pair = Pair::with_transport(|transport| {
        transport.multipath = config(Numbering::Single);
        change(transport);
    });
    pair.connect();
    pair.run_until_quiet();
    pair.network = Some(Box::new(|side, mut flying| {
        if client_end(side, &flying.tuple) == address(1) {
            flying.at += Duration::from_millis(40);
        }
        vec![flying]
    }));
    assert_eq!(open(&mut pair, address(1)), Ok(PathId(1)));
    pair.run_until(SECOND, |pair| pair.server_events.contains(&Event::PathOpened(PathId(1))));
    pair
}

#[test]
fn one_ack_state_counts_packets_of_all_paths_and_is_reported_by_one_frame() {
    let frames = |scope| {
        let mut pair = uneven(|transport| {
            transport.ack.scope = scope;
            transport.ack.path = crate::AckPath::InTurn;
            transport.ack.mixed_round_trips = Some(true);
            transport.ack.frequency = false;
        });
        let data = pattern(300_000);
        assert!(pair.transfer(Side::Server, &data) == data);
        pair.run_for(SECOND);
        let rtt = pair.server().paths().map(|path| path.min_rtt).max().unwrap();
        assert!(rtt >= Duration::from_millis(40), "the long path is measured: {rtt:?}");
        // One packet on each path; both arrive at the same time.
        let before = pair.client().stats().acks.frames;
        pair.server().ping(PathId(1));
        pair.run_for(Duration::from_millis(40));
        pair.server().ping(PathId(0));
        pair.run_for(Duration::from_millis(12));
        let early = pair.client().stats().acks.frames - before;
        pair.run_for(Duration::from_millis(30));
        (early, pair.client().stats().acks.frames - before)
    };
    assert_eq!(frames(crate::AckScope::Connection), (1, 1));
    assert_eq!(frames(crate::AckScope::Path), (0, 2));
}

#[test]
fn losses_of_a_fast_path_wait_for_the_slow_one_if_there_is_one_list() {
    let lost = |scan| {
        let mut pair = uneven(|transport| {
            transport.multipath.as_mut().unwrap().loss_scan = scan;
            transport.ack.path = crate::AckPath::Same;
            transport.ack.threshold = 1;
        });
        let data = pattern(300_000);
        assert!(pair.transfer(Side::Server, &data) == data);
        pair.run_for(SECOND);
        let lost =
            |pair: &mut Pair| pair.server().paths().map(|path| path.recovery.lost_packets).sum::<u64>();
        let before = lost(&mut pair);
        // One packet on the long path, then several on the short one, the first of which does not arrive.
        pair.server().ping(PathId(1));
        pair.run_for(Duration::from_millis(1));
        let network = pair.network.take();
        pair.network = Some(Box::new(|_, _| Vec::new()));
        pair.server().ping(PathId(0));
        pair.run_for(Duration::from_micros(100));
        pair.network = network;
        for _ in 0..4 {
            pair.server().ping(PathId(0));
            pair.run_for(Duration::from_micros(100));
        }
        // Long enough for the short path's acknowledgments, but not for those of the long path.
        pair.run_for(Duration::from_millis(35));
        let early = lost(&mut pair) - before;
        pair.run_for(SECOND);
        (early, lost(&mut pair) - before)
    };
    assert_eq!(lost(crate::LossScan::Path), (1, 1));
    assert_eq!(lost(crate::LossScan::Connection), (0, 1));
}
