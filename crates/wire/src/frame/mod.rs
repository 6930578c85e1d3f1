//! Frames (RFC 9000 §19, RFC 9221, RFC 10069, draft-ietf-quic-ack-frequency,
//! draft-munizaga-quic-alternative-server-address).

mod ack;
mod field;
mod list;
mod stream;

pub use ack::{Ack, AckRanges, write_ack};
pub use stream::{
    Stream, max_crypto_len, max_datagram_len, max_stream_len, write_crypto, write_datagram, write_stream,
};

use core::net::{SocketAddrV4, SocketAddrV6};

use crate::code::TransportErrorCode;
use crate::cursor::{Direction, Full, Malformed, Reader, Writer};
use crate::header::PacketKind;
use crate::varint::varint_len;
use crate::{ConnectionId, Dir, PathId, ResetToken, StreamId, VarInt};

/// Maximum number of streams of one type, that is, of one direction and one initiator (RFC 9000 §4.6).
pub const MAX_STREAM_COUNT: u64 = 1 << 60;

/// Frame, borrowed from the packet's payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Frame<'a> {
    /// Run of PADDING frames, with its length in bytes.
    Padding(usize),
    /// PING.
    Ping,
    /// ACK or PATH_ACK.
    Ack(Ack<'a>),
    /// RESET_STREAM: the sender abandons the stream.
    ResetStream {
        /// ID of the stream.
        id: StreamId,
        /// Application error code.
        code: VarInt,
        /// Final size of the stream in bytes, which counts towards flow control.
        final_size: u64,
    },
    /// STOP_SENDING: the receiver asks the peer to reset the stream.
    StopSending {
        /// ID of the stream.
        id: StreamId,
        /// Application error code.
        code: VarInt,
    },
    /// CRYPTO: bytes of the TLS handshake.
    Crypto {
        /// Offset in the handshake data of the encryption level.
        offset: u64,
        /// Handshake data.
        data: &'a [u8],
    },
    /// NEW_TOKEN: a token for a later connection of the client.
    NewToken {
        /// Token, not empty.
        token: &'a [u8],
    },
    /// STREAM.
    Stream(Stream<'a>),
    /// MAX_DATA: maximum number of bytes on all streams together.
    MaxData(u64),
    /// MAX_STREAM_DATA.
    MaxStreamData {
        /// ID of the stream.
        id: StreamId,
        /// Maximum number of bytes on the stream.
        maximum: u64,
    },
    /// MAX_STREAMS.
    MaxStreams {
        /// Direction of the streams.
        dir: Dir,
        /// Cumulative maximum number of streams, at most [`MAX_STREAM_COUNT`].
        maximum: u64,
    },
    /// DATA_BLOCKED: limit of the connection at which the sender is blocked.
    DataBlocked(u64),
    /// STREAM_DATA_BLOCKED.
    StreamDataBlocked {
        /// ID of the stream.
        id: StreamId,
        /// Limit of the stream at which the sender is blocked.
        maximum: u64,
    },
    /// STREAMS_BLOCKED.
    StreamsBlocked {
        /// Direction of the streams.
        dir: Dir,
        /// Stream limit at which the sender is blocked, at most [`MAX_STREAM_COUNT`].
        maximum: u64,
    },
    /// NEW_CONNECTION_ID or PATH_NEW_CONNECTION_ID.
    NewConnectionId(NewConnectionId),
    /// RETIRE_CONNECTION_ID or PATH_RETIRE_CONNECTION_ID.
    RetireConnectionId {
        /// Path of a PATH_RETIRE_CONNECTION_ID; `None` for a RETIRE_CONNECTION_ID.
        path: Option<PathId>,
        /// Sequence number of the retired connection ID.
        sequence: u64,
    },
    /// PATH_CHALLENGE, with the data that the peer must return.
    PathChallenge([u8; 8]),
    /// PATH_RESPONSE, with the data of the challenge.
    PathResponse([u8; 8]),
    /// CONNECTION_CLOSE.
    ConnectionClose(ConnectionClose<'a>),
    /// HANDSHAKE_DONE.
    HandshakeDone,
    /// DATAGRAM (RFC 9221).
    Datagram {
        /// Data of the application.
        data: &'a [u8],
    },
    /// ACK_FREQUENCY (draft-ietf-quic-ack-frequency).
    AckFrequency {
        /// Sequence number. A frame with a larger number is newer.
        sequence: u64,
        /// Number of ack-eliciting packets that the peer may receive without sending an ACK.
        threshold: u64,
        /// Requested maximum acknowledgment delay, in microseconds.
        max_ack_delay_us: u64,
        /// Reordering distance at which the peer must acknowledge immediately; 0 disables this.
        reordering_threshold: u64,
    },
    /// IMMEDIATE_ACK (draft-ietf-quic-ack-frequency).
    ImmediateAck,
    /// PATH_ABANDON (RFC 10069).
    PathAbandon {
        /// ID of the path.
        path: PathId,
        /// Error code.
        code: VarInt,
    },
    /// PATH_STATUS_AVAILABLE or PATH_STATUS_BACKUP (RFC 10069).
    PathStatus {
        /// ID of the path.
        path: PathId,
        /// `true` if the path may be used freely; `false` for a backup path.
        available: bool,
        /// Sequence number for the path. A status with a larger number is newer.
        sequence: u64,
    },
    /// MAX_PATH_ID (RFC 10069): largest path ID that the peer may use, at most 2^32 - 1.
    MaxPathId(u64),
    /// PATHS_BLOCKED (RFC 10069): maximum path ID at which the sender is blocked, at most 2^32 - 1.
    PathsBlocked(u64),
    /// PATH_CIDS_BLOCKED (RFC 10069): the sender lacks connection IDs for a path.
    PathCidsBlocked {
        /// ID of the path.
        path: PathId,
        /// Next sequence number that the sender expects.
        next_sequence: u64,
    },
    /// ALTERNATIVE_V4_ADDRESS (draft-munizaga-quic-alternative-server-address): an additional IPv4 address of
    /// the server.
    AlternativeV4Address {
        /// Flags of the address.
        flags: AddressFlags,
        /// Sequence number. A frame with a larger number is newer.
        sequence: u64,
        /// Address and port.
        address: SocketAddrV4,
    },
    /// ALTERNATIVE_V6_ADDRESS (draft-munizaga-quic-alternative-server-address): an additional IPv6 address of
    /// the server.
    AlternativeV6Address {
        /// Flags of the address.
        flags: AddressFlags,
        /// Sequence number. A frame with a larger number is newer.
        sequence: u64,
        /// Address and port.
        address: SocketAddrV6,
    },
}

/// Flags of ALTERNATIVE_V4_ADDRESS and ALTERNATIVE_V6_ADDRESS. Unused bits are ignored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AddressFlags {
    /// `true` if the server prefers this address.
    pub preferred: bool,
    /// `true` if the server no longer has this address.
    pub retire: bool,
}

/// NEW_CONNECTION_ID (RFC 9000 §19.15) or PATH_NEW_CONNECTION_ID (RFC 10069).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NewConnectionId {
    /// Path of a PATH_NEW_CONNECTION_ID; `None` for a NEW_CONNECTION_ID.
    pub path: Option<PathId>,
    /// Sequence number of this connection ID.
    pub sequence: u64,
    /// Sequence number below which the peer must retire connection IDs; at most `sequence`.
    pub retire_prior_to: u64,
    /// Connection ID of 1 to 20 bytes.
    pub cid: ConnectionId,
    /// Stateless reset token of the connection ID.
    pub token: ResetToken,
}

