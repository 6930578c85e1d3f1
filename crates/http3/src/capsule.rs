//! Capsules (RFC 9297 §3): typed messages in the content of an extended CONNECT request and of its response.

use anabranch_wire::push_varint;
use bytes::{Bytes, BytesMut};

use crate::message::Malformed;
use crate::varints::VarintsReader;

/// Maximum length of a capsule's value, in bytes.
pub const MAX_CAPSULE_VALUE: u64 = 65536;

/// Type of a capsule (RFC 9297 §5.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CapsuleType(pub u64);

impl CapsuleType {
    /// HTTP datagram (RFC 9297 §3.5).
    pub const DATAGRAM: Self = Self(0x0);
}

/// Complete capsule.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Capsule {
    /// Type of the capsule.
    pub kind: CapsuleType,
    /// Value of the capsule.
    pub value: Bytes,
}

impl Capsule {
    /// Appends the encoded capsule to `out`.
    pub fn encode(&self, out: &mut Vec<u8>) {
        push_varint(out, self.kind.0);
        push_varint(out, self.value.len() as u64);
        out.extend_from_slice(&self.value);
    }
}

/// Incremental parser of capsules. It accepts the content in pieces of any size. It skips capsules of types
/// that are not wanted, regardless of their length, and buffers none of their bytes.
#[derive(Clone, Debug)]
pub struct CapsuleReader {
    wanted: &'static [CapsuleType],
    head: VarintsReader<2>,
    state: State,
}

#[derive(Clone, Debug)]
enum State {
    /// Between capsules, or inside a type or a length.
    Head,
    /// Inside the value of a wanted capsule.
    Value { kind: CapsuleType, missing: usize, gathered: BytesMut },
    /// Inside the value of a skipped capsule.
    Skip { missing: u64 },
}

impl CapsuleReader {
    /// Creates a reader that returns capsules of the `wanted` types.
    pub const fn new(wanted: &'static [CapsuleType]) -> Self {
        Self { wanted, head: VarintsReader::new(), state: State::Head }
    }

    /// Reads up to the end of the next wanted capsule, or all bytes if they do not complete one. Returns the
    /// number of bytes read, and the capsule if it is complete.
    ///
    /// # Errors
    ///
    /// Fails if the value of a wanted capsule is longer than [`MAX_CAPSULE_VALUE`]. A DATAGRAM capsule with a
    /// longer value is skipped instead, because datagrams may be lost (RFC 9297 §3.5).
    pub fn read(&mut self, bytes: &[u8]) -> Result<(usize, Option<Capsule>), Malformed> {
        let mut rest = bytes;
        loop {
            match &mut self.state {
                State::Head => {
                    let (taken, head) = self.head.read(rest);
                    rest = &rest[taken..];
                    let Some([kind, len]) = head else { return Ok((bytes.len(), None)) };
                    self.state = self.begin(CapsuleType(kind), len)?;
                }
                State::Value { kind, missing, gathered } => {
                    let (now, later) = rest.split_at(rest.len().min(*missing));
                    gathered.extend_from_slice(now);
                    *missing -= now.len();
                    rest = later;
                    if *missing > 0 {
                        return Ok((bytes.len(), None));
                    }
                    let capsule = Capsule { kind: *kind, value: std::mem::take(gathered).freeze() };
                    self.state = State::Head;
                    return Ok((bytes.len() - rest.len(), Some(capsule)));
                }
                State::Skip { missing } => {
                    let now = usize::try_from(*missing).unwrap_or(usize::MAX).min(rest.len());
                    *missing -= now as u64;
                    rest = &rest[now..];
                    if *missing > 0 {
                        return Ok((bytes.len(), None));
                    }
                    self.state = State::Head;
                }
            }
        }
    }

    /// Handles the end of the content.
    ///
    /// # Errors
    ///
    /// Fails if the content ends inside a capsule (RFC 9297 §3.3).
    pub const fn end(&self) -> Result<(), Malformed> {
        match self.state {
            State::Head if self.head.is_empty() => Ok(()),
            _ => Err(Malformed("the content ends inside a capsule")),
        }
    }

    fn begin(&self, kind: CapsuleType, len: u64) -> Result<State, Malformed> {
        if !self.wanted.contains(&kind) {
            return Ok(State::Skip { missing: len });
        }
        match usize::try_from(len) {
            Ok(missing) if len <= MAX_CAPSULE_VALUE => {
                Ok(State::Value { kind, missing, gathered: BytesMut::new() })
            }
            _ if kind == CapsuleType::DATAGRAM => Ok(State::Skip { missing: len }),
            _ => Err(Malformed("a capsule is too long")),
        }
    }
}

#[cfg(test)]
mod tests;
