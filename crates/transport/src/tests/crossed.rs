//! Actions of one endpoint before it knows about actions of the other: packets of paths that exchange
//! addresses, and paths that are abandoned crosswise.

use std::cell::Cell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use anabranch_wire::{Dir, Frame, PacketKind, PathId, Side, TransportErrorCode as Code, VarInt};

use super::injector::encode;
use super::pair::{Flying, Pair, client_addr, pattern, server_addr};
use super::paths::{SECOND, SIDES, address, address_of_client, ids, open, open_and_wait, sent, still_works};
use crate::connection::Forged;
use crate::{ConnectionError, Event, FourTuple, MultipathConfig, Numbering};

/// Length of a datagram that validates a path; no other datagram here has this length.
const VALIDATION: usize = 1200;

fn connected(numbering: Numbering) -> Pair {
    let mut pair = Pair::with_transport(|transport| {
        transport.multipath =
            Some(MultipathConfig { numbering: numbering.into(), ..MultipathConfig::default() });
    });
    pair.connect();
    pair.run_until_quiet();
    pair
}

/// Migrates the client's main path. The client also sends data before the migration is complete.
fn migrate(pair: &mut Pair, local: SocketAddr) {
    let now = pair.now;
    pair.client().migrate(now, local).unwrap();
    pair.run_for(pair.delay / 2);
    let stream = pair.client().streams().open(Dir::Uni).unwrap();
    pair.client().streams().write(stream, &pattern(100)).unwrap();
    let moved = Event::PathChanged { path: PathId(0), tuple: FourTuple { local, remote: server_addr() } };
    pair.run_until(SECOND, |pair| pair.client_events.contains(&moved));
}

/// The client opens a path between addresses that its main path has just left, before the server knows of the
/// move. The server's challenge at those addresses then concerns the main path.
#[test]
fn a_challenge_says_which_path_it_is_about() {
    let mut pair = connected(Numbering::Single);
    let (left, new) = (address(7), address(8));
    let opening = Rc::new(Cell::new(false));
    let lose = Rc::clone(&opening);
    pair.network = Some(Box::new(move |from, mut flying: Flying| {
        let validates = flying.bytes.len() == VALIDATION;
        if from.is_client() && !validates {
            // Packets that do not validate a path are late. Those from the old addresses arrive before those
            // from the new ones.
            let late = match flying.tuple.remote {
                remote if remote == left => 100,
                remote if remote == new => 200,
                _ => 0,
            };
            flying.at += Duration::from_millis(late);
        }
        let lost = from.is_client() && validates && flying.tuple.remote == left && lose.take();
        if lost { Vec::new() } else { vec![flying] }
    }));
    migrate(&mut pair, left);
    migrate(&mut pair, new);
    opening.set(true);
    assert_eq!(open(&mut pair, left), Ok(PathId(1)));
    let followed = |pair: &mut Pair| pair.server().paths().any(|path| path.tuple.remote == left);
    pair.run_until(SECOND, followed);
    pair.run_for(3 * pair.delay);
    // The client responds on the main path, between the addresses of the challenge.
    assert!(!opening.get());
    assert_eq!(
        sent(&mut pair, Side::Client)[1],
        VALIDATION as u64,
        "the challenge that was lost, and no more"
    );
    pair.run_for(5 * SECOND);
    let paths: Vec<_> = pair.server().paths().map(|path| (path.id.0, path.tuple.remote)).collect();
    assert_eq!(paths, [(0, new), (1, left)]);
    assert_eq!(ids(&mut pair, Side::Client), [0, 1]);
    still_works(&mut pair);
}

/// A peer that cannot tell which path a challenge concerns may respond on the wrong path.
#[test]
fn the_name_of_a_path_goes_before_an_answer() {
    let mut pair = connected(Numbering::Single);
    let cut = Rc::new(Cell::new(true));
    let is_cut = Rc::clone(&cut);
    let home = address(1);
    let rebound: SocketAddr = (client_addr().ip(), 60_000).into();
    pair.network = Some(Box::new(move |from, flying: Flying| {
        let client = address_of_client(from, &flying);
        // At first, all datagrams on the client's new path are lost, and so are all datagrams of the server,
        // including its challenge at the client's new address.
        let lost = is_cut.get() && (client == home || from.is_server());
        if lost { Vec::new() } else { vec![flying] }
    }));
    assert_eq!(open(&mut pair, home), Ok(PathId(1)));
    pair.client_seen_as = rebound;
    pair.inject_frames(Side::Client, &[const { Frame::Ping }; 4]);
    pair.run_for(3 * pair.delay);
    let asked = pair.server().asked(PathId(0)).expect("a challenge at the new address");
    let answer = encode(&[Frame::PathResponse(asked)]);
    let on_the_wrong_path = Forged { path: Some(PathId(1)), ..Forged::new(PacketKind::OneRtt, &answer) };
    pair.inject(Side::Client, &on_the_wrong_path);
    pair.run_for(3 * pair.delay);
    assert_ne!(pair.server().asked(PathId(0)), Some(asked), "answered");
    assert_eq!(ids(&mut pair, Side::Server), [0]);
    cut.set(false);
    pair.run_for(5 * SECOND);
    for side in SIDES {
        assert_eq!(ids(&mut pair, side), [0, 1], "{side:?}");
    }
    assert!(pair.client_events.contains(&Event::PathOpened(PathId(1))));
    still_works(&mut pair);
}

