//! Derivation of keys from secrets, with the labels of a QUIC version (RFC 9001 §5.1, §5.2, §6.1).

use anabranch_wire::{ConnectionId, Format, Side};
use aws_lc_rs::hkdf::{HKDF_SHA256, Salt};

use crate::hkdf::{Secret, expand_label};
use crate::{HeaderKey, PacketKey, PacketMaterial, Suite};

/// Keys that protect the packets of one direction at one encryption level.
#[derive(Debug)]
pub struct DirectionKeys {
    /// Header protection key. A key update does not replace it.
    pub header: HeaderKey,
    /// Packet protection key. A key update replaces it.
    pub packet: PacketKey,
}

impl DirectionKeys {
    fn derive(suite: Suite, secret: &Secret, format: &Format) -> Self {
        Self {
            header: HeaderKey::derive(suite, secret, format.labels.hp),
            packet: packet_material(suite, secret, format).key(),
        }
    }
}

/// Keys that protect the packets of one encryption level.
#[derive(Debug)]
pub struct Keys {
    /// Keys for packets that this endpoint sends.
    pub local: DirectionKeys,
    /// Keys for packets that this endpoint receives.
    pub remote: DirectionKeys,
}

/// Returns the keys of Initial packets. Anyone who sees the client's first Destination Connection ID can
/// compute them (RFC 9001 §5.2).
pub fn initial_keys(format: &Format, dcid: &ConnectionId, side: Side) -> Keys {
    let (client, server) = initial_secrets(format, dcid);
    let (local, remote) = if side.is_client() { (client, server) } else { (server, client) };
    // Initial packets always use AEAD_AES_128_GCM and SHA-256.
    Secrets { suite: Suite::Aes128Gcm, local, remote }.keys(format)
}

#[expect(clippy::expect_used, reason = "a SHA-256 output fits a secret")]
fn initial_secrets(format: &Format, dcid: &ConnectionId) -> (Secret, Secret) {
    let initial = Salt::new(HKDF_SHA256, &format.initial_salt).extract(dcid);
    let derive = |label| {
        let mut secret = zeroize::Zeroizing::new([0; 32]);
        expand_label(&initial, label, &mut *secret);
        Secret::new(&*secret).expect("32 bytes")
    };
    (derive("client in"), derive("server in"))
}

/// Traffic secrets of the Handshake or the 1-RTT level.
///
/// They do not depend on the QUIC version, but the keys do. Keys are therefore derived only after version
/// negotiation, because compatible negotiation (RFC 9368 §2.3) changes the labels after the TLS session
/// began.
#[derive(Clone, Debug)]
pub struct Secrets {
    pub(crate) suite: Suite,
    pub(crate) local: Secret,
    pub(crate) remote: Secret,
}

impl Secrets {
    /// Returns the negotiated cipher suite.
    pub const fn suite(&self) -> Suite {
        self.suite
    }

    /// Derives the header and packet keys of the current key phase.
    pub fn keys(&self, format: &Format) -> Keys {
        Keys {
            local: DirectionKeys::derive(self.suite, &self.local, format),
            remote: DirectionKeys::derive(self.suite, &self.remote, format),
        }
    }

    /// Derives the header keys for this endpoint's packets and for the peer's. Call this in the first key phase, whose header keys all phases
    /// use (RFC 9001 §6).
    pub fn headers(&self, format: &Format) -> [HeaderKey; 2] {
        [&self.local, &self.remote].map(|secret| HeaderKey::derive(self.suite, secret, format.labels.hp))
    }

    /// Derives the material of the packet key for this endpoint's packets in the current key phase.
    pub fn local(&self, format: &Format) -> PacketMaterial {
        packet_material(self.suite, &self.local, format)
    }

    /// Derives the material of the packet key for the peer's packets in the current key phase.
    pub fn remote(&self, format: &Format) -> PacketMaterial {
        packet_material(self.suite, &self.remote, format)
    }

    /// Advances the secret of this endpoint's packets to the next key phase and returns the material of their key (RFC 9001 §6.1). The
    /// header key does not change.
    pub fn next_local(&mut self, format: &Format) -> PacketMaterial {
        self.local = self.local.derive(self.suite, format.labels.ku);
        packet_material(self.suite, &self.local, format)
    }

    /// Advances the secret of the peer's packets to the next key phase and returns the material of their key (RFC 9001 §6.1). The header
    /// key does not change.
    pub fn next_remote(&mut self, format: &Format) -> PacketMaterial {
        self.remote = self.remote.derive(self.suite, format.labels.ku);
        packet_material(self.suite, &self.remote, format)
    }
}

/// Traffic secret of 0-RTT packets, which only clients send.
#[derive(Clone, Debug)]
pub struct EarlySecret {
    pub(crate) suite: Suite,
    pub(crate) secret: Secret,
}

impl EarlySecret {
    /// Returns the cipher suite of the resumed session.
    pub const fn suite(&self) -> Suite {
        self.suite
    }

    /// Derives the header and packet keys. A client sends with them, and a server receives with them.
    pub fn keys(&self, format: &Format) -> DirectionKeys {
        DirectionKeys::derive(self.suite, &self.secret, format)
    }
}

fn packet_material(suite: Suite, secret: &Secret, format: &Format) -> PacketMaterial {
    PacketMaterial::derive(suite, secret, format.labels.key, format.labels.iv)
}

#[cfg(test)]
mod tests;
