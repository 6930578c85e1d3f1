//! Identifiers: sides, streams, paths, connection IDs, packet number spaces.

use core::fmt;
use core::ops::Deref;

/// Role of an endpoint in a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Side {
    /// Endpoint that initiates the connection.
    Client,
    /// Endpoint that accepts the connection.
    Server,
}

impl Side {
    /// Returns the role of the peer.
    pub const fn peer(self) -> Self {
        match self {
            Self::Client => Self::Server,
            Self::Server => Self::Client,
        }
    }

    /// Returns whether this is the client.
    pub const fn is_client(self) -> bool {
        matches!(self, Self::Client)
    }

    /// Returns whether this is the server.
    pub const fn is_server(self) -> bool {
        matches!(self, Self::Server)
    }
}

/// Direction of a stream: both endpoints send on it, or only the initiator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Dir {
    /// Bidirectional.
    Bi,
    /// Unidirectional.
    Uni,
}

/// Stream ID (RFC 9000 §2.1): index, direction and initiator in one integer below 2^62.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamId(u64);

impl StreamId {
    /// Returns the ID of the `index`-th stream of direction `dir` opened by `initiator`, counted from 0.
    pub const fn new(initiator: Side, dir: Dir, index: u64) -> Self {
        let initiator = match initiator {
            Side::Client => 0,
            Side::Server => 1,
        };
        let dir = match dir {
            Dir::Bi => 0,
            Dir::Uni => 2,
        };
        Self(index << 2 | dir | initiator)
    }

    /// Returns the stream ID with the value `value` on the wire.
    pub const fn from_u64(value: u64) -> Self {
        Self(value)
    }

    /// Returns the value on the wire.
    pub const fn as_u64(self) -> u64 {
        self.0
    }

    /// Returns the endpoint that opens the stream.
    pub const fn initiator(self) -> Side {
        if self.0 & 1 == 0 { Side::Client } else { Side::Server }
    }

    /// Returns the direction of the stream.
    pub const fn dir(self) -> Dir {
        if self.0 & 2 == 0 { Dir::Bi } else { Dir::Uni }
    }

    /// Returns the stream's position among those of the same initiator and direction, counted from 0.
    pub const fn index(self) -> u64 {
        self.0 >> 2
    }
}

impl fmt::Display for StreamId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

/// Path ID (RFC 10069). The path of the handshake has ID 0. IDs are never reused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PathId(pub u32);

impl PathId {
    /// Path of the handshake.
    pub const ZERO: Self = Self(0);
}

impl fmt::Display for PathId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

/// Packet number space (RFC 9000 §12.3). 0-RTT and 1-RTT packets share `Data`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SpaceId {
    /// Initial packets.
    Initial,
    /// Handshake packets.
    Handshake,
    /// 0-RTT and 1-RTT packets.
    Data,
}

impl SpaceId {
    /// All spaces in the order in which a connection uses them.
    pub const ALL: [Self; 3] = [Self::Initial, Self::Handshake, Self::Data];
}

/// Maximum length of a connection ID in the supported versions, in bytes (RFC 9000 §17.2).
pub const MAX_CID_LEN: usize = 20;

/// Connection ID of 0 to 20 bytes, stored inline.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionId {
    bytes: [u8; MAX_CID_LEN],
    len: u8,
}

impl ConnectionId {
    /// Returns whether the connection ID consists of `bytes`. The usual eight bytes are compared at once.
    #[inline]
    pub fn is(&self, bytes: &[u8]) -> bool {
        match <[u8; 8]>::try_from(bytes) {
            Ok(eight) if self.len() == 8 => self[..8] == eight,
            _ => **self == *bytes,
        }
    }

    /// Empty connection ID.
    pub const EMPTY: Self = Self { bytes: [0; MAX_CID_LEN], len: 0 };

    /// Copies `bytes`; `None` if there are more than [`MAX_CID_LEN`].
    pub fn new(bytes: &[u8]) -> Option<Self> {
        let mut cid = Self::EMPTY;
        cid.bytes.get_mut(..bytes.len())?.copy_from_slice(bytes);
        cid.len = u8::try_from(bytes.len()).ok()?;
        Some(cid)
    }
}

impl Deref for ConnectionId {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }
}

impl fmt::Debug for ConnectionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Formats the ID as lowercase hexadecimal digits, as in qlog.
impl fmt::Display for ConnectionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// Stateless reset token (RFC 9000 §10.3). It is compared in constant time and never printed.
#[derive(Clone, Copy)]
pub struct ResetToken(pub [u8; 16]);

impl PartialEq for ResetToken {
    fn eq(&self, other: &Self) -> bool {
        let different = self.0.iter().zip(&other.0).fold(0, |acc, (a, b)| acc | (a ^ b));
        core::hint::black_box(different) == 0
    }
}

impl Eq for ResetToken {}

impl fmt::Debug for ResetToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ResetToken")
    }
}

/// ECN codepoint of an IP packet, other than Not-ECT (RFC 3168).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Ecn {
    /// ECT(1), 0b01.
    Ect1 = 0b01,
    /// ECT(0), 0b10.
    Ect0 = 0b10,
    /// Congestion experienced, 0b11.
    Ce = 0b11,
}

impl Ecn {
    /// Returns the codepoint in the two low bits of `bits`; `None` for Not-ECT.
    pub const fn from_bits(bits: u8) -> Option<Self> {
        match bits & 0b11 {
            0b01 => Some(Self::Ect1),
            0b10 => Some(Self::Ect0),
            0b11 => Some(Self::Ce),
            _ => None,
        }
    }
}

/// Total numbers of received packets by ECN codepoint, as in an ACK frame (RFC 9000 §19.3.2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EcnCounts {
    /// Number of packets received with ECT(0).
    pub ect0: u64,
    /// Number of packets received with ECT(1).
    pub ect1: u64,
    /// Number of packets received with CE.
    pub ce: u64,
}
