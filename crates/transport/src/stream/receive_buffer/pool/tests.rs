use super::*;

/// Size of the chunks of a stream with much data.
const LARGE: usize = 64 * 1024;

/// Returns a pool with `pieces` large memory blocks in use, by a stream that receives much.
fn in_use(pieces: usize) -> (Pool, Vec<Memory>) {
    let mut pool = Pool { large: 1, ..Pool::default() };
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
    assert_eq!(pool.kept, 0);
}

#[test]
fn a_few_bytes_do_not_hold_much_memory() {
    let (mut pool, mut taken) = in_use(2);
    pool.give(taken.remove(0));
    assert!(pool.take(LARGE / 2 - 1).room < LARGE);
    assert!(pool.take_kept(MIN_CHUNK + SLACK, MIN_CHUNK + SLACK).is_none());
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
    pool.large = 0;
    pool.on_quiet();
    assert_eq!((pool.kept, pool.free.len()), (0, 0), "nothing is under way");
}

/// Checks that memory that a small stream holds forever does not keep other memory from being freed.
#[test]
fn small_memory_that_is_held_for_ever_does_not_keep_the_rest() {
    for (room, is_much) in [
        (MIN_CHUNK, false),
        (MIN_CHUNK + SLACK, false),
        (2 * MIN_CHUNK + SLACK, false),
        (MAX_EXCESS * (MIN_CHUNK + SLACK), false),
        (MAX_EXCESS * (MIN_CHUNK + SLACK) + 1, true),
    ] {
        assert_eq!(is_large(room), is_much, "{room}");
    }
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
    assert!(pool.take_kept(MIN_CHUNK, MIN_CHUNK).is_none(), "none is asked for");
    pool.restock(MIN_CHUNK);
    pool.restock(MIN_CHUNK);
    assert_eq!((pool.kept, pool.free.len()), (MIN_CHUNK, 1));
    let memory = pool.take_kept(MIN_CHUNK, MIN_CHUNK).unwrap();
    assert!(pool.take_kept(MIN_CHUNK, MIN_CHUNK).is_none());
    pool.give(memory);
    assert!(pool.take_kept(MIN_CHUNK, MIN_CHUNK).is_some());
}

/// Checks that memory counts against the limit as long as the application holds bytes of it, and that further
/// data is copied beyond the limit.
#[test]
fn memory_that_the_application_holds_is_bounded() {
    for (room, most) in [(LARGE, MAX_LENT / LARGE), (100, MAX_LENT_PIECES)] {
        let mut pool = Pool::default();
        let mut held = Vec::new();
        while !pool.must_copy(10) {
            let mut memory = pool.take(room);
            memory.data.resize(10, 7);
            held.push(memory.data.split_to(10).freeze());
            pool.give(memory);
            assert!(held.len() <= most);
        }
        assert_eq!((held.len(), pool.lent_room, pool.kept), (most, most * room, 0));
        held.clear();
        let mut copied = 10;
        while pool.must_copy(10) {
            copied += 10;
            assert!(copied <= LOOK_AGAIN + 10, "nobody looks again");
        }
        assert_eq!((pool.lent.len(), pool.lent_room), (0, 0));
    }
}

/// Checks that chunks become smaller as the budget shrinks, so that it is never used up.
#[test]
fn what_is_spare_is_bounded() {
    let mut pool = Pool::default();
    for memory in (0..20).map(|_| Memory::new(LARGE)) {
        pool.give(memory);
    }
    let mut given = 0;
    for round in 0..10_000 {
        let room = pool.allowance(LARGE, 1_000);
        assert!(round > 0 || room == LARGE);
        if room == MIN_ROOM {
            break;
        }
        given += room;
        pool.account(0, room);
        assert!(pool.spare + pool.kept <= MAX_RECEIVE_SLACK / 2);
    }
    assert_eq!(pool.allowance(LARGE, 1_000), MIN_ROOM);
    assert_eq!(
        pool.allowance(LARGE, 1 << 20),
        1 << 15,
        "a part of what was received is allowed all the same"
    );
    assert!(given > MAX_RECEIVE_SLACK / 3, "{given}");
    pool.restock(LARGE);
    assert_eq!(pool.kept, 0, "nothing is kept beyond the budget");
    pool.account(given, 0);
    assert_eq!(pool.allowance(LARGE, 0), LARGE);
    pool.set_window(1 << 30);
    assert_eq!(pool.slack, 1 << 27);
}
