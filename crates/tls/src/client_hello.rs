//! Parser of the parts of a ClientHello that a server needs before it creates a session (RFC 8446 §4.1.2).
//!
//! The version and the server's own transport parameters depend on the client's version_information (RFC
//! 9368), but a TLS session needs the transport parameters when it is created. The parsed values are not
//! authenticated; the handshake authenticates them later.

use core::str;

/// Maximum length of a ClientHello, in bytes. ClientHellos with post-quantum key shares and a ticket are
/// shorter than 4 kB.
pub const MAX_CLIENT_HELLO_LEN: usize = 16 * 1024;

/// Maximum number of extensions that are parsed. Typical ClientHellos have about twenty.
const MAX_EXTENSIONS: usize = 128;

/// Result of parsing the handshake bytes of the Initial level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientHello<'a> {
    /// Beginning of a ClientHello; more bytes are needed.
    Incomplete,
    /// Complete ClientHello with transport parameters.
    Parameters(HelloOffer<'a>),
    /// Anything but a valid ClientHello of a QUIC client. Close the connection with CRYPTO_ERROR `0x100 +
    /// alert`.
    Malformed {
        /// TLS alert (RFC 8446 §6).
        alert: u8,
    },
}

/// Part of a client's offer that a server needs before a session exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HelloOffer<'a> {
    /// Encoded transport parameters (RFC 9001 §8.2).
    pub parameters: &'a [u8],
    /// Host name of the Server Name Indication (RFC 6066 §3).
    pub server_name: Option<&'a str>,
    alpn: &'a [u8],
}

impl<'a> HelloOffer<'a> {
    /// Returns the application protocols that the client offers, most preferred first (RFC 7301 §3.1).
    pub fn alpn(&self) -> impl Iterator<Item = &'a [u8]> {
        let mut names = Cursor(self.alpn);
        core::iter::from_fn(move || names.vector8())
    }
}

/// Parses the handshake bytes of the Initial level from their beginning.
pub fn client_hello_parameters(hello: &[u8]) -> ClientHello<'_> {
    match parse(hello) {
        Ok(Some(offer)) => ClientHello::Parameters(offer),
        Ok(None) => ClientHello::Incomplete,
        Err(alert) => ClientHello::Malformed { alert },
    }
}

const UNEXPECTED_MESSAGE: u8 = 10;
const ILLEGAL_PARAMETER: u8 = 47;
const DECODE_ERROR: u8 = 50;
const MISSING_EXTENSION: u8 = 109;

const CLIENT_HELLO: u8 = 1;
const SERVER_NAME: u16 = 0;
const ALPN: u16 = 16;
const QUIC_TRANSPORT_PARAMETERS: u16 = 0x39;

fn parse(hello: &[u8]) -> Result<Option<HelloOffer<'_>>, u8> {
    // The first byte suffices to reject anything that is not a ClientHello.
    if hello.first().is_some_and(|&kind| kind != CLIENT_HELLO) {
        return Err(UNEXPECTED_MESSAGE);
    }
    let Some((&[_, a, b, c], rest)) = hello.split_first_chunk() else { return Ok(None) };
    let len = usize::from(a) << 16 | usize::from(b) << 8 | usize::from(c);
    if len > MAX_CLIENT_HELLO_LEN {
        return Err(DECODE_ERROR);
    }
    let Some(body) = rest.get(..len) else { return Ok(None) };
    let extensions = extensions(body).ok_or(DECODE_ERROR)?;
    offer(extensions).map(Some)
}

/// Returns the extensions, which must be the last part of the message.
fn extensions(body: &[u8]) -> Option<&[u8]> {
    let mut body = Cursor(body);
    body.take(2)?; // legacy_version
    body.take(32)?; // random
    body.vector8().filter(|id| id.len() <= 32)?; // legacy_session_id
    body.vector16()?; // cipher_suites
    body.vector8()?; // legacy_compression_methods
    let extensions = body.vector16()?;
    body.0.is_empty().then_some(extensions)
}

fn offer(extensions: &[u8]) -> Result<HelloOffer<'_>, u8> {
    let mut rest = Cursor(extensions);
    let (mut parameters, mut server_name, mut alpn) = (None, None, None);
    for _ in 0..MAX_EXTENSIONS {
        if rest.0.is_empty() {
            break;
        }
        let kind = rest.u16().ok_or(DECODE_ERROR)?;
        let data = rest.vector16().ok_or(DECODE_ERROR)?;
        match kind {
            QUIC_TRANSPORT_PARAMETERS => once(&mut parameters, data)?,
            SERVER_NAME => once(&mut server_name, host_name(data).ok_or(DECODE_ERROR)?)?,
            ALPN => once(&mut alpn, protocol_names(data).ok_or(DECODE_ERROR)?)?,
            _ => {}
        }
    }
    if !rest.0.is_empty() {
        return Err(DECODE_ERROR);
    }
    Ok(HelloOffer {
        // RFC 9001 §8.2: without the extension, the connection is closed with missing_extension.
        parameters: parameters.ok_or(MISSING_EXTENSION)?,
        server_name,
        alpn: alpn.unwrap_or_default(),
    })
}

/// Sets the value of an extension, which must not occur twice (RFC 8446 §4.2).
fn once<T>(slot: &mut Option<T>, value: T) -> Result<(), u8> {
    slot.replace(value).map_or(Ok(()), |_| Err(ILLEGAL_PARAMETER))
}

/// Returns the host name in a server name list. Only the name type host_name is defined, and it must not
/// occur twice (RFC 6066 §3).
fn host_name(data: &[u8]) -> Option<&str> {
    let mut data = Cursor(data);
    let mut list = Cursor(data.vector16()?);
    let [0] = list.take(1)? else { return None };
    let name = list.vector16()?;
    str::from_utf8(name).ok().filter(|name| !name.is_empty() && list.0.is_empty() && data.0.is_empty())
}

/// Returns the contents of a list of protocol names (RFC 7301 §3.1). All names are checked here to be
/// non-empty and complete, so that [`HelloOffer::alpn`] cannot fail.
fn protocol_names(data: &[u8]) -> Option<&[u8]> {
    let mut data = Cursor(data);
    let list = data.vector16().filter(|_| data.0.is_empty())?;
    let mut names = Cursor(list);
    while !names.0.is_empty() {
        names.vector8().filter(|name| !name.is_empty())?;
    }
    Some(list)
}

/// Reader of the remaining bytes.
struct Cursor<'a>(&'a [u8]);

impl<'a> Cursor<'a> {
    fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(taken)
    }

    fn u16(&mut self) -> Option<u16> {
        let (&bytes, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u16::from_be_bytes(bytes))
    }

    /// Reads a vector with a length of one byte.
    fn vector8(&mut self) -> Option<&'a [u8]> {
        let len = self.take(1)?[0];
        self.take(usize::from(len))
    }

    /// Reads a vector with a length of two bytes.
    fn vector16(&mut self) -> Option<&'a [u8]> {
        let len = self.u16()?;
        self.take(usize::from(len))
    }
}

#[cfg(test)]
mod tests;
