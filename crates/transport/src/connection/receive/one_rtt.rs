//! Processing of one 1-RTT packet, from its header to its frames (RFC 9000 §17.3, RFC 9001 §5).

use anabranch_wire::{ConnectionId, ShortHeader, Time};

use super::envelope::{Envelope, Stop};
use super::guess::Guessed;
use super::open::Opened;
use super::prepare::Ready;
use super::short::{KIND, Short};
use super::train::Train;
use crate::connection::connection::Connection;
use crate::path::Addressee;
use crate::trace::DropReason;

impl Connection {
    /// Removes the header protection of a packet, decrypts and applies it.
    pub(in crate::connection) fn handle_one_rtt(
        &mut self,
        now: Time,
        envelope: &Envelope<'_>,
        packet: &mut [u8],
        ready: Ready<'_>,
        train: &mut Option<Train>,
    ) -> Result<(), Stop> {
        let header = ShortHeader::read(packet, self.shared.cid_len());
        let ShortHeader { pn_offset, fixed_bit, dcid } = header.ok_or(Stop::Drop(DropReason::Malformed))?;
        if !fixed_bit && !self.config.grease {
            return Err(Stop::Drop(DropReason::Malformed));
        }
        let other;
        let dcid = if ready.dcid.is(dcid) {
            ready.dcid
        } else {
            other = ConnectionId::new(dcid).ok_or(Stop::Drop(DropReason::UnknownConnectionId))?;
            &other
        };
        let to = self.paths.addressee(dcid).ok_or(Stop::Drop(DropReason::UnknownConnectionId))?;
        if !self.has_open_key(KIND) {
            return self.keep_undecrypted(envelope, KIND, packet);
        }
        let made;
        let mask = match ready.mask {
            Some(mask) => mask,
            None => {
                made = self.short_mask(packet, pn_offset).ok_or(Stop::Drop(DropReason::Malformed))?;
                &made
            }
        };
        let unmasked = self.format.unmask(packet, KIND, pn_offset, mask);
        if unmasked.header_len > packet.len() {
            return Err(Stop::Drop(DropReason::Malformed));
        }
        let short = match train {
            Some(train) if self.is_next_in(train, envelope, to, dcid, &unmasked) => {
                let to = Addressee { path: train.path(), ..to };
                Short::next_in_train(train.next(), envelope, dcid, to, &unmasked, packet.len())
            }
            _ => {
                self.end_train(now, train)?;
                self.numbered(now, envelope, dcid, to, &unmasked, packet.len())
            }
        };
        let guessed = match train {
            Some(train) => self.open_guessed(now, &short, train, packet)?,
            None => Guessed::Nothing,
        };
        let opened = match (guessed, &mut *train) {
            (Guessed::Data(len), Some(train)) => return self.append_guessed(train, len),
            (Guessed::Placed(len), _) => Opened::Direct(self.read_placed(unmasked.placement.as_ref(), len)?),
            (Guessed::InPlace(len), _) => Opened::InPlace(&packet[unmasked.header_len..][..len]),
            _ => self.open(now, &short, packet)?,
        };
        self.apply(now, &short, opened, train)
    }
}
