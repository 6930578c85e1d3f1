//! Dynamic table of an encoder, with lookup of lines and protection from eviction.

use std::collections::VecDeque;
use std::hash::Hasher;

use rustc_hash::FxHasher;

use super::dynamic_table::{DynamicTable, ENTRY_OVERHEAD, Entry, entry_size};

/// Maximum number of slots that a lookup examines. Entries in other slots are not found, so collisions of
/// hashes cost compression instead of time.
const MAX_PROBES: usize = 4;

/// Divisor of the capacity that gives the size of the draining part. The draining part contains the oldest
/// entries, which get no new references, so that they can be evicted (RFC 9204 §2.1.1.1).
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

/// Dynamic table with an index over it and with the references that pin entries.
#[derive(Debug, Default)]
pub(super) struct EncoderTable {
    table: DynamicTable,
    /// For each entry, the number of outstanding sections whose oldest reference is that entry. Entries are
    /// evicted oldest first, so a section's oldest reference also protects its other references.
    pins: VecDeque<u32>,
    lines: Index,
    /// Index by name. Names that are in the static table are left out.
    names: Index,
    /// Absolute index of the first entry that is not draining.
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

    /// Returns whether the entry is still in the table.
    pub(super) fn contains(&self, absolute: u64) -> bool {
        self.table.get(absolute).is_some()
    }

    /// Returns whether the entry is draining and should get no new references.
    pub(super) fn is_draining(&self, absolute: u64) -> bool {
        absolute < self.draining
    }

    /// Returns the newest indexed entry with this name and value.
    #[inline]
    pub(super) fn find_line(&self, hash: LineHash, name: &[u8], value: &[u8]) -> Option<u64> {
        let equal = |entry: &Entry| entry.value() == value && entry.name() == name;
        self.lines.candidates(hash.line).filter(|&at| self.table.get(at).is_some_and(equal)).max()
    }

    /// Returns the newest indexed entry with this name.
    pub(super) fn find_name(&self, hash: LineHash, name: &[u8]) -> Option<u64> {
        let equal = |entry: &Entry| entry.name() == name;
        self.names.candidates(hash.name).filter(|&at| self.table.get(at).is_some_and(equal)).max()
    }

    /// Returns whether an entry fits. Only entries before `keep` to which no outstanding section refers may
    /// be evicted for it.
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

    /// Inserts a line and returns its absolute index. The caller has checked that there is room. `index_name`
    /// is `true` if the entry is added to the index of names, too.
    pub(super) fn insert(&mut self, hash: LineHash, name: &[u8], value: &[u8], index_name: bool) -> u64 {
        self.insert_entry(hash, Entry::new(name, value), index_name)
    }

    /// Duplicates an entry as the newest one (RFC 9204 §4.3.4). The caller has checked that there is room.
    pub(super) fn duplicate(&mut self, hash: LineHash, absolute: u64, index_name: bool) -> Option<u64> {
        let entry = self.table.get(absolute)?.clone();
        Some(self.insert_entry(hash, entry, index_name))
    }

    /// Records an outstanding section whose oldest reference is this entry.
    pub(super) fn pin(&mut self, absolute: u64) {
        if let Some(pins) = self.pins_of(absolute) {
            *pins += 1;
        }
    }

    /// Records that a section that pinned this entry is no longer outstanding.
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

    /// Marks the oldest entries as draining until these entries and the free space reach the draining part of
    /// the capacity.
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

/// Hash table of absolute indices, of fixed size. Indices of evicted entries stay until they are overwritten,
/// so each lookup must compare its result with the entry.
#[derive(Debug, Default)]
struct Index {
    /// For each slot, the absolute index of its entry plus one, or 0 if the slot is empty. The number of
    /// slots is a power of two, or 0.
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

    /// Stores an index in an empty slot, or else in the slot with the oldest entry.
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
