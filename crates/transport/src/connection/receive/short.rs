//! Packets with short headers: 1-RTT packets, by far the most frequent (RFC 9000 §17.3, RFC 9001 §5).

use anabranch_wire::{ConnectionId, PacketKind, PathId, Time, Unmasked, decode_packet_number};

use super::envelope::Envelope;
use super::prepare::Mask;
use crate::connection::connection::Connection;
use crate::connection::parts::Phase;
use crate::path::Addressee;
use crate::space::Numbers;

pub(in crate::connection) const KIND: PacketKind = PacketKind::OneRtt;

/// 1-RTT packet whose header protection has been removed. It is not authenticated yet.
#[derive(Clone, Copy)]
pub(in crate::connection) struct Short<'a> {
    pub(in crate::connection) envelope: &'a Envelope<'a>,
    pub(in crate::connection) dcid: &'a ConnectionId,
    /// Path of the connection ID. With a single number space it is provisional: the path is located after
    /// decryption.
    pub(in crate::connection) path: PathId,
    pub(in crate::connection) number: u64,
    pub(in crate::connection) unmasked: &'a Unmasked,
    /// Phase of the key that decrypts the packet.
    pub(in crate::connection) phase: Phase,
    /// `true` if the path is open and the packet number has not been received before.
    pub(in crate::connection) is_new: bool,
    /// `true` if the connection ID is the one in use on the main path.
    pub(in crate::connection) is_dcid_usual: bool,
    /// `true` if the packet number is below all numbers received on the path in the current key phase.
    pub(in crate::connection) is_older: bool,
    pub(in crate::connection) len: usize,
}

impl<'a> Short<'a> {
    /// Creates the value for the packet with number `number`, which continues a train: a new packet of the
    /// current key phase.
    #[inline(always)]
    pub(in crate::connection) fn next_in_train(
        number: u64,
        envelope: &'a Envelope<'a>,
        dcid: &'a ConnectionId,
        to: Addressee,
        unmasked: &'a Unmasked,
        len: usize,
    ) -> Self {
        Self {
            envelope,
            dcid,
            path: to.path,
            number,
            unmasked,
            phase: Phase::Current,
            is_new: true,
            is_dcid_usual: to.is_usual,
            is_older: false,
            len,
        }
    }
}

impl Connection {
    pub(in crate::connection) fn short_mask(&self, packet: &[u8], pn_offset: usize) -> Option<Mask> {
        let sample = self.format.sample(packet, KIND, pn_offset)?;
        Some(self.keys.one_rtt.as_ref()?.remote_header().mask(&sample))
    }

    /// Decodes the packet number and determines the key phase.
    #[inline(always)]
    pub(in crate::connection) fn numbered<'a>(
        &mut self,
        now: Time,
        envelope: &'a Envelope<'a>,
        dcid: &'a ConnectionId,
        Addressee { path, is_usual: is_dcid_usual }: Addressee,
        unmasked: &'a Unmasked,
        len: usize,
    ) -> Short<'a> {
        let received = self.paths.list.get(path).map(|path| &path.received);
        let numbers = self.paths.numbering.numbers_of(received);
        let largest = numbers.and_then(Numbers::largest);
        let number = decode_packet_number(largest, unmasked.truncated_pn, unmasked.pn_bits);
        let is_new = received.is_some() && numbers.is_some_and(|numbers| !numbers.is_duplicate(number));
        let is_older = numbers.and_then(Numbers::first_of_phase).is_none_or(|first| number < first);
        let keys = self.keys.one_rtt.as_mut();
        let phase = keys.map_or(Phase::Current, |keys| keys.phase_of(now, unmasked.key_phase, is_older));
        Short { envelope, dcid, path, number, unmasked, phase, is_new, is_dcid_usual, is_older, len }
    }
}
