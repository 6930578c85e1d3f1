//! Keys of a connection: one set for each level, and the key phases of 1-RTT (RFC 9001 §6).

use std::time::Duration;

use anabranch_tls::{DirectionKeys, HeaderKey, Keys, PacketKey, PacketMaterial, Secrets, Suite};
use anabranch_wire::{Format, PacketKind, Time, TransportErrorCode};

use super::Undecrypted;
use crate::error::TransportError;

/// Number of packets that may still be sealed when a key update starts, so that the confidentiality limit is
/// not reached before the update takes effect.
const CONFIDENTIALITY_MARGIN: u64 = 1 << 16;

/// All keys in use. Handshake keys are boxed, because they are discarded long before the connection ends.
#[derive(Default)]
pub(crate) struct KeyRing {
    pub(crate) initial: Option<Box<Keys>>,
    /// Keys for Initial packets of another version (RFC 9369 §4.1). At a server that changed the version, the
    /// other version is the client's original one; at a client, it is a version to which the server may have
    /// changed.
    pub(crate) other_initial: Option<Box<Keys>>,
    pub(crate) early: Option<Box<DirectionKeys>>,
    pub(crate) handshake: Option<Box<Keys>>,
    pub(crate) one_rtt: Option<OneRtt>,
    /// Number of packets that failed to decrypt, over all keys and paths (RFC 9001 §6.6).
    pub(crate) failed_opens: u64,
    /// Packets that arrived before their keys were available.
    pub(crate) undecrypted: Undecrypted,
}

impl KeyRing {
    /// Frees the memory of the 1-RTT packet keys until [`Self::wake`].
    pub(crate) fn rest(&mut self, now: Time) {
        if let Some(keys) = &mut self.one_rtt {
            keys.ready = None;
            keys.drop_previous(now);
        }
    }

    /// Makes the 1-RTT packet keys after a rest, before a packet is sent or processed: all of them, so that the time does not depend on a
    /// packet's key phase (RFC 9001 §9.5).
    #[inline]
    pub(crate) fn wake(&mut self) {
        if let Some(keys) = &mut self.one_rtt
            && keys.ready.is_none()
        {
            keys.wake();
        }
    }

    /// Returns this endpoint's keys for packets of `kind`. Those of 1-RTT must be [awake](Self::wake).
    pub(crate) fn seal(&self, kind: PacketKind) -> Option<KeyRefs<'_>> {
        match kind {
            PacketKind::Initial => self.initial.as_ref().map(|keys| KeyRefs::from(&keys.local)),
            PacketKind::ZeroRtt => self.early.as_deref().map(KeyRefs::from),
            PacketKind::Handshake => self.handshake.as_ref().map(|keys| KeyRefs::from(&keys.local)),
            PacketKind::OneRtt => self.one_rtt.as_ref()?.local(),
            _ => None,
        }
    }

    /// Returns the peer's keys for packets of `kind`, which is not 1-RTT.
    pub(crate) fn open(&self, kind: PacketKind) -> Option<&DirectionKeys> {
        match kind {
            PacketKind::Initial => self.initial.as_ref().map(|keys| &keys.remote),
            PacketKind::ZeroRtt => self.early.as_deref(),
            PacketKind::Handshake => self.handshake.as_ref().map(|keys| &keys.remote),
            _ => None,
        }
    }

    /// Counts a 1-RTT packet that is about to be sealed, and makes the keys after a rest. Returns an error if the confidentiality limit is
    /// reached.
    #[inline]
    pub(crate) fn on_sealing(&mut self) -> Result<(), TransportError> {
        self.wake();
        self.one_rtt.as_mut().map_or(Ok(()), OneRtt::on_sealing)
    }

    /// Counts a packet that failed to decrypt. Returns an error once the AEAD's integrity limit is reached.
    pub(crate) fn on_failed_open(&mut self) -> Result<(), TransportError> {
        self.failed_opens += 1;
        if !self.is_integrity_spent() {
            return Ok(());
        }
        // RFC 9001 §6.6
        Err(TransportError::new(TransportErrorCode::AEAD_LIMIT_REACHED, "too many packets failed to decrypt"))
    }

    /// Returns whether the AEAD's integrity limit is reached. No more packets may then be decrypted (RFC 9001
    /// §6.6).
    pub(crate) fn is_integrity_spent(&self) -> bool {
        self.one_rtt.as_ref().is_some_and(|keys| self.failed_opens >= keys.limits.integrity)
    }
}