/// CONNECTION_CLOSE (RFC 9000 §19.19).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectionClose<'a> {
    /// `true` if the application closes the connection (type 0x1d), `false` if QUIC does.
    pub application: bool,
    /// [`TransportErrorCode`], or the application's error code.
    pub code: VarInt,
    /// Type of the frame that caused the error; 0 if unknown, or if the application closes the connection.
    pub frame_type: u64,
    /// Human-readable reason, which should be UTF-8.
    pub reason: &'a [u8],
}

impl<'a> Frame<'a> {
    /// Returns the type code that is written for this frame.
    pub fn kind(&self) -> u64 {
        list::kind(self)
    }

    /// Returns the size of the frame in bytes, which is the same in both directions.
    pub fn size(&self) -> usize {
        list::size(self)
    }

    /// Returns whether the peer must acknowledge a packet with this frame (RFC 9000 §13.2).
    #[inline]
    pub const fn is_ack_eliciting(&self) -> bool {
        !matches!(self, Frame::Padding(_) | Frame::Ack(_) | Frame::ConnectionClose(_))
    }

    /// Returns whether this is a probing frame. A packet with only probing frames does not migrate the
    /// connection (RFC 9000 §9.1).
    #[inline]
    pub const fn is_probing(&self) -> bool {
        matches!(
            self,
            Frame::PathChallenge(_) | Frame::PathResponse(_) | Frame::NewConnectionId(_) | Frame::Padding(_)
        )
    }

