//! Field compression for HTTP/3 (RFC 9204).

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
