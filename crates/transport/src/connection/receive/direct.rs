//! 1-RTT packets that are decrypted directly into the receive buffer of their stream (`docs/vreverso.md`).
//!
//! Headers are not trusted. The place that a header names must be in the buffer of an existing stream.
//! Received bytes that decryption overwrites are restored afterwards, even if decryption failed. Nothing is
//! reported before the frames are known to agree with the header.

use anabranch_tls::TAG_LEN;
use anabranch_wire::{Direction, Placement, Stream, Time, TransportErrorCode};
use smallvec::SmallVec;

use super::envelope::Stop;
use super::named::{STREAM, leading_stream};
use super::short::Short;
use crate::connection::connection::Connection;
use crate::error::{TransportError, violation};
use crate::stream::{Reserved, Saved};

/// Number of bytes of frames other than the stream data that are stored without an allocation.
const USUAL_OTHERS: usize = 64;

/// Frames of the packet other than the stream data.
pub(in crate::connection) type Others = SmallVec<[u8; USUAL_OTHERS]>;

/// Stream data of a packet that was decrypted into the buffer of its stream.
pub(in crate::connection) struct Contents {
    pub(in crate::connection) offset: u64,
    pub(in crate::connection) fin: bool,
    pub(in crate::connection) len: usize,
    /// `true` if the data is at its final place in the buffer.
    pub(in crate::connection) stays: bool,
    /// Copy of the whole plaintext, made before restored bytes overwrite the end of the plaintext in the
    /// buffer. Set if the data is not at its final place, or if the connection has an observer.
    pub(in crate::connection) copy: Option<Vec<u8>>,
}

/// A packet that was decrypted into the buffer of its stream.
pub(in crate::connection) struct Direct {
    pub(in crate::connection) reserved: Reserved,
    pub(in crate::connection) contents: Contents,
    /// Frames other than the stream data.
    pub(in crate::connection) others: Others,
}

impl Connection {
    /// Decrypts the packet into the buffer of the stream that its header names. Returns `None`, without
    /// changing anything, if the packet must be decrypted in place.
    #[inline(always)]
    pub(in crate::connection) fn open_direct(
        &mut self,
        now: Time,
        short: &Short<'_>,
        named: &Placement,
        packet: &[u8],
    ) -> Option<Result<Direct, Stop>> {
        // A packet that is likely a duplicate is decrypted in place.
        if !short.is_new {
            return None;
        }
        let (head, body) = packet.split_at_checked(short.unmasked.header_len)?;
        let len = body.len().checked_sub(TAG_LEN)?;
        let key = self.keys.one_rtt.as_ref()?.opener(short.phase)?;
        let mut saved = Saved::new();
        let (reserved, window) = self.streams.reserve(named, len, &mut saved)?;
        let nonce_path = self.paths.numbering.nonce_path(short.path);
        if key.open_into(nonce_path, short.number, head, body, window).is_err() {
            self.streams.give_back(&reserved, &saved);
            return Some(Err(self.on_unopened()));
        }
        let mut others = Others::new();
        let (direction, is_observed) = (self.format.direction, self.output.observer.is_some());
        let contents = Contents::read(window, &reserved, named, direction, is_observed, &mut others);
        self.streams.restore(&reserved, &saved);
        self.on_opened(now, short);
        match contents {
            Ok(contents) => Some(Ok(Direct { reserved, contents, others })),
            Err(error) => {
                self.streams.leave(&reserved);
                Some(Err(error.into()))
            }
        }
    }

    /// Reads a packet with a plaintext of `len` bytes, which is already in the place that its header names. No
    /// bytes of this place had been received.
    #[inline(never)]
    pub(in crate::connection) fn read_placed(
        &mut self,
        named: Option<&Placement>,
        len: usize,
    ) -> Result<Direct, TransportError> {
        let mut saved = Saved::new();
        let place = named.and_then(|named| Some((named, self.streams.reserve(named, len, &mut saved)?)));
        let (named, (reserved, window)) = place.ok_or_else(|| {
            TransportError::new(TransportErrorCode::INTERNAL_ERROR, "the place of a packet is gone")
        })?;
        let mut others = Others::new();
        let contents = Contents::read(window, &reserved, named, self.format.direction, false, &mut others)?;
        Ok(Direct { reserved, contents, others })
    }
}

impl Contents {
    /// Returns whether the data stays at its place and does not end the stream.
    #[inline]
    pub(in crate::connection) fn is_data_alone(&self) -> bool {
        self.stays && !self.fin
    }

    /// Parses the plaintext in `window`. Everything but the data is copied to `others`. No frame is processed
    /// yet.
    #[inline(always)]
    fn read(
        window: &[u8],
        reserved: &Reserved,
        named: &Placement,
        direction: Direction,
        is_observed: bool,
        others: &mut Others,
    ) -> Result<Self, TransportError> {
        let leading = leading_stream(window, direction)?
            .ok_or_else(|| violation("the header names data that is not there").in_frame(STREAM))?;
        leading.check(named)?;
        if leading.end < window.len() {
            others.extend_from_slice(&window[leading.end..]);
        }
        let Stream { offset, fin, data, .. } = leading.stream;
        // The data is not at its final place if the header's offset was truncated too much, or if the data
        // exceeds the end of a chunk.
        let stays = offset == reserved.offset() && reserved.fits(data.len());
        let copy = (is_observed || !stays).then(|| window.to_vec());
        Ok(Self { offset, fin, len: data.len(), stays, copy })
    }
}
