//! QPACK encoder (RFC 9204 §2.1). It encodes a section in one pass over the field lines.
//!
//! A line enters the dynamic table when it recurs within a short history, or when its name recurs and is in
//! neither table. Sensitive and large lines are never inserted. A section refers to an entry if the decoder
//! is known to have it, or if the stream may block. All other lines are literals.

use super::Field;
use super::encoder_table::{EncoderTable, LineHash};
use super::instruction::{self, DecoderInstruction, NameIndex, Pending};
use super::integer;
use super::outstanding::{Outstanding, Section};
use super::static_table::{self, Match};
use super::string;
use crate::{Code, Error};

/// Maximum capacity of the dynamic table that the encoder uses, in bytes, even if the decoder permits more.
pub const MAX_ENCODER_TABLE: u64 = 16 * 1024;

/// Divisor of the table's capacity that gives the maximum size of an inserted line.
const MAX_LINE_PART: u64 = 4;

/// Minimum length of an indexed cookie, in bytes. Shorter ones could be guessed (RFC 9204 §7.1.3).
const MIN_INDEXED_COOKIE: usize = 20;

/// Encoder of field sections.
#[derive(Debug, Default)]
pub struct Encoder {
    table: EncoderTable,
    outstanding: Outstanding,
    history: History,
    /// Twice the decoder's MaxEntries: the modulus of encoded required insert counts (RFC 9204 §4.5.1.1).
    full_range: u64,
    known_received_count: u64,
    instructions: Vec<u8>,
    pending: Pending,
    /// Encoded lines of the current section. They are buffered because the prefix, which precedes them, is
    /// known only after the last line.
    lines: Vec<u8>,
}

impl Encoder {
    /// Creates an encoder. Until the peer's settings are known, it uses only the static table and literals.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the peer's SETTINGS_QPACK_MAX_TABLE_CAPACITY (in bytes) and SETTINGS_QPACK_BLOCKED_STREAMS. A
    /// table in use keeps its capacity, because a peer must repeat the value on which 0-RTT data relied (RFC
    /// 9204 §3.2.3).
    pub fn set_limits(&mut self, max_table_capacity: u64, blocked_streams: u64) {
        self.outstanding.set_max_blocking(blocked_streams);
        if self.table.capacity() > 0 || max_table_capacity == 0 {
            return;
        }
        self.full_range = 2 * (max_table_capacity / super::dynamic_table::ENTRY_OVERHEAD);
        if self.full_range == 0 {
            return;
        }
        let capacity = max_table_capacity.min(MAX_ENCODER_TABLE);
        self.table.set_capacity(capacity);
        self.history = History::new(capacity);
        instruction::write_capacity(&mut self.instructions, capacity);
    }

