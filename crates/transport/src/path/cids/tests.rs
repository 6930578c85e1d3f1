use anabranch_wire::{
    ConnectionId, Direction, Frame, Frames, NewConnectionId, PathId, ResetToken, TransportErrorCode, Writer,
};

use super::local::MAX_LOCAL_CIDS;
use super::remote::{MAX_RETIRING_FACTOR, MAX_SEQUENCE_RUNS};
use super::*;
use crate::error::TransportError;
use crate::event::EndpointEvent;
use crate::token::{Token, Tokens};

const PATH: PathId = PathId(2);

fn cid(n: u64) -> ConnectionId {
    ConnectionId::new(&n.to_be_bytes()).unwrap()
}

fn token(n: u64) -> ResetToken {
    let mut bytes = [0xee; 16];
    bytes[8..].copy_from_slice(&n.to_be_bytes());
    ResetToken(bytes)
}

fn new_cid(sequence: u64, retire_prior_to: u64) -> NewConnectionId {
    NewConnectionId { path: None, sequence, retire_prior_to, cid: cid(sequence), token: token(sequence) }
}

fn code<T: core::fmt::Debug>(result: Result<T, TransportError>) -> TransportErrorCode {
    result.unwrap_err().code
}

/// Returns the frames that `write` wrote into `room` bytes (type, sequence number, Retire Prior To), and
/// their tokens.
fn written(
    room: usize,
    write: impl FnOnce(&mut Writer<'_>, &mut Tokens),
) -> (Vec<(u64, u64, u64)>, Vec<Token>) {
    let mut buf = vec![0; room];
    let mut tokens = Tokens::new();
    let mut w = Writer::new(&mut buf, Direction::Forward);
    write(&mut w, &mut tokens);
    let frames = Frames::new(w.written(), Direction::Forward).map(|frame| match frame.unwrap() {
        frame @ Frame::NewConnectionId(new) => {
            assert_eq!((new.cid, new.token), (cid(new.sequence), token(new.sequence)));
            assert_eq!(new.path, (frame.kind() == 0x3e78).then_some(PATH));
            (frame.kind(), new.sequence, new.retire_prior_to)
        }
        frame @ Frame::RetireConnectionId { path, sequence } => {
            assert_eq!(path, (frame.kind() == 0x3e79).then_some(PATH));
            (frame.kind(), sequence, 0)
        }
        frame => panic!("{frame:?}"),
    });
    (frames.collect(), tokens.to_vec())
}

/// Returns local IDs 0 to 3. All but the first must still be announced.
fn local() -> LocalCids {
    let mut local = LocalCids::new(PATH, cid(0));
    local.set_limit(4);
    for n in 1..=3 {
        assert_eq!(local.wanted() as u64, 4 - n);
        assert_eq!(local.issue(cid(n), token(n)), n);
    }
    assert_eq!((local.wanted(), local.next_sequence()), (0, 4));
    local
}

#[test]
fn local_ids_are_announced_until_the_peer_has_them() {
    let mut local = local();
    assert!(local.has_pending());
    // Room for two frames of 1 + 1 + 1 + 1 + 8 + 16 bytes.
    let (frames, tokens) = written(60, |w, tokens| local.write(w, tokens, false));
    assert_eq!(frames, [(0x18, 1, 0), (0x18, 2, 0)]);
    let owes = |sequence| Token::NewConnectionId { path: PATH, sequence };
    assert_eq!(tokens, [owes(1), owes(2)]);
    let (frames, _) = written(600, |w, tokens| local.write(w, tokens, true));
    assert_eq!(frames, [(0x3e78, 3, 0)]);
    assert!(!local.has_pending());

    local.on_acked(1);
    local.on_lost(1); // Acknowledged and lost in either order: a spurious loss.
    local.on_lost(2);
    local.on_acked(2);
    local.on_lost(3);
    let (frames, _) = written(600, |w, tokens| local.write(w, tokens, true));
    assert_eq!(frames, [(0x3e78, 3, 0)]);
    local.on_retire(3, &cid(0)).unwrap();
    local.on_lost(3);
    assert!(!local.has_pending(), "what the peer gave up is not announced again");
}

#[test]
fn retired_local_ids_are_replaced_within_the_limit() {
    let mut local = local();
    assert_eq!(local.contains(&cid(2)), Some(2));
    assert_eq!(local.on_retire(2, &cid(0)), Ok(Some(cid(2))));
    assert_eq!(local.on_retire(2, &cid(0)), Ok(None), "a repeated frame");
    assert_eq!(local.contains(&cid(2)), None);
    assert_eq!(local.wanted(), 1);
    local.set_limit(u64::MAX);
    assert_eq!(local.wanted(), MAX_LOCAL_CIDS - 3);
    assert_eq!(local.iter().map(|(sequence, _)| sequence).collect::<Vec<_>>(), [0, 1, 3]);
}

#[test]
fn rotation_asks_for_all_old_ids() {
    let mut local = local();
    local.rotate();
    assert_eq!(local.wanted(), 4);
    for n in 4..8 {
        local.issue(cid(n), token(n));
    }
    let (frames, _) = written(600, |w, tokens| local.write(w, tokens, false));
    // The frame of an ID must not ask for that ID's own retirement.
    assert_eq!(frames[..4], [(0x18, 1, 1), (0x18, 2, 2), (0x18, 3, 3), (0x18, 4, 4)]);
    assert_eq!(local.contains(&cid(0)), Some(0), "old ones are routed until the peer retires them");
    // A peer that never retires anything does not make this end issue IDs without bound.
    for n in 8..1000 {
        local.rotate();
        if local.wanted() == 0 {
            break;
        }
        local.issue(cid(n), token(n));
    }
    assert!(local.iter().count() <= 2 * MAX_LOCAL_CIDS);
}

#[test]
fn retirements_that_break_the_rules() {
    let mut local = local();
    assert_eq!(code(local.on_retire(4, &cid(0))), TransportErrorCode::PROTOCOL_VIOLATION, "never issued");
    assert_eq!(
        code(local.on_retire(1, &cid(1))),
        TransportErrorCode::PROTOCOL_VIOLATION,
        "its own packet's ID"
    );
    let mut none = LocalCids::new(PATH, ConnectionId::EMPTY);
    none.set_limit(8);
    assert_eq!(none.wanted(), 0);
    assert_eq!(code(none.on_retire(0, &cid(0))), TransportErrorCode::PROTOCOL_VIOLATION, "zero-length");
}

/// Returns remote IDs 0 (active) to 3, with a limit of 4.
fn remote() -> RemoteCids {
    let mut remote = RemoteCids::new(PATH, cid(0), 4);
    for sequence in 1..4 {
        remote.on_new(&new_cid(sequence, 0)).unwrap();
    }
    remote
}

fn events(remote: &mut RemoteCids) -> Vec<EndpointEvent> {
    core::iter::from_fn(|| remote.poll_endpoint_event()).collect()
}

fn retired(remote: &mut RemoteCids) -> Vec<u64> {
    written(6000, |w, tokens| remote.write(w, tokens, true)).0.into_iter().map(|frame| frame.1).collect()
}

#[test]
fn the_first_id_comes_from_the_handshake() {
    let mut remote = RemoteCids::new(PATH, cid(77), 4);
    remote.set_first(cid(0));
    assert_eq!((remote.active(), remote.active_seq()), (cid(0), 0));
    remote.set_first_token(token(0));
    remote.set_first_token(token(5));
    assert_eq!(events(&mut remote), [EndpointEvent::ResetTokenAdded(token(0))]);
    remote.insert_preferred(cid(1), token(1));
    assert!(remote.has_unused());
    assert_eq!(remote.on_new(&new_cid(1, 0)), Ok(()), "the same news twice");
    assert_eq!(remote.next_sequence(), 2);
}

#[test]
fn moving_to_the_next_id_retires_the_old_one() {
    let mut remote = remote();
    remote.set_first_token(token(0));
    assert!(remote.next());
    assert_eq!((remote.active(), remote.active_seq()), (cid(1), 1));
    assert_eq!(
        events(&mut remote),
        [
            EndpointEvent::ResetTokenAdded(token(0)),
            EndpointEvent::ResetTokenAdded(token(1)),
            EndpointEvent::ResetTokenRemoved(token(0)),
        ]
    );
    assert!(remote.has_pending());
    let (frames, tokens) = written(50, |w, tokens| remote.write(w, tokens, false));
    assert_eq!(frames, [(0x19, 0, 0)]);
    assert_eq!(tokens, [Token::RetireConnectionId { path: PATH, sequence: 0 }]);
    assert!(!remote.has_pending());
    remote.on_lost(0);
    assert_eq!(retired(&mut remote), [0]);
    remote.on_acked(0);
    remote.on_lost(0);
    assert!(!remote.has_pending());
    assert!(remote.next() && remote.next());
    assert!(!remote.next(), "none left");
    assert_eq!(remote.active(), cid(3));
}

#[test]
fn an_unopened_path_takes_its_first_id() {
    let mut remote = RemoteCids::unopened(PATH, 4);
    assert!(!remote.next() && !remote.is_open());
    assert_eq!((remote.active(), remote.next_sequence()), (ConnectionId::EMPTY, 0));
    remote.on_new(&new_cid(1, 0)).unwrap();
    remote.on_new(&new_cid(0, 0)).unwrap();
    assert!(!remote.is_open() && events(&mut remote).is_empty());
    assert!(remote.next() && remote.is_open());
    assert_eq!(remote.active(), cid(0));
    assert_eq!(events(&mut remote), [EndpointEvent::ResetTokenAdded(token(0))]);
    assert!(!remote.has_pending());
    remote.next();
    events(&mut remote);
    remote.abandon();
    assert_eq!(events(&mut remote), [EndpointEvent::ResetTokenRemoved(token(1))]);
    assert!(!remote.has_pending());
}

#[test]
fn probing_another_address_takes_an_id_of_its_own() {
    let mut remote = remote();
    assert_eq!(remote.take_unused(), Some((1, cid(1))));
    assert_eq!(remote.take_unused(), Some((2, cid(2))));
    assert_eq!(
        events(&mut remote),
        [EndpointEvent::ResetTokenAdded(token(1)), EndpointEvent::ResetTokenAdded(token(2)),]
    );
    remote.retire(0);
    assert!(!remote.has_pending(), "the active one stays");
    assert!(remote.activate(2));
    remote.retire(0);
    remote.retire(1);
    assert_eq!(retired(&mut remote), [0, 1]);
    assert_eq!((remote.active(), remote.get(1)), (cid(2), None));
    assert!(!remote.activate(1));
    assert_eq!(events(&mut remote), [EndpointEvent::ResetTokenRemoved(token(1))]);
}

#[test]
fn retire_prior_to_moves_on_and_retires() {
    let mut remote = remote();
    remote.take_unused();
    remote.on_new(&new_cid(5, 3)).unwrap();
    assert_eq!(remote.active(), cid(3), "the oldest that may be used");
    assert_eq!(remote.get(1), None, "a probe's ID goes as well");
    assert_eq!(retired(&mut remote), [0, 1, 2]);
    // A late copy of an ID below Retire Prior To is not retired again (RFC 9000 §19.15).
    remote.on_acked(1);
    remote.on_new(&new_cid(1, 0)).unwrap();
    remote.on_new(&new_cid(1, 0)).unwrap();
    remote.on_new(&new_cid(2, 0)).unwrap();
    assert!(!remote.has_pending());
    // A repeated frame does not add an ID again that was retired above Retire Prior To.
    assert!(remote.next());
    assert_eq!(remote.active(), cid(5));
    remote.on_new(&new_cid(3, 3)).unwrap();
    assert_eq!(remote.get(3), None);
    assert!(!remote.next());
}

#[test]
fn news_that_break_the_rules() {
    let violation = TransportErrorCode::PROTOCOL_VIOLATION;
    let limit = TransportErrorCode::CONNECTION_ID_LIMIT_ERROR;
    assert_eq!(code(remote().on_new(&new_cid(4, 0))), limit, "a fifth of four");
    assert_eq!(remote().on_new(&new_cid(4, 1)), Ok(()), "unless one is retired by it");
    assert_eq!(code(remote().on_new(&NewConnectionId { cid: cid(9), ..new_cid(2, 0) })), violation);
    assert_eq!(code(remote().on_new(&NewConnectionId { token: token(9), ..new_cid(2, 0) })), violation);
    assert_eq!(code(remote().on_new(&NewConnectionId { sequence: 9, ..new_cid(2, 0) })), violation);
    let mut zero_length = RemoteCids::new(PATH, ConnectionId::EMPTY, 4);
    assert_eq!(code(zero_length.on_new(&new_cid(1, 0))), violation);

    // A frame that retires all IDs in use must bring another one that can be used. In the second case it
    // brings ID 1 again, which was retired before.
    let mut remote = RemoteCids::new(PATH, cid(0), 4);
    remote.on_new(&new_cid(1, 0)).unwrap();
    remote.next();
    remote.on_new(&new_cid(2, 0)).unwrap();
    remote.next();
    assert_eq!(remote.on_new(&new_cid(1, 1)), Ok(()), "retires nothing that is in use");
    let mut repeated = RemoteCids::new(PATH, cid(0), 4);
    repeated.on_new(&new_cid(1, 0)).unwrap();
    repeated.take_unused();
    repeated.retire(1);
    assert_eq!(code(repeated.on_new(&new_cid(1, 1))), violation, "ID 0 must go, and ID 1 is gone");
}

/// Row 2 of the attack table: new IDs retire the old ones, and no RETIRE_CONNECTION_ID is acknowledged.
#[test]
fn row_2_retirement_without_acknowledgment_is_cut_off() {
    let mut remote = RemoteCids::new(PATH, cid(0), 4);
    let mut accepted = 0;
    for sequence in 1..1_000_000 {
        match remote.on_new(&new_cid(sequence, sequence)) {
            Ok(()) => accepted += 1,
            Err(error) => {
                assert_eq!(error.code, TransportErrorCode::CONNECTION_ID_LIMIT_ERROR);
                break;
            }
        }
        assert!(accepted <= MAX_RETIRING_FACTOR * 4, "no end");
        retired(&mut remote);
    }
    assert_eq!(accepted, MAX_RETIRING_FACTOR * 4);

    // With acknowledgments the peer may continue without limit, and memory stays constant.
    let mut remote = RemoteCids::new(PATH, cid(0), 4);
    for sequence in 1..100_000 {
        remote.on_new(&new_cid(sequence, sequence)).unwrap();
        for sequence in retired(&mut remote) {
            remote.on_acked(sequence);
        }
        assert!(events(&mut remote).len() <= 2);
    }
    assert_eq!((remote.cids.len(), remote.seen.len()), (1, 1));
    assert!(remote.retiring.is_empty() && remote.retiring.capacity() < 32);
}

#[test]
fn left_out_sequence_numbers_are_bounded() {
    let mut remote = RemoteCids::new(PATH, cid(0), 4);
    let error = (1..1000).find_map(|n| {
        let error = remote.on_new(&new_cid(2 * n, 0)).err();
        remote.next();
        retired(&mut remote).into_iter().for_each(|sequence| remote.on_acked(sequence));
        error
    });
    assert_eq!(error.unwrap().code, TransportErrorCode::CONNECTION_ID_LIMIT_ERROR);
    assert!(remote.seen.len() <= MAX_SEQUENCE_RUNS + 1);
}

/// Copies of old frames may arrive late, many at once, if packets were reordered or taken for lost. An honest peer is not punished for it.
#[test]
fn late_copies_of_retired_ids_retire_nothing_again() {
    let mut remote = RemoteCids::new(PATH, cid(0), 4);
    for sequence in 1..=60 {
        remote.on_new(&new_cid(sequence, sequence)).unwrap();
        retired(&mut remote).into_iter().for_each(|sequence| remote.on_acked(sequence));
    }
    for sequence in 1..60 {
        remote.on_new(&new_cid(sequence, sequence)).unwrap();
        assert!(!remote.has_pending(), "{sequence}");
    }
    // An ID that was left out, and arrives for the first time, is retired. Such gaps are remembered up to a bound.
    let mut remote = RemoteCids::new(PATH, cid(0), 4);
    for n in 1..=1_000 {
        remote.on_new(&new_cid(2 * n, 2 * n)).unwrap();
        retired(&mut remote).into_iter().for_each(|sequence| remote.on_acked(sequence));
    }
    assert_eq!(remote.done.len(), MAX_SEQUENCE_RUNS);
    remote.on_new(&new_cid(1_999, 1_999)).unwrap();
    remote.on_new(&new_cid(1_999, 1_999)).unwrap();
    assert_eq!(retired(&mut remote), [1_999]);
}

/// While the peer acknowledges nothing, the number of IDs that this end retires on its own is bounded as
/// well.
#[test]
fn own_retirements_wait_for_acknowledgments() {
    let mut remote = RemoteCids::new(PATH, cid(0), 4);
    let moved = (1..100).take_while(|&n| {
        remote.on_new(&new_cid(n, 0)).unwrap();
        remote.next()
    });
    assert_eq!(moved.count(), MAX_RETIRING_FACTOR * 4);
    remote.on_acked(0);
    assert!(remote.next());
}
