//! Wire formats. Each version has one file here and one line in the registry below.

mod number;

pub(crate) use number::{Front, NumberField};

use core::fmt;

use crate::cursor::Direction;
use crate::header::PacketKind;

/// Version number (RFC 9000 §15), supported or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version(pub u32);

/// Defines the supported versions, most preferred first.
macro_rules! registry {
    ($($(#[$doc:meta])* $name:ident => $module:ident;)*) => {
        $(mod $module;)*

        impl Version {
            $($(#[$doc])* pub const $name: Self = $module::FORMAT.version;)*

            /// All supported versions, most preferred first.
            pub const SUPPORTED: &'static [Self] = &[$(Self::$name),*];

            /// Returns the version's wire format; `None` if it is not supported.
            #[inline]
            pub const fn format(self) -> Option<&'static Format> {
                match self {
                    $(Self::$name => Some(&$module::FORMAT),)*
                    _ => None,
                }
            }
        }
    };
}

registry! {
    /// QUIC VReverso (`docs/vreverso.md`).
    REVERSO => reverso;
    /// QUIC version 1 (RFC 9000).
    V1 => v1;
    /// QUIC version 2 (RFC 9369).
    V2 => v2;
}

impl Version {
    /// Version field of a Version Negotiation packet (RFC 8999 §6).
    pub const NEGOTIATION: Self = Self(0);

    /// Returns whether the number is reserved to exercise version negotiation (RFC 9000 §15).
    pub const fn is_greased(self) -> bool {
        self.0 & 0x0f0f_0f0f == 0x0a0a_0a0a
    }

    /// Returns a reserved version number, which `seed` selects.
    pub const fn grease(seed: u32) -> Self {
        Self(seed & 0xf0f0_f0f0 | 0x0a0a_0a0a)
    }
}

/// Formats the version as eight hexadecimal digits, as in qlog.
impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:08x}", self.0)
    }
}

/// Wire format: everything that differs between versions.
#[derive(Debug)]
#[non_exhaustive]
pub struct Format {
    /// Version number.
    pub version: Version,
    /// Direction in which frames are read.
    pub direction: Direction,
    /// Salt of the Initial secrets (RFC 9001 §5.2).
    pub initial_salt: [u8; 20],
    /// HKDF labels without the prefix "tls13 ".
    pub labels: Labels,
    /// Key of the Retry integrity tag (RFC 9001 §5.8).
    pub retry_key: [u8; 16],
    /// Nonce of the Retry integrity tag.
    pub retry_nonce: [u8; 12],
    /// Kinds of packets by the two type bits of a long header.
    pub(crate) long_types: [PacketKind; 4],
    /// Number field of Initial and Handshake packets: the part after the first byte that header protection
    /// covers.
    pub(crate) handshake_number: NumberField,
    /// Number field of 0-RTT and 1-RTT packets.
    pub(crate) data_number: NumberField,
    /// `true` if the headers of 0-RTT and 1-RTT packets contain the stream and the offset of the packet's
    /// data. In such headers stream 0 means that there is no data, so stream 0 cannot be used. A packet then
    /// has at most one STREAM frame, which precedes all other frames. A packet with a STREAM frame has no
    /// DATAGRAM frame.
    pub names_stream: bool,
}

/// HKDF labels of packet protection (RFC 9001 §5.1, RFC 9369 §3.3.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Labels {
    /// AEAD key.
    pub key: &'static str,
    /// Initialization vector, which forms the AEAD nonce.
    pub iv: &'static str,
    /// Header protection key.
    pub hp: &'static str,
    /// Traffic secret of the next key phase.
    pub ku: &'static str,
}

impl Format {
    /// Returns the value of the two type bits in a long header of this kind.
    pub(crate) fn long_type(&self, kind: PacketKind) -> Option<u8> {
        self.long_types.iter().position(|&listed| listed == kind).map(|bits| bits as u8)
    }

    #[inline]
    pub(crate) const fn number(&self, kind: PacketKind) -> &NumberField {
        match kind {
            PacketKind::OneRtt | PacketKind::ZeroRtt => &self.data_number,
            _ => &self.handshake_number,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_registry_finds_every_version() {
        assert_eq!(Version::SUPPORTED, [Version(0x0079_1097), Version(1), Version(0x6b33_43cf)]);
        for &version in Version::SUPPORTED {
            assert_eq!(version.format().unwrap().version, version);
            assert!(!version.is_greased());
        }
        assert!(Version::NEGOTIATION.format().is_none());
        assert!(Version(0xff00_001d).format().is_none());
    }

    #[test]
    fn greased_versions_are_reserved_ones() {
        for seed in [0, 1, 0xffff_ffff, 0x1234_5678] {
            assert!(Version::grease(seed).is_greased());
            assert!(Version::grease(seed).format().is_none());
        }
        assert_eq!(Version::grease(0x1234_5678).to_string(), "1a3a5a7a");
    }

    #[test]
    fn every_kind_with_a_long_header_has_one_type() {
        for &version in Version::SUPPORTED {
            let format = version.format().unwrap();
            let kinds = [PacketKind::Initial, PacketKind::ZeroRtt, PacketKind::Handshake, PacketKind::Retry];
            let mut types = kinds.map(|kind| format.long_type(kind).unwrap());
            types.sort_unstable();
            assert_eq!(types, [0, 1, 2, 3]);
            assert_eq!(format.long_type(PacketKind::OneRtt), None);
        }
    }
}
