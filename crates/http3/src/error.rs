//! Error codes of HTTP/3 and QPACK, and the faults of a peer that end a connection.

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

    /// Creates a code that a peer has sent, which is a variable-length integer; a larger number becomes the
    /// largest of those.
    pub fn from_peer(code: u64) -> Self {
        Self(VarInt::try_from(code).unwrap_or(VarInt::MAX))
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

            /// Returns the name in the registry; `None` for a code that is not in it.
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
    /// The stream or connection ends without a fault.
    NO_ERROR = 0x100, "H3_NO_ERROR";
    /// The peer violated the protocol in a way that no other code names.
    GENERAL_PROTOCOL_ERROR = 0x101, "H3_GENERAL_PROTOCOL_ERROR";
    /// A fault of this end.
    INTERNAL_ERROR = 0x102, "H3_INTERNAL_ERROR";
    /// The peer opened a stream that will not be accepted.
    STREAM_CREATION_ERROR = 0x103, "H3_STREAM_CREATION_ERROR";
    /// A stream that the connection needs was closed or reset.
    CLOSED_CRITICAL_STREAM = 0x104, "H3_CLOSED_CRITICAL_STREAM";
    /// A frame that is not permitted in this state or on this stream.
    FRAME_UNEXPECTED = 0x105, "H3_FRAME_UNEXPECTED";
    /// A frame whose layout or size is wrong.
    FRAME_ERROR = 0x106, "H3_FRAME_ERROR";
    /// The peer may be generating excessive load.
    EXCESSIVE_LOAD = 0x107, "H3_EXCESSIVE_LOAD";
    /// A stream or push ID used wrongly.
    ID_ERROR = 0x108, "H3_ID_ERROR";
    /// A fault in a SETTINGS frame.
    SETTINGS_ERROR = 0x109, "H3_SETTINGS_ERROR";
    /// The control stream does not begin with SETTINGS.
    MISSING_SETTINGS = 0x10a, "H3_MISSING_SETTINGS";
    /// A server rejected the request without processing it.
    REQUEST_REJECTED = 0x10b, "H3_REQUEST_REJECTED";
    /// The request or its response is not wanted any longer.
    REQUEST_CANCELLED = 0x10c, "H3_REQUEST_CANCELLED";
    /// The stream ended before the request was whole.
    REQUEST_INCOMPLETE = 0x10d, "H3_REQUEST_INCOMPLETE";
    /// A malformed HTTP message.
    MESSAGE_ERROR = 0x10e, "H3_MESSAGE_ERROR";
    /// The connection behind a CONNECT request was reset or closed abnormally.
    CONNECT_ERROR = 0x10f, "H3_CONNECT_ERROR";
    /// The operation cannot be served over HTTP/3.
    VERSION_FALLBACK = 0x110, "H3_VERSION_FALLBACK";
    /// A fault in an HTTP datagram or capsule.
    DATAGRAM_ERROR = 0x33, "H3_DATAGRAM_ERROR";
    /// A field section that cannot be decoded.
    QPACK_DECOMPRESSION_FAILED = 0x200, "QPACK_DECOMPRESSION_FAILED";
    /// A fault on the encoder stream.
    QPACK_ENCODER_STREAM_ERROR = 0x201, "QPACK_ENCODER_STREAM_ERROR";
    /// A fault on the decoder stream.
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

/// Fault of the peer; the connection is to be closed with its code.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{code}: {reason}")]
pub struct Error {
    /// Code that the peer receives.
    pub code: Code,
    /// Reason, in words.
    pub reason: Cow<'static, str>,
}

impl Error {
    /// Creates a fault from its code and its reason.
    pub fn new(code: Code, reason: impl Into<Cow<'static, str>>) -> Self {
        Self { code, reason: reason.into() }
    }
}
