//! Error codes that close a connection or abandon a path.

use core::fmt;

use crate::alert::alert_name;
use crate::varint::VarInt;

/// Transport error code (RFC 9000 §20.1, RFC 9368 §8, RFC 10069), a varint on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TransportErrorCode(pub u64);

/// Defines each code with its constant and the name that `Display` prints.
macro_rules! codes {
    ($($(#[$doc:meta])* $name:ident = $value:literal;)*) => {
        impl TransportErrorCode {
            $($(#[$doc])* pub const $name: Self = Self($value);)*

            /// Returns the code's registered name; `None` if it has none.
            pub const fn name(self) -> Option<&'static str> {
                match self.0 {
                    $($value => Some(stringify!($name)),)*
                    _ => None,
                }
            }
        }
    };
}

codes! {
    /// The connection is closed without an error.
    NO_ERROR = 0x00;
    /// The endpoint has an internal error and cannot continue.
    INTERNAL_ERROR = 0x01;
    /// The server refuses a new connection.
    CONNECTION_REFUSED = 0x02;
    /// The peer sent more data than flow control permits.
    FLOW_CONTROL_ERROR = 0x03;
    /// The peer used a stream ID beyond its stream limit.
    STREAM_LIMIT_ERROR = 0x04;
    /// A frame is not permitted in the state of its stream.
    STREAM_STATE_ERROR = 0x05;
    /// The final size of a stream changed, or is below the data already received.
    FINAL_SIZE_ERROR = 0x06;
    /// The format of a frame is invalid.
    FRAME_ENCODING_ERROR = 0x07;
    /// Transport parameters have an invalid format or value, or are missing or prohibited.
    TRANSPORT_PARAMETER_ERROR = 0x08;
    /// The peer issued more connection IDs than active_connection_id_limit permits.
    CONNECTION_ID_LIMIT_ERROR = 0x09;
    /// The peer violated the protocol in a way for which there is no more specific code.
    PROTOCOL_VIOLATION = 0x0a;
    /// A client's Initial packet carries an invalid Retry token.
    INVALID_TOKEN = 0x0b;
    /// The application closed the connection during the handshake.
    APPLICATION_ERROR = 0x0c;
    /// The peer sent more CRYPTO data than the endpoint can buffer.
    CRYPTO_BUFFER_EXCEEDED = 0x0d;
    /// The peer made an invalid key update.
    KEY_UPDATE_ERROR = 0x0e;
    /// The confidentiality or integrity limit of the AEAD is reached.
    AEAD_LIMIT_REACHED = 0x0f;
    /// The network path does not support QUIC, for instance because of a small MTU.
    NO_VIABLE_PATH = 0x10;
    /// Version negotiation detected a downgrade (RFC 9368 §8).
    VERSION_NEGOTIATION_ERROR = 0x11;
    /// The application abandons a path (RFC 10069).
    APPLICATION_ABANDON_PATH = 0x3e;
    /// The endpoint lacks resources for a path (RFC 10069).
    PATH_RESOURCE_LIMIT_REACHED = 0x3e75;
    /// A path is unstable or performs badly (RFC 10069).
    PATH_UNSTABLE_OR_POOR = 0x3e76;
    /// No connection ID is available for a path (RFC 10069).
    NO_CID_AVAILABLE_FOR_PATH = 0x3e77;
}

impl TransportErrorCode {
    /// Returns the CRYPTO_ERROR code for a handshake that failed with this TLS alert (RFC 9001 §4.8).
    pub const fn crypto(alert: u8) -> Self {
        Self(0x100 | alert as u64)
    }

    /// Returns the TLS alert of a CRYPTO_ERROR; `None` for other codes.
    pub const fn alert(self) -> Option<u8> {
        if self.0 & !0xff == 0x100 { Some(self.0 as u8) } else { None }
    }
}

impl From<VarInt> for TransportErrorCode {
    fn from(code: VarInt) -> Self {
        Self(code.get())
    }
}

impl From<TransportErrorCode> for VarInt {
    /// Returns the code as frames carry it; INTERNAL_ERROR for a code above 2^62 - 1, which no frame can
    /// carry.
    fn from(code: TransportErrorCode) -> Self {
        Self::try_from(code.0).unwrap_or(Self::from_u32(TransportErrorCode::INTERNAL_ERROR.0 as u32))
    }
}

impl fmt::Display for TransportErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.name(), self.alert()) {
            (Some(name), _) => f.write_str(name),
            (None, Some(alert)) => match alert_name(alert) {
                Some(name) => write!(f, "CRYPTO_ERROR({name}, alert {alert})"),
                None => write!(f, "CRYPTO_ERROR(alert {alert})"),
            },
            (None, None) => write!(f, "{:#x}", self.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn display_names_the_code() {
        assert_eq!(TransportErrorCode(0x0a).to_string(), "PROTOCOL_VIOLATION");
        assert_eq!(TransportErrorCode(0x3e77).to_string(), "NO_CID_AVAILABLE_FOR_PATH");
        let no_protocol = TransportErrorCode::crypto(120);
        assert_eq!(no_protocol.to_string(), "CRYPTO_ERROR(no_application_protocol, alert 120)");
        assert_eq!(TransportErrorCode::crypto(255).to_string(), "CRYPTO_ERROR(alert 255)");
        assert_eq!(TransportErrorCode(0x200).to_string(), "0x200");
    }

    #[test]
    fn crypto_codes_carry_the_alert() {
        assert_eq!(TransportErrorCode::crypto(0x78).0, 0x178);
        assert_eq!(TransportErrorCode(0x16d).alert(), Some(0x6d));
        assert_eq!(TransportErrorCode::PROTOCOL_VIOLATION.alert(), None);
    }
}
