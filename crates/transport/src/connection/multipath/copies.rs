//! Repetitions of what is under way on one path, on another: because a scheduler wants everything twice, or because a path
//! with nothing left to send can overtake a slower one.

use std::cmp::Reverse;
use std::collections::VecDeque;

use anabranch_recovery::{Recovery, Sent};
use anabranch_wire::{PathId, SpaceId, Time, Writer};

use crate::connection::connection::Connection;
use crate::schedule::{Carrier, PathView, Scheduler as _};
use crate::stream::Named;
use crate::token::{Token, Tokens};

/// Frames that may wait to be repeated on one path; the oldest give way.
const MAX_COPIES: usize = 4_096;

/// Frames that are looked for at a time; the next ones follow when these have left.
const REINJECTED_AT_ONCE: usize = 16;

/// What waits to be repeated, and how far each path's packets have been gone through for that.
#[derive(Debug, Default)]
pub(super) struct Copies {
    queues: Vec<(PathId, VecDeque<Token>)>,
    cursors: Vec<(PathId, Cursor)>,
}

/// Orders of a path whose data has been repeated, or need not be.
#[derive(Clone, Copy, Debug, Default)]
struct Cursor {
    /// From the first to before the second.
    from_newest: (u64, u64),
    /// Those below.
    from_oldest: u64,
}

impl Copies {
    fn push(&mut self, path: PathId, token: Token) {
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

    fn queue(&mut self, path: PathId) -> Option<&mut VecDeque<Token>> {
        self.queues.iter_mut().find(|(id, _)| *id == path).map(|(_, queue)| queue)
    }

    pub(super) fn has(&self, path: PathId) -> bool {
        self.queues.iter().any(|(id, queue)| *id == path && !queue.is_empty())
    }

    /// The path is not used any longer.
    pub(super) fn forget(&mut self, path: PathId) {
        self.queues.retain(|(id, _)| *id != path);
        self.cursors.retain(|(id, _)| *id != path);
    }

    fn cursor(&mut self, path: PathId) -> &mut Cursor {
        let at = self.cursors.iter().position(|(id, _)| *id == path).unwrap_or_else(|| {
            self.cursors.push((path, Cursor::default()));
            self.cursors.len() - 1
        });
        &mut self.cursors[at].1
    }
}

impl Connection {
    /// Whether something waits to be repeated on the path.
    pub(in crate::connection) fn has_copies(&self, id: PathId) -> bool {
        self.multipath.as_ref().is_some_and(|multipath| multipath.copies.has(id))
    }

    /// What has just been written for one path is to be repeated on others.
    pub(in crate::connection) fn copy_to(&mut self, paths: &[PathId], written: &[Token]) {
        let Some(multipath) = &mut self.multipath else { return };
        let repeatable =
            |token: &&Token| matches!(token, Token::Stream { .. } | Token::MaxData | Token::MaxStreamData(_));
        for token in written.iter().filter(repeatable) {
            for path in paths {
                multipath.copies.push(*path, *token);
            }
        }
    }

    /// Writes what is to be repeated on the path until the packet is full, or until the next STREAM frame if that needs a
    /// packet whose header names it.
    pub(in crate::connection) fn fill_copies(
        &mut self,
        carrier: &Carrier,
        writer: &mut Writer<'_>,
        tokens: &mut Tokens,
    ) {
        let multipath = self.multipath.as_mut();
        let Some(queue) = multipath.and_then(|multipath| multipath.copies.queue(carrier.path)) else {
            return;
        };
        let named = self.format.names_stream;
        while let Some(token) = queue.front().copied().filter(|token| !named || stream_of(token).is_none()) {
            queue.pop_front();
            if let Some(left) = self.streams.write_copy(token, carrier, writer, tokens) {
                queue.push_front(left);
                return;
            }
        }
    }

    /// The STREAM frame that is to be repeated next with `carrier`, for a packet whose header names it.
    pub(in crate::connection) fn next_named_copy(&mut self, carrier: &Carrier) -> Option<Named> {
        let queue = self.multipath.as_mut()?.copies.queue(carrier.path)?;
        while let Some(token) = queue.front().copied().filter(|token| stream_of(token).is_some()) {
            queue.pop_front();
            let named = self.streams.named_copy(&token, carrier);
            if named.is_some() {
                return named;
            }
        }
        None
    }

