//! The earliest deadline of many connections.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use anabranch_transport::Handle;
use anabranch_wire::Time;

/// Entries that are ignored when they are up, beyond one for each place, before they are cleared away.
const MAX_STALE: usize = 64;

/// A heap of deadlines. A connection's deadline moves with nearly every packet, mostly to a later time; so an entry is
/// only added when it moves to an earlier one, and an entry that turns out to be too early is put back when it is up.
#[derive(Debug, Default)]
pub(super) struct Timers {
    heap: BinaryHeap<Reverse<(Time, usize)>>,
    /// The earliest entry in the heap of each connection, by handle. Other entries of it are ignored when they are up.
    armed: Vec<Option<Time>>,
}

impl Timers {
    /// Makes sure that the connection comes up at `deadline` or before.
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

    /// Leaves one entry for each connection that has a deadline.
    fn compact(&mut self) {
        let armed = self.armed.iter().enumerate();
        self.heap = armed.filter_map(|(handle, armed)| armed.map(|time| Reverse((time, handle)))).collect();
    }

    /// Forgets a connection that is gone.
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
mod tests {
    use super::*;

    fn at(millis: u64) -> Option<Time> {
        Some(Time::from_millis(millis))
    }

    #[test]
    fn deadlines_come_up_in_order_and_once() {
        let mut timers = Timers::default();
        timers.arm(Handle(0), at(30));
        timers.arm(Handle(5), at(20));
        timers.arm(Handle(1), None);
        assert_eq!(timers.next(), at(20));
        assert_eq!(timers.pop(Time::from_millis(10)), None);
        assert_eq!(timers.pop(Time::from_millis(40)), Some(Handle(5)));
        assert_eq!(timers.pop(Time::from_millis(40)), Some(Handle(0)));
        assert_eq!(timers.pop(Time::from_millis(40)), None);
        assert_eq!(timers.next(), None);
    }

    #[test]
    fn an_earlier_deadline_replaces_a_later_one_for_good() {
        let mut timers = Timers::default();
        timers.arm(Handle(0), at(30));
        timers.arm(Handle(0), at(10));
        timers.arm(Handle(0), at(20));
        assert_eq!(timers.pop(Time::from_millis(50)), Some(Handle(0)));
        assert_eq!(timers.pop(Time::from_millis(50)), None, "the entry at 30 is stale");
    }

    #[test]
    fn moving_a_deadline_back_and_forth_adds_no_entries() {
        let mut timers = Timers::default();
        for i in 0..1_000 {
            timers.arm(Handle(0), at(100 + i));
        }
        assert_eq!(timers.heap.len(), 1);
    }

    #[test]
    fn stale_entries_are_cleared_away() {
        let mut timers = Timers::default();
        timers.arm(Handle(1), at(5_000));
        for i in 0..1_000 {
            timers.arm(Handle(0), at(2_000 - i));
        }
        assert!(timers.heap.len() <= MAX_STALE + 4);
        assert_eq!(timers.pop(Time::from_millis(9_000)), Some(Handle(0)));
        assert_eq!(timers.pop(Time::from_millis(9_000)), Some(Handle(1)));
        assert_eq!(timers.pop(Time::from_millis(9_000)), None);
    }

    #[test]
    fn a_reused_handle_is_not_woken_for_its_predecessor() {
        let mut timers = Timers::default();
        timers.arm(Handle(0), at(10));
        timers.disarm(Handle(0));
        timers.arm(Handle(0), at(90));
        assert_eq!(timers.pop(Time::from_millis(50)), None);
        assert_eq!(timers.pop(Time::from_millis(90)), Some(Handle(0)));
    }
}
