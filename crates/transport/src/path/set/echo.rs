//! RTT samples of a path whose packets are acknowledged on other paths first.
//!
//! An ACK in the single packet number space acknowledges packets of every path. An ACK that arrives on a fast
//! path may acknowledge packets of a slow one before the slow path's own ACK arrives. Such an ACK gives no
//! RTT sample of the slow path. The slow path's own ACK gives one, although it acknowledges nothing new by
//! then. Send times are therefore kept until that ACK arrives.

use std::collections::BTreeMap;

use anabranch_wire::{PathId, Time};

/// Maximum number of packets whose send times are kept, for all paths together. The oldest of a path are
/// dropped first.
pub(crate) const MAX_ECHOES: usize = 1024;

/// Send times of packets that were acknowledged on a path other than their own.
#[derive(Debug, Default)]
pub(crate) struct Echoes(BTreeMap<(PathId, u64), Time>);

impl Echoes {
    /// Records that a packet of `path` was acknowledged on another path.
    pub(crate) fn note(&mut self, path: PathId, number: u64, sent: Time) {
        if self.0.len() == MAX_ECHOES {
            let oldest = self.0.range((path, 0)..=(path, number)).next().map(|(key, _)| *key);
            let oldest = oldest.or_else(|| self.0.first_key_value().map(|(key, _)| *key));
            oldest.iter().for_each(|key| _ = self.0.remove(key));
        }
        self.0.insert((path, number), sent);
    }

    /// Returns the send time of packet `largest`, the largest number in an ACK that arrived on the path, if
    /// it is kept. Removes all entries up to it.
    pub(crate) fn answer(&mut self, path: PathId, largest: u64) -> Option<Time> {
        let mut sent = None;
        while let Some((&key, &time)) = self.0.range((path, 0)..=(path, largest)).next() {
            sent = (key.1 == largest).then_some(time);
            self.0.remove(&key);
        }
        sent
    }

    /// Removes the entries of a path whose state is removed.
    pub(crate) fn forget(&mut self, path: PathId) {
        self.0.retain(|(kept, _), _| *kept != path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(crate) fn at(millis: u64) -> Time {
        Time::from_millis(millis)
    }

    #[test]
    pub(crate) fn only_the_largest_packet_tells_and_only_once() {
        let mut echoes = Echoes::default();
        for (path, number) in [(1, 3), (1, 5), (2, 6), (1, 7)] {
            echoes.note(PathId(path), number, at(number));
        }
        assert_eq!(echoes.answer(PathId(1), 4), None);
        assert_eq!(echoes.answer(PathId(1), 3), None, "over");
        assert_eq!(echoes.answer(PathId(1), 5), Some(at(5)));
        assert_eq!(echoes.answer(PathId(1), 5), None);
        assert_eq!(echoes.answer(PathId(2), 6), Some(at(6)));
        echoes.forget(PathId(1));
        assert_eq!(echoes.answer(PathId(1), 7), None);
    }

    #[test]
    pub(crate) fn what_is_kept_is_bounded() {
        let mut echoes = Echoes::default();
        for number in 0..3 * MAX_ECHOES as u64 {
            echoes.note(PathId((number % 3) as u32), number, at(number));
        }
        assert_eq!(echoes.0.len(), MAX_ECHOES);
        assert_eq!(echoes.answer(PathId(2), 3 * MAX_ECHOES as u64 - 1), Some(at(3 * MAX_ECHOES as u64 - 1)));
    }
}
