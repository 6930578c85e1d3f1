//! Version negotiation and Retry, which precede the handshake (RFC 9368, RFC 9369 §4, RFC 9000 §17.2.5).

use anabranch_tls::{initial_keys, retry_tag};
use anabranch_wire::{
    PacketKind, Protected, RETRY_TAG_LEN, SpaceId, Time, TransportErrorCode, Version, offered_versions,
};
use bytes::Bytes;

use crate::connection::connection::Connection;
use crate::error::{ConnectionError, TransportError};
use crate::trace::{DropReason, PacketTrace, TraceEvent};

/// Maximum length of a token that a client uses, in bytes: an Initial must have room for it and a
/// ClientHello.
pub(super) const MAX_TOKEN: usize = 512;

fn negotiation_error(reason: &'static str) -> TransportError {
    TransportError::new(TransportErrorCode::VERSION_NEGOTIATION_ERROR, reason)
}

/// Returns whether a server can answer a first flight in version `from` with version `to`. All versions with
/// a known format are compatible (for v1 and v2: RFC 9369 §4.1).
fn compatible(from: Version, to: Version) -> bool {
    from.format().is_some() && to.format().is_some()
}

impl Connection {
    /// Chooses the version on a server after the client's version_information was received (RFC 9368 §2.3).
    pub(super) fn choose_version(&mut self, now: Time) -> Result<(), TransportError> {
        let offered = self.handshake.peer_parameters.as_ref().and_then(|p| p.version_information.as_ref());
        let Some(offered) = offered else { return Ok(()) };
        if offered.chosen != self.origin.version {
            return Err(negotiation_error("chosen version is not the one in use"));
        }
        if !offered.available.contains(&offered.chosen) {
            return Err(negotiation_error("chosen version is not among the available ones"));
        }
        let preferred = self.config.versions.iter().copied();
        let chosen = preferred
            .into_iter()
            .find(|version| offered.available.contains(version) && compatible(self.origin.version, *version));
        if let Some(format) =
            chosen.filter(|version| *version != self.format.version).and_then(Version::format)
        {
            let dcid = self.origin.initial_dcid;
            let keys = Box::new(initial_keys(format, &dcid, self.side));
            self.keys.other_initial = self.keys.initial.replace(keys);
            self.format = format;
        }
        self.trace(now, &TraceEvent::VersionChosen { version: self.format.version });
        Ok(())
    }

    /// Returns whether the server may select a version that uses other stream IDs than the version of the
    /// first flight. A client then sends no early data, because it could not send the data again unchanged.
    pub(super) fn may_change_naming(&self) -> bool {
        let names = |version: &Version| version.format().map(|format| format.names_stream);
        self.config.versions.iter().filter_map(names).any(|names| names != self.format.names_stream)
    }

    /// Returns whether an Initial of another version may show that the server has changed to that version. If
    /// so, derives the keys to decrypt the Initial. No other state changes until the packet is authenticated
    /// ([`Self::follow_version`]).
    pub(super) fn may_follow_version(&mut self, version: Version) -> bool {
        let allowed = self.side.is_client()
            && self.format.version == self.origin.version
            && self.keys.handshake.is_none()
            && self.config.versions.contains(&version)
            && compatible(self.format.version, version);
        let Some(format) = version.format().filter(|_| allowed) else { return false };
        let dcid = self.handshake.retry_scid.unwrap_or(self.handshake.original_dcid);
        self.keys.other_initial = Some(Box::new(initial_keys(format, &dcid, self.side)));
        true
    }

    /// Changes the client to the version that the server selected, after an Initial of that version was
    /// decrypted (RFC 9369 §4.1).
    pub(super) fn follow_version(&mut self, now: Time, version: Version) {
        let Some(format) = version.format() else { return };
        self.keys.initial = self.keys.other_initial.take();
        self.format = format;
        self.streams.set_named(format.names_stream);
        // 0-RTT keys belong to the version in which the early data was sent.
        self.keys.early = None;
        if let Some(session) = &mut self.handshake.session {
            session.set_version(version);
        }
        self.trace(now, &TraceEvent::VersionChosen { version });
    }

    /// Checks on a client that nobody tampered with the version negotiation (RFC 9368 §4).
    pub(super) fn check_version_information(&mut self) -> Result<(), TransportError> {
        let chosen = self.format.version;
        let offered = self.handshake.peer_parameters.as_ref().and_then(|p| p.version_information.as_ref());
        let Some(offered) = offered else {
            let changed = chosen != self.origin.version || self.handshake.progress.negotiated;
            // RFC 9368 §4: a server that made the client change its version must send version_information.
            // The exception is v1, selected by Version Negotiation.
            return if changed && !(self.handshake.progress.negotiated && chosen == Version::V1) {
                Err(negotiation_error("version_information is missing after a change of version"))
            } else {
                Ok(())
            };
        };
        if offered.chosen != chosen {
            return Err(negotiation_error("the server chose another version than the one in use"));
        }
        if self.handshake.progress.negotiated {
            if offered.available.is_empty() {
                return Err(negotiation_error("the server names no version after Version Negotiation"));
            }
            // The client must have made the best choice, in its own order of preference, from the
            // authenticated list of versions and the negotiated one. A version that the server is about to
            // remove is not in the list.
            let best = self
                .config
                .versions
                .iter()
                .find(|version| offered.available.contains(version) || **version == chosen);
            if best != Some(&self.origin.version) && best != Some(&chosen) {
                return Err(negotiation_error("version negotiation was tampered with"));
            }
        }
        Ok(())
    }

