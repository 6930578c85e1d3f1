//! The keys of a connection: one set per level, and the phases of 1-RTT keys (RFC 9001 §6).

use std::time::Duration;

use anabranch_tls::{DirectionKeys, Keys, PacketKey, Secrets, Suite};
use anabranch_wire::{Format, PacketKind, Time, TransportErrorCode};

use super::Undecrypted;
use crate::error::TransportError;

/// Packets that may still be sealed when an update is begun, so that the limit is never reached while it is
/// under way.
const CONFIDENTIALITY_MARGIN: u64 = 1 << 16;

/// All keys that are in use. Those of the handshake are boxed, since they go and the connection stays.
#[derive(Default)]
pub(crate) struct KeyRing {
    pub(crate) initial: Option<Box<Keys>>,
    /// Keys for Initial packets of another version than the one in use (RFC 9369 §4.1): at a server that
    /// changed it, the one that the client began with; at a client, one that the server may have chosen.
    pub(crate) other_initial: Option<Box<Keys>>,
    pub(crate) early: Option<Box<DirectionKeys>>,
    pub(crate) handshake: Option<Box<Keys>>,
    pub(crate) one_rtt: Option<OneRtt>,
    /// Packets that failed to open, over all keys and paths (RFC 9001 §6.6).
    pub(crate) failed_opens: u64,
    /// Packets that arrived before their keys.
    pub(crate) undecrypted: Undecrypted,
}

impl KeyRing {
    /// Keys for sealing packets of `kind`.
    pub(crate) fn seal(&self, kind: PacketKind) -> Option<&DirectionKeys> {
        match kind {
            PacketKind::Initial => self.initial.as_ref().map(|keys| &keys.local),
            PacketKind::ZeroRtt => self.early.as_deref(),
            PacketKind::Handshake => self.handshake.as_ref().map(|keys| &keys.local),
            PacketKind::OneRtt => self.one_rtt.as_ref().map(|keys| &keys.local),
            PacketKind::Retry | PacketKind::VersionNegotiation => None,
        }
    }

    /// Returns the peer's keys for packets of `kind`.
    pub(crate) fn open(&self, kind: PacketKind) -> Option<&DirectionKeys> {
        match kind {
            PacketKind::Initial => self.initial.as_ref().map(|keys| &keys.remote),
            PacketKind::ZeroRtt => self.early.as_deref(),
            PacketKind::Handshake => self.handshake.as_ref().map(|keys| &keys.remote),
            PacketKind::OneRtt => self.one_rtt.as_ref().map(|keys| &keys.remote),
            PacketKind::Retry | PacketKind::VersionNegotiation => None,
        }
    }

    /// Counts a failed open; an error once the integrity limit of the AEAD is reached.
    pub(crate) fn on_failed_open(&mut self) -> Result<(), TransportError> {
        self.failed_opens += 1;
        let limit = self.one_rtt.as_ref().map_or(u64::MAX, |keys| keys.limits.integrity);
        if self.failed_opens < limit {
            return Ok(());
        }
        // RFC 9001 §6.6
        Err(TransportError::new(TransportErrorCode::AEAD_LIMIT_REACHED, "too many packets failed to decrypt"))
    }
}

/// Usage limits of an AEAD (RFC 9001 §6.6); tests lower them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AeadLimits {
    pub(crate) confidentiality: u64,
    pub(crate) integrity: u64,
}

impl AeadLimits {
    pub(crate) fn of(suite: Suite) -> Self {
        Self { confidentiality: suite.confidentiality_limit(), integrity: suite.integrity_limit() }
    }
}

/// 1-RTT keys of the current phase, the next one, and for a while the previous one.
pub(crate) struct OneRtt {
    secrets: Secrets,
    pub(crate) local: DirectionKeys,
    pub(crate) remote: DirectionKeys,
    next_local: PacketKey,
    next_remote: PacketKey,
    /// Key of the previous phase. Kept until the peer has been seen in this one, which the loss of everything
    /// that tells the peer of the update can delay, and for `retain_for` from then on (RFC 9001 §6.1, §6.5).
    previous_remote: Option<(PacketKey, Option<Time>)>,
    retain_for: Duration,
    /// Value of the key phase bit.
    pub(crate) phase: bool,
    /// Number of updates.
    pub(crate) generation: u64,
    /// Packets sealed in this phase.
    sealed: u64,
    /// `true` if a packet of this phase has been acknowledged, without which no update may be begun (RFC 9001
    /// §6.1).
    acked: bool,
    /// `true` if the peer has been seen in this phase.
    peer_followed: bool,
    /// Not before this time may another update be begun: three PTOs after the last one (RFC 9001 §6.5).
    not_before: Time,
    pub(crate) limits: AeadLimits,
    update_after: u64,
    requested: bool,
}