    /// What is left of a STREAM frame of [`Self::next_named_copy`].
    pub(in crate::connection) fn copy_left(&mut self, path: PathId, left: Token) {
        let multipath = self.multipath.as_mut();
        if let Some(queue) = multipath.and_then(|multipath| multipath.copies.queue(path)) {
            queue.push_front(left);
        }
    }

    /// Looks for data under way that a path with nothing else to do would bring sooner. Says whether there was any.
    pub(in crate::connection) fn reinject(&mut self, now: Time) -> bool {
        if self.multipath.is_none() || self.paths.len() == 1 || !self.handshake.confirmed {
            return false;
        }
        if self.paths.iter().all(|path| path.recovery.bytes_in_flight() == 0) {
            return false;
        }
        // Whatever its state, what a path has under way may be repeated elsewhere; the slowest has the most to gain.
        let mut busy = self.views();
        busy.retain(|view| view.in_flight > 0);
        if busy.is_empty() {
            return false;
        }
        busy.sort_by_key(|view| Reverse(view.one_way()));
        let mut idle = self.candidates(&[]);
        idle.retain(|view| view.has_room());
        idle.sort_by_key(PathView::one_way);
        for idle in &idle {
            if self.has_copies(idle.id) {
                continue;
            }
            for busy in busy.iter().filter(|busy| busy.id != idle.id) {
                if self.reinject_from(now, idle, busy) {
                    return true;
                }
            }
        }
        false
    }

    fn reinject_from(&mut self, now: Time, idle: &PathView, busy: &PathView) -> bool {
        let Some(multipath) = &mut self.multipath else { return false };
        if !multipath.scheduler.reinjects(idle, busy) {
            return false;
        }
        let Some(recovery) = self.paths.get(busy.id).map(|path| &path.recovery) else { return false };
        let mut newest = recovery.under_way(SpaceId::Data, 0..u64::MAX).rev();
        let stream = newest.find_map(|(_, sent)| sent.owed.iter().find_map(stream_of));
        let Some(stream) = stream else { return false };
        let cursor = multipath.copies.cursor(busy.id);
        let found = match self.streams.is_held_back(stream) {
            true => cursor.oldest(recovery, now, idle, busy),
            false => cursor.newest(recovery, now, idle, busy),
        };
        for token in &found {
            multipath.copies.push(idle.id, *token);
        }
        !found.is_empty()
    }
}

/// Whether a packet that left `busy` at `sent` arrives only after one that leaves `idle` now.
fn is_overtaken(sent: Time, now: Time, idle: &PathView, busy: &PathView) -> bool {
    sent + busy.one_way() > now + idle.one_way()
}

impl Cursor {
    /// For the end of a transfer: what would arrive last comes first, so that both paths meet in the middle.
    fn newest(
        &mut self,
        recovery: &Recovery<Tokens>,
        now: Time,
        idle: &PathView,
        busy: &PathView,
    ) -> Vec<Token> {
        let next = recovery.next_order(SpaceId::Data);
        let (low, high) = self.from_newest;
        // What has been sent since, then what was not reached before.
        let unseen = recovery
            .under_way(SpaceId::Data, high..next)
            .rev()
            .chain(recovery.under_way(SpaceId::Data, 0..low).rev());
        let (found, reached) =
            gather(unseen.take_while(|(_, sent)| is_overtaken(sent.time, now, idle, busy)));
        self.from_newest = (reached.unwrap_or(low), next);
        found
    }

    /// For a sender that is held back: what was sent first opens the window first.
    fn oldest(
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

/// The data of `packets`, as much as is repeated at a time, and the order of the last one gone through.
fn gather<'a>(packets: impl Iterator<Item = (u64, &'a Sent<Tokens>)>) -> (Vec<Token>, Option<u64>) {
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

/// The stream whose data a packet's token stands for, if it is not a repetition itself.
fn stream_of(token: &Token) -> Option<anabranch_wire::StreamId> {
    match token {
        Token::Stream { id, .. } => Some(*id),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_copies_give_way() {
        let mut copies = Copies::default();
        for n in 0..MAX_COPIES + 10 {
            copies.push(PathId(1), if n < 10 { Token::Ping } else { Token::HandshakeDone });
        }
        let queue = copies.queue(PathId(1)).unwrap();
        assert_eq!(queue.len(), MAX_COPIES);
        assert!(queue.iter().all(|token| *token == Token::HandshakeDone));
    }
}
