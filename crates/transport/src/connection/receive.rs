//! From a batch of datagrams to authenticated packets (RFC 9000 §12, RFC 9001 §5).

use anabranch_tls::OpenError;
use anabranch_wire::{
    ConnectionId, Direction, Ecn, Format, Frames, PacketKind, PathId, Protected, SpaceId, Time,
    TransportErrorCode, Unmasked, decode_packet_number, parse_packet,
};

use super::connection::Connection;
use super::keys::{Opened, Sealed};
use super::masks::{MASKS_AT_ONCE, Mask};
use super::named::check_named;
use super::place::Unopened;
use super::transmit::MIN_INITIAL_SIZE;
use crate::datagram_io::{Datagram, FourTuple};
use crate::error::TransportError;
use crate::trace::{DropReason, PacketTrace, TraceEvent};

/// Packets kept because their keys are not there yet (RFC 9001 §5.7), most.
pub(super) const MAX_UNDECRYPTED_PACKETS: usize = 16;

/// The same at a server whose client has not proved its address.
pub(super) const MAX_UNDECRYPTED_UNVALIDATED: usize = 2;

/// Longest packet that is kept; others come again.
const MAX_UNDECRYPTED_LEN: usize = 1_500;

/// What is known of an authenticated packet while its frames are processed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Context {
    pub(super) kind: PacketKind,
    pub(super) space: SpaceId,
    pub(super) path: PathId,
    pub(super) number: u64,
    pub(super) tuple: FourTuple,
    pub(super) dcid: ConnectionId,
    /// Size of the datagram that held the packet.
    pub(super) datagram_len: usize,
    /// From which end the frames are read.
    pub(super) direction: Direction,
}

/// A datagram's properties that its packets share.
#[derive(Clone, Copy, Debug)]
pub(super) struct Envelope {
    pub(super) tuple: FourTuple,
    pub(super) ecn: Option<Ecn>,
    pub(super) len: usize,
    /// For a datagram that is a 1-RTT packet, perhaps: its mask, made together with others.
    mask: Option<Mask>,
}

/// Packets that wait for keys.
#[derive(Debug, Default)]
pub(super) struct Undecrypted {
    packets: Vec<(Envelope, Box<[u8]>)>,
    /// Keys came: try again.
    pub(super) retry: bool,
}

impl Undecrypted {
    fn keep(&mut self, envelope: Envelope, packet: &[u8], validated: bool) -> bool {
        let most = if validated { MAX_UNDECRYPTED_PACKETS } else { MAX_UNDECRYPTED_UNVALIDATED };
        let room = self.packets.len() < most && packet.len() <= MAX_UNDECRYPTED_LEN;
        if room {
            self.packets.push((envelope, packet.into()));
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
            self.handle_datagram(now, only, None);
        } else {
            for part in batch.chunks_mut(MASKS_AT_ONCE) {
                let masks = self.one_rtt_masks(part);
                for (datagram, mask) in part.iter_mut().zip(masks) {
                    self.handle_datagram(now, datagram, mask);
                }
            }
        }
        self.retry_undecrypted(now);
        self.report_states(now);
    }

    fn handle_datagram(&mut self, now: Time, datagram: &mut Datagram<'_>, mask: Option<Mask>) {
        if !self.state.is_active() {
            return self.handle_datagram_after_end(now, datagram);
        }
        let (tuple, ecn, len) = (datagram.tuple, datagram.ecn, datagram.payload.len());
        let envelope = Envelope { tuple, ecn, len, mask };
        if let Some(path) = self.paths.by_tuple_mut(&tuple) {
            path.on_datagram_received(len);
        } else if self.side.is_client() && !self.knows_remote(&tuple) {
            // RFC 9000 §9: a client takes packets only from addresses of the server that it knows.
            return self.drop_packet(now, None, len, DropReason::Unexpected);
        }
        self.handle_packets(now, &envelope, datagram.payload);
    }

