//! AEAD algorithms of packet protection, and their usage limits.

use aws_lc_rs::{aead, digest, hkdf};
use rustls::{CipherSuite, SupportedCipherSuite};

/// Number of bytes that sealing adds to a payload. It is the same for every supported cipher suite.
pub const TAG_LEN: usize = 16;

/// TLS 1.3 cipher suite: an AEAD, a cipher for header protection and a hash.
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
    /// Returns the maximum number of packets that may be sealed with one key (RFC 9001 §6.6). A key update
    /// must precede this limit.
    pub const fn confidentiality_limit(self) -> u64 {
        match self {
            Self::Aes128Gcm | Self::Aes256Gcm => 1 << 23,
            // RFC 9001: "greater than the number of possible packets (2^62)", so it is never reached.
            Self::ChaCha20Poly1305 => 1 << 62,
        }
    }

    /// Returns the maximum number of packets that may fail authentication in a connection, over all keys. The
    /// connection must then be closed (RFC 9001 §6.6).
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

    /// Returns the length of the AEAD key in bytes, which is also that of the header protection key.
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

    pub(crate) fn digest(self) -> &'static digest::Algorithm {
        match self {
            Self::Aes128Gcm | Self::ChaCha20Poly1305 => &digest::SHA256,
            Self::Aes256Gcm => &digest::SHA384,
        }
    }

    /// Returns the suite that rustls negotiated; `None` if packet protection does not support it.
    pub(crate) fn from_rustls(suite: SupportedCipherSuite) -> Option<Self> {
        match suite.suite() {
            CipherSuite::TLS13_AES_128_GCM_SHA256 => Some(Self::Aes128Gcm),
            CipherSuite::TLS13_AES_256_GCM_SHA384 => Some(Self::Aes256Gcm),
            CipherSuite::TLS13_CHACHA20_POLY1305_SHA256 => Some(Self::ChaCha20Poly1305),
            _ => None,
        }
    }
}
