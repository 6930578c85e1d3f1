//! Round-trip times of a path whose packets are acknowledged on others first.
//!
//! An ACK of the single packet number space names what came on any path, so that the frames of a fast path acknowledge what a
//! slow one has brought before the slow path's own ACK is back. Those tell nothing about its round-trip time; the own one does,
//! though it acknowledges nothing new any longer. Until it comes the send times are kept.

use std::collections::BTreeMap;

use anabranch_wire::{PathId, Time};

/// Packets kept, all paths together; the oldest of a path give way.
pub(super) const MAX_ECHOES: usize = 1024;

/// When packets left that were acknowledged on another path than their own.
#[derive(Debug, Default)]
pub(super) struct Echoes(BTreeMap<(PathId, u64), Time>);

impl Echoes {
    /// The packet was acknowledged on another path.
    pub(super) fn note(&mut self, path: PathId, number: u64, sent: Time) {
        if self.0.len() == MAX_ECHOES {
            let oldest = self.0.range((path, 0)..=(path, number)).next().map(|(key, _)| *key);
            let oldest = oldest.or_else(|| self.0.first_key_value().map(|(key, _)| *key));
            oldest.iter().for_each(|key| _ = self.0.remove(key));
        }
        self.0.insert((path, number), sent);
    }

    /// An ACK came on the path, with `largest` as its largest packet: when that was sent, if it is kept. Nothing up to it is
    /// needed any longer.
    pub(super) fn answer(&mut self, path: PathId, largest: u64) -> Option<Time> {
        let mut sent = None;
        while let Some((&key, &time)) = self.0.range((path, 0)..=(path, largest)).next() {
            sent = (key.1 == largest).then_some(time);
            self.0.remove(&key);
        }
        sent
    }

    /// The path is gone.
    pub(super) fn forget(&mut self, path: PathId) {
        self.0.retain(|(kept, _), _| *kept != path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Time {
        Time::from_millis(millis)
    }

    #[test]
    fn only_the_largest_packet_tells_and_only_once() {
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
    fn what_is_kept_is_bounded() {
        let mut echoes = Echoes::default();
        for number in 0..3 * MAX_ECHOES as u64 {
            echoes.note(PathId((number % 3) as u32), number, at(number));
        }
        assert_eq!(echoes.0.len(), MAX_ECHOES);
        assert_eq!(echoes.answer(PathId(2), 3 * MAX_ECHOES as u64 - 1), Some(at(3 * MAX_ECHOES as u64 - 1)));
    }
}
