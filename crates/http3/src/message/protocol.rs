//! The `:protocol` pseudo-header (RFC 8441 §4, RFC 9220).

use std::borrow::Cow;
use std::fmt;

use super::InvalidMessage;

/// Protocol of an extended CONNECT request. It is stored in the request's extensions.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Protocol(Cow<'static, str>);

impl Protocol {
    /// WebSocket (RFC 9220).
    pub const WEBSOCKET: Self = Self(Cow::Borrowed("websocket"));
    /// Proxying of UDP (RFC 9298).
    pub const CONNECT_UDP: Self = Self(Cow::Borrowed("connect-udp"));
    /// Proxying of IP (RFC 9484).
    pub const CONNECT_IP: Self = Self(Cow::Borrowed("connect-ip"));
    /// WebTransport.
    pub const WEBTRANSPORT: Self = Self(Cow::Borrowed("webtransport"));

    /// Creates a protocol from its name.
    ///
    /// # Errors
    ///
    /// Fails if the name is empty or is not a token (RFC 9110 §5.6.2).
    pub fn new(name: impl Into<Cow<'static, str>>) -> Result<Self, InvalidMessage> {
        let name = name.into();
        if name.is_empty() || !name.bytes().all(is_token) {
            return Err(InvalidMessage(":protocol is no token"));
        }
        Ok(Self(name))
    }

    /// Parses the name that a peer sent; `None` if it is not a token.
    pub(super) fn from_bytes(name: &[u8]) -> Option<Self> {
        let known = [Self::WEBSOCKET, Self::CONNECT_UDP, Self::CONNECT_IP, Self::WEBTRANSPORT];
        match known.into_iter().find(|protocol| protocol.0.as_bytes() == name) {
            Some(protocol) => Some(protocol),
            None => Self::new(std::str::from_utf8(name).ok()?.to_owned()).ok(),
        }
    }

    /// Returns the name of the protocol.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

const fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric()
        || matches!(
            byte,
            b'!' | b'#'
                | b'$'
                | b'%'
                | b'&'
                | b'\''
                | b'*'
                | b'+'
                | b'-'
                | b'.'
                | b'^'
                | b'_'
                | b'`'
                | b'|'
                | b'~'
        )
}