    /// Returns whether the frame is permitted in a packet of this kind (RFC 9000 §12.4 table 3 and §12.5). If
    /// not, receiving it is a PROTOCOL_VIOLATION.
    #[inline]
    pub const fn allowed_in(&self, packet: PacketKind) -> bool {
        match packet {
            PacketKind::OneRtt => true,
            PacketKind::Initial | PacketKind::Handshake => match self {
                Frame::Padding(_) | Frame::Ping | Frame::Crypto { .. } => true,
                Frame::Ack(ack) => ack.path.is_none(),
                Frame::ConnectionClose(close) => !close.application,
                _ => false,
            },
            PacketKind::ZeroRtt => match self {
                // RFC 10069: multipath frames are permitted in 1-RTT packets only.
                Frame::NewConnectionId(issued) => issued.path.is_none(),
                Frame::Padding(_)
                | Frame::Ping
                | Frame::ResetStream { .. }
                | Frame::StopSending { .. }
                | Frame::Stream(_)
                | Frame::MaxData(_)
                | Frame::MaxStreamData { .. }
                | Frame::MaxStreams { .. }
                | Frame::DataBlocked(_)
                | Frame::StreamDataBlocked { .. }
                | Frame::StreamsBlocked { .. }
                | Frame::PathChallenge(_)
                | Frame::ConnectionClose(_)
                | Frame::Datagram { .. } => true,
                _ => false,
            },
            PacketKind::Retry | PacketKind::VersionNegotiation => false,
        }
    }
}

impl Writer<'_> {
    /// Appends the whole `frame`, or nothing if there is no room.
    #[inline]
    pub fn frame(&mut self, frame: &Frame<'_>) -> Result<(), Full> {
        list::write(frame, &mut self.region(frame.size())?);
        Ok(())
    }
}

/// Error in a packet's frames, which closes the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct FrameError {
    /// Error code of the CONNECTION_CLOSE.
    pub code: TransportErrorCode,
    /// Type of the invalid frame; 0 if it could not be read.
    pub frame_type: u64,
    /// Human-readable reason.
    pub reason: &'static str,
}

/// [`FrameError`] without the type of the frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Fault {
    code: TransportErrorCode,
    reason: &'static str,
}

impl Fault {
    const fn encoding(reason: &'static str) -> Self {
        Self { code: TransportErrorCode::FRAME_ENCODING_ERROR, reason }
    }

    const fn violation(reason: &'static str) -> Self {
        Self { code: TransportErrorCode::PROTOCOL_VIOLATION, reason }
    }
}

impl From<Malformed> for Fault {
    fn from(_: Malformed) -> Self {
        Self::encoding("frame is truncated")
    }
}

/// Iterator over the frames of a decrypted payload. It ends after the first error.
#[derive(Clone, Debug)]
pub struct Frames<'a> {
    reader: Reader<'a>,
    without_frames: bool,
}

impl<'a> Frames<'a> {
    /// Creates an iterator over the frames of `payload` in `direction`. An empty payload yields one error
    /// (RFC 9000 §12.4).
    #[inline]
    pub const fn new(payload: &'a [u8], direction: Direction) -> Self {
        Self { reader: Reader::new(payload, direction), without_frames: payload.is_empty() }
    }

    /// Returns the number of unread bytes of the payload.
    #[inline]
    pub const fn remaining(&self) -> usize {
        self.reader.remaining()
    }

    /// Returns whether the whole payload has been read.
    #[inline]
    pub const fn is_over(&self) -> bool {
        self.reader.is_empty()
    }