    /// The packets of a datagram, one after another (RFC 9000 §12.2).
    fn handle_packets(&mut self, now: Time, envelope: &Envelope, mut rest: &mut [u8]) {
        while !rest.is_empty() && self.state.is_active() {
            let Ok(header) = parse_packet(rest, self.shared.cid_len()) else {
                return self.drop_packet(now, None, rest.len(), DropReason::Malformed);
            };
            let (packet, next) = rest.split_at_mut(header.end);
            rest = next;
            match self.handle_packet(now, envelope, packet, &header) {
                Ok(()) => {}
                Err(Stop::Drop(reason)) => self.drop_packet(now, Some(header.kind), packet.len(), reason),
                Err(Stop::Fail(error)) => self.fail_towards(now, error, &envelope.tuple),
            }
        }
    }

    /// Deals with a packet that has no number, or cannot be opened now; the space and the path of any other.
    fn admit(
        &mut self,
        now: Time,
        envelope: &Envelope,
        packet: &[u8],
        header: &Protected,
    ) -> Result<Option<(SpaceId, PathId)>, Stop> {
        let Some(space) = header.kind.space() else {
            match header.kind {
                PacketKind::VersionNegotiation => self.on_version_negotiation(now, packet, header),
                _ => self.on_retry(now, packet, header),
            }
            return Ok(None);
        };
        if !header.fixed_bit && !self.config.grease {
            return Err(Stop::Drop(DropReason::Malformed));
        }
        if header.kind == PacketKind::Initial {
            // RFC 9000 §14.1 and §17.2.2: a client's Initial comes in a full datagram, a server's without a token.
            let short = self.side.is_server() && envelope.len < MIN_INITIAL_SIZE;
            if short || self.side.is_client() && !header.token.is_empty() {
                return Err(Stop::Drop(DropReason::Unexpected));
            }
        }
        let path = self.check_addressee(header)?;
        if !self.has_open_key(header.kind) {
            let early = !self.handshake.complete || header.kind == PacketKind::OneRtt;
            let wanted = early && header.kind != PacketKind::Initial && !self.is_key_gone(header.kind);
            let validated = self.paths.main().validated;
            if !wanted || !self.undecrypted.keep(*envelope, packet, validated) {
                return Err(Stop::Drop(DropReason::KeyUnavailable));
            }
            return Ok(None);
        }
        Ok(Some((space, path)))
    }

    fn handle_packet(
        &mut self,
        now: Time,
        envelope: &Envelope,
        packet: &mut [u8],
        header: &Protected,
    ) -> Result<(), Stop> {
        let Some((space, path)) = self.admit(now, envelope, packet, header)? else { return Ok(()) };
        let (unmasked, number) = self.unmask(space, path, packet, header, envelope.mask)?;
        if let Some(named) = unmasked.placement {
            let unopened = Unopened { envelope, path, header, unmasked: &unmasked, number };
            if let Some(done) = self.place(now, &unopened, &named, packet) {
                return done;
            }
        }
        let payload_len = self.open(now, path, packet, header, &unmasked, number)?;
        if space == SpaceId::Data
            && !self.numbering.is_single()
            && self.paths.get(path).is_none()
            && !self.open_for_peer(now, path, envelope.tuple, header.dcid, envelope.len)
        {
            return Err(Stop::Drop(DropReason::Unexpected));
        }
        if self.is_duplicate(space, path, number) {
            return Err(Stop::Drop(DropReason::Duplicate));
        }
        if !unmasked.reserved_ok {
            // RFC 9000 §17.2: only once the packet is authentic.
            return Err(violation("reserved bits are not zero").into());
        }
        let payload = &packet[unmasked.header_len..unmasked.header_len + payload_len];
        let direction = self.initial_of_other_version(header).unwrap_or(self.format).direction;
        if self.format.names_stream && space == SpaceId::Data {
            check_named(payload, direction, unmasked.placement.as_ref())?;
        }
        let path = match header.kind {
            PacketKind::OneRtt if self.numbering.is_single() => {
                let located = self.locate(now, &envelope.tuple, header.dcid, envelope.len, payload);
                located.ok_or(Stop::Drop(DropReason::Unexpected))?
            }
            _ => path,
        };
        if self.observer.is_some() {
            self.trace_received(now, path, header, &unmasked, number, payload);
        }
        let context = Context {
            kind: header.kind,
            space,
            path,
            number,
            tuple: envelope.tuple,
            dcid: header.dcid,
            datagram_len: envelope.len,
            direction,
        };
        self.on_authentic_packet(now, &context, header)?;
        self.on_payload(now, &context, envelope.ecn, payload)?;
        Ok(())
    }

