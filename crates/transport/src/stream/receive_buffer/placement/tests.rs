//! Packets that are reordered, repeated, split differently or forged: after each of them, only the sent data
//! can be read.

use std::sync::LazyLock;

use proptest::prelude::*;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};

use super::*;
use crate::ranges::RangeSet;

/// Content of the stream.
static CONTENT: LazyLock<Vec<u8>> = LazyLock::new(|| {
    (0..1_u64 << 21).map(|offset| (offset.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8).collect()
});

fn data(offset: u64, len: usize) -> &'static [u8] {
    &CONTENT[offset as usize..][..len]
}

/// A packet on arrival.
#[derive(Clone, Debug)]
struct Packet {
    offset: u64,
    len: usize,
    /// Length of the bytes behind the data.
    footer: usize,
    is_forged: bool,
}

/// The buffer, and its expected state.
struct Model {
    buffer: ReceiveBuffer,
    pool: Pool,
    received: RangeSet,
    read: u64,
    placed: u64,
    restored: u64,
    bytes: u64,
    arrived: u64,
}

/// Number of bytes on either side of a place that are checked.
const CANARY: usize = 64;

impl Model {
    fn new() -> Self {
        let mut buffer = ReceiveBuffer::default();
        buffer.expect_places();
        Self {
            buffer,
            pool: Pool::default(),
            received: RangeSet::default(),
            read: 0,
            placed: 0,
            restored: 0,
            bytes: 0,
            arrived: 0,
        }
    }

    /// Processes a packet as a connection does.
    fn arrive(&mut self, packet: &Packet, rng: &mut ChaCha8Rng) {
        let &Packet { offset, len, footer, is_forged } = packet;
        self.arrived += 1;
        let slot = self.buffer.reserve(offset, len + footer, &mut self.pool);
        if let Some(slot) = slot {
            let beside = self.beside(&slot);
            let mut saved = Saved::new();
            self.buffer.save(&slot, &mut saved);
            let window = self.buffer.window_mut(&slot, &mut self.pool);
            assert_eq!(window.len(), len + footer);
            // A failed decryption leaves arbitrary bytes. A successful one leaves other frames behind the
            // data.
            rng.fill_bytes(window);
            if is_forged {
                self.buffer.restore(&slot, &saved);
                assert!(self.beside(&slot) == beside, "bytes beside the place changed");
                self.buffer.give_back(&slot, &mut self.pool);
                return;
            }
            window[..len].copy_from_slice(data(offset, len));
            let fits = slot.fits(len);
            self.buffer.restore(&slot, &saved);
            assert!(self.beside(&slot) == beside, "bytes beside the place changed");
            self.restored += saved.len() as u64;
            if fits {
                self.placed += len as u64;
                self.buffer.commit(&slot, len, &mut self.pool).unwrap();
            } else {
                self.pool.drop_future();
                self.buffer.insert(offset, data(offset, len), &mut self.pool).unwrap();
            }
        } else if is_forged {
            return;
        } else {
            self.buffer.insert(offset, data(offset, len), &mut self.pool).unwrap();
        }
        self.bytes += len as u64;
        self.buffer.prepare_next(&mut self.pool);
        self.received.insert(offset..offset + len as u64);
    }

    /// Returns the bytes in front of and behind a slot.
    fn beside(&self, slot: &Slot) -> [Vec<u8>; 2] {
        let future = self.pool.future.as_ref().filter(|_| slot.is_new());
        let chunk = future.unwrap_or_else(|| &self.buffer.chunks[slot.chunk]);
        let from = (slot.offset - chunk.start) as usize;
        let (before, behind) = (&chunk.data[..from], &chunk.data[from + slot.len..]);
        let before = &before[before.len().saturating_sub(CANARY)..];
        [before.to_vec(), behind[..behind.len().min(CANARY)].to_vec()]
    }

    /// Checks that all received bytes are in the buffer, readable or not.
    fn check(&mut self) {
        let ready = self.received.range_of(0).map_or(0, |range| range.end);
        assert_eq!(self.buffer.ready(), ready.max(self.read));
        for range in self.received.within(self.read..u64::MAX) {
            let mut at = range.start;
            while at < range.end {
                let chunk = &self.buffer.chunks[self.buffer.chunk_of(at).expect("a chunk of received bytes")];
                let end = chunk.end.min(range.end);
                let bytes = &chunk.data[(at - chunk.start) as usize..(end - chunk.start) as usize];
                assert!(bytes == data(at, bytes.len()), "bytes {at}..{end} changed");
                at = end;
            }
        }
        for pair in self.buffer.chunks.iter().zip(self.buffer.chunks.iter().skip(1)) {
            assert!(pair.0.end <= pair.1.start, "chunks overlap");
        }
    }

    fn read(&mut self, rng: &mut ChaCha8Rng) {
        let peeked = self.buffer.peek();
        assert!(peeked == data(self.read, peeked.len()));
        let n = peeked.len().min(rng.next_u32() as usize % 6_000);
        if rng.next_u32().is_multiple_of(3) {
            assert!(self.buffer.take(n, &mut self.pool) == data(self.read, n));
        } else {
            self.buffer.consume(n, &mut self.pool);
        }
        self.read += n as u64;
    }
}

