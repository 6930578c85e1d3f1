//! Choice of the QUIC version.

use anabranch::Version;
use clap::ValueEnum;

/// Wire image of packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Wire {
    /// QUIC version 1 (RFC 9000)
    V1,
    /// QUIC version 2 (RFC 9369)
    V2,
    /// QUIC VReverso, which decrypts data into the buffers that the application reads
    Reverso,
}

impl Wire {
    /// Returns the version.
    pub(crate) const fn version(self) -> Version {
        match self {
            Self::V1 => Version::V1,
            Self::V2 => Version::V2,
            Self::Reverso => Version::REVERSO,
        }
    }

    /// Returns the versions of a server that prefers this one. Version 1 is always supported.
    pub(crate) fn served(self) -> Vec<Version> {
        match self {
            Self::V1 => vec![Version::V1],
            other => vec![other.version(), Version::V1],
        }
    }
}
