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
    pool.on_stream_ended();
    assert_eq!(pool.free.len(), MAX_PIECES, "others go on");
    pool.give(first);
    pool.on_stream_ended();
    assert_eq!((pool.kept, pool.free.len(), pool.large), (0, 0, 0), "nothing is under way");
}

#[test]
fn small_memory_that_is_held_for_ever_does_not_keep_the_rest() {
    let (mut pool, mut taken) = in_use(2);
    let _control = pool.take(MIN_CHUNK);
    pool.restock(LARGE);
    pool.give(taken.remove(0));
    pool.give(taken.remove(0));
    pool.on_stream_ended();
    assert!(pool.free.is_empty() && pool.spare.is_none());
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
fn the_spare_goes_to_what_fits_nothing_else_and_comes_back_unused() {
    let (mut pool, mut taken) = in_use(2);
    assert!(pool.take_kept(MIN_CHUNK).is_none(), "none is asked for");
    pool.restock(MIN_CHUNK);
    pool.give(taken.remove(0));
    assert_eq!(pool.take_kept(LARGE).unwrap().room, LARGE);
    let spare = pool.take_kept(LARGE).unwrap();
    assert_eq!(spare.room, MIN_CHUNK, "too small, but there");
    pool.give_back(spare);
    assert_eq!(pool.spare.as_ref().map(|spare| spare.room), Some(MIN_CHUNK));
    assert_eq!(pool.large, 2);
}
