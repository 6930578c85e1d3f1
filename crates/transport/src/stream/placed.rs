//! Stream data that was decrypted directly into the receive buffer.

use std::time::Duration;

use anabranch_wire::{Placement, Stream, StreamId, Time};

use super::Streams;
use super::receive_buffer::{Saved, Slot};
use crate::error::TransportError;
use crate::stream::incoming::Piece;

/// Number of received stream bytes, by the way they reached the receive buffer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ReceivedBytes {
    /// Bytes decrypted directly into the buffer.
    pub placed: u64,
    /// Bytes copied to the buffer, the usual way.
    pub copied: u64,
    /// Bytes saved and restored because a packet's other frames were decrypted over them. The fields of the
    /// only STREAM frame of a packet, in versions 1 and 2, are not counted.
    pub restored: u64,
}

/// Reserved place in a stream's buffer.
#[derive(Clone, Copy)]
pub(crate) struct Reserved {
    stream: StreamId,
    key: usize,
    slot: Slot,
}

impl Reserved {
    /// Returns the stream.
    pub(crate) fn stream(&self) -> StreamId {
        self.stream
    }

    #[inline]
    pub(super) fn slot(&self) -> &Slot {
        &self.slot
    }

    /// Returns the stream offset of the place's first byte.
    #[inline]
    pub(crate) fn offset(&self) -> u64 {
        self.slot.offset
    }

    /// Returns whether `len` bytes of data can remain in this place.
    #[inline]
    pub(crate) fn fits(&self, len: usize) -> bool {
        self.slot.fits(len)
    }
}

impl Streams {
    /// Reserves a place for a packet of `len` bytes whose header names the place, and returns the place with
    /// its bytes. The header is not authenticated yet. Returns `None` if the packet must be decrypted
    /// elsewhere. Bytes of the place that were received before are copied to `saved`, which must be empty.
    #[inline(always)]
    pub(crate) fn reserve(
        &mut self,
        place: &Placement,
        len: usize,
        saved: &mut Saved,
    ) -> Option<(Reserved, &mut [u8])> {
        let stream = place.stream;
        let key = self.table.existing(stream)?;
        let half = self.table.stream(key).receive.as_mut()?;
        if half.stopped.is_some() || !half.state.may_receive() {
            return None;
        }
        let buffer = &mut half.buffer;
        let slot = buffer.reserve(place.offset(buffer.ready()), len, &mut self.pool)?;
        buffer.save(&slot, saved);
        Some((Reserved { stream, key, slot }, buffer.window_mut(&slot, &mut self.pool)))
    }

    /// Drops the new chunk that was reserved for the packet, if the packet has been processed without using
    /// it.
    #[inline]
    pub(crate) fn leave(&mut self, reserved: &Reserved) {
        if reserved.slot.is_new() {
            self.pool.drop_future();
        }
    }

    /// Releases the place of a packet that proved not to be authentic, and restores the received bytes that
    /// its decryption overwrote.
    #[inline(never)]
    pub(crate) fn give_back(&mut self, reserved: &Reserved, saved: &Saved) {
        self.restore(reserved, saved);
        if let Some(half) = self.table.stream(reserved.key).receive.as_mut() {
            half.buffer.give_back(&reserved.slot, &mut self.pool);
        }
    }

    /// Restores the received bytes that [`Self::reserve`] saved.
    #[inline]
    pub(crate) fn restore(&mut self, reserved: &Reserved, saved: &Saved) {
        if !saved.is_empty() {
            self.restore_known(reserved, saved);
        }
    }

    fn restore_known(&mut self, reserved: &Reserved, saved: &Saved) {
        self.received.restored += saved.len() as u64;
        if let Some(half) = self.table.stream(reserved.key).receive.as_mut() {
            half.buffer.restore(&reserved.slot, saved);
        }
    }

    /// Handles the STREAM frame of an authentic packet whose data is already in place, like
    /// [`Self::on_stream`].
    pub(crate) fn on_placed(
        &mut self,
        now: Time,
        rtt: Duration,
        reserved: &Reserved,
        len: usize,
        fin: bool,
    ) -> Result<(), TransportError> {
        self.received.placed += len as u64;
        let piece = Piece { offset: reserved.slot.offset, len, fin };
        self.take_in(now, rtt, reserved.key, piece, |buffer, pool| buffer.commit(&reserved.slot, len, pool))
    }

    /// Returns the number of received bytes of all streams, by the way they reached the receive buffer.
    pub fn received(&self) -> ReceivedBytes {
        self.received
    }

    /// Handles a STREAM frame by copying its data.
    pub(super) fn copy_in(
        &mut self,
        now: Time,
        rtt: Duration,
        key: usize,
        frame: &Stream<'_>,
    ) -> Result<(), TransportError> {
        self.received.copied += frame.data.len() as u64;
        let piece = Piece { offset: frame.offset, len: frame.data.len(), fin: frame.fin };
        self.take_in(now, rtt, key, piece, |buffer, pool| buffer.insert(frame.offset, frame.data, pool))
    }
}
