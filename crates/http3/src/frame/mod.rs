//! Frames of HTTP/3 (RFC 9114 §7): what comes before each payload, and the frames of the control stream.

mod control;
mod header;
#[cfg(test)]
mod tests;

use std::fmt;

pub use self::control::{ControlFrame, MAX_CONTROL_PAYLOAD};
pub use self::header::{FrameHeader, HeaderReader, header_len, write_header};

/// The type of a frame (RFC 9114 §11.2.1).
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct FrameType(pub u64);

impl FrameType {
    /// Content (RFC 9114 §7.2.1).
    pub const DATA: Self = Self(0x0);
    /// A field section (RFC 9114 §7.2.2).
    pub const HEADERS: Self = Self(0x1);
    /// The client does not want a push (RFC 9114 §7.2.3).
    pub const CANCEL_PUSH: Self = Self(0x3);
    /// The first frame of a control stream (RFC 9114 §7.2.4).
    pub const SETTINGS: Self = Self(0x4);
    /// A server promises a push (RFC 9114 §7.2.5).
    pub const PUSH_PROMISE: Self = Self(0x5);
    /// No more requests or pushes are processed (RFC 9114 §7.2.6).
    pub const GOAWAY: Self = Self(0x7);
    /// Maximum number of pushes that the client permits (RFC 9114 §7.2.7).
    pub const MAX_PUSH_ID: Self = Self(0xd);
    /// A new priority for a request (RFC 9218 §7.2).
    pub const PRIORITY_UPDATE_REQUEST: Self = Self(0xf0700);
    /// A new priority for a push (RFC 9218 §7.2).
    pub const PRIORITY_UPDATE_PUSH: Self = Self(0xf0701);

    /// Returns whether the type had a meaning in HTTP/2 for which HTTP/3 has no frame; receiving it is
    /// H3_FRAME_UNEXPECTED (RFC 9114 §7.2.8).
    pub const fn is_http2_reserved(self) -> bool {
        matches!(self.0, 0x2 | 0x6 | 0x8 | 0x9)
    }

    /// Returns whether the type has a meaning here; frames of other types are to be skipped (RFC 9114 §9).
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

    /// Returns a name for traces, as qlog defines it; unknown types share one name.
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
