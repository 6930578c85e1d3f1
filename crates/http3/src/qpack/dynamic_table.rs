//! Dynamic table (RFC 9204 §3.2) of an encoder or a decoder.

use std::collections::VecDeque;

use bytes::Bytes;

/// Size of an entry beyond its name and its value, in bytes (RFC 9204 §3.2.1).
pub(super) const ENTRY_OVERHEAD: u64 = 32;

/// Field line in the table. Duplicates share its memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    /// Name, directly followed by the value.
    line: Bytes,
    name_len: usize,
}

impl Entry {
    pub(super) fn new(name: &[u8], value: &[u8]) -> Self {
        let mut line = Vec::with_capacity(name.len() + value.len());
        line.extend_from_slice(name);
        line.extend_from_slice(value);
        Self { line: line.into(), name_len: name.len() }
    }

    #[inline]
    pub(super) fn name(&self) -> &[u8] {
        &self.line[..self.name_len]
    }

    #[inline]
    pub(super) fn value(&self) -> &[u8] {
        &self.line[self.name_len..]
    }

    /// Returns the size of the entry, in bytes.
    pub(super) fn size(&self) -> u64 {
        entry_size(self.name(), self.value())
    }
}

/// Returns the size of a field line in bytes, both in the table and in a field section (RFC 9204 §3.2.1, RFC
/// 9114 §4.2.2).
#[inline]
pub(super) fn entry_size(name: &[u8], value: &[u8]) -> u64 {
    name.len() as u64 + value.len() as u64 + ENTRY_OVERHEAD
}

/// Queue of field lines, oldest first. The capacity bounds its memory, because each entry counts at least 32
/// bytes.
#[derive(Debug, Default)]
pub(super) struct DynamicTable {
    entries: VecDeque<Entry>,
    /// Number of evicted entries, which is the absolute index of the oldest remaining one.
    dropped: u64,
    size: u64,
    capacity: u64,
}

impl DynamicTable {
    /// Returns the number of entries ever inserted, which is the absolute index of the next one.
    #[inline]
    pub(super) fn insert_count(&self) -> u64 {
        self.dropped + self.entries.len() as u64
    }

    /// Returns the absolute index of the oldest entry.
    pub(super) fn oldest(&self) -> u64 {
        self.dropped
    }

    pub(super) fn capacity(&self) -> u64 {
        self.capacity
    }

    /// Returns the unused capacity, in bytes.
    pub(super) fn free(&self) -> u64 {
        self.capacity - self.size
    }

    /// Returns the entry at an absolute index; `None` if it was evicted or is not inserted yet.
    #[inline]
    pub(super) fn get(&self, absolute: u64) -> Option<&Entry> {
        self.entries.get(usize::try_from(absolute.checked_sub(self.dropped)?).ok()?)
    }

    /// Returns the entry at the relative index `relative` before `base`, with its absolute index (RFC 9204
    /// §3.2.5).
    #[inline]
    pub(super) fn before(&self, base: u64, relative: u64) -> Option<(u64, &Entry)> {
        let absolute = base.checked_sub(relative)?.checked_sub(1)?;
        Some((absolute, self.get(absolute)?))
    }

    /// Changes the capacity and evicts entries that no longer fit.
    pub(super) fn set_capacity(&mut self, capacity: u64) {
        self.capacity = capacity;
        self.shrink(capacity);
    }

    /// Inserts an entry and evicts the oldest ones to make room. Returns `false` and changes nothing if the
    /// entry is larger than the capacity.
    #[must_use]
    pub(super) fn insert(&mut self, entry: Entry) -> bool {
        let size = entry.size();
        if size > self.capacity {
            return false;
        }
        self.shrink(self.capacity - size);
        self.size += size;
        self.entries.push_back(entry);
        true
    }

    fn shrink(&mut self, size: u64) {
        while self.size > size {
            let Some(entry) = self.entries.pop_front() else { break };
            self.size -= entry.size();
            self.dropped += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_entries_make_room() {
        let mut table = DynamicTable::default();
        assert!(!table.insert(Entry::new(b"", b"")), "nothing fits into no capacity");
        table.set_capacity(100);
        assert!(table.insert(Entry::new(b"a", b"1")));
        assert!(table.insert(Entry::new(b"b", b"2")));
        assert_eq!((table.insert_count(), table.oldest(), table.free()), (2, 0, 32));
        assert!(table.insert(Entry::new(b"c", b"3")));
        assert_eq!((table.insert_count(), table.oldest(), table.free()), (3, 1, 32));
        assert_eq!(table.get(0), None);
        assert_eq!(table.get(1).map(Entry::name), Some(&b"b"[..]));
        assert_eq!(table.before(3, 0).map(|(index, entry)| (index, entry.value())), Some((2, &b"3"[..])));
        assert_eq!((table.before(3, 2), table.before(3, 3), table.get(3)), (None, None, None));
        assert!(!table.insert(Entry::new(b"long", &[0; 65])));
        assert_eq!(table.insert_count(), 3, "an entry that is too large evicts nothing");
        assert!(table.insert(Entry::new(b"long", &[0; 64])));
        assert_eq!((table.insert_count(), table.oldest(), table.free()), (4, 3, 0));
        table.set_capacity(99);
        assert_eq!((table.insert_count(), table.oldest(), table.free()), (4, 4, 99));
    }
}