/// Usage limits of an AEAD (RFC 9001 §6.6). Tests lower them.
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

/// 1-RTT keys of the current key phase and, of the peer's packets, of the next one and, for a while, the previous one.
pub(crate) struct OneRtt {
    /// Secret of this phase for this endpoint's packets, and of the next phase for the peer's.
    secrets: Secrets,
    local_header: HeaderKey,
    remote_header: HeaderKey,
    material: Material,
    /// Keys made of `material`; `None` while the connection rests.
    ready: Option<Box<ReadyKeys>>,
    /// Key of the previous key phase, for late packets. It is kept until the peer's first packet of the
    /// current phase arrives, and then for `retain_for` (RFC 9001 §6.1, §6.5). That packet may arrive late,
    /// if the packets that show the update to the peer are lost.
    previous_remote: Option<Box<(PacketKey, Option<Time>)>>,
    retain_for: Duration,
    /// Key phase bit of the current phase.
    pub(crate) phase: bool,
    /// Number of key updates.
    pub(crate) generation: u64,
    /// Number of packets sealed in this phase.
    sealed: u64,
    /// `true` if a packet of this phase was acknowledged. Before that no update may be initiated (RFC 9001
    /// §6.1).
    acked: bool,
    /// `true` if a packet of the peer in this phase has arrived.
    peer_followed: bool,
    /// Earliest time of another update: three PTOs after the last one (RFC 9001 §6.5).
    not_before: Time,
    pub(crate) limits: AeadLimits,
    update_after: u64,
    requested: bool,
}

/// Keys for packets of one kind and direction.
#[derive(Clone, Copy)]
pub(crate) struct KeyRefs<'a> {
    pub(crate) header: &'a HeaderKey,
    pub(crate) packet: &'a PacketKey,
}

impl<'a> From<&'a DirectionKeys> for KeyRefs<'a> {
    fn from(keys: &'a DirectionKeys) -> Self {
        Self { header: &keys.header, packet: &keys.packet }
    }
}

/// Material of the packet keys of [`OneRtt`].
struct Material {
    local: PacketMaterial,
    remote: PacketMaterial,
    next_remote: PacketMaterial,
}

/// Packet keys of [`OneRtt`].
struct ReadyKeys {
    local: PacketKey,
    remote: PacketKey,
    /// Key of the next phase, so that a packet of that phase takes no longer than any other (RFC 9001 §6.3).
    next_remote: PacketKey,
}

impl Material {
    fn keys(&self) -> Box<ReadyKeys> {
        let Self { local, remote, next_remote } = self;
        Box::new(ReadyKeys { local: local.key(), remote: remote.key(), next_remote: next_remote.key() })
    }
}

/// Key phase of a packet, as derived from its header (RFC 9001 §6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Phase of the keys in use.
    Current,
    /// Previous phase, whose key is still available.
    Previous,
    /// Next phase: the peer has initiated an update, if the packet is authentic.
    Next,
}

