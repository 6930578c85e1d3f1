//! Field sections that refer to the dynamic table and that the decoder has not acknowledged (RFC 9204 §2.1.1,
//! §2.1.2).

use std::collections::VecDeque;

/// Most sections that are remembered; further ones do not refer to the dynamic table.
pub(super) const MAX_OUTSTANDING_SECTIONS: usize = 1024;

/// Most streams that are let block, whatever the decoder permits.
pub(super) const MAX_BLOCKING_STREAMS: usize = 64;

/// A section that refers to the dynamic table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Section {
    pub(super) stream: u64,
    /// One more than the newest entry that it refers to.
    pub(super) required_insert_count: u64,
    /// The oldest entry that it refers to.
    pub(super) oldest: u64,
}

/// The outstanding sections and the streams that they may block.
#[derive(Debug, Default)]
pub(super) struct Outstanding {
    /// In the order of their streams, and in the order of sending within a stream.
    sections: VecDeque<Section>,
    /// Streams that wait at the decoder if the encoder stream's bytes are late, and the insert count they
    /// wait for.
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

    /// Remembers a section that has room. `known_received_count` is what the decoder has for sure.
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

    /// Records that the decoder has this many entries: sections that need no more do not block.
    pub(super) fn on_known_received(&mut self, count: u64) {
        self.blocking.retain(|(_, required)| *required > count);
    }

    /// Takes the earliest section of a stream.
    pub(super) fn acknowledge(&mut self, stream: u64) -> Option<Section> {
        let at = self.sections.partition_point(|section| section.stream < stream);
        self.sections.get(at).filter(|section| section.stream == stream)?;
        self.sections.remove(at)
    }

    /// Takes all sections of a stream, one at a time.
    pub(super) fn cancel(&mut self, stream: u64) -> Option<Section> {
        self.blocking.retain(|(blocking, _)| *blocking != stream);
        self.acknowledge(stream)
    }
}
