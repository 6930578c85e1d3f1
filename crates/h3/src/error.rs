//! Conversion of anabranch's errors to those of h3.

use std::sync::Arc;

use anabranch::{ConnectionError, ReadError, VarInt, WriteError};
use h3::quic::{ConnectionErrorIncoming, StreamErrorIncoming, StreamId};

/// Converts an error for h3, which distinguishes only a close by the peer's application and a timeout from
/// other errors.
pub(crate) fn connection_error(error: ConnectionError) -> ConnectionErrorIncoming {
    match error {
        ConnectionError::PeerApplication { code, .. } => {
            ConnectionErrorIncoming::ApplicationClose { error_code: code.get() }
        }
        ConnectionError::TimedOut(_) | ConnectionError::HandshakeTimedOut => ConnectionErrorIncoming::Timeout,
        error => ConnectionErrorIncoming::Undefined(Arc::new(error)),
    }
}

/// Converts the loss of a connection to the error of a stream.
pub(crate) fn lost(error: ConnectionError) -> StreamErrorIncoming {
    StreamErrorIncoming::ConnectionErrorIncoming { connection_error: connection_error(error) }
}

pub(crate) fn read_error(error: ReadError) -> StreamErrorIncoming {
    match error {
        ReadError::Reset(code) => StreamErrorIncoming::StreamTerminated { error_code: code.get() },
        ReadError::ConnectionLost(error) => lost(error),
        error => StreamErrorIncoming::Unknown(Box::new(error)),
    }
}

pub(crate) fn write_error(error: WriteError) -> StreamErrorIncoming {
    match error {
        WriteError::Stopped(code) => StreamErrorIncoming::StreamTerminated { error_code: code.get() },
        WriteError::ConnectionLost(error) => lost(error),
        error => StreamErrorIncoming::Unknown(Box::new(error)),
    }
}

#[expect(clippy::expect_used, reason = "both kinds of identifier are below 2^62")]
pub(crate) fn stream_id(id: anabranch::StreamId) -> StreamId {
    StreamId::try_from(id.as_u64()).expect("stream identifiers are varints")
}

/// Converts a code of h3, whose type can hold numbers that no packet can carry. Such a number becomes
/// H3_INTERNAL_ERROR.
pub(crate) fn varint(code: u64) -> VarInt {
    const INTERNAL_ERROR: VarInt = VarInt::from_u32(0x102);
    VarInt::try_from(code).unwrap_or(INTERNAL_ERROR)
}

#[cfg(test)]
mod tests {
    use anabranch::TransportError;
    use anabranch::{Silence, TransportErrorCode};
    use bytes::Bytes;

    use super::*;

    #[test]
    fn connection_errors_keep_their_meaning() {
        let close = ConnectionError::PeerApplication {
            code: VarInt::from_u32(0x107),
            reason: Bytes::from_static(b"load"),
        };
        assert!(matches!(
            connection_error(close),
            ConnectionErrorIncoming::ApplicationClose { error_code: 0x107 }
        ));
        assert!(matches!(
            connection_error(ConnectionError::TimedOut(Silence::default())),
            ConnectionErrorIncoming::Timeout
        ));
        // A transport error code must not be taken for one of HTTP/3.
        let fault = TransportError::new(TransportErrorCode(0x107), "");
        for error in [
            ConnectionError::Transport(fault.clone()),
            ConnectionError::PeerTransport(fault),
            ConnectionError::Reset,
            ConnectionError::LocallyClosed,
            ConnectionError::VersionMismatch,
        ] {
            let words = error.to_string();
            match connection_error(error) {
                ConnectionErrorIncoming::Undefined(inner) => assert_eq!(inner.to_string(), words),
                other => panic!("{other:?}"),
            }
        }
    }

    #[test]
    fn stream_errors_keep_their_codes() {
        use StreamErrorIncoming as S;
        assert!(matches!(
            read_error(ReadError::Reset(VarInt::from_u32(7))),
            S::StreamTerminated { error_code: 7 }
        ));
        assert!(matches!(
            write_error(WriteError::Stopped(VarInt::from_u32(8))),
            S::StreamTerminated { error_code: 8 }
        ));
        assert!(matches!(read_error(ReadError::ClosedStream), S::Unknown(_)));
        assert!(matches!(write_error(WriteError::ClosedStream), S::Unknown(_)));
        let timeout = |error| {
            matches!(error, S::ConnectionErrorIncoming { connection_error: ConnectionErrorIncoming::Timeout })
        };
        assert!(timeout(read_error(ConnectionError::TimedOut(Silence::default()).into())));
        assert!(timeout(write_error(ConnectionError::TimedOut(Silence::default()).into())));
    }
}
