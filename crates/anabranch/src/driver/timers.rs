//! Queue of many connections' deadlines, which finds the earliest one.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use anabranch_transport::Handle;
use anabranch_wire::Time;

/// Maximum number of outdated heap entries, beyond one for each handle, before they are removed.
const MAX_STALE: usize = 64;

/// Heap of deadlines. A connection's deadline moves with nearly every packet, mostly to a later time. An
/// entry is therefore added only when the deadline moves to an earlier time. An entry that expires too early
/// is added again.
#[derive(Debug, Default)]
pub(super) struct Timers {
    heap: BinaryHeap<Reverse<(Time, usize)>>,
    /// Each connection's earliest entry in the heap, by handle. Its other entries are ignored when they
    /// expire.
    armed: Vec<Option<Time>>,
}

impl Timers {
    /// Ensures that [`Timers::pop`] returns the connection at `deadline` or earlier.
    pub(super) fn arm(&mut self, handle: Handle, deadline: Option<Time>) {
        let Some(deadline) = deadline else { return };
        if self.armed.len() <= handle.0 {
            self.armed.resize(handle.0 + 1, None);
        }
        if self.armed[handle.0].is_none_or(|armed| deadline < armed) {
            self.armed[handle.0] = Some(deadline);
            self.heap.push(Reverse((deadline, handle.0)));
            if self.heap.len() > 2 * self.armed.len() + MAX_STALE {
                self.compact();
            }
        }
    }

    /// Keeps one entry for each connection that has a deadline.
    fn compact(&mut self) {
        let armed = self.armed.iter().enumerate();
        self.heap = armed.filter_map(|(handle, armed)| armed.map(|time| Reverse((time, handle)))).collect();
    }

    /// Removes the deadline of a connection that has ended.
    pub(super) fn disarm(&mut self, handle: Handle) {
        if let Some(armed) = self.armed.get_mut(handle.0) {
            *armed = None;
        }
    }

    /// Removes and returns a connection whose deadline may have passed at `now`. The caller checks the
    /// connection and arms it again.
    pub(super) fn pop(&mut self, now: Time) -> Option<Handle> {
        while self.next()? <= now {
            let Some(Reverse((time, handle))) = self.heap.pop() else { break };
            if self.armed[handle] == Some(time) {
                self.armed[handle] = None;
                return Some(Handle(handle));
            }
        }
        None
    }

    /// Returns the time at which [`Timers::pop`] may next return a connection.
    pub(super) fn next(&self) -> Option<Time> {
        self.heap.peek().map(|Reverse((time, _))| *time)
    }
}

#[cfg(test)]
mod tests;
