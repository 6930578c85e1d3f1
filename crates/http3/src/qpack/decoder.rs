//! QPACK decoder (RFC 9204 §2.2): applies the instructions of the peer's encoder, decodes field sections, and
//! queues its own instructions.

use super::dynamic_table::{DynamicTable, ENTRY_OVERHEAD, Entry, entry_size};
use super::instruction::{DecoderInstruction, EncoderInstruction, NameIndex, Pending};
use super::integer::{Fault, Reader};
use super::string::Literal;
use super::{Decoded, FieldLine, Limits, static_table};
use crate::{Code, Error};

/// Maximum number of bytes that may be queued for the decoder stream. If a peer causes more instructions
/// while it blocks the stream by flow control, the connection is closed with H3_EXCESSIVE_LOAD (RFC 9204
/// §7.3).
pub const MAX_UNSENT_INSTRUCTIONS: usize = 64 * 1024;

/// Decoder of field sections.
#[derive(Debug)]
pub struct Decoder {
    table: DynamicTable,
    max_table_capacity: u64,
    max_blocked_streams: u64,
    blocked: Vec<Blocked>,
    /// Number of insertions that the decoder has acknowledged to the encoder.
    known_received_count: u64,
    instructions: Vec<u8>,
    pending: Pending,
    scratch: Scratch,
}

/// Stream whose section refers to entries that have not arrived.
#[derive(Clone, Copy, Debug)]
struct Blocked {
    stream: u64,
    required_insert_count: u64,
}

/// Buffers for the decoded text of Huffman-encoded strings.
#[derive(Debug, Default)]
struct Scratch {
    name: Vec<u8>,
    value: Vec<u8>,
}

impl Decoder {
    /// Creates a decoder with the limits of our SETTINGS: the maximum capacity of the dynamic table in bytes,
    /// and the maximum number of blocked streams.
    pub fn new(max_table_capacity: u64, max_blocked_streams: u64) -> Self {
        Self {
            table: DynamicTable::default(),
            max_table_capacity,
            max_blocked_streams,
            blocked: Vec::new(),
            known_received_count: 0,
            instructions: Vec::new(),
            pending: Pending::default(),
            scratch: Scratch::default(),
        }
    }

    /// Processes bytes of the peer's encoder stream, in pieces of any size. Returns
    /// QPACK_ENCODER_STREAM_ERROR if they are invalid.
    pub fn on_encoder_stream(&mut self, bytes: &[u8]) -> Result<(), Error> {
        let Self { table, max_table_capacity, pending, scratch, .. } = self;
        let handled = pending.feed(bytes, |reader| {
            let max = usize::try_from(table.capacity().saturating_sub(ENTRY_OVERHEAD)).unwrap_or(usize::MAX);
            let entry = match EncoderInstruction::read(reader, max)? {
                EncoderInstruction::SetCapacity(capacity) if capacity > *max_table_capacity => {
                    return Err(Fault::Malformed("a table capacity above the limit"));
                }
                EncoderInstruction::SetCapacity(capacity) => {
                    table.set_capacity(capacity);
                    return Ok(());
                }
                EncoderInstruction::InsertWithNameReference { name, value } => {
                    let name = inserted_name(table, name)?;
                    Entry::new(name, inserted_text(value, max, &mut scratch.value)?)
                }
                EncoderInstruction::InsertWithLiteralName { name, value } => Entry::new(
                    inserted_text(name, max, &mut scratch.name)?,
                    inserted_text(value, max, &mut scratch.value)?,
                ),
                EncoderInstruction::Duplicate { relative } => {
                    let entry = table.before(table.insert_count(), relative);
                    entry
                        .map(|(_, entry)| entry.clone())
                        .ok_or(Fault::Malformed("a duplicate of no entry"))?
                }
            };
            if table.insert(entry) { Ok(()) } else { Err(TOO_LARGE) }
        });
        handled.map_err(|reason| Error::new(Code::QPACK_ENCODER_STREAM_ERROR, reason))
    }