    /// Checks the version and the connection IDs of a packet, and finds its path.
    fn check_addressee(&mut self, header: &Protected) -> Result<PathId, Stop> {
        if let Some(version) = header.version {
            let original = version == self.original_version && self.side.is_server();
            let known = version == self.format.version
                || original && matches!(header.kind, PacketKind::Initial | PacketKind::ZeroRtt);
            let followed = !known && header.kind == PacketKind::Initial && self.may_follow_version(version);
            if !(known || followed) {
                return Err(Stop::Drop(DropReason::UnexpectedVersion));
            }
            if self.handshake.peer_scid.is_some_and(|scid| scid != header.scid) {
                // RFC 9000 §7.2: the peer does not change its connection ID during the handshake.
                return Err(Stop::Drop(DropReason::UnknownConnectionId));
            }
        }
        let main = self.paths.main();
        if header.dcid == main.used_local_cid {
            return Ok(main.id);
        }
        if let Some(path) = self.paths.by_local_cid(&header.dcid) {
            return Ok(path);
        }
        if header.kind == PacketKind::OneRtt
            && let Some(path) =
                self.multipath.as_ref().and_then(|multipath| multipath.by_local_cid(&header.dcid))
        {
            // With one number space any path will do until the packet is open and can be located.
            return Ok(if self.numbering.is_single() { main.id } else { path });
        }
        let first_flight = self.side.is_server()
            && matches!(header.kind, PacketKind::Initial | PacketKind::ZeroRtt)
            && (header.dcid == self.handshake.original_dcid || header.dcid == self.initial_dcid_for_server);
        if first_flight { Ok(PathId::ZERO) } else { Err(Stop::Drop(DropReason::UnknownConnectionId)) }
    }

