//! Which version of QUIC is spoken.

use anabranch::Version;
use clap::ValueEnum;

/// What packets look like.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Wire {
    /// QUIC version 1 (RFC 9000)
    V1,
    /// QUIC version 2 (RFC 9369)
    V2,
    /// QUIC VReverso, which decrypts data to where it is read
    Reverso,
}

impl Wire {
    /// Returns the version's number.
    pub(crate) const fn version(self) -> Version {
        match self {
            Self::V1 => Version::V1,
            Self::V2 => Version::V2,
            Self::Reverso => Version::REVERSO,
        }
    }

    /// What a server speaks that rather has this one; version 1 it speaks with everybody.
    pub(crate) fn served(self) -> Vec<Version> {
        match self {
            Self::V1 => vec![Version::V1],
            other => vec![other.version(), Version::V1],
        }
    }
}
