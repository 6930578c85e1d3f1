use super::*;

/// The size of the chunks of a stream with much data.
const LARGE: usize = 64 * 1024;

/// A pool of which so many large pieces are in use.
fn in_use(pieces: usize) -> (Pool, Vec<Memory>) {
    let mut pool = Pool::default();
    let taken = (0..pieces).map(|_| pool.take(LARGE)).collect();
    (pool, taken)
}

#[test]
fn memory_is_used_again_the_newest_first() {
    let (mut pool, mut taken) = in_use(3);
    let places: Vec<_> = taken.iter().map(|memory| memory.data.as_ptr()).collect();
    pool.give(taken.remove(0));
    pool.give(taken.remove(0));
    assert_eq!(pool.take(LARGE).data.as_ptr(), places[1]);
    assert_eq!(pool.take(LARGE / 2).data.as_ptr(), places[0], "what is twice as large does");
    assert_eq!((pool.kept, pool.large), (0, 3));
}

#[test]
fn a_few_bytes_do_not_hold_much_memory() {
    let (mut pool, mut taken) = in_use(2);
    pool.give(taken.remove(0));
    assert!(pool.take(LARGE / 2 - 1).room < LARGE);
    assert!(pool.take_kept(MIN_CHUNK + SLACK).is_none());
    assert_eq!(pool.kept, LARGE);
}

#[test]
fn what_is_kept_is_bounded() {
    let (mut pool, mut taken) = in_use(1 + MAX_KEPT / LARGE + 1);
    let first = taken.pop().unwrap();
    taken.into_iter().for_each(|memory| pool.give(memory));
    assert_eq!((pool.kept, pool.free.len()), (MAX_KEPT, MAX_KEPT / LARGE));
    let small: Vec<_> = (0..2 * MAX_PIECES).map(|_| pool.take(MIN_CHUNK)).collect();
    small.into_iter().for_each(|memory| pool.give(memory));
    assert_eq!(pool.free.len(), MAX_PIECES);
    pool.on_quiet();
    assert_eq!(pool.free.len(), MAX_PIECES, "others go on");
    pool.give(first);
    pool.on_quiet();
    assert_eq!((pool.kept, pool.free.len(), pool.large), (0, 0, 0), "nothing is under way");
}

/// Whatever there is when they take it: what a stream begins with keeps nothing else.
#[test]
fn small_memory_that_is_held_for_ever_does_not_keep_the_rest() {
    let (mut pool, mut taken) = in_use(2);
    for room in [MIN_CHUNK, MIN_CHUNK + SLACK, 2 * MIN_CHUNK + SLACK, MAX_EXCESS * (MIN_CHUNK + SLACK)] {
        pool.restock(room);
    }
    let _control = [MIN_CHUNK, MIN_CHUNK + SLACK, MIN_CHUNK + SLACK, MIN_CHUNK].map(|room| pool.take(room));
    pool.restock(LARGE);
    pool.give(taken.remove(0));
    pool.give(taken.remove(0));
    pool.on_quiet();
    assert!(pool.free.is_empty() && pool.kept == 0);
}

#[test]
fn memory_that_others_hold_is_not_used() {
    let (mut pool, mut taken) = in_use(2);
    let mut memory = taken.remove(0);
    memory.data.resize(LARGE, 7);
    let held = memory.data.split_to(100).freeze();
    memory.data.clear();
    let place = held.as_ptr();
    pool.give(memory);
    assert_ne!(pool.take(LARGE).data.as_ptr(), place);
    drop(held);
    assert_eq!(pool.take(LARGE).data.as_ptr(), place, "now nobody does");
}

#[test]
fn what_is_stocked_is_there_once() {
    let mut pool = Pool::default();
    assert!(pool.take_kept(MIN_CHUNK).is_none(), "none is asked for");
    pool.restock(MIN_CHUNK);
    pool.restock(MIN_CHUNK);
    assert_eq!((pool.kept, pool.free.len()), (MIN_CHUNK, 1));
    let memory = pool.take_kept(MIN_CHUNK).unwrap();
    assert!(pool.take_kept(MIN_CHUNK).is_none());
    pool.give(memory);
    assert!(pool.take_kept(MIN_CHUNK).is_some());
}
