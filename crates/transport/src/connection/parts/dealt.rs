//! Packets that were dealt to several paths and have not left yet.

use std::collections::VecDeque;

use anabranch_wire::{Outgoing, PathId};
use smallvec::SmallVec;

use crate::datagram_io::{Transmit, TransmitBuf};
use crate::schedule::Pick;

/// Number of packets whose headers are masked together. Larger groups do not reduce the time for each.
pub(crate) const MASKED_AT_ONCE: usize = 16;

/// Dealt packets that have not left yet, and what is left of the scheduler's last pick.
#[derive(Debug, Default)]
pub(crate) struct Dealt {
    pub(crate) waiting: VecDeque<Lane>,
    pub(crate) unsent: Option<Pick>,
}

/// Batch of one path.
#[derive(Debug)]
pub(crate) struct Lane {
    pub(crate) path: PathId,
    pub(crate) transmit: Transmit,
    pub(crate) bytes: Vec<u8>,
    /// Maximum length of the batch, in bytes.
    pub(crate) room: usize,
    /// Headers of the packets at the batch's end that are not masked yet.
    pub(crate) unmasked: SmallVec<[Outgoing; MASKED_AT_ONCE]>,
}

impl Lane {
    /// Returns the place of the next packet; `None` if the batch is full.
    pub(crate) fn place(&mut self) -> Option<&mut [u8]> {
        let Transmit { len, segment_size, .. } = self.transmit;
        // Only the last datagram may be shorter.
        self.bytes[..self.room].get_mut(len..len + segment_size).filter(|_| len.is_multiple_of(segment_size))
    }

    /// Moves the batch into a buffer.
    pub(crate) fn leave(mut self, out: &mut TransmitBuf) -> Transmit {
        let Transmit { len, segment_size, .. } = self.transmit;
        self.transmit.segment_size = segment_size.min(len);
        out.replace(self.bytes);
        self.transmit
    }
}
