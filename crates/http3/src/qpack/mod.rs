//! Field compression for HTTP/3 (RFC 9204).
//!
//! An endpoint has one [`Encoder`] and one [`Decoder`]. Each returns the bytes for its own stream from
//! `instructions`. The encoder processes the bytes of the peer's decoder stream, and the decoder those of the
//! peer's encoder stream. The caller transfers these bytes.
//!
//! ```
//! use anabranch_http3::qpack::{Decoded, Decoder, Encoder, Field, Limits};
//!
//! let mut encoder = Encoder::new();
//! // The decoder permits a table of 4096 bytes and 16 blocked streams.
//! let mut decoder = Decoder::new(4096, 16);
//! encoder.set_limits(4096, 16);
//! let fields = [(":method", "GET"), ("user-agent", "example/1")];
//! let mut section = Vec::new();
//! let lines = fields.iter().map(|(name, value)| Field {
//!     name: name.as_bytes(),
//!     value: value.as_bytes(),
//!     sensitive: false,
//! });
//! encoder.encode(0, lines, 1000, &mut section);
//!
//! decoder.on_encoder_stream(encoder.instructions()).unwrap();
//! let limits = Limits { max_size: 10_000, max_fields: 100 };
//! let mut names = Vec::new();
//! let decoded = decoder.decode(0, &section, &limits, &mut |line| names.push(line.name.to_vec()));
//! assert_eq!(decoded.unwrap(), Decoded::Complete);
//! assert_eq!(names, [b":method".to_vec(), b"user-agent".to_vec()]);
//! ```

mod decoder;
mod dynamic_table;
mod encoder;
mod encoder_table;
mod huffman;
mod instruction;
mod integer;
mod outstanding;
mod static_table;
mod string;

pub use decoder::{Decoder, MAX_UNSENT_INSTRUCTIONS};
pub use encoder::{Encoder, MAX_ENCODER_TABLE};

/// Field line to encode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field<'a> {
    /// Name, in lower case.
    pub name: &'a [u8],
    /// Value.
    pub value: &'a [u8],
    /// `true` if neither this endpoint nor an intermediary may index the line (RFC 9204 §7.1.3).
    pub sensitive: bool,
}

/// Decoded field line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FieldLine<'a> {
    /// Name as received, without validation.
    pub name: &'a [u8],
    /// Value as received, without validation.
    pub value: &'a [u8],
    /// `true` if an intermediary must not index the line when it forwards it (RFC 9204 §4.5.4).
    pub never_indexed: bool,
}

/// Limits on a decoded field section.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Maximum size in bytes after decoding: name, value and 32 bytes for each line (RFC 9114 §4.2.2).
    pub max_size: u64,
    /// Maximum number of lines.
    pub max_fields: usize,
}

/// Result of decoding a field section.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Decoded {
    /// All lines were passed to the caller.
    Complete,
    /// The section refers to entries that have not arrived. No line was passed to the caller, who must decode
    /// the section again when [`Decoder::take_unblocked`] returns its stream.
    Blocked,
    /// The section exceeds the limits. Some lines may have been passed to the caller. The rest is ignored,
    /// and a Stream Cancellation is queued for the peer.
    TooLarge,
}

#[cfg(test)]
mod tests;
