//! Connection IDs of one path at both ends, whose frames are lost, repeated and reordered.

use anabranch_wire::{ConnectionId, Direction, Frame, Frames, NewConnectionId, PathId, ResetToken, Writer};

use crate::path::{LocalCids, RemoteCids};
use crate::token::{Token, Tokens};

/// Maximum number of frames on the way in one direction; further ones are lost.
const MAX_FLYING: usize = 64;

/// Maximum number of rounds until both ends agree, after the network loses nothing any more.
const MAX_ROUNDS: usize = 64;

/// A frame on its way.
#[derive(Clone, Copy, Debug)]
enum Flying {
    Issued(NewConnectionId),
    /// RETIRE_CONNECTION_ID, and the ID to which its packet was sent.
    Retired(u64, ConnectionId),
}

/// Both ends, and the frames between them.
struct Ends {
    local: LocalCids,
    remote: RemoteCids,
    next: u64,
    flying: Vec<Flying>,
}

/// Exchanges connection IDs between two honest ends over the network of a script.
///
/// # Panics
/// Panics if an end reports an error of the other, uses an ID that the other has dropped, or if they do not agree
/// in the end.
pub fn connection_ids(data: &[u8]) {
    let Some((&limit, script)) = data.split_first() else { return };
    let limit = 2 + u64::from(limit % 10);
    let mut local = LocalCids::new(PathId(0), cid(0));
    local.set_limit(limit);
    let remote = RemoteCids::new(PathId(0), cid(0), limit);
    let mut ends = Ends { local, remote, next: 1, flying: Vec::new() };
    for &[operation, at] in script.as_chunks().0 {
        ends.operate(operation, usize::from(at));
        let active = ends.remote.active();
        assert!(ends.local.contains(&active).is_some(), "packets are sent to an ID that exists");
    }
    for _ in 0..MAX_ROUNDS {
        ends.issue();
        ends.send(false);
        let flying = std::mem::take(&mut ends.flying);
        flying.into_iter().for_each(|flying| ends.arrive(flying));
    }
    assert!(!ends.local.is_rotating() && !ends.local.has_pending() && !ends.remote.has_pending());
    assert!(ends.local.iter().all(|(sequence, cid)| ends.remote.get(sequence) == Some(cid)), "both agree");
    assert_eq!(ends.local.iter().count(), ends.remote.len());
}

/// Returns the ID with a number.
fn cid(number: u64) -> ConnectionId {
    ConnectionId::new(&number.to_be_bytes()).unwrap_or(ConnectionId::EMPTY)
}

impl Ends {
    fn operate(&mut self, operation: u8, at: usize) {
        let chosen = at % self.flying.len().max(1);
        match operation % 10 {
            0 => self.issue(),
            1 => self.send(false),
            2 => self.send(true),
            3 | 4 if !self.flying.is_empty() => {
                let flying = self.flying.swap_remove(chosen);
                self.arrive(flying);
            }
            5 if !self.flying.is_empty() && self.flying.len() < MAX_FLYING => {
                self.flying.push(self.flying[chosen]);
            }
            6 => _ = self.remote.next(),
            7 => {
                if let Some((sequence, _)) = self.remote.take_unused() {
                    if at.is_multiple_of(2) {
                        let old = self.remote.active_seq();
                        assert!(self.remote.activate(sequence));
                        self.remote.retire(old);
                    } else {
                        self.remote.retire(sequence);
                    }
                }
            }
            8 if !self.local.is_rotating() => {
                self.local.rotate();
                self.issue();
            }
            _ => {}
        }
        while self.remote.poll_endpoint_event().is_some() {}
    }

    fn issue(&mut self) {
        for _ in 0..self.local.wanted() {
            let token = ResetToken(u128::from(self.next).to_be_bytes());
            self.local.issue(cid(self.next), token);
            self.next += 1;
        }
    }

    /// Sends what each end owes. If the packets are lost, each end hears of it.
    fn send(&mut self, is_lost: bool) {
        let mut buf = [0; 1_200];
        let mut tokens = Tokens::default();
        let mut writer = Writer::new(&mut buf, Direction::Forward);
        self.local.write(&mut writer, &mut tokens, false);
        self.remote.write(&mut writer, &mut tokens, false);
        let used = self.remote.active();
        for token in tokens {
            match token {
                Token::NewConnectionId { sequence, .. } if is_lost => self.local.on_lost(sequence),
                Token::RetireConnectionId { sequence, .. } if is_lost => self.remote.on_lost(sequence),
                _ => {}
            }
        }
        if is_lost {
            return;
        }
        self.flying.extend(Frames::new(writer.written(), Direction::Forward).filter_map(
            |frame| match frame {
                Ok(Frame::NewConnectionId(frame)) => Some(Flying::Issued(frame)),
                Ok(Frame::RetireConnectionId { sequence, .. }) => Some(Flying::Retired(sequence, used)),
                _ => None,
            },
        ));
    }

    /// Handles a frame at the end to which it was sent, whose acknowledgment the other end receives at once.
    fn arrive(&mut self, flying: Flying) {
        match flying {
            Flying::Issued(frame) => {
                assert_eq!(self.remote.on_new(&frame), Ok(()));
                self.local.on_acked(frame.sequence);
            }
            Flying::Retired(sequence, used) => {
                assert!(self.local.on_retire(sequence, &used).is_ok());
                self.remote.on_acked(sequence);
            }
        }
    }
}