    /// Decodes a field section and passes its lines to `sink` in order. Returns QPACK_DECOMPRESSION_FAILED if
    /// the section is invalid. After an error or [`Decoded::TooLarge`], the lines passed so far must be
    /// discarded.
    pub fn decode(
        &mut self,
        stream: u64,
        section: &[u8],
        limits: &Limits,
        sink: &mut dyn FnMut(FieldLine<'_>),
    ) -> Result<Decoded, Error> {
        if self.instructions.len() >= MAX_UNSENT_INSTRUCTIONS {
            return Err(Error::new(Code::EXCESSIVE_LOAD, "the decoder stream has no credit"));
        }
        self.blocked.retain(|blocked| blocked.stream != stream);
        let mut reader = Reader::new(section);
        let prefix = self.prefix(&mut reader).map_err(decompression_failed)?;
        if prefix.required_insert_count > self.table.insert_count() {
            return self.block(stream, prefix.required_insert_count);
        }
        let budget = Budget { size: limits.max_size, fields: limits.max_fields };
        let mut lines = Lines { table: &self.table, prefix, reader, budget };
        while lines.reader.remaining() > 0 {
            let line = lines.next(&mut self.scratch).map_err(decompression_failed)?;
            let Some(line) = line else {
                self.cancel(stream);
                return Ok(Decoded::TooLarge);
            };
            sink(line);
        }
        if prefix.required_insert_count > 0 {
            DecoderInstruction::SectionAcknowledgment { stream }.write(&mut self.instructions);
            self.known_received_count = self.known_received_count.max(prefix.required_insert_count);
        }
        Ok(Decoded::Complete)
    }

    /// Forgets a stream that is no longer read. Queues a Stream Cancellation if the dynamic table may be in
    /// use (RFC 9204 §2.2.2.2). Repeated calls for one stream are harmless.
    pub fn cancel(&mut self, stream: u64) {
        self.blocked.retain(|blocked| blocked.stream != stream);
        if self.max_table_capacity > 0 && self.instructions.len() < MAX_UNSENT_INSTRUCTIONS {
            DecoderInstruction::StreamCancellation { stream }.write(&mut self.instructions);
        }
    }

    /// Removes and returns a blocked stream whose entries have all arrived. Its section can now be decoded.
    pub fn take_unblocked(&mut self) -> Option<u64> {
        let insert_count = self.table.insert_count();
        let at = self.blocked.iter().position(|blocked| blocked.required_insert_count <= insert_count)?;
        Some(self.blocked.remove(at).stream)
    }

    /// Returns the number of bytes in the queue for the decoder stream, without an increment that
    /// [`Self::instructions`] would add.
    pub(crate) fn waiting(&self) -> usize {
        self.instructions.len()
    }

    /// Returns the queue of bytes for the decoder stream; the caller removes what it sends. Each call first
    /// queues an Insert Count Increment for entries that no section acknowledged. It is therefore cheaper to
    /// call this once for many packets than after each one.
    pub fn instructions(&mut self) -> &mut Vec<u8> {
        let increment = self.table.insert_count() - self.known_received_count;
        if increment > 0 {
            DecoderInstruction::InsertCountIncrement(increment).write(&mut self.instructions);
            self.known_received_count += increment;
        }
        &mut self.instructions
    }

    fn block(&mut self, stream: u64, required_insert_count: u64) -> Result<Decoded, Error> {
        let insert_count = self.table.insert_count();
        let waiting =
            self.blocked.iter().filter(|blocked| blocked.required_insert_count > insert_count).count();
        if waiting as u64 >= self.max_blocked_streams {
            return Err(Error::new(Code::QPACK_DECOMPRESSION_FAILED, "more blocked streams than permitted"));
        }
        self.blocked.push(Blocked { stream, required_insert_count });
        Ok(Decoded::Blocked)
    }

    /// Reads the encoded field section prefix (RFC 9204 §4.5.1).
    fn prefix(&self, reader: &mut Reader<'_>) -> Result<Prefix, Fault> {
        let required_insert_count = self.required_insert_count(reader.integer(8)?)?;
        let negative = reader.peek()? & 0x80 != 0;
        let delta = reader.integer(7)?;
        let base = if negative {
            required_insert_count.checked_sub(delta).and_then(|base| base.checked_sub(1))
        } else {
            Some(required_insert_count + delta)
        };
        Ok(Prefix { required_insert_count, base: base.ok_or(Fault::Malformed("a negative base"))? })
    }

    /// Decodes the Required Insert Count (RFC 9204 §4.5.1.1).
    fn required_insert_count(&self, encoded: u64) -> Result<u64, Fault> {
        if encoded == 0 {
            return Ok(0);
        }
        let impossible = Fault::Malformed("an impossible required insert count");
        let max_entries = self.max_table_capacity / ENTRY_OVERHEAD;
        let full_range = 2 * max_entries;
        if encoded > full_range {
            return Err(impossible);
        }
        let max_value = self.table.insert_count() + max_entries;
        let mut required = max_value / full_range * full_range + encoded - 1;
        if required > max_value {
            required = required.checked_sub(full_range).ok_or(impossible)?;
        }
        if required == 0 { Err(impossible) } else { Ok(required) }
    }
}

/// Decoded field section prefix.
#[derive(Clone, Copy, Debug)]
struct Prefix {
    required_insert_count: u64,
    base: u64,
}

/// Size in bytes and number of lines that the limits still permit in the section.
struct Budget {
    size: u64,
    fields: usize,
}

/// Iterator over the lines of one section.
struct Lines<'a> {
    table: &'a DynamicTable,
    prefix: Prefix,
    reader: Reader<'a>,
    budget: Budget,
}

