//! The AEAD algorithms that protect packets, and how much each may be used.

use aws_lc_rs::{aead, hkdf};
use rustls::{CipherSuite, SupportedCipherSuite};

/// Bytes that sealing adds to a payload; the same for every suite of TLS 1.3 used here.
pub const TAG_LEN: usize = 16;

/// A TLS 1.3 cipher suite as packet protection sees it: an AEAD, a header cipher and a hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Suite {
    /// TLS_AES_128_GCM_SHA256, also the suite of Initial packets.
    Aes128Gcm,
    /// TLS_AES_256_GCM_SHA384.
    Aes256Gcm,
    /// TLS_CHACHA20_POLY1305_SHA256.
    ChaCha20Poly1305,
}

impl Suite {
    /// Returns the number of packets that may be sealed with one key (RFC 9001 §6.6); a key update must come
    /// before.
    pub const fn confidentiality_limit(self) -> u64 {
        match self {
            Self::Aes128Gcm | Self::Aes256Gcm => 1 << 23,
            // "greater than the number of possible packets (2^62)": never reached.
            Self::ChaCha20Poly1305 => 1 << 62,
        }
    }

    /// Returns the number of packets of a connection that may fail to open, over all keys, before it must end
    /// (RFC 9001 §6.6).
    pub const fn integrity_limit(self) -> u64 {
        match self {
            Self::Aes128Gcm | Self::Aes256Gcm => 1 << 52,
            Self::ChaCha20Poly1305 => 1 << 36,
        }
    }

    /// Returns the length of the authentication tag in bytes.
    pub const fn tag_len(self) -> usize {
        TAG_LEN
    }

    /// Returns the length of the AEAD's key and of the header protection key in bytes.
    pub(crate) const fn key_len(self) -> usize {
        match self {
            Self::Aes128Gcm => 16,
            Self::Aes256Gcm | Self::ChaCha20Poly1305 => 32,
        }
    }

    pub(crate) fn aead(self) -> &'static aead::Algorithm {
        match self {
            Self::Aes128Gcm => &aead::AES_128_GCM,
            Self::Aes256Gcm => &aead::AES_256_GCM,
            Self::ChaCha20Poly1305 => &aead::CHACHA20_POLY1305,
        }
    }

    pub(crate) fn hkdf(self) -> hkdf::Algorithm {
        match self {
            Self::Aes128Gcm | Self::ChaCha20Poly1305 => hkdf::HKDF_SHA256,
            Self::Aes256Gcm => hkdf::HKDF_SHA384,
        }
    }

    /// Returns the suite that rustls negotiated; `None` for one that this crate cannot protect packets with.
    pub(crate) fn from_rustls(suite: SupportedCipherSuite) -> Option<Self> {
        match suite.suite() {
            CipherSuite::TLS13_AES_128_GCM_SHA256 => Some(Self::Aes128Gcm),
            CipherSuite::TLS13_AES_256_GCM_SHA384 => Some(Self::Aes256Gcm),
            CipherSuite::TLS13_CHACHA20_POLY1305_SHA256 => Some(Self::ChaCha20Poly1305),
            _ => None,
        }
    }
}
