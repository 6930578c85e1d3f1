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
use crate::{ConnectionId, Dir, PathId, ResetToken, StreamId};

/// The largest number of streams of one direction and initiator that an identifier can name (RFC 9000 §4.6).
pub const MAX_STREAM_COUNT: u64 = 1 << 60;

/// A frame, borrowed from the payload that carries it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Frame<'a> {
    /// A run of PADDING frames, its length in bytes.
    Padding(usize),
    /// PING.
    Ping,
    /// ACK or PATH_ACK.
    Ack(Ack<'a>),
    /// RESET_STREAM: the sender gives up a stream.
    ResetStream {
        /// The stream.
        id: StreamId,
        /// The application's reason.
        code: u64,
        /// Bytes of the stream that count against flow control.
        final_size: u64,
    },
    /// STOP_SENDING: the receiver asks the peer to reset a stream.
    StopSending {
        /// The stream.
        id: StreamId,
        /// The application's reason.
        code: u64,
    },
    /// CRYPTO: a piece of the handshake.
    Crypto {
        /// Position in the encryption level's handshake stream.
        offset: u64,
        /// The piece.
        data: &'a [u8],
    },
    /// NEW_TOKEN: for the client's next Initial.
    NewToken {
        /// The token, not empty.
        token: &'a [u8],
    },
    /// STREAM.
    Stream(Stream<'a>),
    /// MAX_DATA: bytes that may be sent on all streams together.
    MaxData(u64),
    /// MAX_STREAM_DATA.
    MaxStreamData {
        /// The stream.
        id: StreamId,
        /// Bytes that may be sent on it.
        maximum: u64,
    },
    /// MAX_STREAMS.
    MaxStreams {
        /// Direction of the streams.
        dir: Dir,
        /// Maximum number of streams opened in all, at most [`MAX_STREAM_COUNT`].
        maximum: u64,
    },
    /// DATA_BLOCKED: the connection limit at which the sender is blocked.
    DataBlocked(u64),
    /// STREAM_DATA_BLOCKED.
    StreamDataBlocked {
        /// The stream.
        id: StreamId,
        /// The limit at which its sender is blocked.
        maximum: u64,
    },
    /// STREAMS_BLOCKED.
    StreamsBlocked {
        /// Direction of the streams.
        dir: Dir,
        /// The limit at which no more can be opened, at most [`MAX_STREAM_COUNT`].
        maximum: u64,
    },
    /// NEW_CONNECTION_ID or PATH_NEW_CONNECTION_ID.
    NewConnectionId(NewConnectionId),
    /// RETIRE_CONNECTION_ID or PATH_RETIRE_CONNECTION_ID.
    RetireConnectionId {
        /// The path of a PATH_RETIRE_CONNECTION_ID.
        path: Option<PathId>,
        /// The sequence number given when the ID was issued.
        sequence: u64,
    },
    /// PATH_CHALLENGE: to be returned.
    PathChallenge([u8; 8]),
    /// PATH_RESPONSE: a challenge returned.
    PathResponse([u8; 8]),
    /// CONNECTION_CLOSE.
    ConnectionClose(ConnectionClose<'a>),
    /// HANDSHAKE_DONE.
    HandshakeDone,
    /// DATAGRAM (RFC 9221).
    Datagram {
        /// The application's message.
        data: &'a [u8],
    },
    /// ACK_FREQUENCY (draft-ietf-quic-ack-frequency).
    AckFrequency {
        /// Newer frames have larger numbers.
        sequence: u64,
        /// Ack-eliciting packets that may be received without an acknowledgment.
        threshold: u64,
        /// Requested maximum acknowledgment delay in microseconds.
        max_ack_delay_us: u64,
        /// Out-of-order distance that makes an acknowledgment immediate; 0 turns that off.
        reordering_threshold: u64,
    },
    /// IMMEDIATE_ACK (draft-ietf-quic-ack-frequency).
    ImmediateAck,
    /// PATH_ABANDON (RFC 10069).
    PathAbandon {
        /// The path.
        path: PathId,
        /// The reason.
        code: u64,
    },
    /// PATH_STATUS_AVAILABLE or PATH_STATUS_BACKUP (RFC 10069).
    PathStatus {
        /// The path.
        path: PathId,
        /// `true` if it may be used freely, or only if nothing else works.
        available: bool,
        /// Newer statuses of a path have larger numbers.
        sequence: u64,
    },
    /// MAX_PATH_ID (RFC 10069): the largest path ID the peer may use, at most 2^32 - 1.
    MaxPathId(u64),
    /// PATHS_BLOCKED (RFC 10069): the limit at which no path can be opened, at most 2^32 - 1.
    PathsBlocked(u64),
    /// PATH_CIDS_BLOCKED (RFC 10069): the peer lacks connection IDs for a path.
    PathCidsBlocked {
        /// The path.
        path: PathId,
        /// The next sequence number it expects.
        next_sequence: u64,
    },
    /// ALTERNATIVE_V4_ADDRESS (draft-munizaga-quic-alternative-server-address): the server can be reached
    /// there as well.
    AlternativeV4Address {
        /// Flags of the address.
        flags: AddressFlags,
        /// Newer words about one address have larger numbers.
        sequence: u64,
        /// The address.
        address: SocketAddrV4,
    },
    /// ALTERNATIVE_V6_ADDRESS, likewise.
    AlternativeV6Address {
        /// Flags of the address.
        flags: AddressFlags,
        /// Newer words about one address have larger numbers.
        sequence: u64,
        /// The address.
        address: SocketAddrV6,
    },
}

/// The flags of ALTERNATIVE_V4_ADDRESS and ALTERNATIVE_V6_ADDRESS; unused bits are ignored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AddressFlags {
    /// The server would rather be reached there.
    pub preferred: bool,
    /// The address is not the server's any longer.
    pub retire: bool,
}

/// NEW_CONNECTION_ID (RFC 9000 §19.15) or PATH_NEW_CONNECTION_ID (RFC 10069).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NewConnectionId {
    /// The path of a PATH_NEW_CONNECTION_ID.
    pub path: Option<PathId>,
    /// Sequence number of this ID.
    pub sequence: u64,
    /// IDs below this sequence number are to be retired; at most `sequence`.
    pub retire_prior_to: u64,
    /// The ID, 1 to 20 bytes.
    pub cid: ConnectionId,
    /// The stateless reset token that goes with it.
    pub token: ResetToken,
}

