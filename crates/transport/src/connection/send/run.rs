//! Runs: consecutive packets of a batch, each filled with new data of one stream while nothing else is pending. What is the same for
//! all of them is determined once, and their headers are masked together.

use anabranch_recovery::Permit;
use anabranch_wire::{Outgoing, PacketKind, PathId, SpaceId, Time};
use smallvec::SmallVec;

use super::draft::Target;
use crate::connection::connection::Connection;
use crate::connection::parts::MASKED_AT_ONCE;
use crate::path::Turn;
use crate::stream::StreamRun;

#[cfg(test)]
thread_local! {
    /// Number of packets that this thread has written in runs; `None` if it writes each one alone.
    pub(crate) static IN_RUNS: std::cell::Cell<Option<u64>> = const { std::cell::Cell::new(Some(0)) };
}

impl Connection {
    /// Writes datagrams of `mtu` bytes into `buffer` as long as they carry nothing but new data of one stream. They are the
    /// same as [`Self::write_datagram`] would write. Returns their length.
    pub(super) fn write_run(
        &mut self,
        now: Time,
        id: PathId,
        turn: &Turn,
        buffer: &mut [u8],
        mtu: usize,
        ect: bool,
    ) -> usize {
        #[cfg(test)]
        if IN_RUNS.get().is_none() {
            return 0;
        }
        if buffer.len() < mtu {
            return 0;
        }
        let Some(run) = self.streams.run() else { return 0 };
        if self.streams.left_of(&run) < mtu as u64 || !self.carries_streams_alone(now, id, turn) {
            return 0;
        }
        let mut len = 0;
        for part in buffer.chunks_mut(MASKED_AT_ONCE * mtu) {
            let written = self.write_part(now, id, &run, part, mtu, ect);
            len += written;
            if written < part.len() {
                break;
            }
        }
        if len > 0 {
            self.streams.end_run(&run);
        }
        #[cfg(test)]
        IN_RUNS.set(IN_RUNS.get().map(|count| count + (len / mtu) as u64));
        len
    }

    /// Writes up to [`MASKED_AT_ONCE`] datagrams of a run. Returns their length.
    fn write_part(
        &mut self,
        now: Time,
        id: PathId,
        run: &StreamRun,
        part: &mut [u8],
        mtu: usize,
        ect: bool,
    ) -> usize {
        let mut headers = SmallVec::<[Outgoing; MASKED_AT_ONCE]>::new();
        let mut len = 0;
        for datagram in part.chunks_exact_mut(mtu) {
            if self.streams.left_of(run) < mtu as u64 {
                break;
            }
            let Some(path) = self.paths.list.get_mut(id) else { break };
            if !matches!(path.recovery.permit(now), Permit::Bytes(_)) {
                break;
            }
            let Some((outgoing, written)) = self.write_unmasked(now, id, run, datagram, ect) else { break };
            headers.push(outgoing);
            len += written;
            if written < mtu {
                break;
            }
        }
        self.mask(&mut part[..len], mtu, &headers);
        len
    }

    /// Writes and encrypts one packet of a run. Returns its layout and its length; `None` if the connection has failed.
    pub(super) fn write_unmasked(
        &mut self,
        now: Time,
        id: PathId,
        run: &StreamRun,
        datagram: &mut [u8],
        ect: bool,
    ) -> Option<(Outgoing, usize)> {
        let announced = if self.format.names_stream { self.streams.announce_run(run) } else { None };
        let target =
            Target { path: id, space: SpaceId::Data, kind: PacketKind::OneRtt, dcid: None, announced };
        let draft = self.draft(target, datagram, 0, |this, writer, tokens| {
            this.streams.write_run(run, writer, tokens);
        })?;
        let (outgoing, end) = (draft.outgoing, draft.end);
        if let Err(error) = self.encrypt(now, id, datagram, draft, end, ect) {
            self.fail(now, error);
            return None;
        }
        self.paths.list.get_mut(id)?.on_datagram_sent(end);
        Some((outgoing, end))
    }

    /// Masks the headers of encrypted 1-RTT packets, of which each but the last has `mtu` bytes.
    pub(super) fn mask(&self, packets: &mut [u8], mtu: usize, headers: &[Outgoing]) {
        let Some(keys) = self.keys.seal(PacketKind::OneRtt).filter(|_| !headers.is_empty()) else { return };
        let mut masks = [[0; 16]; MASKED_AT_ONCE];
        for ((packet, outgoing), mask) in packets.chunks(mtu).zip(headers).zip(&mut masks) {
            // Packets of a run are longer than any sample's end.
            *mask = self.format.sample(packet, outgoing.kind, outgoing.pn_offset).unwrap_or_default();
        }
        keys.header.masks(&mut masks[..headers.len()]);
        for ((packet, outgoing), mask) in packets.chunks_mut(mtu).zip(headers).zip(&masks) {
            self.format.mask(packet, outgoing, mask);
        }
    }

    /// Returns whether the path carries new stream data and [nothing else](Self::sends_streams_alone).
    fn carries_streams_alone(&self, now: Time, id: PathId, turn: &Turn) -> bool {
        let is_picked = turn.kinds(id, false).new && turn.copied_to(id).is_none();
        is_picked && self.sends_streams_alone(now, id)
    }

    /// Returns whether no ACK, control frame, message, copy or probe is pending for a path that works. This holds until something is
    /// received, written or due.
    pub(super) fn sends_streams_alone(&self, now: Time, id: PathId) -> bool {
        let Some(path) = self.paths.list.get(id) else { return false };
        let is_one_rtt =
            self.keys.initial.is_none() && self.keys.handshake.is_none() && self.keys.one_rtt.is_some();
        let is_well = path.address.validated && !path.is_failing && path.recovery.probes(SpaceId::Data) == 0;
        let is_alone = !path.ping
            && !self.has_control(path, PacketKind::OneRtt)
            && !self.datagrams.has_pending()
            && !self.datagrams.wants_short_queues(now)
            && !self.paths.has_copies(id)
            && !self.paths.schedules_waiting_acks()
            && self.paths.acks_on(now, path) == (false, false);
        is_one_rtt && is_well && is_alone
    }
}
