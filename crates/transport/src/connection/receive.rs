//! From a batch of datagrams to packets (RFC 9000 §12): those with a [long](super::long) header, and then one with a
//! [short](super::short) one, which most datagrams begin with.

use anabranch_wire::{Ecn, PacketKind, ShortHeader, Time, parse_packet};

use super::connection::Connection;
use super::prepare::{MASKS_AT_ONCE, Ready};
use super::run::Run;
use crate::datagram_io::{Datagram, FourTuple};
use crate::error::TransportError;
use crate::error::violation;
use crate::trace::{DropReason, TraceEvent};

/// Packets kept because their keys are not there yet (RFC 9001 §5.7), most.
pub(super) const MAX_UNDECRYPTED_PACKETS: usize = 16;

/// The same at a server whose client has not proved its address.
pub(crate) const MAX_UNDECRYPTED_UNVALIDATED: usize = 2;

/// Longest packet that is kept; others come again.
const MAX_UNDECRYPTED_LEN: usize = 1_500;

/// A datagram's properties that its packets share.
#[derive(Clone, Copy, Debug)]
pub(super) struct Envelope<'a> {
    pub(super) tuple: &'a FourTuple,
    pub(super) ecn: Option<Ecn>,
    pub(super) len: usize,
    /// There is one path, which runs over just these addresses.
    pub(super) is_on_only_path: bool,
    /// Others came with it, so that its mask is there already.
    pub(super) is_one_of_many: bool,
}

/// A packet that waits for keys, and the properties of its datagram.
#[derive(Debug)]
struct Kept {
    tuple: FourTuple,
    ecn: Option<Ecn>,
    len: usize,
    packet: Box<[u8]>,
}

/// Packets that wait for keys.
#[derive(Debug, Default)]
pub(super) struct Undecrypted {
    packets: Vec<Kept>,
    /// Keys came: try again.
    pub(super) retry: bool,
}

impl Undecrypted {
    fn keep(&mut self, envelope: &Envelope<'_>, packet: &[u8], validated: bool) -> bool {
        let most = if validated { MAX_UNDECRYPTED_PACKETS } else { MAX_UNDECRYPTED_UNVALIDATED };
        let room = self.packets.len() < most && packet.len() <= MAX_UNDECRYPTED_LEN;
        if room {
            let &Envelope { tuple, ecn, len, .. } = envelope;
            self.packets.push(Kept { tuple: *tuple, ecn, len, packet: packet.into() });
        }
        room
    }

    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.packets.len()
    }
}

/// Why a packet goes no further.
pub(super) enum Stop {
    Drop(DropReason),
    Fail(TransportError),
}

impl From<TransportError> for Stop {
    fn from(error: TransportError) -> Self {
        Self::Fail(error)
    }
}

impl Connection {
    /// Takes in datagrams that the router found to belong to this connection. Their payload is scribbled over.
    pub fn handle_batch(&mut self, now: Time, batch: &mut [Datagram<'_>]) {
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
        let mut run = None;
        for part in batch.chunks_mut(MASKS_AT_ONCE) {
            let prepared = self.prepare(part);
            for (index, datagram) in part.iter_mut().enumerate() {
                self.handle_datagram(now, datagram, prepared.of(index), &mut run);
            }
        }
        self.finish_run(now, &mut run);
    }

    /// `ready`: for a packet with a short header in front.
    #[inline(always)]
    fn handle_datagram(
        &mut self,
        now: Time,
        datagram: &mut Datagram<'_>,
        ready: Ready<'_>,
        run: &mut Option<Run>,
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
            // RFC 9000 §9: a client takes packets only from addresses of the server that it knows.
            return self.drop_packet(now, None, envelope.len, DropReason::Unexpected);
        }
        if ShortHeader::leads(payload) {
            self.handle_short(now, &envelope, payload, ready, run);
        } else {
            self.handle_packets(now, &envelope, payload, run);
        }
    }

    /// The packets of a datagram, one after another (RFC 9000 §12.2).
    #[inline(never)]
    fn handle_packets(
        &mut self,
        now: Time,
        envelope: &Envelope<'_>,
        mut rest: &mut [u8],
        run: &mut Option<Run>,
    ) {
        self.finish_run(now, run);
        let whole = rest.len();
        while !rest.is_empty() && self.state.is_active() {
            if ShortHeader::leads(rest) {
                if rest.len() < whole && rest.iter().all(|byte| *byte == 0) {
                    return; // The datagram is padded behind its packets, as some do with Initials: no packet begins with zeros.
                }
                return self.handle_short(now, envelope, rest, Ready::NOT, run);
            }
            let Ok(header) = parse_packet(rest, self.shared.cid_len()) else {
                return self.drop_packet(now, None, rest.len(), DropReason::Malformed);
            };
            let (packet, next) = rest.split_at_mut(header.end);
            rest = next;
            if let Err(stop) = self.handle_long(now, envelope, packet, &header) {
                self.stop_packet(now, envelope, header.kind, header.end, stop);
            }
        }
    }

