//! What an observer of a session sees (draft-ietf-quic-qlog-h3-events).

use std::fmt;

use anabranch_wire::{StreamId, Time};

use crate::frame::FrameHeader;
use crate::priority::Priority;
use crate::settings::Settings;
use crate::stream_type::StreamType;

/// Something happened in a session.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum TraceEvent<'a> {
    /// SETTINGS of this end or of the peer.
    Parameters {
        /// Whether this end sent them.
        local: bool,
        /// Their values.
        settings: &'a Settings,
    },
    /// It is known what a unidirectional stream carries.
    StreamType {
        /// The stream.
        id: StreamId,
        /// Whether this end opened it.
        local: bool,
        /// What it carries; `None` for a type that means nothing to us.
        kind: Option<StreamType>,
    },
    /// A frame was written to a stream; DATA frames before their bytes.
    FrameCreated {
        /// The stream.
        id: StreamId,
        /// Type and length.
        header: FrameHeader,
    },
    /// A frame's type and length were read.
    FrameParsed {
        /// The stream.
        id: StreamId,
        /// Type and length.
        header: FrameHeader,
    },
    /// The field lines of a HEADERS frame that was created or parsed; follows that event.
    Fields {
        /// The stream.
        id: StreamId,
        /// Whether this end sent them.
        local: bool,
        /// Names and values; the values of sensitive lines are empty.
        fields: &'a [(Vec<u8>, Vec<u8>)],
    },
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
        /// Whether this end sends it.
        local: bool,
        /// Bytes of its payload.
        len: usize,
    },
}

/// Sees what happens, in order.
pub trait Observer: Send {
    /// `event` happened at `time`.
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
    pub(crate) fn frame_parsed(&mut self, id: StreamId, header: FrameHeader) {
        self.event(&TraceEvent::FrameParsed { id, header });
    }

    #[inline]
    pub(crate) fn frame_created(&mut self, id: StreamId, header: FrameHeader) {
        self.event(&TraceEvent::FrameCreated { id, header });
    }
}

impl fmt::Debug for Tracer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tracer").field("on", &self.is_on()).finish()
    }
}