    /// Handles a Version Negotiation packet (RFC 9000 §6.2).
    pub(super) fn on_version_negotiation(&mut self, now: Time, packet: &[u8], header: &Protected) {
        let path = self.paths.list.main();
        let ours = path.used_local_cid == header.dcid && path.remote_cids.active() == header.scid;
        let versions: Vec<Version> = offered_versions(&packet[header.pn_offset..header.end]).collect();
        if self.side.is_server()
            || self.handshake.progress.heard
            || self.handshake.progress.negotiated
            || self.handshake.retry_scid.is_some()
            || !ours
            || versions.contains(&self.origin.version)
        {
            return self.drop_packet(
                now,
                Some(PacketKind::VersionNegotiation),
                packet.len(),
                DropReason::Unexpected,
            );
        }
        self.trace_unnumbered(now, packet.len(), header);
        let choice = self.config.versions.iter().copied().find(|version| versions.contains(version));
        let Some(format) = choice.and_then(Version::format) else {
            return self.end_silently(now, ConnectionError::VersionMismatch);
        };
        self.format = format;
        self.origin.version = format.version;
        self.handshake.progress.negotiated = true;
        self.forget_first_flight();
        self.trace(now, &TraceEvent::VersionChosen { version: format.version });
        if let Err(error) = self.make_client_session(now) {
            self.fail(now, TransportError::new(TransportErrorCode::INTERNAL_ERROR, error.to_string()));
        }
    }

    /// Handles a Retry packet (RFC 9000 §17.2.5.2).
    pub(super) fn on_retry(&mut self, now: Time, packet: &[u8], header: &Protected) {
        let token = &packet[header.token.clone()];
        let genuine = header.version == Some(self.format.version)
            && header.dcid == self.paths.list.main().used_local_cid
            && header.scid != self.handshake.original_dcid
            && packet.len() > RETRY_TAG_LEN
            && self.retry_tag_matches(&packet[..header.end]);
        if self.side.is_server()
            || self.handshake.progress.heard
            || self.handshake.retry_scid.is_some()
            || token.is_empty()
            || token.len() > MAX_TOKEN
            || !genuine
        {
            return self.drop_packet(now, Some(PacketKind::Retry), packet.len(), DropReason::Unexpected);
        }
        self.trace_unnumbered(now, packet.len(), header);
        self.handshake.token = Bytes::copy_from_slice(token);
        self.handshake.retry_scid = Some(header.scid);
        self.paths.list.main_mut().remote_cids.set_first(header.scid);
        self.keys.initial = Some(Box::new(initial_keys(self.format, &header.scid, self.side)));
        // The Initial and 0-RTT packets sent so far count as lost. Packet numbers continue (RFC 9000
        // §17.2.5.3).
        for space in [SpaceId::Initial, SpaceId::Data] {
            let mut outcome = std::mem::take(&mut self.outcome);
            let path = self.paths.list.main_mut();
            path.recovery.lose_all(space, &mut outcome);
            let id = path.id;
            self.apply_outcome(now, space, id, &mut outcome);
            self.outcome = outcome;
        }
        self.levels.get_mut(0).crypto.resend_all();
    }

    /// Reports to the observer that a packet without number and frames was processed.
    fn trace_unnumbered(&mut self, now: Time, size: usize, header: &Protected) {
        let packet = PacketTrace {
            kind: header.kind,
            version: header.version.unwrap_or(self.format.version),
            path: self.paths.list.main().id,
            number: 0,
            dcid: header.dcid,
            scid: header.scid,
            key_phase: false,
            size,
            payload: &[],
            direction: self.format.direction,
        };
        self.trace(now, &TraceEvent::PacketReceived(packet));
    }

    fn retry_tag_matches(&self, packet: &[u8]) -> bool {
        let (body, tag) = packet.split_at(packet.len() - RETRY_TAG_LEN);
        let expected = retry_tag(self.format, &self.handshake.original_dcid, body);
        // The key is public, so the duration of this comparison reveals no secret.
        expected == tag
    }

    /// Discards the packets and the CRYPTO data of the first flight before a second one. Early data is queued
    /// again.
    fn forget_first_flight(&mut self) {
        // TLS starts again and the 0-RTT keys are discarded, so late acknowledgments of the first flight have
        // no meaning.
        for space in [SpaceId::Initial, SpaceId::Data] {
            self.paths.list.main_mut().recovery.discard_space(space);
        }
        if self.keys.early.take().is_some() {
            self.streams.reject_zero_rtt();
        }
        self.levels.get_mut(0).crypto = Default::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Versions 1 and 2: RFC 9369 §4.1. VReverso: docs/vreverso.md.
    #[test]
    fn versions_are_compatible_as_documents_say() {
        for from in Version::SUPPORTED {
            for to in Version::SUPPORTED {
                assert!(compatible(*from, *to), "{from} {to}");
            }
            for unknown in [Version(0), Version(7), Version(0x1a2a_3a4a)] {
                assert!(!compatible(*from, unknown) && !compatible(unknown, *from), "{from} {unknown}");
            }
        }
    }
}