    /// The packet that a datagram ends with.
    fn handle_short(
        &mut self,
        now: Time,
        envelope: &Envelope<'_>,
        packet: &mut [u8],
        ready: Ready<'_>,
        run: &mut Option<Run>,
    ) {
        let len = packet.len();
        if let Err(stop) = self.handle_one_rtt(now, envelope, packet, ready, run) {
            if matches!(stop, Stop::Fail(_)) {
                self.finish_run(now, run);
            }
            self.stop_packet(now, envelope, PacketKind::OneRtt, len, stop);
        }
    }

    /// Ends the run, and the connection if that fails.
    fn finish_run(&mut self, now: Time, run: &mut Option<Run>) {
        if let Err(error) = self.end_run(now, run) {
            self.fail(now, error);
        }
    }

    /// A packet of `kind` and `len` bytes goes no further.
    #[inline(never)]
    fn stop_packet(&mut self, now: Time, envelope: &Envelope<'_>, kind: PacketKind, len: usize, stop: Stop) {
        match stop {
            Stop::Drop(reason) => self.drop_packet(now, Some(kind), len, reason),
            Stop::Fail(error) => self.fail_towards(now, error, envelope.tuple),
        }
    }

    /// Keeps a packet whose keys may come yet.
    pub(super) fn keep_undecrypted(
        &mut self,
        envelope: &Envelope<'_>,
        kind: PacketKind,
        packet: &[u8],
    ) -> Result<(), Stop> {
        let early = !self.handshake.complete || kind == PacketKind::OneRtt;
        let wanted = early && kind != PacketKind::Initial && !self.is_key_gone(kind);
        let validated = self.paths.list.main().validated;
        if wanted && self.undecrypted.keep(envelope, packet, validated) {
            Ok(())
        } else {
            Err(Stop::Drop(DropReason::KeyUnavailable))
        }
    }

    #[inline]
    pub(super) fn has_open_key(&self, kind: PacketKind) -> bool {
        match kind {
            // RFC 9001 §5.7: a server must not process 1-RTT packets before the handshake is complete.
            PacketKind::OneRtt => self.keys.one_rtt.is_some() && self.handshake.complete,
            PacketKind::ZeroRtt => self.side.is_server() && self.keys.early.is_some(),
            _ => self.keys.open(kind).is_some(),
        }
    }

    /// Whether the keys for `kind` were there and have been dropped, or will never come.
    fn is_key_gone(&self, kind: PacketKind) -> bool {
        match kind {
            PacketKind::Initial => true,
            PacketKind::ZeroRtt => self.side.is_client() || self.handshake.session.is_some(),
            PacketKind::Handshake => self.handshake.complete,
            _ => false,
        }
    }

    /// A packet could not be opened.
    pub(super) fn on_unopened(&mut self) -> Stop {
        match self.keys.on_failed_open() {
            Ok(()) => Stop::Drop(DropReason::Undecryptable),
            Err(error) => Stop::Fail(error),
        }
    }

    /// Packets whose keys were missing, once more.
    fn retry_undecrypted(&mut self, now: Time) {
        // Each round needs new keys, of which a connection gets few.
        while std::mem::take(&mut self.undecrypted.retry) {
            for Kept { tuple, ecn, len, mut packet } in std::mem::take(&mut self.undecrypted.packets) {
                let envelope =
                    Envelope { tuple: &tuple, ecn, len, is_on_only_path: false, is_one_of_many: false };
                self.handle_packets(now, &envelope, &mut packet, &mut None);
            }
        }
    }

    pub(super) fn drop_packet(
        &mut self,
        now: Time,
        kind: Option<PacketKind>,
        size: usize,
        reason: DropReason,
    ) {
        self.trace(now, &TraceEvent::PacketDropped { kind, size, reason });
    }
}

/// RFC 9000 §17.2, §17.3.1: reserved bits are looked at only once the packet is authentic.
pub(super) fn check_reserved(are_zero: bool) -> Result<(), TransportError> {
    if are_zero { Ok(()) } else { Err(violation("reserved bits are not zero")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_that_wait_for_keys_are_few_and_short() {
        let address = std::net::SocketAddr::from((std::net::Ipv4Addr::LOCALHOST, 443));
        let tuple = FourTuple { local: address, remote: address };
        let envelope =
            Envelope { tuple: &tuple, ecn: None, len: 1_200, is_on_only_path: false, is_one_of_many: false };
        for (validated, most) in [(true, MAX_UNDECRYPTED_PACKETS), (false, MAX_UNDECRYPTED_UNVALIDATED)] {
            let mut undecrypted = Undecrypted::default();
            assert!(!undecrypted.keep(&envelope, &[0; MAX_UNDECRYPTED_LEN + 1], validated));
            let kept = (0..100).filter(|_| undecrypted.keep(&envelope, &[0; MAX_UNDECRYPTED_LEN], validated));
            assert_eq!(kept.count(), most);
            assert_eq!(undecrypted.len(), most);
        }
    }
}