/// Each endpoint abandons the path that the other one keeps, and the server sends to an expired mapping of
/// the client's NAT.
#[test]
fn ends_that_give_up_paths_crosswise_find_out() {
    for numbering in [Numbering::Multiple, Numbering::Single] {
        for outage in [1, 5, 20] {
            let mut pair = connected(numbering);
            assert_eq!(open_and_wait(&mut pair, address(1)), PathId(1));
            pair.run_until_quiet();
            let cut: [_; 2] = std::array::from_fn(|_| Rc::new(Cell::new(false)));
            let is_cut = cut.clone();
            pair.network = Some(Box::new(move |from, flying: Flying| {
                let path = usize::from(address_of_client(from, &flying) == address(1));
                if is_cut[path].get() { Vec::new() } else { vec![flying] }
            }));
            // The client's second path falls silent first, so that it is probed repeatedly.
            cut[1].set(true);
            let stream = pair.client().streams().open(Dir::Uni).unwrap();
            pair.client().streams().write(stream, &pattern(200_000)).unwrap();
            pair.run_for(SECOND / 2);
            cut[0].set(true);
            pair.client().streams().write(stream, &pattern(20_000)).unwrap();
            let now = pair.now;
            pair.client().abandon_path(now, PathId(0), VarInt::from_u32(0x3e)).unwrap();
            pair.server().abandon_path(now, PathId(1), VarInt::from_u32(0x3e)).unwrap();
            pair.run_for(outage * SECOND);
            cut[1].set(false);
            pair.run_for(SECOND);
            let what = format!("{numbering:?}, {outage} s");
            let code = |error: Option<&ConnectionError>| match error {
                Some(ConnectionError::Transport(error) | ConnectionError::PeerTransport(error)) => error.code,
                other => panic!("{what}: {other:?}"),
            };
            for side in SIDES {
                assert_eq!(code(pair.closed(side)), Code::NO_VIABLE_PATH, "{what} at {side:?}");
            }
        }
    }
}

/// The client's PATH_RESPONSE on a new path arrives, but the server's packets there are lost. The server may
/// then abandon the client's only other path, because the server has validated the new one.
#[test]
fn a_path_that_the_peer_uses_already_is_not_given_up() {
    for numbering in [Numbering::Multiple, Numbering::Single] {
        let mut pair = connected(numbering);
        let (opening, dead) = (address(1), address(2));
        let began = pair.now;
        let mut asked = 0;
        pair.network = Some(Box::new(move |from, flying: Flying| {
            let client = address_of_client(from, &flying);
            asked += u32::from(from.is_client() && client == opening);
            // The response to the client's first challenge is lost, and so is the second challenge.
            let lost = client == opening
                && match from {
                    Side::Client => asked == 2,
                    Side::Server => flying.at < began + SECOND / 2,
                };
            if lost || client == dead { Vec::new() } else { vec![flying] }
        }));
        assert_eq!(open(&mut pair, opening), Ok(PathId(1)));
        pair.run_until(2 * SECOND, |pair| pair.server_events.contains(&Event::PathOpened(PathId(1))));
        assert!(!pair.client_events.contains(&Event::PathOpened(PathId(1))), "{numbering:?}");
        pair.run_for(SECOND / 2);
        assert_eq!(open(&mut pair, dead), Ok(PathId(2)));
        let now = pair.now;
        pair.server().abandon_path(now, PathId(0), VarInt::from_u32(0x3e)).unwrap();
        pair.run_for(20 * SECOND);
        for side in SIDES {
            assert_eq!(
                (ids(&mut pair, side), pair.closed(side)),
                (vec![1], None),
                "{numbering:?} at {side:?}"
            );
        }
        still_works(&mut pair);
    }
}

/// Packets between the addresses of a path that is being opened may have been sent on another path.
#[test]
fn a_guess_does_not_keep_a_path_that_never_answers() {
    let mut pair = connected(Numbering::Single);
    assert_eq!(open_and_wait(&mut pair, address(1)), PathId(1));
    pair.run_until_quiet();
    let silent = address(2);
    let (is_cut, is_astray) = (Rc::new(Cell::new(false)), Rc::new(Cell::new(false)));
    let (cut, astray) = (Rc::clone(&is_cut), Rc::clone(&is_astray));
    pair.network = Some(Box::new(move |from, mut flying: Flying| {
        let client = address_of_client(from, &flying);
        if from.is_server() && astray.get() {
            flying.tuple.local = silent;
        }
        if from.is_client() && (client == silent || cut.get()) { Vec::new() } else { vec![flying] }
    }));
    assert_eq!(open(&mut pair, silent), Ok(PathId(2)));
    // The server switches to new connection IDs, which first arrive at the new path's addresses.
    pair.client().rotate_cids();
    is_astray.set(true);
    pair.run_for(6 * pair.delay);
    is_astray.set(false);
    // The server abandons one of the two other paths, and does not learn that the client has abandoned the
    // second.
    is_cut.set(true);
    let now = pair.now;
    pair.server().abandon_path(now, PathId(1), VarInt::from_u32(0x3e)).unwrap();
    pair.client().abandon_path(now, PathId(0), VarInt::from_u32(0x3e)).unwrap();
    pair.run_for(10 * SECOND);
    match pair.closed(Side::Client) {
        Some(ConnectionError::Transport(error)) => assert_eq!(error.code, Code::NO_VIABLE_PATH),
        other => panic!("{other:?}"),
    }
}
