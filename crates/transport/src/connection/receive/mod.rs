//! Processing of received datagrams (RFC 9000 §12): first packets with a [long](self::long) header, then one
//! with a [short](self::short) header. Most datagrams contain only the latter.

mod after_end;
mod apply;
mod direct;
mod envelope;
mod frames;
mod guess;
mod long;
mod named;
mod one_rtt;
mod open;
mod prepare;
mod short;
mod train;

use anabranch_wire::{PacketKind, ResetToken, ShortHeader, Time, parse_packet};

use self::envelope::{Envelope, Stop};
use self::prepare::{MASKS_AT_ONCE, Ready};
use self::train::Train;
#[cfg(test)]
pub(crate) use self::{frames::MAX_NEW_TOKENS, guess::GUESSES, train::IN_TRAINS};
use crate::connection::connection::Connection;
use crate::connection::parts::Kept;
use crate::datagram_io::Datagram;
use crate::trace::{DropReason, TraceEvent};

impl Connection {
    /// Processes datagrams that the router has assigned to this connection. Their payload is overwritten.
    pub fn handle_batch(&mut self, now: Time, batch: &mut [Datagram<'_>]) {
        self.idle.rest.on_datagrams(now);
        self.keys.wake();
        if let [only] = batch {
            self.handle_datagram(now, only, Ready::NOT, &mut None);
        } else {
            self.handle_datagrams(now, batch);
        }
        self.retry_undecrypted(now);
        self.rotate_old_cids(now);
        self.report_states(now);
    }

    fn handle_datagrams(&mut self, now: Time, batch: &mut [Datagram<'_>]) {
        let mut train = None;
        for part in batch.chunks_mut(MASKS_AT_ONCE) {
            let prepared = self.prepare(part);
            for (index, datagram) in part.iter_mut().enumerate() {
                self.handle_datagram(now, datagram, prepared.of(index), &mut train);
            }
        }
        self.finish_train(now, &mut train);
    }

    /// Processes a datagram. `ready` contains prepared values for a packet with a short header at its front.
    #[inline(always)]
    fn handle_datagram(
        &mut self,
        now: Time,
        datagram: &mut Datagram<'_>,
        ready: Ready<'_>,
        train: &mut Option<Train>,
    ) {
        if !self.state.is_active() {
            return self.handle_datagram_after_end(now, datagram);
        }
        let Datagram { tuple, ecn, payload } = datagram;
        let only = self.paths.list.only_on(tuple);
        let envelope = Envelope {
            tuple,
            ecn: *ecn,
            len: payload.len(),
            is_on_only_path: only.is_some(),
            is_one_of_many: ready.mask.is_some(),
        };
        if let Some(path) = only {
            path.on_datagram_received(envelope.len);
        } else if let Some(path) = self.paths.list.by_tuple_mut(tuple) {
            path.on_datagram_received(envelope.len);
        } else if self.side.is_client() && !self.paths.knows_remote(tuple) {
            // RFC 9000 §9: a client accepts packets only from addresses that it knows as the server's.
            return self.drop_packet(now, None, envelope.len, DropReason::Unexpected);
        }
        if ShortHeader::leads(payload) {
            self.handle_short(now, &envelope, payload, ready, train);
        } else {
            self.handle_packets(now, &envelope, payload, train);
        }
    }

    /// Processes the packets of a datagram in order (RFC 9000 §12.2).
    #[inline(never)]
    fn handle_packets(
        &mut self,
        now: Time,
        envelope: &Envelope<'_>,
        mut rest: &mut [u8],
        train: &mut Option<Train>,
    ) {
        self.finish_train(now, train);
        let whole = rest.len();
        let tail = rest.last_chunk().copied();
        while !rest.is_empty() && self.state.is_active() {
            let is_first = rest.len() == whole;
            if ShortHeader::leads(rest) {
                if !is_first && rest.iter().all(|byte| *byte == 0) {
                    return; // Padding after the packets, which some endpoints add to datagrams with Initials: no packet begins with zeros.
                }
                return self.handle_short(now, envelope, rest, Ready::NOT, train);
            }
            let Ok(header) = parse_packet(rest, self.shared.cid_len()) else {
                return self.drop_packet(now, None, rest.len(), DropReason::Malformed);
            };
            let (packet, next) = rest.split_at_mut(header.end);
            rest = next;
            if let Err(stop) = self.handle_long(now, envelope, packet, &header) {
                self.stop_packet(now, envelope, header.kind, header.end, stop);
                if is_first {
                    self.look_for_reset(now, tail, train);
                }
            }
        }
    }

    /// Processes the packet with a short header, which is always the last of its datagram.
    fn handle_short(
        &mut self,
        now: Time,
        envelope: &Envelope<'_>,
        packet: &mut [u8],
        ready: Ready<'_>,
        train: &mut Option<Train>,
    ) {
        let len = packet.len();
        // A failed decryption destroys these bytes.
        let tail = packet.last_chunk().copied();
        if let Err(stop) = self.handle_one_rtt(now, envelope, packet, ready, train) {
            if matches!(stop, Stop::Fail(_)) {
                self.finish_train(now, train);
            }
            self.stop_packet(now, envelope, PacketKind::OneRtt, len, stop);
            if len == envelope.len {
                self.look_for_reset(now, tail, train);
            }
        }
    }

    /// Ends the connection if a datagram, whose first packet could not be processed, ends with one of the
    /// peer's stateless reset tokens (RFC 9000 §10.3.1). The router recognizes all other stateless resets: in
    /// this one, the bytes in the place of the connection ID are one of this endpoint's.
    #[cold]
    fn look_for_reset(&mut self, now: Time, tail: Option<[u8; 16]>, train: &mut Option<Train>) {
        let Some(token) = tail.map(ResetToken) else { return };
        if self.state.is_active() && self.paths.list.iter().any(|path| path.remote_cids.may_reset(&token)) {
            self.finish_train(now, train);
            self.handle_reset(now);
        }
    }

    /// Ends the train. Closes the connection if the data of the train violates a limit.
    fn finish_train(&mut self, now: Time, train: &mut Option<Train>) {
        if let Err(error) = self.end_train(now, train) {
            self.fail(now, error);
        }
    }

    /// Drops a packet of `kind` and `len` bytes, or closes the connection because of it.
    #[inline(never)]
    fn stop_packet(&mut self, now: Time, envelope: &Envelope<'_>, kind: PacketKind, len: usize, stop: Stop) {
        match stop {
            Stop::Drop(reason) => self.drop_packet(now, Some(kind), len, reason),
            Stop::Fail(error) => self.fail_towards(now, error, envelope.tuple),
        }
    }

    /// Keeps a packet whose keys may still become available.
    pub(in crate::connection) fn keep_undecrypted(
        &mut self,
        envelope: &Envelope<'_>,
        kind: PacketKind,
        packet: &[u8],
    ) -> Result<(), Stop> {
        let early = !self.handshake.progress.complete || kind == PacketKind::OneRtt;
        let wanted = early && kind != PacketKind::Initial && !self.is_key_gone(kind);
        let validated = self.paths.list.main().address.validated;
        if wanted && self.keys.undecrypted.keep(envelope.tuple, envelope.ecn, envelope.len, packet, validated)
        {
            Ok(())
        } else {
            Err(Stop::Drop(DropReason::KeyUnavailable))
        }
    }

    #[inline]
    pub(in crate::connection) fn has_open_key(&self, kind: PacketKind) -> bool {
        match kind {
            // RFC 9001 §5.7: a server must not process 1-RTT packets before the handshake is complete.
            PacketKind::OneRtt => self.keys.one_rtt.is_some() && self.handshake.progress.complete,
            PacketKind::ZeroRtt => self.side.is_server() && self.keys.early.is_some(),
            _ => self.keys.open(kind).is_some(),
        }
    }

    /// Returns whether the keys for `kind` have been discarded or will never be available.
    fn is_key_gone(&self, kind: PacketKind) -> bool {
        match kind {
            PacketKind::Initial => true,
            PacketKind::ZeroRtt => self.side.is_client() || self.handshake.session.is_some(),
            PacketKind::Handshake => self.handshake.progress.complete,
            _ => false,
        }
    }

    /// Counts a packet that could not be decrypted, and returns the reason for not processing it.
    pub(in crate::connection) fn on_unopened(&mut self) -> Stop {
        match self.keys.on_failed_open() {
            Ok(()) => Stop::Drop(DropReason::Undecryptable),
            Err(error) => Stop::Fail(error),
        }
    }

    /// Processes the kept packets again after new keys have become available.
    fn retry_undecrypted(&mut self, now: Time) {
        // There are only a few rounds: each one requires keys that have just become available.
        while std::mem::take(&mut self.keys.undecrypted.retry) {
            for Kept { tuple, ecn, len, mut packet } in std::mem::take(&mut self.keys.undecrypted.packets) {
                let envelope =
                    Envelope { tuple: &tuple, ecn, len, is_on_only_path: false, is_one_of_many: false };
                self.handle_packets(now, &envelope, &mut packet, &mut None);
            }
        }
    }

    pub(in crate::connection) fn drop_packet(
        &mut self,
        now: Time,
        kind: Option<PacketKind>,
        size: usize,
        reason: DropReason,
    ) {
        self.trace(now, &TraceEvent::PacketDropped { kind, size, reason });
    }
}