/// CONNECTION_CLOSE (RFC 9000 §19.19).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectionClose<'a> {
    /// `true` if the application closes (type 0x1d), not QUIC.
    pub application: bool,
    /// A [`TransportErrorCode`], or the application's code.
    pub code: u64,
    /// Type of the frame that caused the error; 0 if unknown or if the application closes.
    pub frame_type: u64,
    /// For people, UTF-8 by intention.
    pub reason: &'a [u8],
}

impl<'a> Frame<'a> {
    /// Returns the type code with which the frame is written.
    pub fn kind(&self) -> u64 {
        list::kind(self)
    }

    /// Returns the size of the frame in bytes, the same in both directions.
    pub fn size(&self) -> usize {
        list::size(self)
    }

    /// Returns whether the peer has to acknowledge a packet that holds this frame (RFC 9000 §13.2).
    #[inline]
    pub const fn is_ack_eliciting(&self) -> bool {
        !matches!(self, Frame::Padding(_) | Frame::Ack(_) | Frame::ConnectionClose(_))
    }

    /// Returns whether a packet of only such frames does not move the connection to its path (RFC 9000 §9.1).
    #[inline]
    pub const fn is_probing(&self) -> bool {
        matches!(
            self,
            Frame::PathChallenge(_) | Frame::PathResponse(_) | Frame::NewConnectionId(_) | Frame::Padding(_)
        )
    }

    /// Returns whether a packet of this kind may hold the frame (RFC 9000 §12.4 table 3 and §12.5); if not,
    /// PROTOCOL_VIOLATION.
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
                // RFC 10069: multipath frames are for 1-RTT packets only.
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
    /// Appends `frame` whole, or nothing.
    #[inline]
    pub fn frame(&mut self, frame: &Frame<'_>) -> Result<(), Full> {
        list::write(frame, &mut self.region(frame.size())?);
        Ok(())
    }
}

/// Error in a packet's frames, which closes the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameError {
    /// The code to close with.
    pub code: TransportErrorCode,
    /// Type of the offending frame; 0 if it could not be read.
    pub frame_type: u64,
    /// For people.
    pub reason: &'static str,
}

/// A [`FrameError`] before the frame's type is added.
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

/// The frames of one decrypted payload. Ends after the first error.
#[derive(Clone, Debug)]
pub struct Frames<'a> {
    reader: Reader<'a>,
    without_frames: bool,
}

impl<'a> Frames<'a> {
    /// Reads `payload` in `direction`. A payload without frames gives one error (RFC 9000 §12.4).
    #[inline]
    pub const fn new(payload: &'a [u8], direction: Direction) -> Self {
        Self { reader: Reader::new(payload, direction), without_frames: payload.is_empty() }
    }

    /// Returns the number of bytes of the payload that have not been read.
    #[inline]
    pub const fn remaining(&self) -> usize {
        self.reader.remaining()
    }

    /// Returns whether all of the payload has been read.
    #[inline]
    pub const fn is_over(&self) -> bool {
        self.reader.is_empty()
    }

    /// Reads the next frame if it is a STREAM frame, as most are; otherwise, and also if it cannot be read,
    /// nothing is read, and the iterator tells what is there.
    #[inline(always)]
    pub fn next_stream(&mut self) -> Option<Stream<'a>> {
        // Each copy knows its direction, and does not ask for it field by field.
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
        // RFC 9000 §12.4: a frame type takes the shortest encoding.
        if before - self.reader.remaining() != varint_len(kind) {
            return Err(Fault::violation("frame type is not in its shortest encoding").of(kind));
        }
        let frame = list::read(kind, &mut self.reader).map_err(|fault| fault.of(kind))?;
        check(&frame).map_err(|fault| fault.of(kind))?;
        Ok(frame)
    }
}

/// Returns the STREAM frame that `payload` begins with in this direction, and the rest of the payload.
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

/// Returns whether data at `offset` ends where a stream may end.
#[inline]
const fn is_within(offset: u64, data: &[u8]) -> bool {
    offset + data.len() as u64 <= crate::MAX_VARINT
}

/// Checks the rules on a frame's values that need nothing but the frame.
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
        // draft-ietf-quic-ack-frequency: as for the parameter max_ack_delay, below 2^14 ms.
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