    /// Returns the next frame if it is a valid STREAM frame, the most frequent case. Otherwise consumes
    /// nothing; the iterator then returns the frame or the error.
    #[inline(always)]
    pub fn next_stream(&mut self) -> Option<Stream<'a>> {
        // Each branch is compiled for one direction, so that reading a field does not check the direction.
        let (stream, reader) = match self.reader.direction() {
            Direction::Forward => leading_stream(self.reader.peek(), Direction::Forward)?,
            Direction::Backward => leading_stream(self.reader.peek(), Direction::Backward)?,
        };
        self.reader = reader;
        Some(stream)
    }

    #[inline]
    fn read(&mut self) -> Result<Frame<'a>, FrameError> {
        let before = self.reader.remaining();
        let kind = self.reader.varint().map_err(|fault| Fault::from(fault).of(0))?;
        // RFC 9000 §12.4: a frame type has the shortest encoding.
        if before - self.reader.remaining() != varint_len(kind) {
            return Err(Fault::violation("frame type is not in its shortest encoding").of(kind));
        }
        let frame = list::read(kind, &mut self.reader).map_err(|fault| fault.of(kind))?;
        check(&frame).map_err(|fault| fault.of(kind))?;
        Ok(frame)
    }
}

/// Returns the STREAM frame that comes first in this direction, and the rest of the payload. Returns `None`
/// for other frames and for invalid ones.
#[inline(always)]
fn leading_stream(payload: &[u8], direction: Direction) -> Option<(Stream<'_>, Reader<'_>)> {
    let mut reader = Reader::new(payload, direction);
    let kind = reader.varint_here().ok()?;
    let is_short = payload.len() - reader.remaining() == 1;
    if !is_short || !(stream::FIRST..=stream::LAST).contains(&kind) {
        return None;
    }
    let stream = stream::read(kind, &mut reader).ok()?;
    is_within(stream.offset, stream.data).then_some((stream, reader))
}

impl Fault {
    const fn of(self, frame_type: u64) -> FrameError {
        FrameError { code: self.code, frame_type, reason: self.reason }
    }
}

impl<'a> Iterator for Frames<'a> {
    type Item = Result<Frame<'a>, FrameError>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.reader.is_empty() {
            let none = core::mem::take(&mut self.without_frames);
            return none.then(|| Err(Fault::violation("packet holds no frame").of(0)));
        }
        let frame = self.read();
        if frame.is_err() {
            self.reader.rest();
        }
        Some(frame)
    }
}

/// Returns whether the end of `data` at `offset` is a permitted stream offset (RFC 9000 §19.8).
#[inline]
const fn is_within(offset: u64, data: &[u8]) -> bool {
    offset + data.len() as u64 <= crate::MAX_VARINT
}

/// Checks a frame's values, as far as this requires no state of the connection.
#[inline]
fn check(frame: &Frame<'_>) -> Result<(), Fault> {
    match frame {
        Frame::Ack(ack) => ack.check(),
        // RFC 9000 §19.6, §19.8
        Frame::Stream(Stream { offset, data, .. }) | Frame::Crypto { offset, data } => {
            require(is_within(*offset, data), "data ends beyond 2^62 - 1")
        }
        // RFC 9000 §19.7
        Frame::NewToken { token } => require(!token.is_empty(), "token is empty"),
        // RFC 9000 §19.11, §19.14
        Frame::MaxStreams { maximum, .. } | Frame::StreamsBlocked { maximum, .. } => {
            require(*maximum <= MAX_STREAM_COUNT, "more than 2^60 streams")
        }
        // RFC 9000 §19.15
        Frame::NewConnectionId(issued) => {
            require(issued.retire_prior_to <= issued.sequence, "retire prior to is above the sequence number")
        }
        // RFC 10069: a path ID has 32 bits.
        Frame::MaxPathId(path) | Frame::PathsBlocked(path) if *path > u64::from(u32::MAX) => {
            Err(Fault::violation("path ID above 2^32 - 1"))
        }
        // draft-ietf-quic-ack-frequency: the delay must be below 2^14 ms, like the parameter max_ack_delay.
        Frame::AckFrequency { max_ack_delay_us, .. } if *max_ack_delay_us >= (1 << 14) * 1000 => {
            Err(Fault::violation("requested acknowledgment delay of 2^14 ms or more"))
        }
        _ => Ok(()),
    }
}

fn require(holds: bool, reason: &'static str) -> Result<(), Fault> {
    if holds { Ok(()) } else { Err(Fault::encoding(reason)) }
}

#[cfg(test)]
mod tests;
