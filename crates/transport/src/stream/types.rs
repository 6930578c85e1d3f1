//! Stream types for applications: configuration, priorities, events, errors.

use anabranch_wire::{Dir, StreamId, VarInt, configuration};

use crate::flow::WindowRule;

const MIB: u64 = 1 << 20;

configuration! {
    /// Limits and buffers of a connection's streams. The defaults suit 10 Gbit/s at 1 ms from the first round
    /// trip, and long fat networks once the windows have grown.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct StreamsConfig {
        /// Maximum number of bidirectional streams that the peer may have open at the same time.
        copy max_bidi, with_max_bidi: u64 = 128;
        /// Maximum number of unidirectional streams that the peer may have open at the same time.
        copy max_uni, with_max_uni: u64 = 128;
        /// Initial receive window of a stream in bytes (`initial_max_stream_data_*`, RFC 9000 §18.2).
        copy stream_window, with_stream_window: u64 = MIB;
        /// Maximum receive window of a stream in bytes. A window grows up to this size while it limits a fast
        /// reader.
        copy stream_window_max, with_stream_window_max: u64 = 16 * MIB;
        /// Initial receive window of the connection in bytes (`initial_max_data`, RFC 9000 §18.2). The memory
        /// for receiving is bounded by the current window, plus
        /// [`MAX_RECEIVE_SLACK`](super::MAX_RECEIVE_SLACK), plus
        /// [`MAX_STREAM_SLACK`](super::MAX_STREAM_SLACK) for each open stream.
        copy connection_window, with_connection_window: u64 = MIB + MIB / 2;
        /// Maximum receive window of the connection in bytes, up to which the window grows.
        copy connection_window_max, with_connection_window_max: u64 = 24 * MIB;
        /// Rule by which the windows grow.
        copy window_rule, with_window_rule: WindowRule = WindowRule::Adaptive;
        /// Maximum number of bytes of all streams that are written but not yet acknowledged; at least 1.
        copy send_buffer, with_send_buffer: u64 = 16 * MIB;
    }
}

/// Priority of a stream among others with data to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Priority {
    /// Level; streams of a higher level are always sent first.
    pub level: i32,
    /// `true` if the stream takes turns with others of its level, packet by packet. Non-incremental streams
    /// are sent before the incremental ones of their level, one after the other by stream ID, but leave one
    /// packet of eight to the streams behind them.
    pub incremental: bool,
}

impl Priority {
    /// Creates a priority.
    pub const fn new(level: i32, incremental: bool) -> Self {
        Self { level, incremental }
    }
}

impl Default for Priority {
    /// Returns level 0, incremental.
    fn default() -> Self {
        Self { level: 0, incremental: true }
    }
}

/// Change of a stream's state, reported once. The methods of [`Streams`](super::Streams) return the state
/// itself. The stream may no longer exist when its event is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StreamEvent {
    /// The peer opened streams. Call [`accept`](super::Streams::accept) until it returns `None`.
    Opened(Dir),
    /// Data, the end or a reset can be read. For data, the event is not repeated until reading has returned
    /// [`Blocked`](ReadError::Blocked).
    Readable(StreamId),
    /// More can be written, after a write that did not accept all its data.
    Writable(StreamId),
    /// The peer has acknowledged all data and the end of the stream.
    Finished(StreamId),
    /// The peer has acknowledged the reset of the stream by this end.
    ResetAcknowledged(StreamId),
    /// The peer has sent STOP_SENDING with this application error code. The stream is being reset.
    Stopped(StreamId, VarInt),
    /// Streams can be opened again, after [`open`](super::Streams::open) returned `None`.
    Available(Dir),
}

/// Progress of the sending half of a stream, and the peer's remaining credit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SendProgress {
    /// Number of bytes written.
    pub written: u64,
    /// Number of bytes written that the peer has not acknowledged.
    pub buffered: u64,
    /// Number of further bytes that the peer's limit for the stream allows.
    pub credit: u64,
}

impl SendProgress {
    /// Creates the progress of a stream.
    pub const fn new(written: u64, buffered: u64, credit: u64) -> Self {
        Self { written, buffered, credit }
    }
}

/// Reasons why nothing was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WriteError {
    /// Flow control or the send buffer has no room. [`StreamEvent::Writable`] reports when it has.
    #[error("no room for more data now")]
    Blocked,
    /// The peer stopped the stream with this code.
    #[error("stopped by the peer: code {0}")]
    Stopped(VarInt),
    /// The stream is finished, reset or receive-only, or never existed.
    #[error("the stream is closed for writing")]
    Closed,
}

/// Reasons why nothing was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// Nothing has arrived. [`StreamEvent::Readable`] reports when something has.
    #[error("nothing to read now")]
    Blocked,
    /// Everything has been read.
    #[error("the stream has ended")]
    Finished,
    /// The peer reset the stream with this code.
    #[error("reset by the peer: code {0}")]
    Reset(VarInt),
    /// The stream was stopped, was already read to its end, is send-only, or never existed.
    #[error("the stream is closed for reading")]
    Closed,
    /// The stream has been read [out of order](super::Streams::take_unordered), and can only be read in this
    /// way from then on.
    #[error("the stream is read in any order")]
    Unordered,
}

/// Error for a stream, or a half of it, that is closed or never existed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the stream is closed")]
pub struct ClosedStream;
