//! Copies, on one path, of frames that are in flight on another path. They serve schedulers that send
//! everything twice, and paths without data of their own that can overtake a slower path.

use std::collections::VecDeque;

use anabranch_recovery::{Recovery, Sent};
use anabranch_wire::{PathId, SpaceId, Time};

use super::PathSet;
use crate::schedule::PathView;
use crate::token::{Token, Tokens};

/// Maximum number of frames that wait to be repeated on one path. The oldest are dropped first.
pub(crate) const MAX_COPIES: usize = 4_096;

/// Number of frames after which a search for frames to repeat stops. The search continues when these have
/// been sent.
pub(crate) const REINJECTED_AT_ONCE: usize = 16;

/// Frames that wait to be repeated, and the position up to which each path's packets have been searched for
/// such frames.
#[derive(Debug, Default)]
pub(crate) struct Copies {
    queues: Vec<(PathId, VecDeque<Token>)>,
    cursors: Vec<(PathId, Cursor)>,
}

/// Orders of those packets of a path whose data has been repeated, or need not be repeated.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Cursor {
    /// Orders searched from the newest down, as a half-open range.
    from_newest: (u64, u64),
    /// Order below which all packets were searched from the oldest up.
    from_oldest: u64,
}

impl Copies {
    pub(crate) fn push(&mut self, path: PathId, token: Token) {
        let at = self.queues.iter().position(|(id, _)| *id == path).unwrap_or_else(|| {
            self.queues.push((path, VecDeque::new()));
            self.queues.len() - 1
        });
        let queue = &mut self.queues[at].1;
        if queue.len() == MAX_COPIES {
            queue.pop_front();
        }
        queue.push_back(token);
    }

    pub(crate) fn queue(&mut self, path: PathId) -> Option<&mut VecDeque<Token>> {
        self.queues.iter_mut().find(|(id, _)| *id == path).map(|(_, queue)| queue)
    }

    pub(crate) fn has(&self, path: PathId) -> bool {
        self.queues.iter().any(|(id, queue)| *id == path && !queue.is_empty())
    }

    /// Removes the copies for a path that is no longer used.
    pub(crate) fn forget(&mut self, path: PathId) {
        self.queues.retain(|(id, _)| *id != path);
        self.cursors.retain(|(id, _)| *id != path);
    }

    pub(crate) fn cursor(&mut self, path: PathId) -> &mut Cursor {
        let at = self.cursors.iter().position(|(id, _)| *id == path).unwrap_or_else(|| {
            self.cursors.push((path, Cursor::default()));
            self.cursors.len() - 1
        });
        &mut self.cursors[at].1
    }
}

impl PathSet {
    /// Returns whether frames wait to be repeated on the path.
    pub(crate) fn has_copies(&self, id: PathId) -> bool {
        self.multipath.as_ref().is_some_and(|multipath| multipath.copies.has(id))
    }

    /// Queues frames that have just been written on one path to be repeated on `paths`.
    pub(crate) fn copy_to(&mut self, paths: &[PathId], written: &[Token]) {
        let Some(multipath) = &mut self.multipath else { return };
        let repeatable =
            |token: &&Token| matches!(token, Token::Stream { .. } | Token::MaxData | Token::MaxStreamData(_));
        for token in written.iter().filter(repeatable) {
            for path in paths {
                multipath.copies.push(*path, *token);
            }
        }
    }

    /// Puts the unsent rest of a repeated STREAM frame back to the front of the path's queue.
    pub(crate) fn copy_left(&mut self, path: PathId, left: Token) {
        let multipath = self.multipath.as_mut();
        if let Some(queue) = multipath.and_then(|multipath| multipath.copies.queue(path)) {
            queue.push_front(left);
        }
    }
}

/// Returns whether a packet sent on `busy` at `sent` arrives later than one sent on `idle` now.
pub(crate) fn is_overtaken(sent: Time, now: Time, idle: &PathView, busy: &PathView) -> bool {
    sent + busy.one_way() > now + idle.one_way()
}

impl Cursor {
    /// Returns data to repeat at the end of a transfer. Data that would arrive last comes first, so that both
    /// paths meet in the middle.
    pub(crate) fn newest(
        &mut self,
        recovery: &Recovery<Tokens>,
        now: Time,
        idle: &PathView,
        busy: &PathView,
    ) -> Vec<Token> {
        let next = recovery.next_order(SpaceId::Data);
        let (low, high) = self.from_newest;
        // Packets sent since the last search, then those below the range searched before.
        let unseen = recovery
            .under_way(SpaceId::Data, high..next)
            .rev()
            .chain(recovery.under_way(SpaceId::Data, 0..low).rev());
        let (found, reached) =
            gather(unseen.take_while(|(_, sent)| is_overtaken(sent.time, now, idle, busy)));
        self.from_newest = (reached.unwrap_or(low), next);
        found
    }

    /// Returns data to repeat when the send window blocks the sender. The oldest data comes first, because
    /// its acknowledgment opens the window first.
    pub(crate) fn oldest(
        &mut self,
        recovery: &Recovery<Tokens>,
        now: Time,
        idle: &PathView,
        busy: &PathView,
    ) -> Vec<Token> {
        let unseen = recovery.under_way(SpaceId::Data, self.from_oldest..u64::MAX);
        let (found, reached) =
            gather(unseen.skip_while(|(_, sent)| !is_overtaken(sent.time, now, idle, busy)));
        self.from_oldest = reached.map_or(self.from_oldest, |order| order + 1);
        found
    }
}

/// Returns the stream data of `packets`, up to [`REINJECTED_AT_ONCE`] frames, and the order of the last
/// packet examined.
pub(crate) fn gather<'a>(
    packets: impl Iterator<Item = (u64, &'a Sent<Tokens>)>,
) -> (Vec<Token>, Option<u64>) {
    let (mut found, mut reached) = (Vec::new(), None);
    for (order, sent) in packets {
        reached = Some(order);
        found.extend(sent.owed.iter().filter(|token| stream_of(token).is_some()));
        if found.len() >= REINJECTED_AT_ONCE {
            break;
        }
    }
    (found, reached)
}

/// Returns the stream of a [`Token::Stream`]. [`Token::StreamCopy`] yields `None`, so that copies are not
/// copied in turn.
pub(crate) fn stream_of(token: &Token) -> Option<anabranch_wire::StreamId> {
    match token {
        Token::Stream { id, .. } => Some(*id),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    pub(crate) fn the_oldest_copies_give_way() {
        let mut copies = Copies::default();
        for n in 0..MAX_COPIES + 10 {
            copies.push(PathId(1), if n < 10 { Token::Ping } else { Token::HandshakeDone });
        }
        let queue = copies.queue(PathId(1)).unwrap();
        assert_eq!(queue.len(), MAX_COPIES);
        assert!(queue.iter().all(|token| *token == Token::HandshakeDone));
    }
}
