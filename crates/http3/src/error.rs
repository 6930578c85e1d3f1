//! Error codes of HTTP/3 and QPACK, and the connection errors that a peer causes.

use std::borrow::Cow;
use std::fmt;

use anabranch_wire::VarInt;

/// An application error code (RFC 9114 §8.1, RFC 9204 §6, RFC 9297 §5.2).
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Code(VarInt);

impl Code {
    /// Returns the code's value.
    pub const fn get(self) -> u64 {
        self.0.get()
    }
}

impl From<VarInt> for Code {
    fn from(code: VarInt) -> Self {
        Self(code)
    }
}

impl From<Code> for VarInt {
    fn from(code: Code) -> Self {
        code.0
    }
}

macro_rules! codes {
    ($($(#[$doc:meta])* $name:ident = $value:literal, $text:literal;)*) => {
        impl Code {
            $($(#[$doc])* pub const $name: Self = Self(VarInt::from_u32($value));)*

            /// Returns the code's name in the IANA registry; `None` for an unregistered code.
            pub fn name(self) -> Option<&'static str> {
                match self.get() {
                    $($value => Some($text),)*
                    _ => None,
                }
            }
        }
    };
}

codes! {
    /// Stream or connection closed without an error.
    NO_ERROR = 0x100, "H3_NO_ERROR";
    /// Violation of the protocol for which there is no more specific code.
    GENERAL_PROTOCOL_ERROR = 0x101, "H3_GENERAL_PROTOCOL_ERROR";
    /// Internal error of this endpoint.
    INTERNAL_ERROR = 0x102, "H3_INTERNAL_ERROR";
    /// Stream that the endpoint does not accept.
    STREAM_CREATION_ERROR = 0x103, "H3_STREAM_CREATION_ERROR";
    /// Critical stream that was closed or reset.
    CLOSED_CRITICAL_STREAM = 0x104, "H3_CLOSED_CRITICAL_STREAM";
    /// Frame that is not permitted in the current state or on this stream.
    FRAME_UNEXPECTED = 0x105, "H3_FRAME_UNEXPECTED";
    /// Frame with an invalid layout or size.
    FRAME_ERROR = 0x106, "H3_FRAME_ERROR";
    /// Behaviour of the peer that may generate excessive load.
    EXCESSIVE_LOAD = 0x107, "H3_EXCESSIVE_LOAD";
    /// Invalid use of a stream ID or push ID.
    ID_ERROR = 0x108, "H3_ID_ERROR";
    /// Error in the payload of a SETTINGS frame.
    SETTINGS_ERROR = 0x109, "H3_SETTINGS_ERROR";
    /// Control stream that does not begin with SETTINGS.
    MISSING_SETTINGS = 0x10a, "H3_MISSING_SETTINGS";
    /// Request that the server rejected without processing it.
    REQUEST_REJECTED = 0x10b, "H3_REQUEST_REJECTED";
    /// Request or response that is no longer needed.
    REQUEST_CANCELLED = 0x10c, "H3_REQUEST_CANCELLED";
    /// Request stream that ended before the request was complete.
    REQUEST_INCOMPLETE = 0x10d, "H3_REQUEST_INCOMPLETE";
    /// Malformed HTTP message.
    MESSAGE_ERROR = 0x10e, "H3_MESSAGE_ERROR";
    /// TCP connection of a CONNECT request that was reset or closed abnormally.
    CONNECT_ERROR = 0x10f, "H3_CONNECT_ERROR";
    /// Operation that cannot be served over HTTP/3.
    VERSION_FALLBACK = 0x110, "H3_VERSION_FALLBACK";
    /// Error in an HTTP datagram or capsule.
    DATAGRAM_ERROR = 0x33, "H3_DATAGRAM_ERROR";
    /// Field section that cannot be decoded.
    QPACK_DECOMPRESSION_FAILED = 0x200, "QPACK_DECOMPRESSION_FAILED";
    /// Error on the encoder stream.
    QPACK_ENCODER_STREAM_ERROR = 0x201, "QPACK_ENCODER_STREAM_ERROR";
    /// Error on the decoder stream.
    QPACK_DECODER_STREAM_ERROR = 0x202, "QPACK_DECODER_STREAM_ERROR";
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.write_str(name),
            None => write!(f, "{:#x}", self.get()),
        }
    }
}

impl fmt::Debug for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Error that the peer caused. The session's owner must close the connection with the error's code.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{code}: {reason}")]
#[non_exhaustive]
pub struct Error {
    /// Error code that is sent to the peer.
    pub code: Code,
    /// Description of the error, for people.
    pub reason: Cow<'static, str>,
}

impl Error {
    /// Creates an error from its code and its reason.
    pub fn new(code: Code, reason: impl Into<Cow<'static, str>>) -> Self {
        Self { code, reason: reason.into() }
    }
}
