//! Tokens of sent frames. A token names the state to update when its packet is acknowledged or lost.

use anabranch_wire::{Dir, PathId, SpaceId, StreamId};
use smallvec::SmallVec;

use crate::space::Receipt;

/// Token of one sent frame. Values that only increase (limits) are not stored: if such a frame is lost, the
/// newest value is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::enum_variant_names, reason = "NEW_TOKEN is a frame's name")]
pub(crate) enum Token {
    /// ACK frame for packets of `space` (and, for 1-RTT, of `path`). Once it is acknowledged, its ranges need
    /// not be reported again.
    Ack {
        /// Space of the reported packets.
        space: SpaceId,
        /// Path of the reported packets.
        path: PathId,
        /// Ranges that the frame reported.
        receipt: Receipt,
    },
    /// CRYPTO data.
    Crypto {
        /// Packet number space of the CRYPTO stream.
        space: SpaceId,
        /// Offset of the first byte.
        offset: u64,
        /// Number of bytes.
        len: u32,
    },
    /// STREAM data.
    Stream {
        /// The stream.
        id: StreamId,
        /// Offset of the first byte.
        offset: u64,
        /// Number of bytes.
        len: u32,
        /// `true` if the frame carried the FIN.
        fin: bool,
    },
    /// STREAM data that another packet in flight carries too. If this copy is lost, the data is sent again
    /// only if the other packet is lost as well.
    StreamCopy {
        /// The stream.
        id: StreamId,
        /// Offset of the first byte.
        offset: u64,
        /// Number of bytes.
        len: u32,
        /// `true` if the frame carried the FIN.
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
        /// Sequence number; only the newest status is sent again.
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
    /// DATAGRAM frame. It is never sent again; its loss counts in the statistics only.
    Datagram,
    /// PING, or another frame that makes the packet ack-eliciting but is never sent again.
    Ping,
}

impl Token {
    /// Returns whether the frame, or its newest value, is sent again if its packet is lost.
    pub(crate) fn is_repeated(&self) -> bool {
        !matches!(self, Self::Ack { .. } | Self::Datagram | Self::Ping)
    }
}

/// Tokens of one packet. Two fit without an allocation: the most common packet has one ACK and one STREAM
/// frame.
pub(crate) type Tokens = SmallVec<[Token; 2]>;
