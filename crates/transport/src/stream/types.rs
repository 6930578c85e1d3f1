//! Types of streams for applications: configuration, priorities, events, errors.

use anabranch_wire::{Dir, StreamId, configuration};

use crate::flow::WindowRule;

const MIB: u64 = 1 << 20;

configuration! {
    /// Limits and buffers of a connection's streams; by default for 10 Gbit/s over 1 ms from the first round
    /// trip, and for long fat networks once the windows have grown.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct StreamsConfig {
        /// Bidirectional streams that the peer may have open at the same time.
        copy max_bidi, with_max_bidi: u64 = 128;
        /// Unidirectional streams that the peer may have open at the same time.
        copy max_uni, with_max_uni: u64 = 128;
        /// Bytes that the peer may send on a stream ahead of the application's reading, at first.
        copy stream_window, with_stream_window: u64 = MIB;
        /// Maximum of `stream_window`, to which it grows when it holds a fast reader back.
        copy stream_window_max, with_stream_window_max: u64 = 16 * MIB;
        /// Bytes that the peer may send on all streams ahead of the application's reading, at first. What is
        /// allocated for receiving is at most that, as it grows,
        /// [`MAX_RECEIVE_SLACK`](super::MAX_RECEIVE_SLACK) and [`MAX_STREAM_SLACK`](super::MAX_STREAM_SLACK)
        /// for each open stream.
        copy connection_window, with_connection_window: u64 = MIB + MIB / 2;
        /// Maximum of `connection_window`, to which it grows.
        copy connection_window_max, with_connection_window_max: u64 = 24 * MIB;
        /// Rule by which they grow.
        copy window_rule, with_window_rule: WindowRule = WindowRule::Adaptive;
        /// Bytes of all streams that may be written and not yet acknowledged; at least 1.
        copy send_buffer, with_send_buffer: u64 = 16 * MIB;
    }
}

/// Priority of a stream beside others that have data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Priority {
    /// Streams of a higher level go first, always.
    pub level: i32,
    /// Streams of one level that are incremental take turns, packet by packet; the others go before them, one
    /// after the other, by stream ID, but leave one packet of eight to those behind them.
    pub incremental: bool,
}

impl Default for Priority {
    /// Returns level 0, taking turns.
    fn default() -> Self {
        Self { level: 0, incremental: true }
    }
}

/// Something happened to a stream. Each event tells of a change, once; the state itself is asked for with the
/// methods of [`Streams`](super::Streams). A stream may be gone by the time its event is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamEvent {
    /// The peer opened streams; [`accept`](super::Streams::accept) them until there are no more.
    Opened(Dir),
    /// There is something to read: data, the end or a reset. Not repeated until reading was
    /// [`Blocked`](ReadError::Blocked), except for a reset.
    Readable(StreamId),
    /// Writing, which took less than it was given, may go on.
    Writable(StreamId),
    /// The peer has acknowledged all data and the end of the stream.
    Finished(StreamId),
    /// The peer has acknowledged that this end reset the stream.
    ResetAcknowledged(StreamId),
    /// The peer does not want more of the stream, for this reason of its application; the stream is being
    /// reset.
    Stopped(StreamId, u64),
    /// Streams may be opened again, after [`open`](super::Streams::open) refused.
    Available(Dir),
}

/// Progress of the sending half of a stream, and the peer's remaining credit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SendProgress {
    /// Bytes written.
    pub written: u64,
    /// Bytes written that the peer has not acknowledged.
    pub buffered: u64,
    /// Bytes that the peer's limit for the stream lets the application write besides.
    pub credit: u64,
}

/// Reason that nothing was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WriteError {
    /// Flow control or the send buffer has no room; [`StreamEvent::Writable`] will tell.
    #[error("no room for more data now")]
    Blocked,
    /// The peer stopped the stream with this code.
    #[error("stopped by the peer: code {0}")]
    Stopped(u64),
    /// The stream was finished, reset, never existed, or is not for sending.
    #[error("the stream is closed for writing")]
    Closed,
}

/// Reason that nothing was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    /// Nothing has arrived; [`StreamEvent::Readable`] will tell.
    #[error("nothing to read now")]
    Blocked,
    /// Everything has been read.
    #[error("the stream has ended")]
    Finished,
    /// The peer reset the stream with this code.
    #[error("reset by the peer: code {0}")]
    Reset(u64),
    /// The stream was stopped, read to its end before, never existed, or is not for receiving.
    #[error("the stream is closed for reading")]
    Closed,
    /// It was read [in any order](super::Streams::take_unordered) before, and then is to the end.
    #[error("the stream is read in any order")]
    Unordered,
}

/// The stream, or the half of it that was meant, is closed or never existed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the stream is closed")]
pub struct ClosedStream;
