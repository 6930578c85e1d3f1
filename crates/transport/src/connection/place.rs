//! 1-RTT packets that are decrypted to where their stream data is read (`docs/vreverso.md`).
//!
//! Nothing that a header says is believed. The place is one in the buffer of a stream that exists; what has been received of it
//! is put back after the packet was opened, or was not; and nothing is told to anybody before the frames agree with the header.

use anabranch_tls::TAG_LEN;
use anabranch_wire::{PacketKind, PathId, Placement, Protected, SpaceId, Stream, StreamId, Time, Unmasked};
use smallvec::SmallVec;

use super::connection::Connection;
use super::frames::Seen;
use super::named::{STREAM, leading_stream};
use super::receive::{Context, Envelope, Stop, violation};
use crate::error::TransportError;
use crate::stream::{Reserved, Saved};
use crate::trace::DropReason;

/// Bytes of other frames beside stream data, usually; more are put on the heap.
const USUAL_OTHERS: usize = 64;

/// What a packet holds that has been opened in its place, once that has been restored.
struct Contents {
    stream: StreamId,
    offset: u64,
    fin: bool,
    len: usize,
    /// The data, if it cannot stay.
    moved: Option<Vec<u8>>,
    /// All of it, if somebody observes the connection.
    whole: Option<Vec<u8>>,
}

/// Its other frames.
type Others = SmallVec<[u8; USUAL_OTHERS]>;

/// A packet before it is opened.
#[derive(Clone, Copy)]
pub(super) struct Unopened<'a> {
    pub(super) envelope: &'a Envelope,
    pub(super) path: PathId,
    pub(super) header: &'a Protected,
    pub(super) unmasked: &'a Unmasked,
    pub(super) number: u64,
}

impl Connection {
    /// Decrypts the packet into the buffer of the stream that its header names, and processes it. `None`, and nothing has
    /// happened, if it has to be decrypted where it is.
    pub(super) fn place(
        &mut self,
        now: Time,
        unopened: &Unopened<'_>,
        named: &Placement,
        packet: &[u8],
    ) -> Option<Result<(), Stop>> {
        let &Unopened { path, header, unmasked, number, .. } = unopened;
        // Initial keys are no secret, and 0-RTT packets can be replayed: neither opens a way into a buffer. What looks like a
        // duplicate is not worth a place.
        if header.kind != PacketKind::OneRtt
            || self.paths.get(path).is_none()
            || self.is_duplicate(SpaceId::Data, path, number)
        {
            return None;
        }
        let (head, body) = packet.split_at_checked(unmasked.header_len)?;
        let len = body.len().checked_sub(TAG_LEN)?;
        let sealed = self.sealed(path, header.kind, unmasked, number);
        let keys = self.keys.one_rtt.as_mut()?;
        let mut saved = Saved::new();
        let reserved = self.streams.reserve(named, len, &mut saved)?;
        let window = self.streams.reserved_mut(&reserved);
        let opened = keys.open_with(now, sealed, |key| {
            key.open_into(sealed.path, number, head, body, window).map(|()| len)
        });
        if opened.is_err() {
            self.streams.give_back(&reserved, &saved);
            return Some(self.after_open(now, path, header.kind, unmasked, number, opened).map(|_| ()));
        }
        let mut others = Others::new();
        let contents = self.contents(&reserved, named, &mut others);
        self.streams.restore(&reserved, &saved);
        let opened = self.after_open(now, path, header.kind, unmasked, number, opened);
        Some(opened.and_then(|_| self.on_placed(now, unopened, &reserved, contents?, &others)))
    }

    /// Takes out of the place all but the data that may stay there; other frames go to `others`.
    fn contents(
        &mut self,
        reserved: &Reserved,
        named: &Placement,
        others: &mut Others,
    ) -> Result<Contents, TransportError> {
        let direction = self.format.direction;
        let window = self.streams.reserved_mut(reserved);
        let leading = leading_stream(window, direction)?
            .ok_or_else(|| violation("the header names data that is not there").in_frame(STREAM))?;
        leading.check(named)?;
        let Stream { id: stream, offset, fin, data } = leading.stream;
        if leading.end < window.len() {
            others.extend_from_slice(&window[leading.end..]);
        }
        // What is restored falls on the end of the plaintext, so an observer is shown a copy.
        let whole = self.observer.is_some().then(|| window.to_vec());
        let len = data.len();
        // An offset that was cut too short leads astray, and so may the end of a chunk.
        let stays = offset == reserved.offset() && self.streams.fits(reserved, len);
        let moved = (!stays).then(|| self.streams.reserved_mut(reserved)[..len].to_vec());
        Ok(Contents { stream, offset, fin, len, moved, whole })
    }

    /// Processes an authentic packet: its data, then its other frames.
    fn on_placed(
        &mut self,
        now: Time,
        unopened: &Unopened<'_>,
        reserved: &Reserved,
        contents: Contents,
        others: &[u8],
    ) -> Result<(), Stop> {
        let &Unopened { envelope, header, unmasked, number, .. } = unopened;
        let Contents { stream: id, offset, fin, len, moved, whole } = contents;
        if !unmasked.reserved_ok {
            return Err(violation("reserved bits are not zero").into());
        }
        let path = match self.numbering.is_single() {
            true => self.locate(now, &envelope.tuple, header.dcid, envelope.len, others),
            false => Some(unopened.path),
        };
        let path = path.ok_or(Stop::Drop(DropReason::Unexpected))?;
        if let Some(whole) = whole {
            self.trace_received(now, path, header, unmasked, number, &whole);
        }
        let context = Context {
            kind: header.kind,
            space: SpaceId::Data,
            path,
            number,
            tuple: envelope.tuple,
            dcid: header.dcid,
            datagram_len: envelope.len,
            direction: self.format.direction,
        };
        self.on_authentic_packet(now, &context, header)?;
        let rtt = self.paths.longest_rtt();
        let taken_in = match moved {
            None => self.streams.on_placed(now, rtt, reserved, len, fin),
            Some(data) => self.streams.on_stream(now, rtt, &Stream { id, offset, fin, data: &data }),
        };
        taken_in.map_err(|error| error.in_frame(STREAM))?;
        if !others.is_empty() && self.on_frames(now, &context, others)?.is_none() {
            return Ok(());
        }
        // The data is to be acknowledged, and is no probe.
        self.after_frames(now, &context, envelope.ecn, Seen { eliciting: true, probing: false })?;
        Ok(())
    }
}
