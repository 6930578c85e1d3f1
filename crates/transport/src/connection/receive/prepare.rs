//! Preparation of a batch's packets: their connection ID, which most share, and header protection masks,
//! which cost three times as much one by one (RFC 9001 §5.4).

use anabranch_wire::{ConnectionId, PacketKind, ShortHeader};

use crate::connection::connection::Connection;
use crate::datagram_io::Datagram;

/// Datagrams whose masks are made at once; a larger batch is taken in parts.
pub(in crate::connection) const MASKS_AT_ONCE: usize = 32;

/// A header protection mask.
pub(in crate::connection) type Mask = [u8; 16];

/// Prepared values for the packets with short headers in one group of datagrams.
pub(in crate::connection) struct Prepared {
    masks: [Mask; MASKS_AT_ONCE],
    /// A bit for each mask that was made.
    made: u32,
    /// The connection ID of the first one, and most likely of the others.
    dcid: ConnectionId,
}

/// Prepared values for one packet with a short header.
#[derive(Clone, Copy)]
pub(in crate::connection) struct Ready<'a> {
    /// Its mask.
    pub(in crate::connection) mask: Option<&'a Mask>,
    /// Its connection ID, most likely.
    pub(in crate::connection) dcid: &'a ConnectionId,
}

impl Ready<'_> {
    /// Nothing is.
    pub(in crate::connection) const NOT: Self = Self { mask: None, dcid: &ConnectionId::EMPTY };
}

impl Prepared {
    /// Returns the preparation of the datagram at `index`.
    #[inline]
    pub(in crate::connection) fn of(&self, index: usize) -> Ready<'_> {
        let mask = self.masks.get(index).filter(|_| self.made >> index & 1 == 1);
        Ready { mask, dcid: &self.dcid }
    }
}

impl Connection {
    /// Prepares for the datagrams in `part`, at most [`MASKS_AT_ONCE`]. Masks are for those that are 1-RTT
    /// packets long enough for a sample. A key update does not change the key they are made with (RFC 9001
    /// §6), so they hold whatever the packets before them bring.
    pub(in crate::connection) fn prepare(&self, part: &[Datagram<'_>]) -> Prepared {
        let mut prepared = Prepared { masks: [[0; 16]; MASKS_AT_ONCE], made: 0, dcid: ConnectionId::EMPTY };
        let Some(keys) = &self.keys.one_rtt else { return prepared };
        let cid_len = self.shared.cid_len();
        for (index, (datagram, mask)) in part.iter().zip(&mut prepared.masks).enumerate() {
            let Some(header) = ShortHeader::read(datagram.payload, cid_len) else { continue };
            let sample = self.format.sample(datagram.payload, PacketKind::OneRtt, header.pn_offset);
            if let Some(sample) = sample {
                *mask = sample;
                prepared.made |= 1 << index;
            }
            if index == 0 {
                prepared.dcid = ConnectionId::new(header.dcid).unwrap_or(ConnectionId::EMPTY);
            }
        }
        let len = part.len().min(MASKS_AT_ONCE);
        keys.remote.header.masks(&mut prepared.masks[..len]);
        prepared
    }
}
