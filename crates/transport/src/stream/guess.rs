//! Place of a packet that most likely continues a train (`docs/vreverso.md`, "Trains" and "Version 1").
//!
//! The *lead* of a packet is the part of its plaintext before the stream data: in versions 1 and 2 the STREAM
//! frame's type, stream ID, offset and length, in VReverso nothing. The lead of the next packet is expected to
//! be as long as that of the packet before.

use anabranch_wire::{Placement, Stream};

use super::Streams;
use super::train::StreamTrain;

/// Maximum length of a lead in bytes: packets with a longer one are decrypted in their datagrams. A type, a
/// stream ID of 4 bytes, an offset of 8 and a length of 2 have 15 bytes.
pub(crate) const MAX_LEAD: usize = 16;

/// Received bytes over which a lead is decrypted.
pub(crate) type SavedLead = [u8; MAX_LEAD];

/// Memory of a stream's buffer into which a packet is decrypted.
pub(crate) struct NextPlace<'a> {
    /// Memory for the whole plaintext.
    pub(crate) window: &'a mut [u8],
    /// Length of the lead in bytes. This part of the window contains received bytes.
    lead: usize,
}

impl NextPlace<'_> {
    /// Returns a copy of the received bytes in the window.
    #[inline(always)]
    pub(crate) fn save(&self) -> SavedLead {
        let mut saved = [0; MAX_LEAD];
        saved[..self.lead].copy_from_slice(&self.window[..self.lead]);
        saved
    }

    /// Restores the received bytes that [`Self::save`] copied.
    #[inline(always)]
    pub(crate) fn restore(self, saved: &SavedLead) {
        self.window[..self.lead].copy_from_slice(&saved[..self.lead]);
    }

    /// Returns whether the data of `frame`, the only one in the window, begins behind the lead.
    #[inline(always)]
    pub(crate) fn fits(&self, frame: &Stream<'_>) -> bool {
        // Without a lead, the data comes first.
        self.lead == 0 || self.lead + frame.data.len() == self.window.len()
    }
}

impl Streams {
    /// Returns the place of a packet with a plaintext of `len` bytes that continues `train`. Returns `None` if
    /// its header names other data, if no lead is expected, or if the packet would need other memory than the
    /// stream's last chunk.
    #[inline(always)]
    pub(crate) fn next_place(
        &mut self,
        train: &StreamTrain,
        named: Option<&Placement>,
        len: usize,
    ) -> Option<NextPlace<'_>> {
        let lead = match named {
            Some(named) if train.is_named(named) => 0,
            None if self.lead > 0 => self.lead,
            _ => return None,
        };
        if len <= lead {
            return None;
        }
        let buffer = &mut self.table.stream(train.key()).receive.as_mut()?.buffer;
        Some(NextPlace { window: buffer.next_window(lead, len)?, lead })
    }

    /// Records the length of the lead of a packet whose data continued a train.
    #[inline(always)]
    pub(super) fn expect_lead(&mut self, lead: usize) {
        self.lead = if lead <= MAX_LEAD { lead } else { 0 };
    }

    /// Decrypts no packet on a guess until [`Self::expect_lead`] is called again.
    #[inline]
    pub(crate) fn guess_no_more(&mut self) {
        self.lead = 0;
    }
}
