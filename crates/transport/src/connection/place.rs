//! 1-RTT packets that are decrypted to where their stream data is read (`docs/vreverso.md`).
//!
//! Nothing that a header says is believed. The place is one in the buffer of a stream that exists; what has been received of it
//! is put back after the packet was opened, or was not; and nothing is told to anybody before the frames agree with the header.

use anabranch_tls::TAG_LEN;
use anabranch_wire::{Direction, Placement, Stream, Time};
use smallvec::SmallVec;

use super::connection::Connection;
use super::frames::Seen;
use super::named::{STREAM, leading_stream};
use super::receive::{Stop, check_reserved};
use super::run::Run;
use super::short::Short;
use crate::error::TransportError;
use crate::error::violation;
use crate::stream::{Reserved, Saved};

/// Bytes of other frames beside stream data, usually; more are put on the heap.
const USUAL_OTHERS: usize = 64;

/// Frames beside the data.
type Others = SmallVec<[u8; USUAL_OTHERS]>;

/// The data of a packet that has been opened in its place.
struct Contents {
    offset: u64,
    fin: bool,
    len: usize,
    /// The data may stay where it is.
    stays: bool,
    /// All of the packet, if it may not, or if somebody observes the connection: what is restored falls on its end.
    copy: Option<Vec<u8>>,
}

impl Connection {
    /// Decrypts the packet into the buffer of the stream that its header names, and processes it. `None`, and nothing has
    /// happened, if it has to be decrypted where it is.
    #[inline(always)]
    pub(super) fn place(
        &mut self,
        now: Time,
        short: &Short<'_>,
        packet: &[u8],
        run: &mut Option<Run>,
    ) -> Option<Result<(), Stop>> {
        let named = short.unmasked.placement.as_ref()?;
        // What looks like a duplicate is not worth a place.
        if !short.is_new {
            return None;
        }
        let (head, body) = packet.split_at_checked(short.unmasked.header_len)?;
        let len = body.len().checked_sub(TAG_LEN)?;
        let key = self.keys.one_rtt.as_ref()?.opener(short.phase);
        let mut saved = Saved::new();
        let (reserved, window) = self.streams.reserve(named, len, &mut saved)?;
        let nonce_path = self.paths.numbering.nonce_path(short.path);
        if key.open_into(nonce_path, short.number, head, body, window).is_err() {
            self.streams.give_back(&reserved, &saved);
            return Some(Err(self.on_unopened()));
        }
        let mut others = Others::new();
        let contents = Contents::read(
            window,
            &reserved,
            named,
            self.format.direction,
            self.observer.is_some(),
            &mut others,
        );
        self.streams.restore(&reserved, &saved);
        self.on_opened(now, short);
        let done = match contents {
            Err(error) => Err(error.into()),
            Ok(contents) => match run {
                Some(run) if contents.is_data_alone() && others.is_empty() => {
                    self.go_on_placed(now, run, &reserved, contents.len)
                }
                _ => self.on_placed(now, short, &reserved, &contents, &others, run),
            },
        };
        self.streams.leave(&reserved);
        Some(done)
    }

    /// Processes an authentic packet: its data, then its other frames.
    #[inline(always)]
    fn on_placed(
        &mut self,
        now: Time,
        short: &Short<'_>,
        reserved: &Reserved,
        contents: &Contents,
        others: &[u8],
        run: &mut Option<Run>,
    ) -> Result<(), Stop> {
        self.end_run(now, run)?;
        let &Contents { offset, fin, len, stays, ref copy } = contents;
        check_reserved(short.unmasked.reserved_ok)?;
        let path = self.on_authentic_short(now, short, others, copy.as_deref().unwrap_or_default())?;
        let context = self.context_of(short, path);
        self.paths.settle_local_address(&context);
        let rtt = self.paths.list.longest_rtt();
        let taken_in = match copy {
            Some(copy) if !stays => {
                let stream = Stream { id: reserved.stream(), offset, fin, data: &copy[..len] };
                self.streams.on_stream(now, rtt, &stream)
            }
            _ => self.streams.on_placed(now, rtt, reserved, len, fin),
        };
        taken_in.map_err(|error| error.in_frame(STREAM))?;
        if !others.is_empty() && self.on_frames(now, &context, others)?.is_none() {
            return Ok(());
        }
        // The data is to be acknowledged, and is no probe.
        self.after_frames(now, &context, short.envelope.ecn, Seen { eliciting: true, probing: false })?;
        *run = self.begin_run(short);
        Ok(())
    }
}

impl Contents {
    /// Whether the data goes on and may stay where it is.
    #[inline]
    fn is_data_alone(&self) -> bool {
        self.stays && !self.fin
    }

    /// Reads what was decrypted to the place, all of which but the data goes to `others`. Nothing is done with any frame yet.
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
        // An offset that was cut too short leads astray, and so may the end of a chunk.
        let stays = offset == reserved.offset() && reserved.fits(data.len());
        let copy = (is_observed || !stays).then(|| window.to_vec());
        Ok(Self { offset, fin, len: data.len(), stays, copy })
    }
}
