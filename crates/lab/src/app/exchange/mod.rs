//! An exchange that uses everything streams and datagrams can do, and checks every byte of it.
//!
//! Each stream of the client begins with a [`Request`], which tells the server what will follow and what to
//! do. What a request does not announce must not happen; whatever else does is noted as a fault.

mod client;
mod plan;
mod running;
mod server;

use super::Pattern;

pub use client::ExchangeClient;
pub use plan::{ConnectionPlan, StreamPlan};
pub use server::ExchangeServer;

/// Codes with which the two applications reset, stop and close.
pub mod code {
    /// The client resets its upload.
    pub const CLIENT_RESET: u64 = 0x11;
    /// The client stops the download.
    pub const CLIENT_STOP: u64 = 0x12;
    /// The server resets the download.
    pub const SERVER_RESET: u64 = 0x21;
    /// The server stops the upload.
    pub const SERVER_STOP: u64 = 0x22;
    /// The server resets a stream whose request it never saw.
    pub const NO_REQUEST: u64 = 0x23;
    /// The client closes, having got everything.
    pub const DONE: u64 = 0x31;
}

/// Contents of a stream, as its first bytes announce them to the server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Request {
    /// Key from which the contents are derived.
    pub key: u64,
    /// Bytes from the client after the request.
    pub upload: u64,
    /// Bytes from the server on the same stream; 0 on a unidirectional one.
    pub download: u64,
    /// The server resets the download after this many bytes.
    pub server_reset: Option<u64>,
    /// The server stops the upload after this many bytes, request included.
    pub server_stop: Option<u64>,
    /// The server also sends this many bytes on a unidirectional stream of its own.
    pub push: Option<u64>,
}

impl Request {
    /// Bytes of a request.
    pub const LEN: usize = 48;

    fn upload_pattern(self) -> Pattern {
        Pattern(self.key ^ 0x75)
    }

    fn download_pattern(self) -> Pattern {
        Pattern(self.key ^ 0x64)
    }

    fn push_pattern(self) -> Pattern {
        Pattern(self.key ^ 0x70)
    }

    fn encode(self) -> Vec<u8> {
        let optional = |value: Option<u64>| value.unwrap_or(u64::MAX);
        let fields = [
            self.key,
            self.upload,
            self.download,
            optional(self.server_reset),
            optional(self.server_stop),
            optional(self.push),
        ];
        fields.iter().flat_map(|field| field.to_be_bytes()).collect()
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let (fields, []) = bytes.as_chunks::<8>() else { return None };
        let fields: [[u8; 8]; Self::LEN / 8] = fields.try_into().ok()?;
        let [key, upload, download, reset, stop, push] = fields.map(u64::from_be_bytes);
        let optional = |value: u64| (value != u64::MAX).then_some(value);
        Some(Self {
            key,
            upload,
            download,
            server_reset: optional(reset),
            server_stop: optional(stop),
            push: optional(push),
        })
    }
}

/// Head of a pushed stream: key and number of bytes to follow.
const PUSH_HEAD: usize = 16;

/// Returns message number `index` of a connection's datagrams: the number, then a pattern.
fn datagram(key: u64, index: u64, len: usize) -> Vec<u8> {
    let mut message = vec![0; len.max(8)];
    message[..8].copy_from_slice(&index.to_be_bytes());
    Pattern(key.wrapping_add(index)).fill(0, &mut message[8..]);
    message
}

/// Returns the number of a message if `datagram` created it.
fn datagram_index(key: u64, message: &[u8]) -> Option<u64> {
    let (index, rest) = message.split_first_chunk()?;
    let index = u64::from_be_bytes(*index);
    Pattern(key.wrapping_add(index)).matches(0, rest).then_some(index)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_and_datagrams_survive_encoding() {
        let request =
            Request { key: 7, upload: 1, server_stop: Some(0), push: Some(9), ..Request::default() };
        assert_eq!(request.encode().len(), Request::LEN);
        assert_eq!(Request::decode(&request.encode()), Some(request));
        assert_eq!(Request::decode(&[0; 47]), None);
        let mut message = datagram(3, 5, 100);
        assert_eq!(datagram_index(3, &message), Some(5));
        assert_eq!(datagram_index(4, &message), None);
        message[99] ^= 1;
        assert_eq!(datagram_index(3, &message), None);
    }
}