impl OneRtt {
    /// Creates the keys. With `update_after`, an update starts after that many packets, or earlier if the
    /// AEAD's limit requires it.
    pub(crate) fn new(mut secrets: Secrets, format: &Format, update_after: Option<u64>) -> Self {
        let limits = AeadLimits::of(secrets.suite());
        let [local_header, remote_header] = secrets.headers(format);
        let (local, remote) = (secrets.local(format), secrets.remote(format));
        let material = Material { local, remote, next_remote: secrets.next_remote(format) };
        let forced = limits.confidentiality.saturating_sub(CONFIDENTIALITY_MARGIN);
        Self {
            secrets,
            local_header,
            remote_header,
            ready: Some(material.keys()),
            material,
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

    /// Returns the keys of this endpoint's packets; `None` while they rest.
    fn local(&self) -> Option<KeyRefs<'_>> {
        self.ready.as_ref().map(|keys| KeyRefs { header: &self.local_header, packet: &keys.local })
    }

    /// Returns the header key of the peer's packets.
    #[inline]
    pub(crate) fn remote_header(&self) -> &HeaderKey {
        &self.remote_header
    }

    /// Returns whether the packet keys are in memory.
    #[cfg(test)]
    pub(crate) fn is_ready(&self) -> bool {
        self.ready.is_some()
    }

    #[cold]
    fn wake(&mut self) {
        self.ready = Some(self.material.keys());
    }

    fn on_sealing(&mut self) -> Result<(), TransportError> {
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

    /// Records that a packet of the current phase was acknowledged.
    pub(crate) fn on_acked(&mut self) {
        self.acked = true;
    }

    /// Requests a key update on behalf of the application. The update starts as soon as it is allowed.
    pub(crate) fn request_update(&mut self) {
        self.requested = true;
    }

    /// Returns whether an update is due and allowed.
    pub(crate) fn update_due(&self, now: Time) -> bool {
        let wanted = self.requested || self.sealed >= self.update_after;
        wanted && self.acked && self.peer_followed && now >= self.not_before
    }

    /// Starts a new key phase. `retain_for` is the time for which packets of the previous phase are still
    /// accepted after the first packet of the peer in this phase (RFC 9001 §6.5: three PTOs, the largest of
    /// all paths).
    pub(crate) fn update(&mut self, now: Time, format: &Format, by_peer: bool, retain_for: Duration) {
        let Material { local, remote, next_remote } = &mut self.material;
        *local = self.secrets.next_local(format);
        let next = std::mem::replace(next_remote, self.secrets.next_remote(format));
        let previous = std::mem::replace(remote, next);
        let previous = match &mut self.ready {
            Some(keys) => {
                keys.local = local.key();
                let next = std::mem::replace(&mut keys.next_remote, next_remote.key());
                std::mem::replace(&mut keys.remote, next)
            }
            None => previous.key(),
        };
        self.previous_remote = Some(Box::new((previous, by_peer.then(|| now + retain_for))));
        self.retain_for = retain_for;
        self.phase = !self.phase;
        self.generation += 1;
        self.sealed = 0;
        self.acked = false;
        self.peer_followed = by_peer;
        self.not_before = now + retain_for;
        self.requested = false;
    }

    /// Discards the previous phase's key if no more packets of that phase are expected (RFC 9001 §6.5).
    fn drop_previous(&mut self, now: Time) {
        if self.previous_remote.as_ref().is_some_and(|previous| previous.1.is_some_and(|until| now >= until))
        {
            self.previous_remote = None;
        }
    }

    /// Returns the phase of a packet with this key phase bit. If the bit differs from that of the current
    /// phase, the packet belongs to the previous phase if its key is kept and the packet `is_older` than all
    /// packets received in the current phase; otherwise it belongs to the next phase. Only one key is tried.
    #[inline]
    pub(crate) fn phase_of(&mut self, now: Time, key_phase: bool, is_older: bool) -> Phase {
        if key_phase == self.phase {
            return Phase::Current;
        }
        self.drop_previous(now);
        if self.previous_remote.is_some() && is_older { Phase::Previous } else { Phase::Next }
    }

    /// Returns the key that decrypts packets of `phase`; `None` while the keys rest.
    #[inline]
    pub(crate) fn opener(&self, phase: Phase) -> Option<&PacketKey> {
        let keys = self.ready.as_ref()?;
        Some(match (phase, &self.previous_remote) {
            (Phase::Previous, Some(previous)) => &previous.0,
            (Phase::Next, _) => &keys.next_remote,
            _ => &keys.remote,
        })
    }

    /// Returns whether a packet of the peer in the current phase has arrived.
    #[inline]
    pub(crate) fn is_followed(&self) -> bool {
        self.peer_followed
    }

    /// Records that a packet of the current phase was decrypted.
    pub(crate) fn on_peer_followed(&mut self, now: Time) {
        if !std::mem::replace(&mut self.peer_followed, true)
            && let Some(previous) = &mut self.previous_remote
        {
            previous.1 = Some(now + self.retain_for);
        }
    }
}
