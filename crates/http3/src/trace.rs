//! Events that an observer of a session sees (draft-ietf-quic-qlog-h3-events).

use std::fmt;

use anabranch_wire::{StreamId, Time};

use crate::frame::{ControlFrame, FrameHeader};
use crate::priority::Priority;
use crate::settings::Settings;
use crate::stream_type::StreamType;

/// Something happened in a session.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum TraceEvent<'a> {
    /// SETTINGS of this end or of the peer.
    Parameters {
        /// `true` if this end sent them.
        local: bool,
        /// Their values.
        settings: &'a Settings,
    },
    /// It is known what a unidirectional stream carries.
    StreamType {
        /// The stream.
        id: StreamId,
        /// `true` if this end opened it.
        local: bool,
        /// Type of the stream; `None` for a type that we do not know.
        kind: Option<StreamType>,
    },
    /// A frame was written to a stream; DATA frames before their bytes.
    FrameCreated(FrameTrace<'a>),
    /// A frame was read, or of a DATA frame its type and length.
    FrameParsed(FrameTrace<'a>),
    /// A request's priority was set (RFC 9218).
    PriorityUpdated {
        /// The request's stream.
        id: StreamId,
        /// Its priority from now on.
        priority: Priority,
    },
    /// An HTTP datagram was queued or taken.
    Datagram {
        /// The request's stream.
        id: StreamId,
        /// `true` if this end sends it.
        local: bool,
        /// Bytes of its payload.
        len: usize,
    },
}

/// A frame on a stream.
#[derive(Clone, Copy, Debug)]
pub struct FrameTrace<'a> {
    /// The stream.
    pub id: StreamId,
    /// Type and length.
    pub header: FrameHeader,
    /// Content of the frame, as far as the session looks into it.
    pub content: FrameContent<'a>,
}

/// Content of a frame.
#[derive(Clone, Copy, Debug)]
pub enum FrameContent<'a> {
    /// Bytes of a body, or of an unknown frame.
    Opaque,
    /// Field lines: name and value. The values of sensitive lines are left out.
    Fields(&'a [(Vec<u8>, Option<Vec<u8>>)]),
    /// Frame of the control stream.
    Control(&'a ControlFrame),
}

/// Field lines for an observer.
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

/// Sees what happens, in order.
pub trait Observer: Send {
    /// Observes `event`, which happened at `time`.
    fn event(&mut self, time: Time, event: &TraceEvent<'_>);
}

/// The session's observer, if it has one.
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