    /// Appends the field section of `fields`, including its prefix, to `out`. `room` is the number of bytes
    /// that the encoder stream accepts beyond the queued instructions. No more instructions than that are
    /// queued (RFC 9204 §2.1.3).
    pub fn encode<'a>(
        &mut self,
        stream: u64,
        fields: impl Iterator<Item = Field<'a>>,
        room: usize,
        out: &mut Vec<u8>,
    ) {
        let mut draft = Draft {
            base: self.table.insert_count(),
            dynamic: self.table.capacity() > 0 && self.outstanding.has_room(),
            may_block: self.outstanding.may_block(stream),
            instructions_end: self.instructions.len().saturating_add(room),
            required_insert_count: 0,
            oldest: u64::MAX,
        };
        self.lines.clear();
        for field in fields {
            self.field(&mut draft, field);
        }
        self.write_prefix(&draft, out);
        out.extend_from_slice(&self.lines);
        if draft.required_insert_count > 0 {
            let Draft { required_insert_count, oldest, .. } = draft;
            self.table.pin(oldest);
            self.outstanding
                .push(Section { stream, required_insert_count, oldest }, self.known_received_count);
        }
    }

    /// Returns the queue of bytes for the encoder stream. The caller removes them after each call.
    pub fn instructions(&mut self) -> &mut Vec<u8> {
        &mut self.instructions
    }

    /// Processes bytes of the peer's decoder stream, in pieces of any size. Returns
    /// QPACK_DECODER_STREAM_ERROR if they are invalid.
    pub fn on_decoder_stream(&mut self, bytes: &[u8]) -> Result<(), Error> {
        let Self { table, outstanding, known_received_count, pending, .. } = self;
        let handled = pending.feed(bytes, |reader| {
            let mut known = *known_received_count;
            match DecoderInstruction::read(reader)? {
                DecoderInstruction::SectionAcknowledgment { stream } => {
                    let section = outstanding.acknowledge(stream);
                    let section = section.ok_or(malformed("an acknowledgment of no section"))?;
                    table.unpin(section.oldest);
                    known = known.max(section.required_insert_count);
                }
                DecoderInstruction::StreamCancellation { stream } => {
                    while let Some(section) = outstanding.cancel(stream) {
                        table.unpin(section.oldest);
                    }
                }
                DecoderInstruction::InsertCountIncrement(0) => return Err(malformed("an increment of zero")),
                DecoderInstruction::InsertCountIncrement(increment) => {
                    known += increment;
                    if known > table.insert_count() {
                        return Err(malformed("an increment beyond what was inserted"));
                    }
                }
            }
            if known > *known_received_count {
                *known_received_count = known;
                outstanding.on_known_received(known);
            }
            Ok(())
        });
        handled.map_err(|reason| Error::new(Code::QPACK_DECODER_STREAM_ERROR, reason))
    }

    /// Writes the encoded field section prefix (RFC 9204 §4.5.1).
    fn write_prefix(&self, draft: &Draft, out: &mut Vec<u8>) {
        let required = draft.required_insert_count;
        if required == 0 {
            out.extend_from_slice(&[0, 0]);
            return;
        }
        integer::write(out, 0, 8, required % self.full_range + 1);
        match draft.base.checked_sub(required) {
            Some(delta) => integer::write(out, 0, 7, delta),
            None => integer::write(out, 0x80, 7, required - draft.base - 1),
        }
    }

    fn field(&mut self, draft: &mut Draft, field: Field<'_>) {
        let Field { name, value, .. } = field;
        let sensitive = field.sensitive || is_guessable(name, value);
        let known = static_table::find(name, value);
        if let (Match::Line(index), false) = (known, sensitive) {
            return integer::write(&mut self.lines, 0xc0, 6, index);
        }
        let mut reference = known.name().map(NameReference::Static);
        if draft.dynamic {
            let hash = LineHash::new(name, value);
            let line = FieldLine { name, value, hash, known };
            if !sensitive && let Some(absolute) = self.find_or_insert(draft, &line) {
                return draft.write_indexed(&mut self.lines, absolute);
            }
            reference = reference.or_else(|| self.usable_name(draft, &line).map(NameReference::Dynamic));
        }
        draft.write_literal(&mut self.lines, reference, name, value, sensitive);
    }

    /// Returns the absolute index of an entry with this line to which the section may refer. Inserts or
    /// duplicates the entry if that is worthwhile.
    fn find_or_insert(&mut self, draft: &mut Draft, line: &FieldLine<'_>) -> Option<u64> {
        let found = self.table.find_line(line.hash, line.name, line.value);
        let newest = match found {
            Some(absolute) if !self.table.is_draining(absolute) => Some(absolute),
            Some(absolute) => self.duplicate(draft, line, absolute),
            None if self.is_worth_inserting(line) => self.insert(draft, line),
            None => None,
        };
        // If the stream must not block, a duplicate that the decoder may not have cannot be used yet. The
        // original can be used, unless it was evicted.
        let original = found.filter(|&absolute| newest.is_some() && self.table.contains(absolute));
        let usable = |absolute: &u64| *absolute < self.known_received_count || draft.may_block;
        newest.filter(usable).or(original.filter(usable))
    }

    /// Returns whether to insert a line. A line is inserted if it is not too large and has recurred, or if
    /// its name has recurred and is in neither table. Such a line is likely to recur again.
    fn is_worth_inserting(&mut self, line: &FieldLine<'_>) -> bool {
        let size = super::dynamic_table::entry_size(line.name, line.value);
        if size > self.table.capacity() / MAX_LINE_PART {
            return false;
        }
        let new_name = line.known == Match::None && self.table.find_name(line.hash, line.name).is_none();
        self.history.has_seen(line.hash.line) || new_name && self.history.has_seen(line.hash.name)
    }

    /// Returns the absolute index of an entry whose name the section may use.
    fn usable_name(&self, draft: &Draft, line: &FieldLine<'_>) -> Option<u64> {
        let absolute = self.table.find_name(line.hash, line.name)?;
        let usable = absolute < self.known_received_count || draft.may_block;
        (usable && !self.table.is_draining(absolute)).then_some(absolute)
    }

    fn insert(&mut self, draft: &Draft, line: &FieldLine<'_>) -> Option<u64> {
        if !self.table.has_room(line.name, line.value, draft.evictable_before(self.known_received_count)) {
            return None;
        }
        let by_name =
            if line.known == Match::None { self.table.find_name(line.hash, line.name) } else { None };
        let relative = by_name.map(|absolute| NameIndex::Relative(self.table.insert_count() - 1 - absolute));
        let written =
            self.instruct(draft, |out| match line.known.name().map(NameIndex::Static).or(relative) {
                Some(index) => instruction::write_insert(out, index, line.value),
                None => instruction::write_insert_literal(out, line.name, line.value),
            });
        let index_name = line.known == Match::None;
        written.then(|| self.table.insert(line.hash, line.name, line.value, index_name))
    }

    /// Duplicates a draining entry (RFC 9204 §4.3.4).
    fn duplicate(&mut self, draft: &Draft, line: &FieldLine<'_>, absolute: u64) -> Option<u64> {
        if !self.table.has_room(line.name, line.value, draft.evictable_before(self.known_received_count)) {
            return None;
        }
        let relative = self.table.insert_count() - 1 - absolute;
        if !self.instruct(draft, |out| instruction::write_duplicate(out, relative)) {
            return None;
        }
        self.table.duplicate(line.hash, absolute, line.known == Match::None)
    }

    /// Queues an instruction if the encoder stream has room for it. Returns true if it was queued.
    fn instruct(&mut self, draft: &Draft, write: impl FnOnce(&mut Vec<u8>)) -> bool {
        let before = self.instructions.len();
        write(&mut self.instructions);
        let fits = self.instructions.len() <= draft.instructions_end;
        if !fits {
            self.instructions.truncate(before);
        }
        fits
    }
}

