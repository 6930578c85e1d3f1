//! Instructions on the encoder stream (RFC 9204 §4.3) and on the decoder stream (RFC 9204 §4.4).

use super::integer::{self, Fault, Reader};
use super::string::{self, Literal};

/// Reference to a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NameIndex {
    /// Index into the static table.
    Static(u64),
    /// Relative index into the dynamic table, counted back from the newest entry.
    Relative(u64),
}

/// Instruction of the encoder to the decoder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EncoderInstruction<'a> {
    SetCapacity(u64),
    InsertWithNameReference { name: NameIndex, value: Literal<'a> },
    InsertWithLiteralName { name: Literal<'a>, value: Literal<'a> },
    Duplicate { relative: u64 },
}

impl<'a> EncoderInstruction<'a> {
    /// Reads an instruction. A string whose length shows that it decodes to more than `max` bytes is rejected
    /// before all of it has arrived.
    pub(super) fn read(reader: &mut Reader<'a>, max: usize) -> Result<Self, Fault> {
        let string = |reader: &mut Reader<'a>, prefix| {
            Literal::read(reader, prefix, max)?
                .ok_or(Fault::Malformed("an entry larger than the dynamic table"))
        };
        let first = reader.peek()?;
        Ok(match first.leading_zeros() {
            0 => {
                let index = reader.integer(6)?;
                let name =
                    if first & 0x40 != 0 { NameIndex::Static(index) } else { NameIndex::Relative(index) };
                Self::InsertWithNameReference { name, value: string(reader, 8)? }
            }
            1 => Self::InsertWithLiteralName { name: string(reader, 6)?, value: string(reader, 8)? },
            2 => Self::SetCapacity(reader.integer(5)?),
            _ => Self::Duplicate { relative: reader.integer(5)? },
        })
    }
}

pub(super) fn write_capacity(out: &mut Vec<u8>, capacity: u64) {
    integer::write(out, 0x20, 5, capacity);
}

pub(super) fn write_insert(out: &mut Vec<u8>, index: NameIndex, value: &[u8]) {
    match index {
        NameIndex::Static(index) => integer::write(out, 0xc0, 6, index),
        NameIndex::Relative(index) => integer::write(out, 0x80, 6, index),
    }
    string::write(out, 0, 8, value);
}

pub(super) fn write_insert_literal(out: &mut Vec<u8>, name: &[u8], value: &[u8]) {
    string::write(out, 0x40, 6, name);
    string::write(out, 0, 8, value);
}

pub(super) fn write_duplicate(out: &mut Vec<u8>, relative: u64) {
    integer::write(out, 0, 5, relative);
}

/// Instruction of the decoder to the encoder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DecoderInstruction {
    SectionAcknowledgment { stream: u64 },
    StreamCancellation { stream: u64 },
    InsertCountIncrement(u64),
}

impl DecoderInstruction {
    pub(super) fn read(reader: &mut Reader<'_>) -> Result<Self, Fault> {
        Ok(match reader.peek()?.leading_zeros() {
            0 => Self::SectionAcknowledgment { stream: reader.integer(7)? },
            1 => Self::StreamCancellation { stream: reader.integer(6)? },
            _ => Self::InsertCountIncrement(reader.integer(6)?),
        })
    }

    pub(super) fn write(self, out: &mut Vec<u8>) {
        match self {
            Self::SectionAcknowledgment { stream } => integer::write(out, 0x80, 7, stream),
            Self::StreamCancellation { stream } => integer::write(out, 0x40, 6, stream),
            Self::InsertCountIncrement(increment) => integer::write(out, 0, 6, increment),
        }
    }
}

/// Buffer for the bytes of an incomplete instruction. It stays small, because the readers above reject
/// instructions that could become long.
#[derive(Debug, Default)]
pub(super) struct Pending {
    bytes: Vec<u8>,
}

impl Pending {
    /// Passes complete instructions to `handle`, one for each call, and buffers the rest.
    pub(super) fn feed(
        &mut self,
        bytes: &[u8],
        mut handle: impl FnMut(&mut Reader<'_>) -> Result<(), Fault>,
    ) -> Result<(), &'static str> {
        if self.bytes.is_empty() {
            let whole = run(bytes, &mut handle)?;
            self.bytes.extend_from_slice(&bytes[whole..]);
        } else {
            self.bytes.extend_from_slice(bytes);
            let whole = run(&self.bytes, &mut handle)?;
            self.bytes.drain(..whole);
        }
        Ok(())
    }

    /// Returns the number of buffered bytes.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.bytes.len()
    }
}

/// Handles complete instructions and returns their total length, in bytes.
fn run(
    bytes: &[u8],
    handle: &mut impl FnMut(&mut Reader<'_>) -> Result<(), Fault>,
) -> Result<usize, &'static str> {
    let mut reader = Reader::new(bytes);
    loop {
        let whole = bytes.len() - reader.remaining();
        if reader.remaining() == 0 {
            return Ok(whole);
        }
        match handle(&mut reader) {
            Ok(()) => {}
            Err(Fault::Incomplete) => return Ok(whole),
            Err(Fault::Malformed(reason)) => return Err(reason),
        }
    }
}
