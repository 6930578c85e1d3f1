//! Field compression for HTTP/3 (RFC 9204).
//!
//! [`Encoder`] and [`Decoder`] are the two halves of one end. Each gives the bytes for a stream of its own
//! (`instructions`) and takes the bytes of the peer's other half; who calls moves them.

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

/// A field line to encode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field<'a> {
    /// Its name, in lower case.
    pub name: &'a [u8],
    /// Its value.
    pub value: &'a [u8],
    /// Never to be indexed, here or by anybody on the way (RFC 9204 §7.1.3).
    pub sensitive: bool,
}

/// A field line that was decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FieldLine<'a> {
    /// Its name, as it came.
    pub name: &'a [u8],
    /// Its value.
    pub value: &'a [u8],
    /// Whoever forwards the line must not index it (RFC 9204 §4.5.4).
    pub never_indexed: bool,
}

/// Limits on a field section that is decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of its lines when they are decoded: name, value and 32 for each (RFC 9114 §4.2.2).
    pub max_size: u64,
    /// Lines.
    pub max_fields: usize,
}

/// Result of decoding a field section.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decoded {
    /// All lines were given.
    Complete,
    /// The dynamic table lacks entries that are still to come; nothing was given. To be decoded again when
    /// [`Decoder::take_unblocked`] names its stream.
    Blocked,
    /// The lines exceed the limits. Some may have been given; the rest is not looked at and the peer is told
    /// that the stream is cancelled.
    TooLarge,
}

#[cfg(test)]
mod tests;
