//! Preparation of a batch: reads the connection ID, which most packets of a batch share, and computes the
//! header protection masks together. One at a time, the masks would take three times as long (RFC 9001 §5.4).

use anabranch_wire::{ConnectionId, PacketKind, ShortHeader};

use crate::connection::connection::Connection;
use crate::datagram_io::Datagram;

/// Maximum number of datagrams whose masks are computed together. Larger batches are split.
pub(in crate::connection) const MASKS_AT_ONCE: usize = 32;

/// A header protection mask.
pub(in crate::connection) type Mask = [u8; 16];

/// Prepared values for the short-header packets of one group of datagrams.
pub(in crate::connection) struct Prepared {
    masks: [Mask; MASKS_AT_ONCE],
    /// Bit set of the masks that were computed.
    made: u32,
    /// Connection ID of the first packet, and most likely of the others.
    dcid: ConnectionId,
}

/// Prepared values for one short-header packet.
#[derive(Clone, Copy)]
pub(in crate::connection) struct Ready<'a> {
    /// Header protection mask, if it was computed.
    pub(in crate::connection) mask: Option<&'a Mask>,
    /// Connection ID that the packet most likely has.
    pub(in crate::connection) dcid: &'a ConnectionId,
}

impl Ready<'_> {
    /// No prepared values.
    pub(in crate::connection) const NOT: Self = Self { mask: None, dcid: &ConnectionId::EMPTY };
}

impl Prepared {
    /// Returns the prepared values of the datagram at `index`.
    #[inline]
    pub(in crate::connection) fn of(&self, index: usize) -> Ready<'_> {
        let mask = self.masks.get(index).filter(|_| self.made >> index & 1 == 1);
        Ready { mask, dcid: &self.dcid }
    }
}

impl Connection {
    /// Prepares the datagrams in `part`, at most [`MASKS_AT_ONCE`]. Masks are computed for 1-RTT packets that
    /// are long enough for a sample. A key update does not change the header protection key (RFC 9001 §6), so
    /// the masks remain valid regardless of preceding packets.
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
        keys.remote_header().masks(&mut prepared.masks[..len]);
        prepared
    }
}
