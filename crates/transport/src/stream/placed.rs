//! Stream data that was decrypted where it belongs.

use std::time::Duration;

use anabranch_wire::{Placement, Stream, StreamId, Time};
use bytes::BytesMut;

use super::Streams;
use super::receive_buffer::{ReceiveBuffer, Saved, Slot};
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

/// A place in a stream's buffer, for as long as nothing else happens to the streams.
pub(crate) struct Reservation<'a> {
    at: Reserved,
    buffer: &'a mut ReceiveBuffer,
    spare: &'a mut Option<BytesMut>,
    restored: &'a mut u64,
}

/// Where a place was.
#[derive(Clone, Copy)]
pub(crate) struct Reserved {
    stream: StreamId,
    key: usize,
    slot: Slot,
}

impl Reserved {
    /// The stream.
    pub(crate) fn stream(&self) -> StreamId {
        self.stream
    }
}

impl Reservation<'_> {
    /// Its bytes.
    #[inline]
    pub(crate) fn bytes(&mut self) -> &mut [u8] {
        self.buffer.window_mut(&self.at.slot)
    }

    /// Offset of the first one in the stream.
    #[inline]
    pub(crate) fn offset(&self) -> u64 {
        self.at.slot.offset
    }

    /// Whether data of `len` bytes may stay.
    #[inline]
    pub(crate) fn fits(&self, len: usize) -> bool {
        self.buffer.fits(&self.at.slot, len)
    }

    /// Received bytes are as they were again.
    #[inline]
    pub(crate) fn restore(self, saved: &Saved) -> Reserved {
        if !saved.is_empty() {
            *self.restored += saved.len() as u64;
            self.buffer.restore(&self.at.slot, saved);
        }
        self.at
    }

    /// The same, for a packet that is not authentic: nothing is left of it.
    pub(crate) fn give_back(self, saved: &Saved) {
        *self.restored += saved.len() as u64;
        self.buffer.restore(&self.at.slot, saved);
        self.buffer.give_back(&self.at.slot, self.spare);
    }
}

impl Streams {
    /// A place for a packet of `len` bytes that says it belongs there; nothing of that is known to be true. `None` if it is to
    /// be decrypted elsewhere. What has been received of the place goes to `saved`, which is empty.
    #[inline(always)]
    pub(crate) fn reserve(
        &mut self,
        place: &Placement,
        len: usize,
        saved: &mut Saved,
    ) -> Option<Reservation<'_>> {
        let stream = place.stream;
        let key = self.table.existing(stream)?;
        let half = self.table.stream(key).receive.as_mut()?;
        if half.stopped.is_some() || !half.state.may_receive() {
            return None;
        }
        let buffer = &mut half.buffer;
        let slot = buffer.reserve(place.offset(buffer.ready()), len, &mut self.spare)?;
        buffer.save(&slot, saved);
        let at = Reserved { stream, key, slot };
        Some(Reservation { at, buffer, spare: &mut self.spare, restored: &mut self.received.restored })
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
