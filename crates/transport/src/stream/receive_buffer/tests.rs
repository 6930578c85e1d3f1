use std::ops::{Deref, DerefMut};

use proptest::prelude::*;

use super::reassembler::TooFragmented;
use super::*;

/// A buffer with its own pool.
#[derive(Default)]
struct Buffer {
    inner: ReceiveBuffer,
    pool: Pool,
}

impl Deref for Buffer {
    type Target = ReceiveBuffer;

    fn deref(&self) -> &ReceiveBuffer {
        &self.inner
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut ReceiveBuffer {
        &mut self.inner
    }
}

impl Buffer {
    fn insert(&mut self, offset: u64, data: &[u8]) -> Result<bool, TooFragmented> {
        self.inner.insert(offset, data, &mut self.pool)
    }

    fn take(&mut self, max: usize) -> Bytes {
        self.inner.take(max, &mut self.pool)
    }

    fn consume(&mut self, n: usize) {
        self.inner.consume(n, &mut self.pool);
    }
}

fn byte(offset: u64) -> u8 {
    (offset % 251) as u8
}

fn pattern(offset: u64, len: u64) -> Vec<u8> {
    (offset..offset + len).map(byte).collect()
}

/// Returns the number of stream bytes that the chunks cover.
fn held(buffer: &ReceiveBuffer) -> u64 {
    buffer.chunks.iter().map(|chunk| chunk.end - chunk.start).sum()
}

fn check_chunks(buffer: &ReceiveBuffer) {
    let chunks = &buffer.chunks;
    assert!(chunks.iter().all(|chunk| chunk.start < chunk.end && chunk.end > buffer.read));
    assert!(
        chunks
            .iter()
            .all(|chunk| chunk.data.len() <= chunk.room && chunk.end - chunk.start <= chunk.room as u64),
        "a chunk has grown"
    );
    assert!(chunks.iter().zip(chunks.iter().skip(1)).all(|(a, b)| a.end <= b.start), "chunks overlap");
}

/// Reads up to `max` bytes and checks them, with `take` or else with `consume`.
fn read(buffer: &mut Buffer, max: usize, take: bool) {
    let at = buffer.read;
    let peeked = buffer.peek().to_vec();
    assert_eq!(peeked.is_empty(), buffer.readable() == 0);
    assert_eq!(peeked, pattern(at, peeked.len() as u64));
    let n = peeked.len().min(max);
    if take {
        assert_eq!(buffer.take(max), &peeked[..n]);
    } else {
        buffer.consume(n);
    }
    assert_eq!(buffer.read, at + n as u64);
}

#[derive(Clone, Debug)]
enum Op {
    Insert(u64, u64),
    Read(usize, bool),
}

fn op(total: u64, piece: u64) -> impl Strategy<Value = Op> {
    prop_oneof![
        4 => (0..total, 0..piece).prop_map(|(offset, len)| Op::Insert(offset, len)),
        1 => (1usize..4000, any::<bool>()).prop_map(|(max, take)| Op::Read(max, take)),
    ]
}

proptest! {
    #[test]
    fn behaves_like_a_map(
        ops in prop::collection::vec(op(20_000, 3000), 1..120),
        is_limited in any::<bool>(),
    ) {
        const TOTAL: u64 = 20_000;
        let mut buffer = Buffer::default();
        if is_limited {
            buffer.set_limit(TOTAL);
        }
        let mut arrived = vec![false; TOTAL as usize];
        let rest = (0..=TOTAL / 700).rev().map(|i| Op::Insert(i * 700, 900));
        for op in ops.into_iter().chain(rest) {
            match op {
                Op::Insert(offset, len) => {
                    let len = len.min(TOTAL - offset);
                    let before = buffer.ready();
                    let grew = buffer.insert(offset, &pattern(offset, len)).unwrap();
                    arrived[offset as usize..(offset + len) as usize].fill(true);
                    prop_assert_eq!(grew, buffer.ready() > before);
                }
                Op::Read(max, take) => read(&mut buffer, max, take),
            }
            let ready = arrived.iter().take_while(|&&here| here).count() as u64;
            prop_assert_eq!(buffer.ready(), ready);
            let ahead = arrived[ready as usize..].contains(&true);
            prop_assert_eq!(buffer.is_empty(), buffer.read == ready && !ahead);
            check_chunks(&buffer);
        }
        while buffer.readable() > 0 {
            read(&mut buffer, 5000, false);
        }
        prop_assert_eq!(buffer.read, TOTAL);
    }

    #[test]
    fn memory_stays_within_the_window_and_a_chunk(
        pieces in prop::collection::vec((0u64..1 << 20, 1u64..1500), 1..400),
    ) {
        const WINDOW: u64 = 1 << 20;
        let mut buffer = Buffer::default();
        buffer.set_limit(WINDOW);
        for (offset, len) in pieces {
            let len = len.min(WINDOW - offset);
            buffer.insert(offset, &pattern(offset, len)).unwrap();
            prop_assert!(held(&buffer) <= WINDOW);
            check_chunks(&buffer);
        }
    }
}

#[test]
fn what_arrived_first_stays() {
    let mut buffer = Buffer::default();
    buffer.insert(4, b"efgh").unwrap();
    buffer.insert(2, b"XXXXXXXX").unwrap();
    buffer.insert(0, b"abYY").unwrap();
    assert_eq!(buffer.peek(), b"abXXefghXX");
    buffer.consume(3);
    buffer.insert(0, b"..........Z").unwrap();
    assert_eq!(buffer.peek(), b"XefghXXZ");
}

#[test]
fn a_jump_allocates_only_around_itself() {
    let mut buffer = Buffer::default();
    buffer.set_limit(1 << 30);
    buffer.insert((1 << 30) - 1, b"z").unwrap();
    assert!(held(&buffer) <= MIN_CHUNK as u64, "{}", held(&buffer));
    buffer.insert(1 << 20, b"y").unwrap();
    buffer.insert(0, b"x").unwrap();
    assert!(held(&buffer) <= ((1 + GROWTH + GROWTH * GROWTH) * MIN_CHUNK) as u64, "{}", held(&buffer));
    assert_eq!(buffer.peek(), b"x");
}

#[test]
fn descending_single_bytes_make_few_chunks() {
    const LEN: u64 = 1 << 20;
    let mut buffer = Buffer::default();
    buffer.set_limit(LEN);
    for offset in (0..LEN).rev() {
        buffer.insert(offset, &[byte(offset)]).unwrap();
        assert!(buffer.ahead.len() <= 1);
    }
    assert_eq!(buffer.ready(), LEN);
    assert!(buffer.chunks.len() <= 32, "{} chunks", buffer.chunks.len());
    assert_eq!(held(&buffer), LEN);
    while buffer.readable() > 0 {
        read(&mut buffer, usize::MAX, true);
    }
}

#[test]
fn holes_are_bounded() {
    let mut buffer = Buffer::default();
    buffer.set_max_fragments(100);
    for i in 0..100 {
        buffer.insert(2 * i + 1, b"x").unwrap();
    }
    assert_eq!(buffer.insert(1001, b"x"), Err(TooFragmented));
    assert_eq!(buffer.insert(0, b"x"), Ok(true), "closing a hole is always possible");
    assert_eq!(buffer.ready(), 2);
    assert_eq!(buffer.insert(1001, b"x"), Ok(false));
}

#[test]
fn a_steady_stream_reuses_one_chunk() {
    let mut buffer = Buffer::default();
    let packet = [5; 1200];
    let mut places = std::collections::BTreeSet::new();
    for i in 0..2000u64 {
        buffer.insert(i * 1200, &packet).unwrap();
        if i > 400 {
            places.insert(buffer.peek().as_ptr() as usize / MAX_CHUNK);
        }
        while buffer.readable() > 0 {
            let n = buffer.peek().len();
            buffer.consume(n);
        }
    }
    // Two chunks are in use while a packet extends from one to the other, and each touches two aligned
    // places.
    assert!(places.len() <= 4, "{} places", places.len());
}

#[test]
fn a_short_stream_takes_its_size() {
    let mut buffer = Buffer::default();
    buffer.set_limit(32);
    buffer.insert(0, &[1; 32]).unwrap();
    assert_eq!(held(&buffer), 32);
    assert_eq!(buffer.take(100).len(), 32);
    assert!(buffer.chunks.is_empty());
}

#[test]
fn taken_bytes_survive_what_follows() {
    let mut buffer = Buffer::default();
    buffer.insert(0, &pattern(0, 1000)).unwrap();
    let first = buffer.take(400);
    buffer.insert(1000, &pattern(1000, 3000)).unwrap();
    buffer.consume(100);
    let second = buffer.take(50);
    while buffer.readable() > 0 {
        let n = buffer.peek().len();
        buffer.consume(n);
    }
    buffer.insert(4000, &[0xff; 200_000]).unwrap();
    assert_eq!(first, pattern(0, 400));
    assert_eq!(second, pattern(500, 50));
}

#[test]
fn memory_that_was_taken_is_used_again_once_it_is_given_back() {
    let mut buffer = Buffer::default();
    let packet = [5; 1200];
    let mut places = std::collections::BTreeSet::new();
    for i in 0..2000u64 {
        buffer.insert(i * 1200, &packet).unwrap();
        while buffer.readable() > 0 {
            let taken = buffer.take(usize::MAX);
            assert!(taken.iter().all(|byte| *byte == 5));
            if i > 400 {
                places.insert(taken.as_ptr() as usize / MAX_CHUNK);
            }
        }
    }
    assert!(places.len() <= 4, "{} places", places.len());
}

#[test]
fn memory_that_the_application_holds_is_not_used_again() {
    let mut buffer = Buffer::default();
    let mut held = Vec::new();
    for i in 0..500u64 {
        buffer.insert(i * 1200, &pattern(i * 1200, 1200)).unwrap();
        while buffer.readable() > 0 {
            held.push(buffer.take(usize::MAX));
        }
    }
    assert_eq!(held.concat(), pattern(0, 500 * 1200));
}
