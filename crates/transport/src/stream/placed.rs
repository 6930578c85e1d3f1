//! Stream data that was decrypted where it belongs.

use std::time::Duration;

use anabranch_wire::{Placement, Stream, Time};

use super::Streams;
use super::receive_buffer::{Saved, Slot};
use crate::error::TransportError;

/// How received stream bytes got to where they are read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReceivedBytes {
    /// Decrypted right there.
    pub placed: u64,
    /// Copied there, the usual way.
    pub copied: u64,
    /// Put aside and back because a packet's other frames fell on them.
    pub restored: u64,
}

/// A place in a stream's buffer.
#[derive(Clone, Copy)]
pub(crate) struct Reserved {
    key: usize,
    slot: Slot,
}

impl Reserved {
    /// Offset of the place in its stream.
    pub(crate) fn offset(&self) -> u64 {
        self.slot.offset
    }
}

impl Streams {
    /// A place for a packet of `len` bytes that says it belongs there; nothing of that is known to be true. `None` if it is to
    /// be decrypted elsewhere. What has been received of the place goes to `saved`, which is empty.
    pub(crate) fn reserve(&mut self, place: &Placement, len: usize, saved: &mut Saved) -> Option<Reserved> {
        let key = self.table.existing(place.stream)?;
        let half = self.table.stream(key).receive.as_mut()?;
        if half.stopped.is_some() || !half.state.may_receive() {
            return None;
        }
        let offset = place.offset(half.buffer.ready());
        let slot = half.buffer.reserve(offset, len, &mut self.spare)?;
        half.buffer.save(&slot, saved);
        Some(Reserved { key, slot })
    }

    /// The place's bytes.
    pub(crate) fn reserved_mut(&mut self, reserved: &Reserved) -> &mut [u8] {
        let half = self.table.stream(reserved.key).receive.as_mut();
        half.map_or(&mut [], |half| half.buffer.window_mut(&reserved.slot))
    }

    /// Received bytes are as they were again. All that comes of a packet that is not authentic.
    pub(crate) fn give_back(&mut self, reserved: &Reserved, saved: &Saved) {
        self.restore(reserved, saved);
        if let Some(half) = self.table.stream(reserved.key).receive.as_mut() {
            half.buffer.give_back(&reserved.slot, &mut self.spare);
        }
    }

    /// Received bytes are as they were again.
    #[inline]
    pub(crate) fn restore(&mut self, reserved: &Reserved, saved: &Saved) {
        if saved.is_empty() {
            return;
        }
        self.received.restored += saved.len() as u64;
        if let Some(half) = self.table.stream(reserved.key).receive.as_mut() {
            half.buffer.restore(&reserved.slot, saved);
        }
    }

    /// Whether data of `len` bytes may stay in the place.
    pub(crate) fn fits(&mut self, reserved: &Reserved, len: usize) -> bool {
        let half = self.table.stream(reserved.key).receive.as_ref();
        half.is_some_and(|half| half.buffer.fits(&reserved.slot, len))
    }

    /// The STREAM frame of an authentic packet whose data is in its place; see [`Self::on_stream`].
    pub(crate) fn on_placed(
        &mut self,
        now: Time,
        rtt: Duration,
        reserved: &Reserved,
        len: usize,
        fin: bool,
    ) -> Result<(), TransportError> {
        self.received.placed += len as u64;
        self.take_in(now, rtt, reserved.key, reserved.slot.offset, len, fin, |buffer| {
            buffer.commit(&reserved.slot, len)
        })
    }

    /// Keeps memory for the next chunk of the stream, so that none is needed for a packet before it is authentic.
    pub(super) fn restock(&mut self, key: usize) {
        if self.spare.is_none()
            && self.named
            && let Some(half) = &self.table.stream(key).receive
        {
            self.spare = Some(half.buffer.new_spare());
        }
    }

    /// How the bytes of all streams were received.
    pub fn received(&self) -> ReceivedBytes {
        self.received
    }

    /// The STREAM frame with its data copied.
    pub(super) fn copy_in(
        &mut self,
        now: Time,
        rtt: Duration,
        key: usize,
        frame: &Stream<'_>,
    ) -> Result<(), TransportError> {
        self.received.copied += frame.data.len() as u64;
        self.take_in(now, rtt, key, frame.offset, frame.data.len(), frame.fin, |buffer| {
            buffer.insert(frame.offset, frame.data)
        })
    }
}
