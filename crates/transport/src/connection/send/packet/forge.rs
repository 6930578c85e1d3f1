//! Forged packets for tests: correctly protected, but with contents that a well-behaved connection never
//! sends.

use anabranch_recovery::Sent;
use anabranch_tls::TAG_LEN;
use anabranch_wire::{
    Announced, Direction, Frame, Frames, NewLong, NewNumber, Outgoing, PacketKind, PathId, SpaceId, StreamId,
    Time,
};

use crate::connection::Connection;
use crate::connection::send::draft::Target;
use crate::space::Numbered;
use crate::token::{Token, Tokens};

/// A packet to forge.
pub(crate) struct Forged<'a> {
    pub(crate) kind: PacketKind,
    /// Frames, which may be malformed.
    pub(crate) payload: &'a [u8],
    /// `true` to set the reserved bits.
    pub(crate) reserved: bool,
    /// `true` to change the source connection ID of a long header.
    pub(crate) other_scid: bool,
    /// Bits of the first byte to invert, which must not be under header protection.
    pub(crate) inverted: u8,
    /// Token of an Initial; if it is empty, the token that belongs there.
    pub(crate) token: &'a [u8],
    /// Number of packet numbers to skip before the packet.
    pub(crate) skip: u64,
    /// Description of the stream data in the header, in versions whose headers have one.
    pub(crate) announced: Option<Announced>,
    /// Path of a 1-RTT packet; `None` for the main path.
    pub(crate) path: Option<PathId>,
}

impl<'a> Forged<'a> {
    pub(crate) fn new(kind: PacketKind, payload: &'a [u8]) -> Self {
        // An empty payload requires a four-byte packet number; otherwise the packet is too short for a
        // sample.
        let skip = if payload.len() < 4 { 1 << 24 } else { 0 };
        Self {
            kind,
            payload,
            reserved: false,
            other_scid: false,
            inverted: 0,
            token: &[],
            skip,
            announced: None,
            path: None,
        }
    }
}

/// Minimum length from the packet number to the end of the payload for a header protection sample in every
/// format, in bytes.
const MIN_PAYLOAD: usize = 12;

/// Maximum stream ID in a header that names a stream.
const MAX_NAMED: u64 = (1 << 30) - 1;

/// Stream data that needs the longest header. Only such a packet may have an empty payload.
const LONGEST: Announced = Announced { stream: StreamId::from_u64(MAX_NAMED), offset: 0, distance: u64::MAX };

/// Returns the description of the payload's stream data that belongs into the header.
fn announce(payload: &[u8], direction: Direction) -> Option<Announced> {
    if payload.is_empty() {
        return Some(LONGEST);
    }
    Frames::new(payload, direction).flatten().find_map(|frame| match frame {
        Frame::Stream(stream) if stream.id.as_u64() <= MAX_NAMED => {
            Some(Announced { stream: stream.id, offset: stream.offset, distance: u64::MAX })
        }
        _ => None,
    })
}

impl Connection {
    /// Returns the packet, protected with this endpoint's keys, and records it as sent. Panics without keys.
    pub(crate) fn forge(&mut self, now: Time, forged: &Forged<'_>) -> Vec<u8> {
        let space = forged.kind.space().unwrap();
        let id = forged.path.unwrap_or(self.paths.list.main().id);
        let numbered = self.next_number(id, space);
        let number = numbered.number + forged.skip;
        let mut packet = vec![
            0;
            64 + self.handshake.token.len()
                + forged.token.len()
                + forged.payload.len().max(MIN_PAYLOAD)
                + TAG_LEN
        ];
        let mut payload = forged.payload.to_vec();
        let mut announced = forged.announced;
        if self.format.names_stream && space == SpaceId::Data {
            announced = announced.or_else(|| announce(&payload, self.format.direction));
        }
        let target = Target { path: id, space, kind: forged.kind, dcid: None, announced };
        let outgoing = if forged.token.is_empty() {
            self.write_header(&target, &mut packet, number).unwrap()
        } else {
            self.write_initial(forged.token, &mut packet, number)
        };
        if self.format.names_stream && space == SpaceId::Data {
            let least = (outgoing.pn_offset + MIN_PAYLOAD).saturating_sub(outgoing.header_len);
            payload.resize(payload.len().max(least), 0);
        }
        packet[0] ^= forged.inverted;
        if forged.reserved {
            packet[0] |= if forged.kind == PacketKind::OneRtt { 0x18 } else { 0x0c };
        }
        if forged.other_scid {
            let dcid_len = usize::from(packet[5]);
            packet[6 + dcid_len + 1] ^= 1;
        }
        packet.truncate(outgoing.header_len + payload.len() + TAG_LEN);
        packet[outgoing.header_len..][..payload.len()].copy_from_slice(&payload);
        self.format.set_length(&mut packet, &outgoing);
        let nonce_path = match forged.kind {
            PacketKind::OneRtt => self.paths.numbering.nonce_path(id),
            _ => PathId::ZERO,
        };
        self.keys.wake();
        let keys = self.keys.seal(forged.kind).expect("keys for the packet");
        keys.packet.seal(nonce_path, number, outgoing.header_len, &mut packet);
        let sample = self.format.sample(&packet, forged.kind, outgoing.pn_offset).unwrap();
        self.format.mask(&mut packet, &outgoing, &keys.header.mask(&sample));
        if forged.skip == 0 {
            self.remember(now, id, space, numbered, packet.len());
        }
        packet
    }

