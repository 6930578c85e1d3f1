//! Datagrams that arrive after the end of a connection (RFC 9000 §10.2).

use anabranch_wire::{
    ConnectionClose, ConnectionId, Direction, Frame, Frames, PacketKind, PathId, Protected, ShortHeader,
    Time, parse_packet,
};

use super::envelope::{Envelope, Stop};
use super::short::KIND;
use crate::connection::connection::Connection;
use crate::datagram_io::Datagram;
use crate::trace::DropReason;

impl Connection {
    /// Processes a datagram after the connection's end. A CONNECTION_CLOSE of the peer starts draining. Any
    /// other datagram may make a closing endpoint repeat its own CONNECTION_CLOSE. At the integrity limit of the
    /// AEAD nothing more is processed or sent (RFC 9001 §6.6).
    pub(in crate::connection) fn handle_datagram_after_end(
        &mut self,
        now: Time,
        datagram: &mut Datagram<'_>,
    ) {
        if self.keys.is_integrity_spent() {
            return;
        }
        let Datagram { tuple, ecn, payload } = datagram;
        let id = self.paths.list.by_tuple(tuple);
        self.on_datagram_while_closing(id, payload.len());
        if let Some(path) = id.and_then(|id| self.paths.list.get_mut(id)) {
            path.on_datagram_received(payload.len());
        }
        let envelope =
            Envelope { tuple, ecn: *ecn, len: payload.len(), is_on_only_path: false, is_one_of_many: false };
        let mut rest = &mut **payload;
        while !rest.is_empty() {
            // The rest of a datagram cannot be read after a packet that cannot be parsed.
            let Ok(next) = self.look_for_close(now, &envelope, rest) else { return };
            rest = next;
        }
    }

    /// Handles a CONNECTION_CLOSE in the first packet of `rest`. Returns the bytes after that packet.
    fn look_for_close<'p>(
        &mut self,
        now: Time,
        envelope: &Envelope<'_>,
        rest: &'p mut [u8],
    ) -> Result<&'p mut [u8], Stop> {
        if ShortHeader::leads(rest) {
            if self.has_open_key(PacketKind::OneRtt)
                && let Some((path, close)) = self.close_in_short(now, envelope, rest)
            {
                self.on_peer_close(now, path, &close);
            }
            return Ok(&mut []);
        }
        let malformed = |_| Stop::Drop(DropReason::Malformed);
        let header = parse_packet(rest, self.shared.cid_len()).map_err(malformed)?;
        let (packet, next) = rest.split_at_mut(header.end);
        // An error is ignored: another packet of the datagram may contain the CONNECTION_CLOSE.
        let _ = self.look_for_close_in(now, packet, &header);
        Ok(next)
    }

    fn look_for_close_in(&mut self, now: Time, packet: &mut [u8], header: &Protected) -> Result<(), Stop> {
        let Some(space) = header.kind.space() else { return Ok(()) };
        let path = self.check_addressee(header)?;
        if self.has_open_key(header.kind) {
            let (unmasked, number) = self.unmask_long(space, path, packet, header)?;
            let payload = self.open_long(packet, header, &unmasked, number)?;
            if let Some(close) = find_close(payload, self.format_of(header).direction) {
                self.trace_long(now, path, header, number, payload);
                self.on_peer_close(now, path, &close);
            }
        }
        Ok(())
    }

    /// Returns the CONNECTION_CLOSE of a packet and its path. Ignores other frames and all errors.
    pub(in crate::connection) fn close_in_short<'p>(
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
}

/// Returns the first CONNECTION_CLOSE among a packet's frames.
pub(in crate::connection) fn find_close(payload: &[u8], direction: Direction) -> Option<ConnectionClose<'_>> {
    let mut frames = Frames::new(payload, direction).map_while(Result::ok);
    frames.find_map(|frame| match frame {
        Frame::ConnectionClose(close) => Some(close),
        _ => None,
    })
}