/// The key phase of a packet, as far as its header tells (RFC 9001 §6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// The phase of the keys in use.
    Current,
    /// The one before, whose key is still kept.
    Previous,
    /// The one that the peer moves to with this packet, if it is authentic.
    Next,
}

impl OneRtt {
    /// Creates the keys; `update_after` begins an update after that many packets, if sooner than the AEAD
    /// demands.
    pub(crate) fn new(mut secrets: Secrets, format: &Format, update_after: Option<u64>) -> Self {
        let keys = secrets.keys(format);
        let limits = AeadLimits::of(secrets.suite());
        let (next_local, next_remote) = secrets.update(format);
        let forced = limits.confidentiality.saturating_sub(CONFIDENTIALITY_MARGIN);
        Self {
            secrets,
            local: keys.local,
            remote: keys.remote,
            next_local,
            next_remote,
            previous_remote: None,
            retain_for: Duration::ZERO,
            phase: false,
            generation: 0,
            sealed: 0,
            acked: false,
            peer_followed: true,
            not_before: Time::ZERO,
            limits,
            update_after: update_after.unwrap_or(u64::MAX).min(forced),
            requested: false,
        }
    }

    /// Counts a packet that is about to be sealed; an error if the confidentiality limit forbids it.
    pub(crate) fn on_sealing(&mut self) -> Result<(), TransportError> {
        if self.sealed >= self.limits.confidentiality {
            return Err(TransportError::new(
                TransportErrorCode::AEAD_LIMIT_REACHED,
                "keys protect too many packets",
            ));
        }
        self.sealed += 1;
        Ok(())
    }

    #[cfg(test)]
    pub(crate) fn lower_limits(&mut self, confidentiality: u64, integrity: u64, margin: u64) {
        self.limits = AeadLimits { confidentiality, integrity };
        self.update_after = confidentiality - margin;
    }

    /// Notes that a packet of the current phase was acknowledged.
    pub(crate) fn on_acked(&mut self) {
        self.acked = true;
    }

    /// Requests new keys for the application, as soon as they are allowed.
    pub(crate) fn request_update(&mut self) {
        self.requested = true;
    }

    /// Returns whether an update is due and allowed.
    pub(crate) fn update_due(&self, now: Time) -> bool {
        let wanted = self.requested || self.sealed >= self.update_after;
        wanted && self.acked && self.peer_followed && now >= self.not_before
    }

    /// Begins a phase. `retain_for` is how long packets of the previous phase are still accepted once the
    /// peer is in this one (RFC 9001 §6.5: three PTOs, the largest of all paths).
    pub(crate) fn update(&mut self, now: Time, format: &Format, by_peer: bool, retain_for: Duration) {
        let (next_local, next_remote) = self.secrets.update(format);
        self.local.packet = std::mem::replace(&mut self.next_local, next_local);
        let previous =
            std::mem::replace(&mut self.remote.packet, std::mem::replace(&mut self.next_remote, next_remote));
        self.previous_remote = Some((previous, by_peer.then(|| now + retain_for)));
        self.retain_for = retain_for;
        self.phase = !self.phase;
        self.generation += 1;
        self.sealed = 0;
        self.acked = false;
        self.peer_followed = by_peer;
        self.not_before = now + retain_for;
        self.requested = false;
    }

    /// Returns the phase of a packet that shows this key phase bit. A bit that differs from the current phase
    /// means the next phase, or, while its key is kept and the packet `is_older` than anything of this phase,
    /// the previous one. Only one key is tried.
    #[inline]
    pub(crate) fn phase_of(&mut self, now: Time, key_phase: bool, is_older: bool) -> Phase {
        if key_phase == self.phase {
            return Phase::Current;
        }
        if self.previous_remote.as_ref().is_some_and(|(_, until)| until.is_some_and(|until| now >= until)) {
            self.previous_remote = None;
        }
        if self.previous_remote.is_some() && is_older { Phase::Previous } else { Phase::Next }
    }

    /// Returns the key that opens packets of the phase.
    #[inline]
    pub(crate) fn opener(&self, phase: Phase) -> &PacketKey {
        match (phase, &self.previous_remote) {
            (Phase::Previous, Some((key, _))) => key,
            (Phase::Next, _) => &self.next_remote,
            _ => &self.remote.packet,
        }
    }

    /// Returns whether the peer has been seen in the current phase.
    #[inline]
    pub(crate) fn is_followed(&self) -> bool {
        self.peer_followed
    }

    /// Notes that a packet of the current phase was opened.
    pub(crate) fn on_peer_followed(&mut self, now: Time) {
        if !std::mem::replace(&mut self.peer_followed, true)
            && let Some((_, until)) = &mut self.previous_remote
        {
            *until = Some(now + self.retain_for);
        }
    }
}