    /// Writes the header of an Initial with `token`.
    fn write_initial(&self, token: &[u8], packet: &mut [u8], pn: u64) -> Outgoing {
        let dcid = self.paths.list.main().remote_cids.active();
        let header = NewLong {
            kind: PacketKind::Initial,
            dcid: &dcid,
            scid: &self.origin.local_cid,
            token,
            number: NewNumber { pn, unacked: pn + 1, announced: None },
            fixed_bit: true,
        };
        self.format.write_long(packet, &header).unwrap()
    }

    fn remember(&mut self, now: Time, id: PathId, space: SpaceId, numbered: Numbered, len: usize) {
        match Self::level_index(space) {
            Some(index) => self.levels.get_mut(index).next_number = numbered.number + 1,
            None => self.paths.numbering.commit(id, false),
        }
        let sent = Sent {
            time: now,
            size: u16::try_from(len).unwrap(),
            ack_eliciting: true,
            in_flight: false,
            ect: false,
            mtu_probe: false,
            owed: Tokens::from_slice(&[Token::Ping]),
        };
        self.paths.list.get_mut(id).unwrap().recovery.on_sent(space, numbered.order, sent);
    }
}

impl Connection {
    /// Lowers the limits of the 1-RTT keys (RFC 9001 §6.6). An update starts `margin` packets before
    /// `confidentiality`.
    pub(crate) fn limit_keys(&mut self, confidentiality: u64, integrity: u64, margin: u64) {
        self.keys.one_rtt.as_mut().unwrap().lower_limits(confidentiality, integrity, margin);
    }
}

/// Sizes of state that a peer can make grow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Usage {
    pub(crate) path_responses: usize,
    pub(crate) validations: usize,
    pub(crate) undecrypted: usize,
    pub(crate) events: usize,
    pub(crate) endpoint_events: usize,
    pub(crate) local_cids: usize,
    /// Number of the peer's connection IDs to which no packet was sent.
    pub(crate) unused_cids: usize,
    /// Number of packets that loss recovery tracks.
    pub(crate) sent_packets: usize,
    /// Number of those that elicit an acknowledgment.
    pub(crate) asking: u64,
    /// Packet number of the next 1-RTT packet.
    pub(crate) next_number: u64,
    /// Number of paths, abandoned ones included.
    pub(crate) paths: usize,
    /// Number of path IDs that could be opened.
    pub(crate) unopened: usize,
    /// Number of unacknowledged PATH_ABANDON frames.
    pub(crate) abandons: usize,
    /// Number of connection IDs issued for paths that are not open.
    pub(crate) unopened_cids: usize,
    /// Number of acknowledgments to repeat on other paths.
    pub(crate) ack_copies: usize,
}

impl Connection {
    pub(crate) fn held(&self) -> Usage {
        let path = self.paths.list.main();
        Usage {
            path_responses: path.address.responses.len(),
            validations: path.address.validations.len(),
            undecrypted: self.keys.undecrypted.len(),
            events: self.output.events.len(),
            endpoint_events: self.output.endpoint_events.len(),
            local_cids: path.local_cids.iter().count(),
            unused_cids: path.remote_cids.unused(),
            sent_packets: path.recovery.unacked(SpaceId::Data).count(),
            asking: path.recovery.asking(SpaceId::Data),
            next_number: path.recovery.next_order(SpaceId::Data),
            paths: self.paths.list.len(),
            unopened: self.paths.multipath.as_ref().map_or(0, |multipath| multipath.held().0),
            abandons: self.paths.multipath.as_ref().map_or(0, |multipath| multipath.held().1),
            unopened_cids: self.paths.multipath.as_ref().map_or(0, |multipath| multipath.held().2),
            ack_copies: self.paths.multipath.as_ref().map_or(0, |multipath| multipath.held_ack_copies()),
        }
    }

    /// Asks the peer to switch to new connection IDs.
    pub(crate) fn rotate_cids(&mut self) {
        let main = self.paths.list.main().id;
        self.paths.local_cids_mut(main).unwrap().rotate();
        self.issue_cids();
    }

    /// Returns the connection IDs that this endpoint has issued for all paths, open or not.
    pub(crate) fn all_issued_cids(&self) -> Vec<anabranch_wire::ConnectionId> {
        let open = self.paths.list.iter().map(|path| &path.local_cids);
        let further = self.paths.multipath.iter().flat_map(|multipath| multipath.unopened_local());
        open.chain(further).flat_map(|local| local.iter()).map(|(_, cid)| cid).collect()
    }

    /// Returns the connection IDs that this endpoint has issued for an open path.
    pub(crate) fn issued_cids(&self, path: PathId) -> Vec<anabranch_wire::ConnectionId> {
        self.paths.list.get(path).unwrap().local_cids.iter().map(|(_, cid)| cid).collect()
    }

    /// Discards the statuses of paths that are not open; see [`PathSet`](crate::path::PathSet).
    pub(crate) fn ignore_early_statuses(&mut self) -> bool {
        self.paths.ignore_early_statuses()
    }

    /// Returns the newest challenge for the addresses of a path.
    pub(crate) fn asked(&self, path: PathId) -> Option<[u8; 8]> {
        let path = self.paths.list.get(path)?;
        path.address.validations.iter().find(|validation| validation.tuple == path.tuple)?.newest()
    }

    /// Returns whether the newest status that the peer announced for the path is "available".
    pub(crate) fn peer_available(&self, path: PathId) -> bool {
        self.paths.list.get(path).unwrap().status.peer.available
    }

    pub(crate) fn remote_cid(&self) -> anabranch_wire::ConnectionId {
        self.paths.list.main().remote_cids.active()
    }

    pub(crate) fn ecn_state(&self) -> anabranch_recovery::EcnState {
        self.paths.list.main().recovery.ecn_state()
    }
}