/// Returns packets of a stream over several paths. Each path keeps its order, and packets of slower paths
/// arrive late. Some packets are repeated, split differently, or forged.
fn window(rng: &mut ChaCha8Rng, from: u64, packets: usize) -> Vec<Packet> {
    let paths = 1 + rng.next_u32() as usize % 4;
    let mut queues: Vec<Vec<Packet>> = vec![Vec::new(); paths];
    let mut offset = from;
    for _ in 0..packets {
        let len = if rng.next_u32().is_multiple_of(5) { 1 + rng.next_u32() as usize % 1_300 } else { 1_300 };
        let footer = 5 + if rng.next_u32().is_multiple_of(4) { rng.next_u32() as usize % 60 } else { 3 };
        let packet = Packet { offset, len, footer, is_forged: false };
        offset += len as u64;
        for _ in 0..1 + usize::from(rng.next_u32().is_multiple_of(12)) {
            let path = rng.next_u32() as usize % paths;
            if rng.next_u32().is_multiple_of(8) {
                let shift = u64::from(rng.next_u32() % 3) * 400;
                queues[path].push(Packet { offset: packet.offset + shift, is_forged: true, ..packet });
            }
            queues[path].push(packet.clone());
        }
        if rng.next_u32().is_multiple_of(10) && len > 2 {
            let cut = 1 + rng.next_u32() as usize % (len - 1);
            let path = rng.next_u32() as usize % paths;
            queues[path].push(Packet { len: cut, ..packet });
            let offset = packet.offset + cut as u64;
            queues[path].push(Packet { offset, len: len - cut, ..packet });
        }
    }
    let mut arriving = Vec::new();
    for queue in &mut queues {
        queue.reverse();
    }
    while queues.iter().any(|queue| !queue.is_empty()) {
        // Several packets of one path in a row, as in batches.
        let path = rng.next_u32() as usize % paths;
        for _ in 0..rng.next_u32() % 12 {
            arriving.extend(queues[path].pop());
        }
    }
    arriving
}

fn play(seed: u64, windows: usize, packets: usize) -> Model {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut model = Model::new();
    for _ in 0..windows {
        let from = model.received.max().map_or(0, |max| max + 1);
        for packet in window(&mut rng, from, packets) {
            model.arrive(&packet, &mut rng);
            model.check();
            if rng.next_u32().is_multiple_of(3) {
                model.read(&mut rng);
            }
        }
        assert!(model.received.len() <= 1, "all of the window came");
    }
    model
}

#[test]
fn received_bytes_stay_as_they_are_whatever_arrives() {
    let (mut packets, mut bytes, mut placed, mut restored) = (0, 0, 0, 0);
    for seed in 0..80 {
        let model = play(seed, 8, 150);
        packets += model.arrived;
        bytes += model.bytes;
        placed += model.placed;
        restored += model.restored;
    }
    assert!(packets >= 100_000, "{packets} packets arrived");
    assert!(placed * 100 > bytes * 80, "{placed} of {bytes} bytes placed");
    assert!(restored * 100 < bytes * 4, "{restored} of {bytes} bytes restored");
}

#[test]
fn in_order_nothing_is_copied_and_no_memory_is_asked_for() {
    let mut buffer = ReceiveBuffer::default();
    buffer.expect_places();
    let mut pool = Pool::default();
    pool.restock(buffer.wanted_room());
    let (mut at, mut kept) = (0, 0);
    let held = |buffer: &ReceiveBuffer| buffer.chunks.iter().map(|chunk| chunk.room).sum::<usize>();
    for round in 0..2_000 {
        let slot = buffer.reserve(at, 1_308, &mut pool).expect("a place");
        buffer.window_mut(&slot, &mut pool).fill(round as u8);
        assert!(buffer.commit(&slot, 1_300, &mut pool).unwrap());
        buffer.prepare_next(&mut pool);
        if round == 400 {
            kept = pool.kept() + held(&buffer);
        }
        assert!(round < 400 || pool.kept() + held(&buffer) == kept, "read memory is used again");
        at += 1_300;
        if round % 10 == 9 {
            while buffer.readable() > 0 {
                let n = buffer.peek().len();
                buffer.consume(n, &mut pool);
            }
        }
    }
}

/// Checks that copies of a packet with single bits flipped do not change the data of neighbouring packets.
#[test]
fn a_forged_packet_leaves_its_neighbours_alone() {
    let mut buffer = ReceiveBuffer::default();
    let mut pool = Pool::default();
    pool.restock(buffer.wanted_room());
    buffer.insert(0, data(0, 100), &mut pool).unwrap();
    buffer.insert(300, data(300, 250), &mut pool).unwrap();
    for bit in 0..200 * 8_u64 {
        let slot = buffer.reserve(100, 210, &mut pool).expect("a place");
        let mut saved = Saved::new();
        buffer.save(&slot, &mut saved);
        assert_eq!(saved.len(), 10);
        let zero = bit % 2 == 0;
        buffer.window_mut(&slot, &mut pool).fill(if zero { 0 } else { bit as u8 });
        buffer.restore(&slot, &saved);
        buffer.give_back(&slot, &mut pool);
    }
    assert!(buffer.peek() == data(0, 100));
    buffer.insert(100, data(100, 200), &mut pool).unwrap();
    assert!(buffer.peek() == data(0, 550));
}

