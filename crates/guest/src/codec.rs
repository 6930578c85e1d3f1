//! Reading and writing of fields. Numbers are little endian; lists and texts follow their length.

use core::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// Error for a message that violates the protocol, with a description of the fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed(pub &'static str);

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "not the guest protocol: {}", self.0)
    }
}

impl std::error::Error for Malformed {}

/// Reads the fields of a message, front to back.
pub(crate) struct Reader<'a>(pub(crate) &'a [u8]);

impl<'a> Reader<'a> {
    pub(crate) fn bytes(&mut self, len: usize) -> Result<&'a [u8], Malformed> {
        let (head, rest) = self.0.split_at_checked(len).ok_or(Malformed("a message ends within a field"))?;
        self.0 = rest;
        Ok(head)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let (head, rest) = self.0.split_first_chunk().ok_or(Malformed("a message ends within a field"))?;
        self.0 = rest;
        Ok(*head)
    }

    pub(crate) fn u8(&mut self) -> Result<u8, Malformed> {
        self.array().map(u8::from_le_bytes)
    }

    pub(crate) fn u16(&mut self) -> Result<u16, Malformed> {
        self.array().map(u16::from_le_bytes)
    }

    pub(crate) fn u64(&mut self) -> Result<u64, Malformed> {
        self.array().map(u64::from_le_bytes)
    }

    /// Reads a length of 16 bits and that many bytes. Fails with `what` if the length exceeds `most`.
    pub(crate) fn list(&mut self, most: usize, what: &'static str) -> Result<&'a [u8], Malformed> {
        let len = usize::from(self.u16()?);
        if len > most { Err(Malformed(what)) } else { self.bytes(len) }
    }

    pub(crate) fn text(&mut self) -> Result<&'a str, Malformed> {
        let bytes = self.list(crate::MAX_TEXT, "a text is longer than MAX_TEXT")?;
        core::str::from_utf8(bytes).map_err(|_| Malformed("a text is not UTF-8"))
    }

    pub(crate) fn address(&mut self) -> Result<SocketAddr, Malformed> {
        let ip = match self.u8()? {
            4 => IpAddr::V4(Ipv4Addr::from(self.array::<4>()?)),
            6 => IpAddr::V6(Ipv6Addr::from(self.array::<16>()?)),
            _ => return Err(Malformed("an address is neither IPv4 nor IPv6")),
        };
        Ok(SocketAddr::new(ip, self.u16()?))
    }

    pub(crate) fn end(&self) -> Result<(), Malformed> {
        if self.0.is_empty() { Ok(()) } else { Err(Malformed("a message has bytes behind its last field")) }
    }
}

/// Adds `address` to a message.
pub(crate) fn put_address(out: &mut Vec<u8>, address: SocketAddr) {
    match address.ip() {
        IpAddr::V4(ip) => {
            out.push(4);
            out.extend_from_slice(&ip.octets());
        }
        IpAddr::V6(ip) => {
            out.push(6);
            out.extend_from_slice(&ip.octets());
        }
    }
    out.extend_from_slice(&address.port().to_le_bytes());
}

/// Adds the number of bytes as 16 bits, and then the first `most` of `bytes`, or all if there are fewer.
pub(crate) fn put_list(out: &mut Vec<u8>, bytes: &[u8], most: usize) {
    let bytes = &bytes[..bytes.len().min(most)];
    out.extend_from_slice(&(bytes.len() as u16).to_le_bytes());
    out.extend_from_slice(bytes);
}

/// Adds a text, cut off after [`crate::MAX_TEXT`] bytes.
pub(crate) fn put_text(out: &mut Vec<u8>, text: &str) {
    let mut end = text.len().min(crate::MAX_TEXT);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    put_list(out, &text.as_bytes()[..end], crate::MAX_TEXT);
}