/// Field line that may be encoded with the dynamic table.
struct FieldLine<'a> {
    name: &'a [u8],
    value: &'a [u8],
    hash: LineHash,
    known: Match,
}

impl Match {
    /// Returns the index of a static entry with the name.
    fn name(self) -> Option<u64> {
        match self {
            Self::Line(index) | Self::Name(index) => Some(index),
            Self::None => None,
        }
    }
}

/// Reference to the name of a literal: an index into the static table, or an entry's absolute index.
#[derive(Clone, Copy)]
enum NameReference {
    Static(u64),
    Dynamic(u64),
}

/// State of the section that is being encoded.
struct Draft {
    /// Base of the section: the insert count when its encoding began. Entries that are inserted during the
    /// encoding have post-base indices.
    base: u64,
    /// `true` if the section may refer to the dynamic table.
    dynamic: bool,
    /// `true` if the section may refer to entries that the decoder may not have.
    may_block: bool,
    /// Maximum length of the queued instructions, in bytes.
    instructions_end: usize,
    required_insert_count: u64,
    oldest: u64,
}

impl Draft {
    /// Returns the absolute index before which entries may be evicted: the lower of the section's oldest
    /// reference and the first entry that the decoder may not have.
    fn evictable_before(&self, known_received_count: u64) -> u64 {
        self.oldest.min(known_received_count)
    }

    fn refer(&mut self, absolute: u64) {
        self.required_insert_count = self.required_insert_count.max(absolute + 1);
        self.oldest = self.oldest.min(absolute);
    }

    /// Writes an indexed field line (RFC 9204 §4.5.2 and §4.5.3).
    fn write_indexed(&mut self, out: &mut Vec<u8>, absolute: u64) {
        self.refer(absolute);
        match absolute.checked_sub(self.base) {
            Some(post_base) => integer::write(out, 0x10, 4, post_base),
            None => integer::write(out, 0x80, 6, self.base - 1 - absolute),
        }
    }

    /// Writes a literal field line (RFC 9204 §4.5.4 to §4.5.6).
    fn write_literal(
        &mut self,
        out: &mut Vec<u8>,
        reference: Option<NameReference>,
        name: &[u8],
        value: &[u8],
        never_indexed: bool,
    ) {
        let never = |bit: u8| if never_indexed { bit } else { 0 };
        match reference {
            Some(NameReference::Static(index)) => integer::write(out, 0x50 | never(0x20), 4, index),
            Some(NameReference::Dynamic(absolute)) => {
                self.refer(absolute);
                match absolute.checked_sub(self.base) {
                    Some(post_base) => integer::write(out, never(0x08), 3, post_base),
                    None => integer::write(out, 0x40 | never(0x20), 4, self.base - 1 - absolute),
                }
            }
            None => string::write(out, 0x20 | never(0x10), 4, name),
        }
        string::write(out, 0, 8, value);
    }
}

/// Recent literals, as hashes of lines and of names. Each set of four forgets the hash that was seen least
/// recently. If a literal is forgotten too early, the only effect is that it is inserted into the table
/// later.
#[derive(Debug, Default)]
struct History {
    sets: Box<[[u32; 4]]>,
}

impl History {
    /// Maximum number of sets, which is reached with a table of 4 KiB.
    const MAX_SETS: u64 = 32;

    /// Creates a history of about as many hashes as the table can have entries. Literals that recur after a
    /// longer time are not recognized, because they would displace entries that recur sooner.
    fn new(capacity: u64) -> Self {
        let sets = (capacity / super::dynamic_table::ENTRY_OVERHEAD / 4).clamp(1, Self::MAX_SETS);
        Self { sets: vec![[0; 4]; sets as usize].into() }
    }

    /// Returns whether the hash was in the history, and adds it.
    fn has_seen(&mut self, hash: u64) -> bool {
        let tag = (hash >> 32) as u32;
        let sets = self.sets.len().max(1);
        let Some(set) = self.sets.get_mut(hash as usize % sets) else { return false };
        let at = set.iter().position(|seen| *seen == tag);
        set[..=at.unwrap_or(3)].rotate_right(1);
        set[0] = tag;
        at.is_some()
    }
}

/// Returns whether a field is a credential that an attacker could guess by observing the length of sections.
fn is_guessable(name: &[u8], value: &[u8]) -> bool {
    match name {
        b"authorization" | b"proxy-authorization" => true,
        b"cookie" => value.len() < MIN_INDEXED_COOKIE,
        _ => false,
    }
}

fn malformed(reason: &'static str) -> integer::Fault {
    integer::Fault::Malformed(reason)
}

#[cfg(test)]
mod tests;
