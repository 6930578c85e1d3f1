//! Kinds of packets.

use crate::SpaceId;

/// Kind of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum PacketKind {
    /// Initial.
    Initial,
    /// 0-RTT.
    ZeroRtt,
    /// Handshake.
    Handshake,
    /// Retry.
    Retry,
    /// 1-RTT, with a short header.
    OneRtt,
    /// Version Negotiation.
    VersionNegotiation,
}

impl PacketKind {
    /// Returns the packet number space; `None` for packets without a packet number.
    #[inline]
    pub const fn space(self) -> Option<SpaceId> {
        match self {
            Self::Initial => Some(SpaceId::Initial),
            Self::Handshake => Some(SpaceId::Handshake),
            Self::ZeroRtt | Self::OneRtt => Some(SpaceId::Data),
            Self::Retry | Self::VersionNegotiation => None,
        }
    }
}
