//! Tokens of sent frames: each names the state that the packet's acknowledgment or loss changes.

use anabranch_wire::{Dir, PathId, SpaceId, StreamId};
use smallvec::SmallVec;

use crate::space::Receipt;

/// One frame's ack. Values that only grow (limits) are not kept: if such a frame is lost, the newest value is
/// sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::enum_variant_names, reason = "NEW_TOKEN is a frame's name")]
pub(crate) enum Token {
    /// An ACK frame for packets of `space` (and, for 1-RTT, of `path`); once the peer confirms it, what it
    /// told need not be repeated.
    Ack {
        /// Space that the ranges belong to.
        space: SpaceId,
        /// Path that the ranges belong to.
        path: PathId,
        /// Ranges that the frame named.
        receipt: Receipt,
    },
    /// Handshake bytes.
    Crypto {
        /// Space whose handshake stream carried them.
        space: SpaceId,
        /// First byte.
        offset: u64,
        /// Number of bytes.
        len: u32,
    },
    /// Stream bytes.
    Stream {
        /// The stream.
        id: StreamId,
        /// First byte.
        offset: u64,
        /// Number of bytes.
        len: u32,
        /// `true` if the frame also ended the stream.
        fin: bool,
    },
    /// Stream bytes that another packet carries as well: if they are lost, that one is waited for.
    StreamCopy {
        /// The stream.
        id: StreamId,
        /// First byte.
        offset: u64,
        /// Number of bytes.
        len: u32,
        /// `true` if the frame also ended the stream.
        fin: bool,
    },
    /// RESET_STREAM.
    ResetStream(StreamId),
    /// STOP_SENDING.
    StopSending(StreamId),
    /// MAX_DATA.
    MaxData,
    /// MAX_STREAM_DATA.
    MaxStreamData(StreamId),
    /// MAX_STREAMS.
    MaxStreams(Dir),
    /// DATA_BLOCKED.
    DataBlocked,
    /// STREAM_DATA_BLOCKED.
    StreamDataBlocked(StreamId),
    /// STREAMS_BLOCKED.
    StreamsBlocked(Dir),
    /// NEW_CONNECTION_ID.
    NewConnectionId {
        /// Path that the connection ID belongs to.
        path: PathId,
        /// Its sequence number.
        sequence: u64,
    },
    /// RETIRE_CONNECTION_ID.
    RetireConnectionId {
        /// Path that the connection ID belongs to.
        path: PathId,
        /// Its sequence number.
        sequence: u64,
    },
    /// PATH_ABANDON.
    PathAbandon(PathId),
    /// PATH_STATUS_AVAILABLE or PATH_STATUS_BACKUP.
    PathStatus {
        /// The path.
        path: PathId,
        /// Its sequence number: only the newest one is repeated.
        sequence: u64,
    },
    /// ALTERNATIVE_V4_ADDRESS or ALTERNATIVE_V6_ADDRESS, by sequence number.
    AlternativeAddress(u64),
    /// MAX_PATH_ID.
    MaxPathId,
    /// PATHS_BLOCKED.
    PathsBlocked,
    /// PATH_CIDS_BLOCKED.
    PathCidsBlocked(PathId),
    /// NEW_TOKEN.
    NewToken,
    /// HANDSHAKE_DONE.
    HandshakeDone,
    /// ACK_FREQUENCY, by sequence number.
    AckFrequency(u64),
    /// DATAGRAM, never repeated; its loss is told to the application's statistics.
    Datagram,
    /// PING and other frames that owe nothing but make the packet ack-eliciting.
    Ping,
}

impl Token {
    /// Reports whether the loss of a packet that owed this has something sent again.
    pub(crate) fn is_repeated(&self) -> bool {
        !matches!(self, Self::Ack { .. } | Self::Datagram | Self::Ping)
    }
}

/// The tokens of one packet; two fit without an allocation (ACK and STREAM, the common packet).
pub(crate) type Tokens = SmallVec<[Token; 2]>;
