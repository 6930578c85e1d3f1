//! Packets with long headers: Initial, Handshake, 0-RTT and Retry (RFC 9000 §17.2, RFC 9001 §5).

use anabranch_tls::DirectionKeys;
use anabranch_wire::{Format, PacketKind, PathId, Protected, SpaceId, Time, Unmasked, decode_packet_number};

use super::envelope::{Envelope, Stop, check_reserved};
use super::named::check_named;
use crate::connection::connection::Connection;
use crate::context::Context;
use crate::datagram_io::MIN_INITIAL_SIZE;
use crate::space::Numbers;
use crate::trace::{DropReason, PacketTrace, TraceEvent};

impl Connection {
    pub(in crate::connection) fn handle_long(
        &mut self,
        now: Time,
        envelope: &Envelope<'_>,
        packet: &mut [u8],
        header: &Protected,
    ) -> Result<(), Stop> {
        let Some((space, path)) = self.admit(now, envelope, packet, header)? else { return Ok(()) };
        let (unmasked, number) = self.unmask_long(space, path, packet, header)?;
        let payload = self.open_long(packet, header, &unmasked, number)?;
        if self.is_duplicate(space, path, number) {
            return Err(Stop::Drop(DropReason::Duplicate));
        }
        check_reserved(unmasked.reserved_ok)?;
        let direction = self.format_of(header).direction;
        if self.format.names_stream && space == SpaceId::Data {
            check_named(payload, direction, unmasked.placement.as_ref())?;
        }
        if self.output.observer.is_some() {
            self.trace_long(now, path, header, number, payload);
        }
        let context = Context {
            kind: header.kind,
            space,
            path,
            number,
            tuple: envelope.tuple,
            dcid: &header.dcid,
            datagram_len: envelope.len,
            direction,
            is_usual: false,
        };
        self.on_authentic_long(now, &context, header);
        self.on_payload(now, &context, envelope.ecn, payload)?;
        Ok(())
    }

