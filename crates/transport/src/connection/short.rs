//! Packets with short headers: 1-RTT packets, which nearly all are (RFC 9000 §17.3, RFC 9001 §5).

use crate::path::Addressee;
use anabranch_wire::{
    ConnectionClose, ConnectionId, PacketKind, PathId, ShortHeader, SpaceId, Time, Unmasked,
    decode_packet_number,
};

use super::after_end::find_close;
use super::connection::Connection;
use super::keys::{OneRtt, Phase};
use super::named::check_named;
use super::prepare::{Mask, Ready};
use super::receive::{Envelope, Stop, check_reserved};
use super::run::Run;
use crate::context::Context;
use crate::space::Numbers;
use crate::trace::{DropReason, PacketTrace, TraceEvent};

const KIND: PacketKind = PacketKind::OneRtt;

/// A packet whose header protection is off. Nothing of it is authentic.
#[derive(Clone, Copy)]
pub(super) struct Short<'a> {
    pub(super) envelope: &'a Envelope<'a>,
    pub(super) dcid: &'a ConnectionId,
    /// The path of the connection ID. With one number space any will do until the packet is open and can be located.
    pub(super) path: PathId,
    pub(super) number: u64,
    pub(super) unmasked: &'a Unmasked,
    /// The key that opens it.
    pub(super) phase: Phase,
    /// The path is open, and the number was not received before.
    pub(super) is_new: bool,
    /// The connection ID is the one in use on the main path.
    is_dcid_usual: bool,
    /// It is smaller than all that were received on the path in the current key phase.
    is_older: bool,
    len: usize,
}

impl<'a> Short<'a> {
    /// The packet that may come next in a run.
    #[inline(always)]
    fn next_of(
        run: &Run,
        envelope: &'a Envelope<'a>,
        dcid: &'a ConnectionId,
        to: Addressee,
        unmasked: &'a Unmasked,
        len: usize,
    ) -> Self {
        Self {
            envelope,
            dcid,
            path: to.path,
            number: run.next(),
            unmasked,
            phase: Phase::Current,
            is_new: true,
            is_dcid_usual: to.is_usual,
            is_older: false,
            len,
        }
    }
}

impl Connection {
    /// Opens the packet, in the place of its stream data if it names one, and processes it.
    pub(super) fn handle_one_rtt(
        &mut self,
        now: Time,
        envelope: &Envelope<'_>,
        packet: &mut [u8],
        ready: Ready<'_>,
        run: &mut Option<Run>,
    ) -> Result<(), Stop> {
        let header = ShortHeader::read(packet, self.shared.cid_len());
        let ShortHeader { pn_offset, fixed_bit, dcid } = header.ok_or(Stop::Drop(DropReason::Malformed))?;
        if !fixed_bit && !self.config.grease {
            return Err(Stop::Drop(DropReason::Malformed));
        }
        let other;
        let dcid = if ready.dcid.is(dcid) {
            ready.dcid
        } else {
            other = ConnectionId::new(dcid).ok_or(Stop::Drop(DropReason::UnknownConnectionId))?;
            &other
        };
        let to = self.paths.addressee(dcid).ok_or(Stop::Drop(DropReason::UnknownConnectionId))?;
        if !self.has_open_key(KIND) {
            return self.keep_undecrypted(envelope, KIND, packet);
        }
        let made;
        let mask = match ready.mask {
            Some(mask) => mask,
            None => {
                made = self.short_mask(packet, pn_offset).ok_or(Stop::Drop(DropReason::Malformed))?;
                &made
            }
        };
        let unmasked = self.format.unmask(packet, KIND, pn_offset, mask);
        if unmasked.header_len > packet.len() {
            return Err(Stop::Drop(DropReason::Malformed));
        }
        let short = match run {
            Some(run) if self.goes_on(run, envelope, to, dcid, &unmasked) => {
                Short::next_of(run, envelope, dcid, to, &unmasked, packet.len())
            }
            _ => {
                self.end_run(now, run)?;
                self.numbered(now, envelope, dcid, to, &unmasked, packet.len())
            }
        };
        if let Some(done) = self.place(now, &short, packet, run) {
            return done;
        }
        let payload = self.open_short(now, &short, packet)?;
        if let Some(run) = run
            && !self.format.names_stream
            && self.go_on(now, run, payload)?
        {
            return Ok(());
        }
        self.end_run(now, run)?;
        self.process_short(now, &short, payload)?;
        *run = self.begin_run(&short);
        Ok(())
    }

    /// Processes a packet that was opened where it is.
    #[inline(always)]
    fn process_short(&mut self, now: Time, short: &Short<'_>, payload: &[u8]) -> Result<(), Stop> {
        let &Short { envelope, dcid, path, number, unmasked, .. } = short;
        if !self.paths.numbering.is_single()
            && self.paths.list.get(path).is_none()
            && !self.open_for_peer(now, path, *envelope.tuple, *dcid, envelope.len)
        {
            return Err(Stop::Drop(DropReason::Unexpected));
        }
        // With the path open, its numbers may tell more.
        if !short.is_new && self.paths.is_duplicate_on(path, number) {
            return Err(Stop::Drop(DropReason::Duplicate));
        }
        check_reserved(unmasked.reserved_ok)?;
        if self.format.names_stream {
            check_named(payload, self.format.direction, unmasked.placement.as_ref())?;
        }
        let path = self.on_authentic_short(now, short, payload, payload)?;
        let context = self.context_of(short, path);
        self.paths.settle_local_address(&context);
        self.on_payload(now, &context, envelope.ecn, payload)?;
        Ok(())
    }

