//! Tests of lookups with colliding hashes, and of eviction.

use super::*;

fn hash(name: &[u8], value: &[u8]) -> LineHash {
    LineHash::new(name, value)
}

fn insert(table: &mut EncoderTable, name: &[u8], value: &[u8]) -> u64 {
    table.insert(hash(name, value), name, value, true)
}

#[test]
fn names_and_values_do_not_run_together() {
    let (a, b) = (hash(b"ab", b"c"), hash(b"a", b"bc"));
    assert_ne!(a.line, b.line);
    assert_ne!(hash(b"ab", b"").line, hash(b"", b"ab").line);
    assert_eq!(a.name, hash(b"ab", b"d").name);
}

#[test]
fn the_newest_of_equal_lines_is_found() {
    let mut table = EncoderTable::default();
    assert_eq!(table.find_line(hash(b"a", b"1"), b"a", b"1"), None, "a table without capacity has no slots");
    table.set_capacity(1000);
    for expected in 0..3 {
        assert_eq!(insert(&mut table, b"a", b"1"), expected);
        assert_eq!(table.find_line(hash(b"a", b"1"), b"a", b"1"), Some(expected));
        assert_eq!(table.find_name(hash(b"a", b"2"), b"a"), Some(expected));
    }
    assert_eq!(table.find_line(hash(b"a", b"2"), b"a", b"2"), None);
}

/// Checks lines that share one hash: a lookup finds the latest few, examines no more, and confuses none of
/// them.
#[test]
fn collisions_cost_compression_only() {
    let mut table = EncoderTable::default();
    table.set_capacity(16 * 1024);
    let one = LineHash { name: 7, line: 7 };
    for index in 0..100u64 {
        assert_eq!(table.insert(one, b"a", &index.to_be_bytes(), true), index);
    }
    assert!(table.lines.candidates(7).count() <= MAX_PROBES);
    let found = (0..100u64).filter(|index| table.find_line(one, b"a", &index.to_be_bytes()) == Some(*index));
    assert_eq!(found.collect::<Vec<_>>(), [96, 97, 98, 99]);
}

#[test]
fn evicted_entries_are_not_found() {
    let mut table = EncoderTable::default();
    table.set_capacity(100);
    for value in [b"1", b"2", b"3"] {
        insert(&mut table, b"a", value);
    }
    assert_eq!(table.find_line(hash(b"a", b"1"), b"a", b"1"), None);
    assert_eq!(table.find_line(hash(b"a", b"2"), b"a", b"2"), Some(1));
}

#[test]
fn pins_and_the_unacknowledged_keep_their_place() {
    let mut table = EncoderTable::default();
    table.set_capacity(100);
    insert(&mut table, b"a", b"1");
    insert(&mut table, b"a", b"2");
    assert!(table.has_room(b"", b"", 0), "32 bytes are free");
    assert!(!table.has_room(b"a", b"3", 0));
    assert!(table.has_room(b"a", b"3", 1));
    table.pin(0);
    assert!(!table.has_room(b"a", b"3", 2));
    table.unpin(0);
    table.pin(1);
    assert!(table.has_room(b"a", b"3", 2));
    assert!(!table.has_room(b"a", &[0; 60], 2), "the first entry is not enough");
    table.unpin(1);
    assert!(table.has_room(b"a", &[0; 60], 2));
    assert!(!table.has_room(b"a", &[0; 68], 2), "larger than the capacity");
}

#[test]
fn the_oldest_entries_drain_when_space_runs_out() {
    let mut table = EncoderTable::default();
    table.set_capacity(34 * 8);
    for index in 0..7u8 {
        insert(&mut table, b"a", &[index]);
    }
    assert!(!table.is_draining(0), "an eighth is free");
    insert(&mut table, b"a", &[7]);
    assert!(table.is_draining(0) && !table.is_draining(1));
    insert(&mut table, b"a", &[8]);
    assert!(table.is_draining(1) && !table.is_draining(2));
}
