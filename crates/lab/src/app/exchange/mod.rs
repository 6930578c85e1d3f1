//! Exchange that uses all features of streams and datagrams, and checks every byte.
//!
//! Each stream of the client begins with a [`Request`]. It announces the data that follows and states the
//! actions of the server. Data that no request announces is recorded as a fault.

mod client;
mod plan;
mod running;
mod server;

use super::Pattern;

pub use client::ExchangeClient;
pub use plan::{ConnectionPlan, StreamPlan};
pub use server::ExchangeServer;

/// Error codes with which the two applications reset, stop and close.
pub mod code {
    use anabranch_wire::VarInt;

    /// The client resets its upload.
    pub const CLIENT_RESET: VarInt = VarInt::from_u32(0x11);
    /// The client stops the download.
    pub const CLIENT_STOP: VarInt = VarInt::from_u32(0x12);
    /// The server resets the download.
    pub const SERVER_RESET: VarInt = VarInt::from_u32(0x21);
    /// The server stops the upload.
    pub const SERVER_STOP: VarInt = VarInt::from_u32(0x22);
    /// The server resets a stream whose request did not arrive.
    pub const NO_REQUEST: VarInt = VarInt::from_u32(0x23);
    /// The client closes the connection after it has received everything.
    pub const DONE: VarInt = VarInt::from_u32(0x31);
}

/// Contents of a stream, announced to the server by its first bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Request {
    /// Key from which the contents are derived.
    pub key: u64,
    /// Number of bytes that the client sends after the request.
    pub upload: u64,
    /// Number of bytes that the server sends on the same stream; 0 on a unidirectional stream.
    pub download: u64,
    /// Number of bytes after which the server resets the download.
    pub server_reset: Option<u64>,
    /// Number of bytes, including the request, after which the server stops the upload.
    pub server_stop: Option<u64>,
    /// Number of bytes that the server also sends on a unidirectional stream of its own.
    pub push: Option<u64>,
}

impl Request {
    /// Length of an encoded request in bytes.
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

/// Length in bytes of the head of a pushed stream: the key and the number of following bytes.
const PUSH_HEAD: usize = 16;

/// Returns message `index` of a connection's datagrams: the index, followed by a pattern.
fn datagram(key: u64, index: u64, len: usize) -> Vec<u8> {
    let mut message = vec![0; len.max(8)];
    message[..8].copy_from_slice(&index.to_be_bytes());
    Pattern(key.wrapping_add(index)).fill(0, &mut message[8..]);
    message
}

/// Returns the index of `message` if it equals the one that [`datagram`] creates.
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
