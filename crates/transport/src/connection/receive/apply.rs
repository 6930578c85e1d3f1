//! Effects of an authentic 1-RTT packet on the connection: its path, its frames, its acknowledgment.

use anabranch_wire::{ConnectionId, PathId, SpaceId, Stream, Time};

use super::direct::{Contents, Direct};
use super::envelope::{Stop, check_reserved};
use super::frames::Seen;
use super::named::{STREAM, check_named};
use super::open::Opened;
use super::short::{KIND, Short};
use super::train::Train;
use crate::connection::connection::Connection;
use crate::context::Context;
use crate::stream::Reserved;
use crate::trace::{DropReason, PacketTrace, TraceEvent};

impl Connection {
    /// Applies a decrypted packet. It joins `train` if it contains nothing but data that continues the
    /// train's stream.
    #[inline(always)]
    pub(in crate::connection) fn apply(
        &mut self,
        now: Time,
        short: &Short<'_>,
        opened: Opened<'_>,
        train: &mut Option<Train>,
    ) -> Result<(), Stop> {
        match opened {
            Opened::Direct(direct) => {
                let Direct { reserved, contents, others } = &direct;
                let done = match train {
                    Some(train) if contents.is_data_alone() && others.is_empty() => {
                        self.append_direct(now, train, reserved, contents.len)
                    }
                    _ => self.apply_direct(now, short, reserved, contents, others, train),
                };
                self.streams.leave(reserved);
                done
            }
            Opened::InPlace(payload) => {
                if let Some(train) = train
                    && !self.format.names_stream
                    && self.append(now, train, payload)?
                {
                    return Ok(());
                }
                self.end_train(now, train)?;
                let path = self.apply_payload(now, short, payload)?;
                *train = self.begin_train(short, path);
                Ok(())
            }
        }
    }

    /// Applies a packet whose data is already in its stream's buffer: first the data, then the other frames.
    #[inline(always)]
    fn apply_direct(
        &mut self,
        now: Time,
        short: &Short<'_>,
        reserved: &Reserved,
        contents: &Contents,
        others: &[u8],
        train: &mut Option<Train>,
    ) -> Result<(), Stop> {
        self.end_train(now, train)?;
        let &Contents { offset, fin, len, stays, ref copy } = contents;
        check_reserved(short.unmasked.reserved_ok)?;
        let path = self.on_authentic_short(now, short, others, copy.as_deref().unwrap_or_default())?;
        let context = self.context_of(short, path);
        self.paths.learn_local_address(&context);
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
        // Stream data is ack-eliciting and not probing.
        self.after_frames(
            now,
            &context,
            short.envelope.ecn,
            Seen { eliciting: true, pings: false, probing: false },
        )?;
        *train = self.begin_train(short, path);
        Ok(())
    }

    /// Applies a packet that was decrypted in place. Returns its path.
    #[inline(always)]
    fn apply_payload(&mut self, now: Time, short: &Short<'_>, payload: &[u8]) -> Result<PathId, Stop> {
        let &Short { envelope, dcid, path, number, unmasked, .. } = short;
        if !self.paths.numbering.is_single()
            && self.paths.list.get(path).is_none()
            && !self.open_for_peer(now, path, *envelope.tuple, *dcid, envelope.len)
        {
            return Err(Stop::Drop(DropReason::Unexpected));
        }
        // `is_new` is also `false` if the path was not open yet, so the number is checked again now.
        if !short.is_new && self.paths.is_duplicate_on(path, number) {
            return Err(Stop::Drop(DropReason::Duplicate));
        }
        check_reserved(unmasked.reserved_ok)?;
        if self.format.names_stream {
            check_named(payload, self.format.direction, unmasked.placement.as_ref())?;
        }
        let path = self.on_authentic_short(now, short, payload, payload)?;
        let context = self.context_of(short, path);
        self.paths.learn_local_address(&context);
        self.on_payload(now, &context, envelope.ecn, payload)?;
        Ok(path)
    }

    /// Applies the effects of an authentic packet that do not depend on its frames, except address changes,
    /// and returns its path. `telling` contains the frames that may identify the path; `payload` is passed to
    /// an observer.
    #[inline(always)]
    pub(in crate::connection) fn on_authentic_short(
        &mut self,
        now: Time,
        short: &Short<'_>,
        telling: &[u8],
        payload: &[u8],
    ) -> Result<PathId, Stop> {
        let &Short { envelope, dcid, path, .. } = short;
        let path = match self.paths.numbering.is_single() {
            true => self.locate(now, envelope.tuple, *dcid, envelope.len, telling),
            false => Some(path),
        };
        let path = path.ok_or(Stop::Drop(DropReason::Unexpected))?;
        if self.output.observer.is_some() {
            self.trace_short(now, path, short, payload);
        }
        self.idle.on_received(now);
        self.paths.on_path_heard(now, path);
        self.on_heard_between(path, envelope.tuple);
        Ok(path)
    }

    #[inline(always)]
    pub(in crate::connection) fn context_of<'a>(&self, short: &Short<'a>, path: PathId) -> Context<'a> {
        let &Short { envelope, dcid, number, .. } = short;
        Context {
            kind: KIND,
            space: SpaceId::Data,
            path,
            number,
            tuple: envelope.tuple,
            dcid,
            datagram_len: envelope.len,
            direction: self.format.direction,
            is_usual: short.is_dcid_usual && envelope.is_on_only_path,
        }
    }

    pub(in crate::connection) fn trace_short(
        &mut self,
        now: Time,
        path: PathId,
        short: &Short<'_>,
        payload: &[u8],
    ) {
        let packet = PacketTrace {
            kind: KIND,
            version: self.format.version,
            path,
            number: short.number,
            dcid: *short.dcid,
            scid: ConnectionId::EMPTY,
            key_phase: short.unmasked.key_phase,
            size: short.len,
            payload,
            direction: self.format.direction,
        };
        self.trace(now, &TraceEvent::PacketReceived(packet));
    }
}