    /// Handles a packet without a packet number, or without available keys. Returns the space and path of any
    /// other packet.
    fn admit(
        &mut self,
        now: Time,
        envelope: &Envelope<'_>,
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
            // RFC 9000 §14.1 and §17.2.2: a client's Initial is in a full-size datagram, and a server's has
            // no token.
            let short = self.side.is_server() && envelope.len < MIN_INITIAL_SIZE;
            if short || self.side.is_client() && !header.token.is_empty() {
                return Err(Stop::Drop(DropReason::Unexpected));
            }
        }
        let path = self.check_addressee(header)?;
        if !self.has_open_key(header.kind) {
            return self.keep_undecrypted(envelope, header.kind, packet).map(|()| None);
        }
        Ok(Some((space, path)))
    }

    /// Checks the version and the connection IDs of a packet. Returns its path.
    pub(in crate::connection) fn check_addressee(&mut self, header: &Protected) -> Result<PathId, Stop> {
        if let Some(version) = header.version {
            let original = version == self.origin.version && self.side.is_server();
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
        let main = self.paths.list.main();
        if header.dcid == main.used_local_cid {
            return Ok(main.id);
        }
        if let Some(path) = self.paths.list.by_local_cid(&header.dcid) {
            return Ok(path);
        }
        let first_flight = self.side.is_server()
            && matches!(header.kind, PacketKind::Initial | PacketKind::ZeroRtt)
            && (header.dcid == self.handshake.original_dcid || header.dcid == self.origin.initial_dcid);
        if first_flight { Ok(PathId::ZERO) } else { Err(Stop::Drop(DropReason::UnknownConnectionId)) }
    }

    /// Returns the format of an Initial whose version differs from the connection's, which happens only while
    /// the version changes.
    fn initial_of_other_version(&self, header: &Protected) -> Option<&'static Format> {
        let version = header.version.filter(|version| *version != self.format.version)?;
        version.format().filter(|_| header.kind == PacketKind::Initial)
    }

    pub(in crate::connection) fn format_of(&self, header: &Protected) -> &'static Format {
        self.initial_of_other_version(header).unwrap_or(self.format)
    }

    /// Returns the peer's keys for a packet.
    fn long_keys(&self, header: &Protected) -> Result<&DirectionKeys, Stop> {
        let keys = match header.kind {
            PacketKind::Initial if self.initial_of_other_version(header).is_some() => {
                self.keys.other_initial.as_ref().map(|keys| &keys.remote)
            }
            kind => self.keys.open(kind),
        };
        keys.ok_or(Stop::Drop(DropReason::KeyUnavailable))
    }

    /// Removes the header protection. Returns the protected fields and the packet number.
    pub(in crate::connection) fn unmask_long(
        &self,
        space: SpaceId,
        path: PathId,
        packet: &mut [u8],
        header: &Protected,
    ) -> Result<(Unmasked, u64), Stop> {
        let (format, kind) = (self.format_of(header), header.kind);
        let key = &self.long_keys(header)?.header;
        let sample = format.sample(packet, kind, header.pn_offset);
        let mask = key.mask(&sample.ok_or(Stop::Drop(DropReason::Malformed))?);
        let unmasked = format.unmask(packet, kind, header.pn_offset, &mask);
        if unmasked.header_len > packet.len() {
            return Err(Stop::Drop(DropReason::Malformed));
        }
        let largest = match Self::level_index(space) {
            Some(index) => self.levels.get(index).and_then(|level| level.received.largest()),
            None => {
                let received = self.paths.list.get(path).map(|path| &path.received);
                self.paths.numbering.numbers_of(received).and_then(Numbers::largest)
            }
        };
        let number = decode_packet_number(largest, unmasked.truncated_pn, unmasked.pn_bits);
        Ok((unmasked, number))
    }

    /// Decrypts the packet in place and returns its plaintext.
    pub(in crate::connection) fn open_long<'p>(
        &mut self,
        packet: &'p mut [u8],
        header: &Protected,
        unmasked: &Unmasked,
        number: u64,
    ) -> Result<&'p [u8], Stop> {
        let key = &self.long_keys(header)?.packet;
        match key.open(PathId::ZERO, number, unmasked.header_len, packet) {
            Ok(len) => Ok(&packet[unmasked.header_len..][..len]),
            Err(_) => Err(self.on_unopened()),
        }
    }

    fn is_duplicate(&self, space: SpaceId, path: PathId, number: u64) -> bool {
        match Self::level_index(space) {
            Some(index) => self.levels.get(index).is_some_and(|level| level.received.is_duplicate(number)),
            None => self.paths.is_duplicate_on(path, number),
        }
    }

    /// Applies the effects of an authentic packet that do not depend on its frames.
    fn on_authentic_long(&mut self, now: Time, context: &Context<'_>, header: &Protected) {
        self.idle.on_received(now);
        self.paths.learn_local_address(context);
        if let Some(version) = header.version.filter(|version| *version != self.format.version)
            && self.side.is_client()
        {
            self.follow_version(now, version);
        }
        if self.side.is_client() && !self.handshake.progress.heard {
            self.handshake.progress.heard = true;
            // RFC 9000 §7.2: the server's connection ID replaces the one that the client chose for it.
            self.handshake.peer_scid = Some(header.scid);
            self.paths.list.main_mut().remote_cids.set_first(header.scid);
        }
        if self.side.is_server() && context.kind == PacketKind::Handshake {
            if !self.paths.list.main().address.validated {
                // RFC 9000 §8.1: only a client at that address can have the Handshake keys.
                self.paths.list.main_mut().set_validated();
            }
            if self.keys.initial.is_some() {
                self.discard_space(now, SpaceId::Initial); // RFC 9001 §4.9.1
            }
        }
        if self.side.is_server() && header.version == Some(self.format.version) {
            self.keys.other_initial = None; // The client follows the change of version.
        }
    }

    pub(in crate::connection) fn trace_long(
        &mut self,
        now: Time,
        path: PathId,
        header: &Protected,
        number: u64,
        payload: &[u8],
    ) {
        let format = self.format_of(header);
        let packet = PacketTrace {
            kind: header.kind,
            version: format.version,
            path,
            number,
            dcid: header.dcid,
            scid: header.scid,
            key_phase: false,
            size: header.end,
            payload,
            direction: format.direction,
        };
        self.trace(now, &TraceEvent::PacketReceived(packet));
    }
}