    fn short_mask(&self, packet: &[u8], pn_offset: usize) -> Option<Mask> {
        let sample = self.format.sample(packet, KIND, pn_offset)?;
        Some(self.keys.one_rtt.as_ref()?.remote.header.mask(&sample))
    }

    /// Decodes the packet's number, which tells how it is to be opened.
    #[inline(always)]
    fn numbered<'a>(
        &mut self,
        now: Time,
        envelope: &'a Envelope<'a>,
        dcid: &'a ConnectionId,
        Addressee { path, is_usual: is_dcid_usual }: Addressee,
        unmasked: &'a Unmasked,
        len: usize,
    ) -> Short<'a> {
        let received = self.paths.list.get(path).map(|path| &path.received);
        let numbers = self.paths.numbering.numbers_of(received);
        let largest = numbers.and_then(Numbers::largest);
        let number = decode_packet_number(largest, unmasked.truncated_pn, unmasked.pn_bits);
        let is_new = received.is_some() && numbers.is_some_and(|numbers| !numbers.is_duplicate(number));
        let is_older = numbers.and_then(Numbers::first_of_phase).is_none_or(|first| number < first);
        let keys = self.keys.one_rtt.as_mut();
        let phase = keys.map_or(Phase::Current, |keys| keys.phase_of(now, unmasked.key_phase, is_older));
        Short { envelope, dcid, path, number, unmasked, phase, is_new, is_dcid_usual, is_older, len }
    }

    /// Opens the packet in place; its plaintext.
    fn open_short<'p>(
        &mut self,
        now: Time,
        short: &Short<'_>,
        packet: &'p mut [u8],
    ) -> Result<&'p [u8], Stop> {
        let &Short { path, number, unmasked, phase, .. } = short;
        let keys = self.keys.one_rtt.as_ref().ok_or(Stop::Drop(DropReason::KeyUnavailable))?;
        let nonce_path = self.paths.numbering.nonce_path(path);
        match keys.opener(phase).open(nonce_path, number, unmasked.header_len, packet) {
            Ok(len) => {
                self.on_opened(now, short);
                Ok(&packet[unmasked.header_len..][..len])
            }
            Err(_) => Err(self.on_unopened()),
        }
    }

    /// The CONNECTION_CLOSE of a packet and its path, whatever else is in it or wrong with it.
    pub(super) fn close_in_short<'p>(
        &mut self,
        now: Time,
        envelope: &Envelope<'_>,
        packet: &'p mut [u8],
    ) -> Option<(PathId, ConnectionClose<'p>)> {
        let ShortHeader { pn_offset, dcid, .. } = ShortHeader::read(packet, self.shared.cid_len())?;
        let dcid = ConnectionId::new(dcid)?;
        let to = self.paths.addressee(&dcid)?;
        let mask = self.short_mask(packet, pn_offset)?;
        let unmasked = self.format.unmask(packet, KIND, pn_offset, &mask);
        if unmasked.header_len > packet.len() {
            return None;
        }
        let short = self.numbered(now, envelope, &dcid, to, &unmasked, packet.len());
        let path = short.path;
        let payload = self.open_short(now, &short, packet).ok()?;
        let close = find_close(payload, self.format.direction)?;
        self.trace_short(now, path, &short, payload);
        Some((path, close))
    }

    /// A packet was opened, which says something about the key phase.
    #[inline(always)]
    pub(super) fn on_opened(&mut self, now: Time, short: &Short<'_>) {
        let followed = self.keys.one_rtt.as_ref().is_some_and(OneRtt::is_followed);
        if short.phase != Phase::Current || short.is_older || !followed {
            self.note_phase(now, short.phase, short.path, short.number);
        }
    }

    fn note_phase(&mut self, now: Time, phase: Phase, path: PathId, number: u64) {
        match phase {
            Phase::Previous => return,
            Phase::Next => self.on_peer_key_update(now),
            Phase::Current => {
                if let Some(keys) = &mut self.keys.one_rtt {
                    keys.on_peer_followed(now);
                }
            }
        }
        if let Some(path) = self.paths.list.get_mut(path) {
            self.paths.numbering.note_phase(&mut path.received, number);
        }
    }

    fn on_peer_key_update(&mut self, now: Time) {
        let retain = self.paths.list.max_pto() * 3;
        let Some(keys) = &mut self.keys.one_rtt else { return };
        keys.update(now, self.format, true, retain);
        let generation = keys.generation;
        self.paths.begin_phase();
        self.trace(now, &TraceEvent::KeyUpdated { generation, remote: true });
    }

    /// What an authentic packet changes whatever its frames are, but for addresses; its path. `telling` are those of its frames that may tell which
    /// path it is on, `payload` is what an observer is shown.
    #[inline(always)]
    pub(super) fn on_authentic_short(
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
        if self.observer.is_some() {
            self.trace_short(now, path, short, payload);
        }
        self.idle.on_received(now);
        self.paths.on_path_heard(now, path);
        self.on_heard_between(path, envelope.tuple);
        Ok(path)
    }

    #[inline(always)]
    pub(super) fn context_of<'a>(&self, short: &Short<'a>, path: PathId) -> Context<'a> {
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

    fn trace_short(&mut self, now: Time, path: PathId, short: &Short<'_>, payload: &[u8]) {
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
