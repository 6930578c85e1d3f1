//! Events that a session reports to its observer (draft-ietf-quic-qlog-h3-events).

use std::fmt;

use anabranch_wire::{StreamId, Time};

use crate::frame::{ControlFrame, FrameHeader};
use crate::priority::Priority;
use crate::settings::Settings;
use crate::stream_type::StreamType;

/// Event of a session.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum TraceEvent<'a> {
    /// SETTINGS that this end sent or that the peer sent.
    Parameters {
        /// `true` if this end sent the settings.
        local: bool,
        /// Values of the settings.
        settings: &'a Settings,
    },
    /// The type of a unidirectional stream became known.
    StreamType {
        /// The stream.
        id: StreamId,
        /// `true` if this end opened the stream.
        local: bool,
        /// Type of the stream; `None` for an unknown type.
        kind: Option<StreamType>,
    },
    /// Frame written to a stream. A DATA frame is reported before its payload is written.
    FrameCreated(FrameTrace<'a>),
    /// Frame read from a stream. A DATA frame is reported when its header was read.
    FrameParsed(FrameTrace<'a>),
    /// Change of a request's priority (RFC 9218).
    PriorityUpdated {
        /// The request's stream.
        id: StreamId,
        /// New priority.
        priority: Priority,
    },
    /// HTTP datagram that this end queued or received.
    Datagram {
        /// The request's stream.
        id: StreamId,
        /// `true` if this end sends the datagram.
        local: bool,
        /// Length of the payload, in bytes.
        len: usize,
    },
}

/// Frame on a stream.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct FrameTrace<'a> {
    /// The stream.
    pub id: StreamId,
    /// Type and length of the frame.
    pub header: FrameHeader,
    /// Content of the frame, if the session parses it.
    pub content: FrameContent<'a>,
}

impl<'a> FrameTrace<'a> {
    /// Creates the report of a frame with this header and content.
    pub const fn new(id: StreamId, header: FrameHeader, content: FrameContent<'a>) -> Self {
        Self { id, header, content }
    }
}

/// Content of a frame.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum FrameContent<'a> {
    /// Payload of a DATA frame or of an unknown frame.
    Opaque,
    /// Names and values of field lines. `None` is the value of a sensitive line.
    Fields(&'a [(Vec<u8>, Option<Vec<u8>>)]),
    /// Parsed frame of the control stream.
    Control(&'a ControlFrame),
}

/// Field lines that are reported to an observer.
#[derive(Default)]
pub(crate) struct FieldTrace(Vec<(Vec<u8>, Option<Vec<u8>>)>);

impl FieldTrace {
    pub(crate) fn push(&mut self, name: &[u8], value: &[u8], sensitive: bool) {
        self.0.push((name.to_vec(), (!sensitive).then(|| value.to_vec())));
    }

    pub(crate) fn content(&self) -> FrameContent<'_> {
        FrameContent::Fields(&self.0)
    }
}

/// Receiver of a session's events, in order.
pub trait Observer: Send {
    /// Observes `event`, which happened at `time`.
    fn event(&mut self, time: Time, event: &TraceEvent<'_>);
}

/// The session's observer, if it has one, and the time of the next event.
#[derive(Default)]
pub(crate) struct Tracer {
    observer: Option<Box<dyn Observer>>,
    now: Time,
}

impl Tracer {
    pub(crate) fn set_observer(&mut self, observer: Box<dyn Observer>) {
        self.observer = Some(observer);
    }

    pub(crate) fn is_on(&self) -> bool {
        self.observer.is_some()
    }

    pub(crate) fn set_time(&mut self, now: Time) {
        self.now = now;
    }

    #[inline]
    pub(crate) fn event(&mut self, event: &TraceEvent<'_>) {
        if let Some(observer) = &mut self.observer {
            observer.event(self.now, event);
        }
    }

    #[inline]
    pub(crate) fn frame_parsed(&mut self, id: StreamId, header: FrameHeader, content: FrameContent<'_>) {
        self.event(&TraceEvent::FrameParsed(FrameTrace { id, header, content }));
    }

    #[inline]
    pub(crate) fn frame_created(&mut self, id: StreamId, header: FrameHeader, content: FrameContent<'_>) {
        self.event(&TraceEvent::FrameCreated(FrameTrace { id, header, content }));
    }
}

impl fmt::Debug for Tracer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tracer").field("on", &self.is_on()).finish()
    }
}
