//! Datagrams with CONNECTION_CLOSE (RFC 9000 §10.2).

use anabranch_wire::{PacketKind, PathId, SpaceId, Time};

use super::draft::Draft;
use super::draft::Target;
use crate::connection::connection::Connection;
use crate::datagram_io::MIN_INITIAL_SIZE;
use crate::datagram_io::{Transmit, TransmitBuf};
use crate::path::MIN_PACKET_ROOM;

impl Connection {
    /// Writes CONNECTION_CLOSE in every packet type that the peer may be able to decrypt (RFC 9000 §10.2.3).
    /// It remains due while the socket of its path is full.
    pub(in crate::connection) fn transmit_close(
        &mut self,
        now: Time,
        out: &mut TransmitBuf,
    ) -> Option<Transmit> {
        let wanted = self.path_of_close()?;
        let usable = |id: &PathId| {
            let path = self.paths.list.get(*id);
            path.is_some_and(|path| path.is_usable() && !path.is_socket_blocked)
        };
        let id =
            wanted.filter(usable).or_else(|| self.paths.shortest_path()).unwrap_or(self.paths.list.main().id);
        // A peer whose last packet arrived on an abandoned path may receive on no other path. The datagram is
        // then sent to the addresses of the abandoned path, but its packets belong to another path.
        let answers = |id: &PathId| {
            let room = MIN_PACKET_ROOM as u64;
            self.paths
                .list
                .get(*id)
                .is_some_and(|path| path.is_abandoned() && path.amplification_budget() >= room)
        };
        let over = wanted.filter(answers).unwrap_or(id);
        let path = self.paths.list.get(over).filter(|path| !path.is_socket_blocked)?;
        let tuple = path.tuple;
        let budget = usize::try_from(path.amplification_budget()).unwrap_or(usize::MAX);
        let close = self.take_close()?;
        let datagram = out.room(MIN_INITIAL_SIZE);
        let datagram = &mut datagram[..MIN_INITIAL_SIZE.min(budget)];
        let mut at = 0;
        let mut pad = false;
        self.keys.wake();
        let kinds: Vec<(SpaceId, PacketKind)> =
            self.close_kinds().filter(|(_, kind)| self.keys.seal(*kind).is_some()).collect();
        let mut held: Option<Draft> = None;
        for (space, kind) in kinds {
            let target = Target { path: id, space, kind, dcid: None, announced: None };
            let draft = self.draft(target, &mut datagram[at..], at, |_, writer, _| {
                // A frame that does not fit would be omitted, but there is always enough room.
                let _ = writer.frame(&close.frame(kind));
            });
            let Some(draft) = draft else { continue };
            at = draft.end;
            pad |= kind == PacketKind::Initial && self.side.is_client();
            if let Some(previous) = held.replace(draft) {
                let end = previous.end;
                self.seal(now, id, datagram, previous, end, false).ok()?;
            }
        }
        let last = held?;
        let sent_handshake = self.side.is_client() && self.keys.handshake.is_some();
        let len = if pad { at.max(datagram.len()) } else { at };
        self.seal(now, id, datagram, last, len, false).ok()?;
        self.on_close_sent(len);
        self.paths.list.get_mut(over)?.on_datagram_sent(len);
        if sent_handshake {
            self.discard_space(now, SpaceId::Initial); // RFC 9001 §4.9.1: a repetition has no Initial.
        }
        Some(Transmit { tuple, ecn: None, len, segment_size: len })
    }
}
