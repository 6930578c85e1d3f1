//! The encoder's view of the dynamic table: finding lines in it, and what may be evicted.

use std::collections::VecDeque;
use std::hash::Hasher;

use rustc_hash::FxHasher;

use super::dynamic_table::{DynamicTable, ENTRY_OVERHEAD, Entry, entry_size};

/// Slots that a lookup looks at. What they do not hold is not found: a collision costs compression, never
/// time.
const MAX_PROBES: usize = 4;

/// The oldest entries in this part of the capacity are *draining* (RFC 9204 §2.1.1.1): no new reference keeps
/// them.
const DRAINING_PART: u64 = 8;

/// Hashes of a field line.
#[derive(Clone, Copy, Debug)]
pub(super) struct LineHash {
    pub(super) name: u64,
    pub(super) line: u64,
}

impl LineHash {
    #[inline]
    pub(super) fn new(name: &[u8], value: &[u8]) -> Self {
        let mut hasher = FxHasher::default();
        hasher.write(name);
        let name = hasher.finish();
        hasher.write_u64(name);
        hasher.write(value);
        Self { name, line: hasher.finish() }
    }
}

/// The dynamic table, an index over it and the references that pin its entries.
#[derive(Debug, Default)]
pub(super) struct EncoderTable {
    table: DynamicTable,
    /// For each entry, how many outstanding sections have it as the oldest that they refer to. Eviction goes
    /// from the oldest entry on, so the oldest reference of a section protects the others.
    pins: VecDeque<u32>,
    lines: Index,
    /// Entries by name, those whose name the static table has left out.
    names: Index,
    /// Entries before this absolute index are draining.
    draining: u64,
}

impl EncoderTable {
    pub(super) fn set_capacity(&mut self, capacity: u64) {
        self.table.set_capacity(capacity);
        let entries = usize::try_from(capacity / ENTRY_OVERHEAD).unwrap_or(usize::MAX);
        self.lines = Index::new(entries);
        self.names = Index::new(entries);
    }

    pub(super) fn capacity(&self) -> u64 {
        self.table.capacity()
    }

    #[inline]
    pub(super) fn insert_count(&self) -> u64 {
        self.table.insert_count()
    }

    /// Returns whether the entry was not evicted.
    pub(super) fn contains(&self, absolute: u64) -> bool {
        self.table.get(absolute).is_some()
    }

    /// Returns whether no new reference should be made to this entry.
    pub(super) fn is_draining(&self, absolute: u64) -> bool {
        absolute < self.draining
    }

    /// Returns the newest entry with this name and value that the index knows.
    #[inline]
    pub(super) fn find_line(&self, hash: LineHash, name: &[u8], value: &[u8]) -> Option<u64> {
        let equal = |entry: &Entry| entry.value() == value && entry.name() == name;
        self.lines.candidates(hash.line).filter(|&at| self.table.get(at).is_some_and(equal)).max()
    }

    /// Returns the newest entry with this name that the index knows.
    pub(super) fn find_name(&self, hash: LineHash, name: &[u8]) -> Option<u64> {
        let equal = |entry: &Entry| entry.name() == name;
        self.names.candidates(hash.name).filter(|&at| self.table.get(at).is_some_and(equal)).max()
    }

    /// Returns whether an entry fits if only entries before `keep` to which no outstanding section refers are
    /// evicted.
    pub(super) fn has_room(&self, name: &[u8], value: &[u8], keep: u64) -> bool {
        let size = entry_size(name, value);
        let mut free = self.table.free();
        for (oldest, pins) in (self.table.oldest()..keep).zip(&self.pins) {
            if free >= size || *pins > 0 {
                break;
            }
            free += self.table.get(oldest).map_or(0, Entry::size);
        }
        free >= size
    }

    /// Inserts a line that has room and gives its absolute index. `index_name`: its name is to be found, too.
    pub(super) fn insert(&mut self, hash: LineHash, name: &[u8], value: &[u8], index_name: bool) -> u64 {
        self.insert_entry(hash, Entry::new(name, value), index_name)
    }

    /// Inserts an entry again, as the newest; it has room.
    pub(super) fn duplicate(&mut self, hash: LineHash, absolute: u64, index_name: bool) -> Option<u64> {
        let entry = self.table.get(absolute)?.clone();
        Some(self.insert_entry(hash, entry, index_name))
    }

    /// Records that an outstanding section refers to this entry and to none before it.
    pub(super) fn pin(&mut self, absolute: u64) {
        if let Some(pins) = self.pins_of(absolute) {
            *pins += 1;
        }
    }

    /// Records that a section that pinned this entry is outstanding no longer.
    pub(super) fn unpin(&mut self, absolute: u64) {
        if let Some(pins) = self.pins_of(absolute) {
            *pins -= 1;
        }
    }

    fn pins_of(&mut self, absolute: u64) -> Option<&mut u32> {
        self.pins.get_mut(usize::try_from(absolute.checked_sub(self.table.oldest())?).ok()?)
    }

    fn insert_entry(&mut self, hash: LineHash, entry: Entry, index_name: bool) -> u64 {
        let absolute = self.table.insert_count();
        let oldest = self.table.oldest();
        let inserted = self.table.insert(entry);
        debug_assert!(inserted, "the caller asked whether there is room");
        self.pins.drain(..(self.table.oldest() - oldest) as usize);
        self.pins.push_back(0);
        self.lines.insert(hash.line, absolute);
        if index_name {
            self.names.insert(hash.name, absolute);
        }
        self.advance_draining();
        absolute
    }

    /// Lets entries drain until they and the free space are the part of the capacity that is to come free.
    fn advance_draining(&mut self) {
        let mut reclaimed = self.table.free();
        let mut index = self.table.oldest();
        while reclaimed < self.table.capacity() / DRAINING_PART && index + 1 < self.table.insert_count() {
            reclaimed += self.table.get(index).map_or(0, Entry::size);
            index += 1;
        }
        self.draining = self.draining.max(index);
    }
}

/// Absolute indices by hash, in a table of fixed size. Indices of entries that are gone stay until they are
/// overwritten: whoever looks one up compares with the entry.
#[derive(Debug, Default)]
struct Index {
    /// One more than the absolute index; 0 is empty. The length is a power of two, or 0.
    slots: Box<[u64]>,
}

impl Index {
    fn new(entries: usize) -> Self {
        Self { slots: vec![0; entries.next_power_of_two().max(MAX_PROBES)].into() }
    }

    #[inline]
    fn candidates(&self, hash: u64) -> impl Iterator<Item = u64> {
        let mask = self.slots.len().wrapping_sub(1);
        let slots = (0..MAX_PROBES)
            .filter_map(move |probe| self.slots.get((hash as usize).wrapping_add(probe) & mask));
        slots.filter_map(|slot| slot.checked_sub(1))
    }

    /// Overwrites an empty slot, or the one with the oldest entry.
    fn insert(&mut self, hash: u64, absolute: u64) {
        let mask = self.slots.len().wrapping_sub(1);
        let probes = (0..MAX_PROBES).map(|probe| (hash as usize).wrapping_add(probe) & mask);
        if let Some(slot) = probes.min_by_key(|&slot| self.slots.get(slot).copied()) {
            self.slots[slot] = absolute + 1;
        }
    }
}

#[cfg(test)]
mod tests;
