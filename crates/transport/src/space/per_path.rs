//! One packet number space for each path (RFC 10069 §3). With a single path this is plain QUIC v1.

use anabranch_wire::PathId;

use super::{NumberSequence, Numbered};
use crate::random::Random;

/// A sequence of packet numbers for each path.
#[derive(Debug, Default)]
pub(crate) struct PerPath {
    /// Sequences sorted by path; paths are few, and usually only one exists.
    lines: Vec<(PathId, NumberSequence)>,
}

impl PerPath {
    fn line(&self, path: PathId) -> Option<&NumberSequence> {
        self.lines.iter().find(|(id, _)| *id == path).map(|(_, line)| line)
    }

    fn line_mut(&mut self, path: PathId) -> &mut NumberSequence {
        let at = match self.lines.binary_search_by_key(&path, |(id, _)| *id) {
            Ok(at) => at,
            Err(at) => {
                self.lines.insert(at, (path, NumberSequence::default()));
                at
            }
        };
        &mut self.lines[at].1
    }

    /// Returns the number of the next packet on `path`, which [`Self::commit`] uses up.
    pub(crate) fn next(
        &mut self,
        path: PathId,
        random: &mut Random,
        window_packets: Option<u64>,
    ) -> Numbered {
        let line = self.line_mut(path);
        line.skip_if_due(random, window_packets);
        Numbered { number: line.next, order: line.next }
    }

    pub(crate) fn commit(&mut self, path: PathId) {
        self.line_mut(path).next += 1;
    }

    /// Returns the number sequence of path 0.
    pub(crate) fn into_first(mut self) -> NumberSequence {
        std::mem::take(self.line_mut(PathId::ZERO))
    }

    pub(crate) fn forget(&mut self, path: PathId) {
        self.lines.retain(|(id, _)| *id != path);
    }

    pub(crate) fn largest_acked(&self, path: PathId) -> Option<u64> {
        self.line(path).and_then(|line| line.largest_acked)
    }

    pub(crate) fn on_acked(&mut self, path: PathId, largest: u64) {
        let line = self.line_mut(path);
        line.largest_acked = line.largest_acked.max(Some(largest));
    }
}
