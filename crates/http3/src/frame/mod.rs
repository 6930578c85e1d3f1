//! Frames of HTTP/3 (RFC 9114 §7): frame headers, and the frames of the control stream.

mod control;
mod header;
#[cfg(test)]
mod tests;

use std::fmt;

pub use self::control::{ControlFrame, MAX_CONTROL_PAYLOAD};
pub use self::header::{FrameHeader, HeaderReader, header_len, write_header};

/// Type of a frame (RFC 9114 §11.2.1).
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct FrameType(pub u64);

impl FrameType {
    /// Content of a message (RFC 9114 §7.2.1).
    pub const DATA: Self = Self(0x0);
    /// Encoded field section (RFC 9114 §7.2.2).
    pub const HEADERS: Self = Self(0x1);
    /// Cancellation of a server push (RFC 9114 §7.2.3).
    pub const CANCEL_PUSH: Self = Self(0x3);
    /// Settings of an endpoint, the first frame of its control stream (RFC 9114 §7.2.4).
    pub const SETTINGS: Self = Self(0x4);
    /// Promise of a server push (RFC 9114 §7.2.5).
    pub const PUSH_PROMISE: Self = Self(0x5);
    /// Announcement that no further requests or pushes will be processed (RFC 9114 §7.2.6).
    pub const GOAWAY: Self = Self(0x7);
    /// Largest push ID that the client permits (RFC 9114 §7.2.7).
    pub const MAX_PUSH_ID: Self = Self(0xd);
    /// New priority of a request (RFC 9218 §7.2).
    pub const PRIORITY_UPDATE_REQUEST: Self = Self(0xf0700);
    /// New priority of a push (RFC 9218 §7.2).
    pub const PRIORITY_UPDATE_PUSH: Self = Self(0xf0701);

    /// Returns whether the type is reserved because HTTP/2 used it. Receiving such a frame is
    /// H3_FRAME_UNEXPECTED (RFC 9114 §7.2.8).
    pub const fn is_http2_reserved(self) -> bool {
        matches!(self.0, 0x2 | 0x6 | 0x8 | 0x9)
    }

    /// Returns whether this crate knows the type. Frames of unknown types must be skipped (RFC 9114 §9).
    pub const fn is_known(self) -> bool {
        matches!(
            self,
            Self::DATA
                | Self::HEADERS
                | Self::CANCEL_PUSH
                | Self::SETTINGS
                | Self::PUSH_PROMISE
                | Self::GOAWAY
                | Self::MAX_PUSH_ID
                | Self::PRIORITY_UPDATE_REQUEST
                | Self::PRIORITY_UPDATE_PUSH
        )
    }

    /// Returns the type's name in qlog; all unknown types share one name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::DATA => "data",
            Self::HEADERS => "headers",
            Self::CANCEL_PUSH => "cancel_push",
            Self::SETTINGS => "settings",
            Self::PUSH_PROMISE => "push_promise",
            Self::GOAWAY => "goaway",
            Self::MAX_PUSH_ID => "max_push_id",
            Self::PRIORITY_UPDATE_REQUEST | Self::PRIORITY_UPDATE_PUSH => "priority_update",
            Self(0x2 | 0x6 | 0x8 | 0x9) => "reserved",
            _ => "unknown",
        }
    }
}

impl fmt::Debug for FrameType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}({:#x})", self.name(), self.0)
    }
}
