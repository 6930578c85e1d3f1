//! Trains: packets of one batch that arrive on one path, have consecutive packet numbers, and carry
//! consecutive data of one stream and no other frame.
//!
//! Each packet of a train is unmasked, decrypted and written to the receive buffer like any other. Its
//! remaining effects (flow control, ACK state, counters) are sums, or depend on the train's last packet
//! alone; they are applied once, when the train ends and before the connection processes anything else. The
//! result equals that of processing the packets one by one (`tests/train.rs`), with two exceptions: data
//! reaches the buffer in another way ([`super::guess`]), and a custom ACK strategy is asked once for the train.

use std::ops::Range;
use std::time::Duration;

use anabranch_wire::{ConnectionId, Ecn, Frame, Frames, PathId, Time, Unmasked};

use super::envelope::{Envelope, Stop};
use super::named::STREAM;
use super::short::Short;
use crate::connection::connection::Connection;
use crate::connection::parts::Phase;
use crate::error::TransportError;
use crate::path::Addressee;
use crate::space::Gap;
use crate::stream::{Reserved, StreamTrain};

/// Packets of a train that are not credited yet.
#[derive(Debug)]
pub(in crate::connection) struct Train {
    path: PathId,
    key_phase: bool,
    ecn: Option<Ecn>,
    /// Packet numbers of the train. The next packet's number is the range's end.
    numbers: Range<u64>,
    /// Unreceived numbers directly after the packet that began the train.
    gap: Gap,
    /// Longest round-trip time of the paths.
    rtt: Duration,
    data: Option<StreamTrain>,
}

#[cfg(test)]
thread_local! {
    /// Number of packets that were credited in trains, and number of those among them that another path had
    /// overtaken.
    pub(crate) static IN_TRAINS: std::cell::Cell<[u64; 2]> = const { std::cell::Cell::new([0; 2]) };
}

impl Train {
    /// Returns the number that the next packet must have.
    #[inline]
    pub(in crate::connection) fn next(&self) -> u64 {
        self.numbers.end
    }

    /// Returns the path of the train's packets.
    #[inline(always)]
    pub(in crate::connection) fn path(&self) -> PathId {
        self.path
    }

    /// Returns the stream that the train continues.
    #[inline(always)]
    pub(in crate::connection) fn data(&self) -> Option<&StreamTrain> {
        self.data.as_ref()
    }
}

impl Connection {
    /// Returns whether a packet has the next packet number of the train, and agrees with the train's packets
    /// in addresses, connection ID, key phase and ECN marking.
    #[inline(always)]
    pub(in crate::connection) fn is_next_in(
        &self,
        train: &Train,
        envelope: &Envelope<'_>,
        to: Addressee,
        dcid: &ConnectionId,
        unmasked: &Unmasked,
    ) -> bool {
        train.gap.names(train.next(), unmasked.truncated_pn, unmasked.pn_bits)
            && unmasked.key_phase == train.key_phase
            && unmasked.reserved_ok
            && envelope.ecn == train.ecn
            && (to.is_usual && envelope.is_on_only_path
                || self.paths.came_as_usual_on(envelope.tuple, train.path, dcid))
    }

    /// Starts the train that may follow a fully processed packet of `path`.
    pub(in crate::connection) fn begin_train(&mut self, short: &Short<'_>, path: PathId) -> Option<Train> {
        let &Short { envelope, dcid, number, .. } = short;
        let is_plain = envelope.is_one_of_many
            && short.phase == Phase::Current
            && self.output.observer.is_none()
            && self.state.is_active()
            && self.paths.is_usual_of(path, envelope.tuple, dcid);
        if !is_plain {
            return None;
        }
        let on = self
            .paths
            .list
            .get(path)
            .filter(|on| on.numbers.largest == Some(number) && !on.is_abandoned())?;
        let gap = self.paths.numbering.numbers_of(Some(&on.received))?.gap_after(number)?;
        Some(Train {
            path,
            key_phase: short.unmasked.key_phase,
            ecn: envelope.ecn,
            numbers: gap.first()..gap.first(),
            gap,
            rtt: self.paths.list.longest_rtt(),
            data: self.streams.begin_train(),
        })
    }

    /// Appends the packet with `payload` to the train if it contains only stream data. Returns whether it
    /// did.
    #[inline(always)]
    pub(in crate::connection) fn append(
        &mut self,
        now: Time,
        train: &mut Train,
        payload: &[u8],
    ) -> Result<bool, Stop> {
        let mut frames = Frames::new(payload, self.format.direction);
        let Some(stream) = frames.next_stream().filter(|stream| !stream.fin && frames.is_over()) else {
            return Ok(false);
        };
        let taken_in =
            self.streams.on_stream_in_train(now, train.rtt, &mut train.data, &stream, payload.len());
        taken_in.map_err(|error| error.in_frame(Frame::Stream(stream).kind()))?;
        train.numbers.end += 1;
        Ok(true)
    }

    /// Appends a packet whose `len` bytes of data were decrypted to their place because they were expected.
    #[inline(always)]
    pub(in crate::connection) fn append_guessed(
        &mut self,
        train: &mut Train,
        len: usize,
    ) -> Result<(), Stop> {
        self.streams.on_next_placed(&mut train.data, len).map_err(|error| error.in_frame(STREAM))?;
        train.numbers.end += 1;
        Ok(())
    }

    /// Appends a packet whose `len` bytes of data are already at their place in the receive buffer.
    #[inline(always)]
    pub(in crate::connection) fn append_direct(
        &mut self,
        now: Time,
        train: &mut Train,
        reserved: &Reserved,
        len: usize,
    ) -> Result<(), Stop> {
        let taken_in = self.streams.on_placed_in_train(now, train.rtt, &mut train.data, reserved, len);
        taken_in.map_err(|error| error.in_frame(STREAM))?;
        train.numbers.end += 1;
        Ok(())
    }

    /// Ends the train, if there is one, and credits its packets.
    ///
    /// # Errors
    /// Returns an error if the data of the packets violates a limit. None of them is then acknowledged, and
    /// the connection must be closed.
    #[inline(always)]
    pub(in crate::connection) fn end_train(
        &mut self,
        now: Time,
        train: &mut Option<Train>,
    ) -> Result<(), TransportError> {
        match train.take() {
            Some(train) if !train.numbers.is_empty() => self.credit_train(now, train),
            _ => Ok(()),
        }
    }

    #[inline(never)]
    fn credit_train(&mut self, now: Time, train: Train) -> Result<(), TransportError> {
        let Train { path: id, ecn, numbers, rtt, mut data, .. } = train;
        self.streams.credit_train(now, rtt, &mut data).map_err(|error| error.in_frame(STREAM))?;
        self.idle.on_received(now);
        self.paths.on_path_lives(now, id);
        let Some(path) = self.paths.list.get_mut(id) else { return Ok(()) };
        let count = numbers.end - numbers.start;
        path.counters.data_packets += count;
        path.numbers.largest = Some(numbers.end - 1);
        path.numbers.largest_moving = path.numbers.largest;
        let rule = self.acks.rule(now, path, count);
        #[cfg(test)]
        self.paths.numbering.numbers_of(Some(&path.received)).inspect(|all| {
            let overtaken = if all.largest() >= Some(numbers.end) { count } else { 0 };
            IN_TRAINS.set([IN_TRAINS.get()[0] + count, IN_TRAINS.get()[1] + overtaken]);
        });
        self.paths.numbering.on_received(&mut path.received, now, numbers, true, ecn, &rule);
        self.count_together(id, rule.threshold);
        Ok(())
    }
}