#[test]
fn a_place_is_refused_where_it_would_cost_too_much() {
    let mut buffer = ReceiveBuffer::default();
    let mut pool = Pool::default();
    assert!(buffer.reserve(0, 100, &mut pool).is_none(), "there is no memory, and none is made");
    pool.restock(buffer.wanted_room());
    buffer.set_limit(3_000);
    assert!(buffer.reserve(3_000, 100, &mut pool).is_none(), "beyond what was allowed");
    assert!(buffer.reserve(0, 60_000, &mut pool).is_none(), "longer than any place");
    assert_eq!(pool.kept(), buffer.wanted_room(), "the memory is kept");
    buffer.insert(0, data(0, MAX_SAVED + 1), &mut pool).unwrap();
    assert!(buffer.reserve(0, 500, &mut pool).is_none(), "{MAX_SAVED} bytes are saved at most");
    assert!(buffer.reserve(1, 500, &mut pool).is_some());
    buffer.consume(10, &mut pool);
    assert!(buffer.reserve(9, 500, &mut pool).is_none(), "already read");
}

/// Checks that the header of a forged packet costs no memory: wherever it points, no memory remains allocated
/// after the packet fails to decrypt.
#[test]
fn places_of_forged_packets_are_given_back() {
    let mut buffer = ReceiveBuffer::default();
    buffer.expect_places();
    buffer.set_limit(1 << 20);
    let mut pool = Pool::default();
    buffer.insert(0, data(0, 100), &mut pool).unwrap();
    buffer.insert(200_000, data(200_000, 5_000), &mut pool).unwrap();
    pool.restock(buffer.wanted_room());
    let memory =
        |buffer: &ReceiveBuffer| buffer.chunks.iter().map(|chunk| chunk.data.capacity()).sum::<usize>();
    let before = (buffer.chunks.len(), memory(&buffer));
    let mut rng = ChaCha8Rng::seed_from_u64(3);
    let mut placed = 0;
    for _ in 0..5_000 {
        let offset = u64::from(rng.next_u32() % (1 << 21));
        if let Some(slot) = buffer.reserve(offset, 1_300, &mut pool) {
            placed += 1;
            let mut saved = Saved::new();
            buffer.save(&slot, &mut saved);
            rng.fill_bytes(buffer.window_mut(&slot, &mut pool));
            buffer.restore(&slot, &saved);
            buffer.give_back(&slot, &mut pool);
        }
        assert_eq!((buffer.chunks.len(), memory(&buffer)), before);
        assert_eq!(pool.kept(), buffer.wanted_room());
    }
    assert!(placed > 1_000, "{placed}");
    assert!(buffer.peek() == data(0, 100));
}

/// Returns all properties of a buffer except its bytes.
fn shape(buffer: &ReceiveBuffer) -> (usize, usize, Vec<[usize; 4]>) {
    let of =
        |chunk: &Chunk| [chunk.start as usize, chunk.end as usize, chunk.data.len(), chunk.data.capacity()];
    (buffer.next_chunk, buffer.chunks.capacity(), buffer.chunks.iter().map(of).collect())
}

/// Checks that a forged packet adds neither chunks nor capacity to the list of chunks while it is decrypted,
/// and that buffer and pool are as before once decryption has failed.
#[test]
fn a_forged_header_grows_nothing() {
    let mut buffer = ReceiveBuffer::default();
    buffer.expect_places();
    buffer.set_limit(1 << 22);
    let mut pool = Pool::default();
    // One more chunk would need a longer list.
    while buffer.chunks.len() < 4 || buffer.chunks.len() < buffer.chunks.capacity() {
        let offset = buffer.chunks.len() as u64 * 200_000;
        buffer.insert(offset, data(offset, 1_000), &mut pool).unwrap();
    }
    pool.restock(buffer.wanted_room());
    let (before, kept) = (shape(&buffer), pool.kept());
    let mut in_holes = 0;
    for offset in (1_000..1_000_000).step_by(700) {
        let Some(slot) = buffer.reserve(offset, 1_300, &mut pool) else { continue };
        in_holes += usize::from(slot.is_new());
        let during = shape(&buffer);
        assert_eq!((during.0, during.1, during.2.len()), (before.0, before.1, before.2.len()), "at {offset}");
        buffer.window_mut(&slot, &mut pool).fill(0xee);
        buffer.give_back(&slot, &mut pool);
        assert_eq!((shape(&buffer), pool.kept()), (before.clone(), kept), "at {offset}");
    }
    assert!(in_holes > 500, "{in_holes}");
}

proptest! {
    #[test]
    fn any_order_gives_the_stream(seed: u64) {
        play(seed, 2, 40);
    }
}