    fn has_open_key(&self, kind: PacketKind) -> bool {
        match kind {
            // RFC 9001 §5.7: a server must not process 1-RTT packets before the handshake is complete.
            PacketKind::OneRtt => self.keys.one_rtt.is_some() && self.handshake.complete,
            PacketKind::ZeroRtt => self.side.is_server() && self.keys.early.is_some(),
            _ => self.keys.header(kind).is_some(),
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

    /// The format and keys differ only for Initials around a change of the version.
    fn initial_of_other_version(&self, header: &Protected) -> Option<&'static Format> {
        let version = header.version.filter(|version| *version != self.format.version)?;
        version.format().filter(|_| header.kind == PacketKind::Initial)
    }

    fn unmask(
        &self,
        space: SpaceId,
        path: PathId,
        packet: &mut [u8],
        header: &Protected,
        mask: Option<Mask>,
    ) -> Result<(Unmasked, u64), Stop> {
        let original = self.initial_of_other_version(header);
        let format = original.unwrap_or(self.format);
        let key = match original {
            Some(_) => self.keys.other_initial.as_ref().map(|keys| &keys.remote.header),
            None => self.keys.header(header.kind),
        };
        let key = key.ok_or(Stop::Drop(DropReason::KeyUnavailable))?;
        let mask = match mask.filter(|_| header.kind == PacketKind::OneRtt) {
            Some(mask) => mask,
            None => {
                let sample = format.sample(packet, header.kind, header.pn_offset);
                key.mask(&sample.ok_or(Stop::Drop(DropReason::Malformed))?)
            }
        };
        let unmasked = format.unmask(packet, header.kind, header.pn_offset, &mask);
        if unmasked.header_len > packet.len() {
            return Err(Stop::Drop(DropReason::Malformed));
        }
        let largest = match Self::level_index(space) {
            Some(index) => self.levels[index].received.largest(),
            None => self.numbering.largest_received(self.paths.get(path).map(|path| &path.received)),
        };
        let number = decode_packet_number(largest, unmasked.truncated_pn, unmasked.pn_bits);
        Ok((unmasked, number))
    }

    /// Opens the packet in place; the length of its plaintext.
    fn open(
        &mut self,
        now: Time,
        path: PathId,
        packet: &mut [u8],
        header: &Protected,
        unmasked: &Unmasked,
        number: u64,
    ) -> Result<usize, Stop> {
        let sealed = self.sealed(path, header.kind, unmasked, number);
        let original = self.initial_of_other_version(header).is_some();
        let opened = match (header.kind, &mut self.keys.one_rtt) {
            (PacketKind::OneRtt, Some(keys)) => keys.open(now, sealed, packet),
            (kind, _) => {
                let keys = match kind {
                    PacketKind::Initial if original => {
                        self.keys.other_initial.as_ref().map(|keys| &keys.remote)
                    }
                    PacketKind::Initial => self.keys.initial.as_ref().map(|keys| &keys.remote),
                    PacketKind::Handshake => self.keys.handshake.as_ref().map(|keys| &keys.remote),
                    _ => self.keys.early.as_deref(),
                };
                let key = keys.ok_or(Stop::Drop(DropReason::KeyUnavailable))?;
                let opened = key.packet.open(sealed.path, number, sealed.header_len, packet);
                opened.map(|len| Opened { len, updated: false })
            }
        };
        self.after_open(now, path, header.kind, unmasked, number, opened)
    }

    /// What is known of a packet that is to be opened.
    pub(super) fn sealed(&self, path: PathId, kind: PacketKind, unmasked: &Unmasked, number: u64) -> Sealed {
        let &Unmasked { key_phase, header_len, .. } = unmasked;
        if kind != PacketKind::OneRtt {
            return Sealed { path: PathId::ZERO, number, key_phase, header_len, first_of_phase: None };
        }
        let received = self.paths.get(path).map(|path| &path.received);
        let first_of_phase = self.numbering.first_of_phase(received);
        Sealed { path: self.numbering.nonce_path(path), number, key_phase, header_len, first_of_phase }
    }

    /// A packet was opened, or could not be; the length of its plaintext.
    pub(super) fn after_open(
        &mut self,
        now: Time,
        path: PathId,
        kind: PacketKind,
        unmasked: &Unmasked,
        number: u64,
        opened: Result<Opened, OpenError>,
    ) -> Result<usize, Stop> {
        let Ok(Opened { len, updated }) = opened else {
            self.keys.on_failed_open()?;
            return Err(Stop::Drop(DropReason::Undecryptable));
        };
        if kind == PacketKind::OneRtt {
            if updated {
                self.on_peer_key_update(now);
            }
            let phase = self.keys.one_rtt.as_ref().map(|keys| keys.phase);
            if let Some(path) = self.paths.get_mut(path)
                && phase == Some(unmasked.key_phase)
            {
                self.numbering.note_phase(&mut path.received, number);
            }
        }
        Ok(len)
    }

    fn on_peer_key_update(&mut self, now: Time) {
        let retain = self.paths.max_pto() * 3;
        let Some(keys) = &mut self.keys.one_rtt else { return };
        keys.update(now, self.format, true, retain);
        let generation = keys.generation;
        self.begin_phase();
        self.trace(now, &TraceEvent::KeyUpdated { generation, remote: true });
    }

    /// A key phase begins: what follows on each path belongs to it.
    pub(super) fn begin_phase(&mut self) {
        for path in self.paths.iter_mut() {
            path.phase_start = path.recovery.next_order(SpaceId::Data);
            self.numbering.begin_phase(&mut path.received);
        }
    }

    pub(super) fn is_duplicate(&self, space: SpaceId, path: PathId, number: u64) -> bool {
        match Self::level_index(space) {
            Some(index) => self.levels[index].received.is_duplicate(number),
            None => {
                self.paths.get(path).is_none_or(|path| self.numbering.is_duplicate(&path.received, number))
            }
        }
    }

    /// What an authentic packet changes whatever its frames are.
    pub(super) fn on_authentic_packet(
        &mut self,
        now: Time,
        context: &Context,
        header: &Protected,
    ) -> Result<(), TransportError> {
        self.idle.on_received(now);
        if context.kind == PacketKind::OneRtt {
            self.on_path_heard(now, context.path);
        }
        self.settle_local_address(context);
        if let Some(version) = header.version.filter(|version| *version != self.format.version)
            && self.side.is_client()
        {
            self.follow_version(now, version);
        }
        if self.side.is_client() && header.version.is_some() && !self.handshake.heard {
            self.handshake.heard = true;
            // RFC 9000 §7.2: the server's connection ID replaces the one that the client made up.
            self.handshake.peer_scid = Some(header.scid);
            self.paths.main_mut().remote_cids.set_first(header.scid);
        }
        if self.side.is_server() && context.kind == PacketKind::Handshake {
            if !self.paths.main().validated {
                // RFC 9000 §8.1: only somebody at that address can have the Handshake keys.
                self.paths.main_mut().set_validated();
            }
            if self.keys.initial.is_some() {
                self.discard_space(now, SpaceId::Initial); // RFC 9001 §4.9.1
            }
        }
        if self.side.is_server() && header.version == Some(self.format.version) {
            self.keys.other_initial = None; // The client follows the change of version.
        }
        Ok(())
    }

    /// Packets whose keys were missing, once more.
    fn retry_undecrypted(&mut self, now: Time) {
        // Each round needs new keys, of which a connection gets few.
        while std::mem::take(&mut self.undecrypted.retry) {
            for (envelope, mut packet) in std::mem::take(&mut self.undecrypted.packets) {
                self.handle_packets(now, &envelope, &mut packet);
            }
        }
    }

    /// After the end only a CONNECTION_CLOSE of the peer matters; anything else makes a closing end repeat its own.
    fn handle_datagram_after_end(&mut self, now: Time, datagram: &mut Datagram<'_>) {
        let id = self.paths.by_tuple(&datagram.tuple);
        self.on_datagram_while_closing(id);
        if let Some(path) = id.and_then(|id| self.paths.get_mut(id)) {
            path.on_datagram_received(datagram.payload.len());
        }
        let mut rest = &mut *datagram.payload;
        while let Ok(header) = parse_packet(rest, self.shared.cid_len()) {
            let (packet, next) = rest.split_at_mut(header.end);
            rest = next;
            self.look_for_close(now, packet, &header);
            if rest.is_empty() {
                return;
            }
        }
    }

    fn look_for_close(&mut self, now: Time, packet: &mut [u8], header: &Protected) {
        let Some(space) = header.kind.space() else { return };
        let Ok(path) = self.check_addressee(header) else { return };
        if !self.has_open_key(header.kind) {
            return;
        }
        let Ok((unmasked, number)) = self.unmask(space, path, packet, header, None) else { return };
        let Ok(len) = self.open(now, path, packet, header, &unmasked, number) else { return };
        let payload = &packet[unmasked.header_len..unmasked.header_len + len];
        let direction = self.initial_of_other_version(header).unwrap_or(self.format).direction;
        for frame in Frames::new(payload, direction).map_while(Result::ok) {
            if let anabranch_wire::Frame::ConnectionClose(close) = frame {
                if self.observer.is_some() {
                    self.trace_received(now, path, header, &unmasked, number, payload);
                }
                self.on_peer_close(now, path, &close);
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

    pub(super) fn trace_received(
        &mut self,
        now: Time,
        path: PathId,
        header: &Protected,
        unmasked: &Unmasked,
        number: u64,
        payload: &[u8],
    ) {
        let format = self.initial_of_other_version(header).unwrap_or(self.format);
        let packet = PacketTrace {
            kind: header.kind,
            version: format.version,
            path,
            number,
            dcid: header.dcid,
            scid: header.scid,
            key_phase: unmasked.key_phase,
            size: header.end,
            payload,
            direction: format.direction,
        };
        self.trace(now, &TraceEvent::PacketReceived(packet));
    }
}

pub(super) fn violation(reason: &'static str) -> TransportError {
    TransportError::new(TransportErrorCode::PROTOCOL_VIOLATION, reason)
}
