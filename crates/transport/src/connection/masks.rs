//! Header protection masks of a batch, made at once: one by one, each costs three times as much (RFC 9001 §5.4).

use anabranch_wire::PacketKind;

use super::connection::Connection;
use crate::datagram_io::Datagram;

/// Datagrams whose masks are made at once; a larger batch is taken in parts.
pub(super) const MASKS_AT_ONCE: usize = 32;

/// A header protection mask.
pub(super) type Mask = [u8; 16];

/// The form bit of a packet's first byte: a long header (RFC 9000 §17.2).
const LONG_HEADER: u8 = 0x80;

impl Connection {
    /// The masks of those datagrams in `part`, at most [`MASKS_AT_ONCE`], that are 1-RTT packets long enough for a sample. A key
    /// update does not change the key they are made with (RFC 9001 §6), so they hold whatever the packets before them bring.
    pub(super) fn one_rtt_masks(&self, part: &[Datagram<'_>]) -> [Option<Mask>; MASKS_AT_ONCE] {
        let mut masks = [None; MASKS_AT_ONCE];
        let Some(keys) = &self.keys.one_rtt else { return masks };
        // RFC 9000 §17.3.1: the packet number follows the first byte and the connection ID.
        let pn_offset = 1 + self.shared.cid_len();
        let mut samples = [[0; 16]; MASKS_AT_ONCE];
        let mut sampled = [false; MASKS_AT_ONCE];
        for (index, datagram) in part.iter().enumerate() {
            let short = datagram.payload.first().is_some_and(|first| first & LONG_HEADER == 0);
            let sample = self.format.sample(datagram.payload, PacketKind::OneRtt, pn_offset);
            if let Some(sample) = sample.filter(|_| short) {
                samples[index] = sample;
                sampled[index] = true;
            }
        }
        keys.remote.header.masks(&mut samples[..part.len()]);
        for (mask, (sample, sampled)) in masks.iter_mut().zip(samples.into_iter().zip(sampled)) {
            *mask = sampled.then_some(sample);
        }
        masks
    }
}
