//! Names of the QUIC versions that both ends of a run may use.

use core::fmt;
use core::str::FromStr;

use anabranch_wire::Version;

/// Wire image of packets, beginning with the first one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Wire {
    /// QUIC version 1 (RFC 9000).
    #[default]
    V1,
    /// QUIC version 2 (RFC 9369).
    V2,
    /// QUIC VReverso (`docs/vreverso.md`).
    Reverso,
}

impl Wire {
    /// All wire images.
    const ALL: [Self; 3] = [Self::V1, Self::V2, Self::Reverso];

    /// Names that [`FromStr`] accepts.
    pub const NAMES: &'static [&'static str] =
        &[Self::ALL[0].name(), Self::ALL[1].name(), Self::ALL[2].name()];

    /// Returns the name of the wire image.
    pub const fn name(self) -> &'static str {
        match self {
            Self::V1 => "v1",
            Self::V2 => "v2",
            Self::Reverso => "reverso",
        }
    }

    /// Returns the version number.
    pub const fn version(self) -> Version {
        match self {
            Self::V1 => Version::V1,
            Self::V2 => Version::V2,
            Self::Reverso => Version::REVERSO,
        }
    }
}

impl fmt::Display for Wire {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Error for an unknown wire image. Its message lists the known wire images in one line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown wire: use one of {}", Wire::NAMES.join(", "))]
pub struct UnknownWire;

impl FromStr for Wire {
    type Err = UnknownWire;

    fn from_str(name: &str) -> Result<Self, UnknownWire> {
        Self::ALL.into_iter().find(|wire| wire.name() == name).ok_or(UnknownWire)
    }
}
