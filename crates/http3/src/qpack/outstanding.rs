//! Outstanding field sections: those that refer to the dynamic table and that the decoder has not
//! acknowledged (RFC 9204 §2.1.1, §2.1.2).

use std::collections::VecDeque;

/// Maximum number of outstanding sections. Further sections do not refer to the dynamic table.
pub(super) const MAX_OUTSTANDING_SECTIONS: usize = 1024;

/// Maximum number of streams that may block, even if the decoder permits more.
pub(super) const MAX_BLOCKING_STREAMS: usize = 64;

/// Section that refers to the dynamic table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Section {
    pub(super) stream: u64,
    /// Absolute index of the newest entry to which the section refers, plus one.
    pub(super) required_insert_count: u64,
    /// Absolute index of the oldest entry to which the section refers.
    pub(super) oldest: u64,
}

/// Outstanding sections, and the streams that they may block.
#[derive(Debug, Default)]
pub(super) struct Outstanding {
    /// Outstanding sections, ordered by stream, and by time of sending within a stream.
    sections: VecDeque<Section>,
    /// Streams that may block at the decoder, each with the insert count that unblocks it.
    blocking: Vec<(u64, u64)>,
    max_blocking: usize,
}

impl Outstanding {
    /// Sets the decoder's SETTINGS_QPACK_BLOCKED_STREAMS.
    pub(super) fn set_max_blocking(&mut self, streams: u64) {
        self.max_blocking =
            usize::try_from(streams).map_or(MAX_BLOCKING_STREAMS, |max| max.min(MAX_BLOCKING_STREAMS));
    }

    /// Returns whether one more section may refer to the dynamic table.
    pub(super) fn has_room(&self) -> bool {
        self.sections.len() < MAX_OUTSTANDING_SECTIONS
    }

    /// Returns whether this stream may refer to entries that the decoder may not have.
    pub(super) fn may_block(&self, stream: u64) -> bool {
        self.blocking.len() < self.max_blocking
            || self.blocking.iter().any(|(blocking, _)| *blocking == stream)
    }

    /// Adds a section for which there is room. The decoder is known to have `known_received_count`
    /// insertions.
    pub(super) fn push(&mut self, section: Section, known_received_count: u64) {
        let at = self.sections.partition_point(|other| other.stream <= section.stream);
        self.sections.insert(at, section);
        let required = section.required_insert_count;
        if required <= known_received_count {
            return;
        }
        match self.blocking.iter_mut().find(|(stream, _)| *stream == section.stream) {
            Some((_, latest)) => *latest = required.max(*latest),
            None => self.blocking.push((section.stream, required)),
        }
    }

    /// Records that the decoder has `count` insertions. Sections that need no more can no longer block.
    pub(super) fn on_known_received(&mut self, count: u64) {
        self.blocking.retain(|(_, required)| *required > count);
    }

    /// Removes and returns the earliest outstanding section of a stream.
    pub(super) fn acknowledge(&mut self, stream: u64) -> Option<Section> {
        let at = self.sections.partition_point(|section| section.stream < stream);
        self.sections.get(at).filter(|section| section.stream == stream)?;
        self.sections.remove(at)
    }

    /// Removes and returns one section of a cancelled stream. The caller repeats this until `None` is
    /// returned.
    pub(super) fn cancel(&mut self, stream: u64) -> Option<Section> {
        self.blocking.retain(|(blocking, _)| *blocking != stream);
        self.acknowledge(stream)
    }
}
