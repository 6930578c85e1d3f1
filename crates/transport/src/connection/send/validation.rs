//! Datagrams with PATH_CHALLENGE and PATH_RESPONSE (RFC 9000 §8.2), and MTU probes (RFC 8899).

use anabranch_wire::{Frame, PacketKind, PathId, SpaceId, Time};

use super::draft::Target;
use crate::connection::connection::Connection;
use crate::connection::parts::ACK_DELAY_EXPONENT;
use crate::datagram_io::{FourTuple, MIN_INITIAL_SIZE, Transmit, TransmitBuf};
use crate::path::Path;
use crate::token::Token;

impl Connection {
    /// Writes a datagram that validates a path: due challenges and pending responses (RFC 9000 §8.2). It is
    /// separate from other datagrams, because it may have another destination and should have full size.
    pub(in crate::connection) fn transmit_validation(
        &mut self,
        now: Time,
        id: PathId,
        out: &mut TransmitBuf,
    ) -> Option<Transmit> {
        self.paths.list.get(id).filter(|path| path.owes_validation())?;
        self.keys.one_rtt.as_ref()?;
        if !self.handshake.progress.complete {
            return None;
        }
        let (tuple, dcid, budget) = self.paths.next_validation(now, id)?;
        let len = MIN_INITIAL_SIZE.min(usize::try_from(budget).unwrap_or(usize::MAX));
        let datagram = out.room(MIN_INITIAL_SIZE);
        let on_path = self.paths.list.get(id)?.tuple == tuple;
        let target = Target {
            path: id,
            space: SpaceId::Data,
            kind: PacketKind::OneRtt,
            dcid: Some(dcid),
            announced: None,
        };
        let mut draft = self.draft(target, &mut datagram[..len], 0, |this, writer, tokens| {
            this.fill_validation(now, id, &tuple, len >= MIN_INITIAL_SIZE, writer, tokens);
        })?;
        // Loss recovery does not track packets to other addresses, because they do not reflect congestion on
        // the path.
        draft.tracked = on_path;
        if !self.seal_or_fail(now, id, datagram, draft, len, false) {
            return None;
        }
        let path = self.paths.list.get_mut(id)?;
        if on_path {
            path.on_datagram_sent(len);
        }
        Some(Transmit { tuple, ecn: None, len, segment_size: len })
    }

    pub(in crate::connection) fn fill_validation(
        &mut self,
        now: Time,
        id: PathId,
        tuple: &FourTuple,
        padded: bool,
        writer: &mut anabranch_wire::Writer<'_>,
        tokens: &mut crate::token::Tokens,
    ) {
        let challenge: [u8; 8] = self.random.bytes();
        // In a single packet number space, a PATH_STATUS frame beside the challenge names the path.
        let names_path = self.paths.numbering.is_single();
        let Some(path) = self.paths.list.get_mut(id) else { return };
        let due = path.address.validations.iter_mut().find(|v| v.tuple == *tuple && v.challenge_due(now));
        let asks = due.is_some();
        if let Some(validation) = due
            && writer.frame(&Frame::PathChallenge(challenge)).is_ok()
        {
            validation.on_sent(now, challenge, padded);
            tokens.push(Token::Ping);
            if names_path {
                let sequence = path.status.local.announce();
                let available = path.status.local.available;
                // The frame fits. Each challenge repeats it until one is answered.
                let _ = writer.frame(&Frame::PathStatus { path: id, available, sequence });
            }
        }
        // All responses go into one datagram. In separate ones, the challenges of one datagram would elicit
        // more than three times its size.
        while let Some(response) = path.address.responses.pop_for(tuple) {
            if writer.frame(&Frame::PathResponse(response.data)).is_ok() {
                tokens.push(Token::Ping);
            }
        }
        if asks && path.tuple == *tuple {
            self.paths.fill_last_word(id, writer, tokens);
        }
        // The ACK is written last: under the anti-amplification limit only the validation frames may fit.
        if self.paths.multipath.is_some() || !padded {
            self.fill_validation_ack(now, id, tuple, writer, tokens);
        }
    }

    /// Writes an ACK into a datagram that validates the path's own addresses. It gives the peer a first RTT
    /// sample without deliberate delay, which keeps the PTO of a new path short. A separate ACK might be
    /// impossible, because the datagram may exhaust the anti-amplification limit.
    pub(in crate::connection) fn fill_validation_ack(
        &mut self,
        now: Time,
        id: PathId,
        tuple: &FourTuple,
        writer: &mut anabranch_wire::Writer<'_>,
        tokens: &mut crate::token::Tokens,
    ) {
        let own = |path: &&Path| path.tuple == *tuple && path.received.ack.can_ack();
        if self.paths.list.get(id).filter(own).is_none_or(|path| self.paths.stand_in(path).is_some()) {
            return;
        }
        let multipath = self.paths.multipath.is_some();
        let Some(path) = self.paths.list.get_mut(id) else { return };
        self.paths.numbering.write_ack(
            &mut path.received,
            now,
            writer,
            multipath,
            ACK_DELAY_EXPONENT,
            tokens,
        );
    }

    /// Writes a probe for a larger MTU (RFC 8899): a padded PING.
    pub(in crate::connection) fn transmit_mtu_probe(
        &mut self,
        now: Time,
        id: PathId,
        out: &mut TransmitBuf,
    ) -> Option<Transmit> {
        if !self.handshake.progress.confirmed {
            return None;
        }
        let path = self.paths.list.get_mut(id).filter(|path| path.address.validated && path.is_usable())?;
        let tuple = path.tuple;
        let size = usize::from(path.recovery.mtu_probe(now)?);
        let datagram = out.room(size);
        let target =
            Target { path: id, space: SpaceId::Data, kind: PacketKind::OneRtt, dcid: None, announced: None };
        let mut draft = self.draft(target, datagram, 0, |_, writer, tokens| {
            if writer.frame(&Frame::Ping).is_ok() {
                tokens.push(Token::Ping);
            }
        })?;
        draft.mtu_probe = true;
        if !self.seal_or_fail(now, id, datagram, draft, size, false) {
            return None;
        }
        self.paths.list.get_mut(id)?.on_datagram_sent(size);
        Some(Transmit { tuple, ecn: None, len: size, segment_size: size })
    }
}
