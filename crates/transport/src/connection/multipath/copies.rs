//! Writing of stream data copies into packets of the path for which they are queued.

use std::cmp::Reverse;

use anabranch_wire::{SpaceId, Time, Writer};

use crate::connection::connection::Connection;
use crate::path::stream_of;
use crate::schedule::{Carrier, PathView, Scheduler as _};
use crate::stream::Named;
use crate::token::Tokens;

impl Connection {
    /// Writes the copies queued for the path until the packet is full. In a format with stream hints, stops
    /// before a STREAM frame, because that frame needs a packet whose header names it.
    pub(in crate::connection) fn fill_copies(
        &mut self,
        carrier: &Carrier,
        writer: &mut Writer<'_>,
        tokens: &mut Tokens,
    ) {
        let multipath = self.paths.multipath.as_mut();
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

    /// Returns the STREAM frame of the next copy that `carrier` may carry, for a packet whose header names
    /// the frame.
    pub(in crate::connection) fn next_named_copy(&mut self, carrier: &Carrier) -> Option<Named> {
        let queue = self.paths.multipath.as_mut()?.copies.queue(carrier.path)?;
        while let Some(token) = queue.front().copied().filter(|token| stream_of(token).is_some()) {
            queue.pop_front();
            let named = self.streams.named_copy(&token, carrier);
            if named.is_some() {
                return named;
            }
        }
        None
    }

    /// Queues copies of data in flight for an otherwise idle path that would deliver it sooner. Returns
    /// whether any copies were queued.
    pub(in crate::connection) fn reinject(&mut self, now: Time) -> bool {
        if self.paths.multipath.is_none() || self.paths.list.len() == 1 || !self.handshake.progress.confirmed
        {
            return false;
        }
        if self.paths.list.iter().all(|path| path.recovery.bytes_in_flight() == 0) {
            return false;
        }
        // Data in flight may be repeated elsewhere regardless of its path's state. Data of the slowest path
        // comes first, because it gains the most.
        let mut busy = self.paths.views();
        busy.retain(|view| view.in_flight > 0);
        if busy.is_empty() {
            return false;
        }
        busy.sort_by_key(|view| Reverse(view.one_way()));
        let mut idle = self.paths.candidates(&[]);
        idle.retain(|view| view.has_room());
        idle.sort_by_key(PathView::one_way);
        for idle in &idle {
            if self.paths.has_copies(idle.id) {
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
        let Some(multipath) = &mut self.paths.multipath else { return false };
        if !multipath.scheduler.reinjects(idle, busy) {
            return false;
        }
        let Some(recovery) = self.paths.list.get(busy.id).map(|path| &path.recovery) else { return false };
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
