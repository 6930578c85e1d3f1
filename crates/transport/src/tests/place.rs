//! Data decrypted in place, on networks that lose, reorder, duplicate and forge datagrams.

use std::time::Duration;

use anabranch_wire::{Dir, Side, StreamId, VarInt, Version};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};

use super::pair::{Flying, Pair, over, pattern};
use super::paths::far_apart;
use crate::Numbering;
use crate::stream::ReceivedBytes;

pub(super) fn connected() -> Pair {
    let mut pair = Pair::new();
    pair.connect();
    pair.run_until_quiet();
    pair
}

pub(super) fn received(pair: &mut Pair, side: Side) -> ReceivedBytes {
    pair.end(side).stats().received
}

#[test]
fn a_download_in_order_is_not_copied() {
    over(Version::REVERSO, || {
        let mut pair = connected();
        for from in [Side::Server, Side::Client, Side::Server] {
            let before = received(&mut pair, from.peer());
            let data = pattern(3_000_000);
            assert!(pair.transfer(from, &data) == data);
            let after = received(&mut pair, from.peer());
            let copied = after.copied - before.copied;
            assert_eq!(after.placed - before.placed + copied, 3_000_000);
            // The first packet of a stream creates the stream, so its data is copied. For the very first
            // stream, no buffer memory exists yet.
            assert!(copied <= 3_000, "{copied} bytes copied");
            assert_eq!(after.restored, before.restored);
        }
    });
}

#[test]
fn packets_of_version_1_that_arrive_alone_are_copied() {
    let mut pair = connected();
    pair.one_by_one = true;
    let data = pattern(100_000);
    assert!(pair.transfer(Side::Server, &data) == data);
    let received = received(&mut pair, Side::Client);
    assert_eq!(received, ReceivedBytes { copied: 100_000, ..ReceivedBytes::default() });
}

/// Returns a network that drops, duplicates and delays datagrams. Copies with one flipped bit precede and
/// follow them.
pub(super) fn hostile(seed: u64) -> Box<dyn FnMut(Side, Flying) -> Vec<Flying>> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    Box::new(move |_, flying| {
        let mut arriving = Vec::new();
        let mut one_in = |n: u32| rng.next_u32().is_multiple_of(n);
        let (lost, doubled, late, forged) = (one_in(40), one_in(15), one_in(6), one_in(4));
        let late =
            if late { Duration::from_micros(u64::from(rng.next_u32() % 8_000)) } else { Duration::ZERO };
        if forged {
            for at in [flying.at, flying.at + late] {
                let mut copy = Flying { at, ..flying.clone() };
                let bit = rng.next_u32() as usize % (8 * copy.bytes.len());
                copy.bytes[bit / 8] ^= 1 << (bit % 8);
                arriving.push(copy);
            }
        }
        if doubled {
            let at = flying.at + Duration::from_micros(u64::from(rng.next_u32() % 5_000));
            arriving.push(Flying { at, ..flying.clone() });
        }
        if !lost {
            arriving.push(Flying { at: flying.at + late, ..flying });
        }
        arriving
    })
}

#[test]
fn nothing_that_a_network_does_changes_a_byte() {
    over(Version::REVERSO, || {
        for seed in 0..6 {
            let mut pair = connected();
            pair.network = Some(hostile(seed));
            for from in [Side::Server, Side::Client] {
                let data = pattern(700_000);
                assert!(pair.transfer(from, &data) == data, "seed {seed}");
                let received = received(&mut pair, from.peer());
                assert!(received.placed > 300_000, "{received:?}");
                assert!(received.restored > 0, "{received:?}");
            }
            assert_eq!(pair.closed(Side::Client), None);
        }
    });
}

#[test]
fn several_paths_bring_what_belongs_together() {
    over(Version::REVERSO, || {
        for numbering in [Numbering::Multiple, Numbering::Single] {
            let mut pair = far_apart(numbering);
            for from in [Side::Server, Side::Client] {
                let before = received(&mut pair, from.peer());
                let data = pattern(8_000_000);
                assert!(pair.transfer(from, &data) == data);
                let after = received(&mut pair, from.peer());
                let placed = after.placed - before.placed;
                let restored = after.restored - before.restored;
                assert!(placed > 6_000_000, "{numbering:?} {after:?}");
                assert!(restored < placed / 1_000, "{numbering:?} {after:?}");
            }
        }
    });
}

#[test]
fn packets_that_are_not_authentic_make_no_stream_and_keep_no_memory() {
    over(Version::REVERSO, || {
        let mut pair = connected();
        let mut rng = ChaCha8Rng::seed_from_u64(1);
        pair.client().ping(anabranch_wire::PathId::ZERO);
        pair.drain();
        let honest = pair.to_server.back().expect("a packet").bytes.clone();
        for _ in 0..2_000 {
            let mut bytes = honest[..9].to_vec();
            bytes.resize(1_200, 0);
            rng.fill_bytes(&mut bytes[9..]);
            bytes[0] ^= (rng.next_u32() & 0x1f) as u8;
            pair.send_raw(Side::Client, bytes);
        }
        pair.run_until_quiet();
        assert_eq!(pair.server().streams().open_streams(), 0);
        assert!(pair.server().stats().undecryptable > 1_500);
        assert_eq!(received(&mut pair, Side::Server), ReceivedBytes::default());
    });
}

#[test]
fn a_stream_that_is_stopped_or_reset_takes_nothing_in() {
    over(Version::REVERSO, || {
        for stop in [false, true] {
            let mut pair = connected();
            let id = pair.server().streams().open(Dir::Uni).unwrap();
            pair.server().streams().write(id, &pattern(200_000)).unwrap();
            pair.run_for(Duration::from_millis(15));
            assert_eq!(
                pair.client().streams().accept(Dir::Uni),
                Some(StreamId::new(Side::Server, Dir::Uni, 0))
            );
            match stop {
                true => drop(pair.client().streams().stop(id, VarInt::from_u32(7))),
                false => drop(pair.server().streams().reset(id, VarInt::from_u32(7))),
            }
            pair.run_until_quiet();
            assert!(pair.client().streams().peek(id).is_err());
            let data = pattern(100_000);
            assert!(pair.transfer(Side::Server, &data) == data);
        }
    });
}