impl<'a> Lines<'a> {
    /// Returns the next line; `None` if it exceeds the limits.
    #[inline]
    fn next<'b>(&mut self, scratch: &'b mut Scratch) -> Result<Option<FieldLine<'b>>, Fault>
    where
        'a: 'b,
    {
        let Some(fields) = self.budget.fields.checked_sub(1) else { return Ok(None) };
        self.budget.fields = fields;
        let Some(max) = self.budget.size.checked_sub(ENTRY_OVERHEAD) else { return Ok(None) };
        let max = usize::try_from(max).unwrap_or(usize::MAX);
        let Some(line) = self.representation(max, scratch)? else { return Ok(None) };
        let rest = self.budget.size.checked_sub(entry_size(line.name, line.value));
        self.budget.size = rest.unwrap_or(0);
        Ok(rest.map(|_| line))
    }

    /// Decodes one representation (RFC 9204 §4.5.2 to §4.5.6). Returns `None` if a string is longer than
    /// `max` bytes.
    #[inline]
    fn representation<'b>(
        &mut self,
        max: usize,
        scratch: &'b mut Scratch,
    ) -> Result<Option<FieldLine<'b>>, Fault>
    where
        'a: 'b,
    {
        let first = self.reader.peek()?;
        let (name, never) = match first.leading_zeros() {
            0 => return self.indexed(first & 0x40 != 0).map(Some),
            1 if first & 0x10 != 0 => (static_line(self.reader.integer(4)?)?.0, 0x20),
            1 => (self.relative(4)?.name(), 0x20),
            2 => {
                let Some(name) = Literal::read(&mut self.reader, 4, max)? else { return Ok(None) };
                let Some(name) = name.text(max, &mut scratch.name)? else { return Ok(None) };
                (name, 0x10)
            }
            3 => return Ok(Some(plain(self.post_base(4)?))),
            _ => (self.post_base(3)?.name(), 0x08),
        };
        let Some(value) = Literal::read(&mut self.reader, 8, max)? else { return Ok(None) };
        let Some(value) = value.text(max, &mut scratch.value)? else { return Ok(None) };
        Ok(Some(FieldLine { name, value, never_indexed: first & never != 0 }))
    }

    fn indexed(&mut self, in_static_table: bool) -> Result<FieldLine<'a>, Fault> {
        if in_static_table {
            let (name, value) = static_line(self.reader.integer(6)?)?;
            return Ok(FieldLine { name, value, never_indexed: false });
        }
        self.relative(6).map(plain)
    }

    /// Reads a relative index, which counts back from the base, and returns its entry.
    fn relative(&mut self, prefix: u32) -> Result<&'a Entry, Fault> {
        let relative = self.reader.integer(prefix)?;
        let absolute = self.prefix.base.checked_sub(relative).and_then(|index| index.checked_sub(1));
        self.entry(absolute)
    }

    /// Reads a post-base index, which counts forward from the base, and returns its entry.
    fn post_base(&mut self, prefix: u32) -> Result<&'a Entry, Fault> {
        let index = self.reader.integer(prefix)?;
        self.entry(self.prefix.base.checked_add(index))
    }

    fn entry(&self, absolute: Option<u64>) -> Result<&'a Entry, Fault> {
        let announced = absolute.filter(|absolute| *absolute < self.prefix.required_insert_count);
        announced.and_then(|absolute| self.table.get(absolute)).ok_or(NO_ENTRY)
    }
}

const NO_ENTRY: Fault = Fault::Malformed("a reference to no entry of the dynamic table");
const TOO_LARGE: Fault = Fault::Malformed("an entry larger than the dynamic table");

fn plain(entry: &Entry) -> FieldLine<'_> {
    FieldLine { name: entry.name(), value: entry.value(), never_indexed: false }
}

fn static_line(index: u64) -> Result<(&'static [u8], &'static [u8]), Fault> {
    static_table::get(index).ok_or(Fault::Malformed("an index beyond the static table"))
}

fn inserted_name(table: &DynamicTable, index: NameIndex) -> Result<&[u8], Fault> {
    match index {
        NameIndex::Static(index) => Ok(static_line(index)?.0),
        NameIndex::Relative(relative) => {
            table.before(table.insert_count(), relative).map(|(_, entry)| entry.name()).ok_or(NO_ENTRY)
        }
    }
}

fn inserted_text<'a>(literal: Literal<'a>, max: usize, scratch: &'a mut Vec<u8>) -> Result<&'a [u8], Fault> {
    literal.text(max, scratch)?.ok_or(TOO_LARGE)
}

fn decompression_failed(fault: Fault) -> Error {
    let reason = match fault {
        Fault::Incomplete => "a field section that ends too early",
        Fault::Malformed(reason) => reason,
    };
    Error::new(Code::QPACK_DECOMPRESSION_FAILED, reason)
}

#[cfg(test)]
mod tests;
