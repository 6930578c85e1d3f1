//! Runs: packets of a batch of which each goes on where the one before ended. It came the same way, has the next number, and nothing
//! in it but data.
//!
//! Such a packet is unmasked, opened and put in its place like any other. What else it changes depends on the last packet of the
//! run alone, or is a sum: that is settled once, before anything else happens to the connection. To whoever looks from
//! outside, a batch does what its packets would do one by one (`tests/run.rs`).

use crate::path::Addressee;
use std::ops::Range;
use std::time::Duration;

use anabranch_wire::{ConnectionId, Ecn, Frame, Frames, PathId, Time, Unmasked};

use super::connection::Connection;
use super::keys::Phase;
use super::named::STREAM;
use super::receive::{Envelope, Stop};
use super::short::Short;
use crate::error::TransportError;
use crate::stream::{Reserved, StreamRun};

/// The packets of a run that are not settled yet.
#[derive(Debug)]
pub(super) struct Run {
    path: PathId,
    key_phase: bool,
    ecn: Option<Ecn>,
    /// Their numbers; the next one goes on at the end.
    numbers: Range<u64>,
    /// Longest round trip of the paths.
    rtt: Duration,
    data: Option<StreamRun>,
}

#[cfg(test)]
thread_local! {
    /// Packets that were settled in runs.
    pub(crate) static SETTLED: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}

impl Run {
    /// The number that the next packet has to have.
    #[inline]
    pub(super) fn next(&self) -> u64 {
        self.numbers.end
    }
}

impl Connection {
    /// Whether a packet has the number of the one that comes next in the run, and came the same way.
    #[inline(always)]
    pub(super) fn goes_on(
        &self,
        run: &Run,
        envelope: &Envelope<'_>,
        to: Addressee,
        dcid: &ConnectionId,
        unmasked: &Unmasked,
    ) -> bool {
        // The low bits are those of the number that is expected, and then it is that one.
        let differs = (unmasked.truncated_pn ^ run.next()) << (u64::BITS - unmasked.pn_bits);
        differs == 0
            && unmasked.key_phase == run.key_phase
            && unmasked.reserved_ok
            && to.path == run.path
            && envelope.ecn == run.ecn
            && self.came_as_usual(envelope, to, dcid)
    }

    /// Whether the packet came between the addresses of its path, and with the connection ID that is in use there.
    #[inline(always)]
    fn came_as_usual(&self, envelope: &Envelope<'_>, to: Addressee, dcid: &ConnectionId) -> bool {
        to.is_usual && envelope.is_on_only_path || self.paths.came_as_usual_on(envelope.tuple, to.path, dcid)
    }

    /// The run that may follow a packet whose processing is complete.
    pub(super) fn begin_run(&mut self, short: &Short<'_>) -> Option<Run> {
        let &Short { envelope, dcid, path, number, .. } = short;
        let is_plain = envelope.is_one_of_many
            && short.phase == Phase::Current
            && self.observer.is_none()
            && self.state.is_active()
            && !self.paths.numbering.is_single();
        if !is_plain || !self.paths.came_as_usual_on(envelope.tuple, path, dcid) {
            return None;
        }
        let on =
            self.paths.list.get(path).filter(|on| on.largest_number == Some(number) && !on.is_abandoned())?;
        let numbers = self.paths.numbering.numbers_of(Some(&on.received))?;
        if numbers.largest() != Some(number) || numbers.has_records() {
            return None;
        }
        Some(Run {
            path,
            key_phase: short.unmasked.key_phase,
            ecn: envelope.ecn,
            numbers: number + 1..number + 1,
            rtt: self.paths.list.longest_rtt(),
            data: self.streams.begin_run(),
        })
    }

    /// Processes the packet with `payload` if it has nothing but data in it; says whether it has.
    #[inline(always)]
    pub(super) fn go_on(&mut self, now: Time, run: &mut Run, payload: &[u8]) -> Result<bool, Stop> {
        let mut frames = Frames::new(payload, self.format.direction);
        let Some(stream) = frames.next_stream().filter(|stream| !stream.fin && frames.is_over()) else {
            return Ok(false);
        };
        let taken_in = self.streams.on_stream_in_run(now, run.rtt, &mut run.data, &stream);
        taken_in.map_err(|error| error.in_frame(Frame::Stream(stream).kind()))?;
        run.numbers.end += 1;
        Ok(true)
    }

    /// The same for a packet whose data, `len` bytes of it, is in its place.
    #[inline(always)]
    pub(super) fn go_on_placed(
        &mut self,
        now: Time,
        run: &mut Run,
        reserved: &Reserved,
        len: usize,
    ) -> Result<(), Stop> {
        let taken_in = self.streams.on_placed_in_run(now, run.rtt, &mut run.data, reserved, len);
        taken_in.map_err(|error| error.in_frame(STREAM))?;
        run.numbers.end += 1;
        Ok(())
    }

    /// Settles the run, if there is one, and ends it.
    ///
    /// # Errors
    /// If the data of its packets could not be counted. Then none of them is acknowledged, and the connection is to be closed.
    #[inline(always)]
    pub(super) fn end_run(&mut self, now: Time, run: &mut Option<Run>) -> Result<(), TransportError> {
        match run.take() {
            Some(run) if !run.numbers.is_empty() => self.settle_run(now, run),
            _ => Ok(()),
        }
    }

    #[inline(never)]
    fn settle_run(&mut self, now: Time, run: Run) -> Result<(), TransportError> {
        let Run { path, ecn, numbers, rtt, mut data, .. } = run;
        self.streams.settle_run(now, rtt, &mut data).map_err(|error| error.in_frame(STREAM))?;
        self.paths.on_path_lives(now, path);
        let Some(path) = self.paths.list.get_mut(path) else { return Ok(()) };
        let count = numbers.end - numbers.start;
        path.data_packets += count;
        path.largest_number = Some(numbers.end - 1);
        path.largest_moving = path.largest_number;
        self.paths.numbering.on_received(&mut path.received, now, numbers, true, ecn, &self.ack_policy);
        #[cfg(test)]
        SETTLED.set(SETTLED.get() + count);
        Ok(())
    }
}
