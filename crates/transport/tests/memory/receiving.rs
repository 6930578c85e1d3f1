//! The receive windows limit the memory allocated for receiving, whatever the peer sends and the application
//! reads.

use std::time::Duration;

use anabranch_transport::WindowRule;
use anabranch_transport::stream::{MAX_RECEIVE_SLACK, MAX_STREAM_SLACK, StreamsConfig};
use anabranch_transport::wire::{Dir, Side, StreamId, Version};
use bytes::Bytes;
use proptest::prelude::*;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};

use crate::ends::Ends;

/// Maximum number of streams that the server may have open.
const STREAMS: u64 = 256;

/// Memory that a receiving connection needs beside its data, in bytes: pending and sent acknowledgments,
/// events, timers.
const CONTROL: usize = 192 * 1024;

const WIRES: [Version; 2] = [Version::V1, Version::REVERSO];

fn windows(stream: u64, connection: u64, rule: WindowRule) -> StreamsConfig {
    StreamsConfig::default()
        .with_max_uni(STREAMS)
        .with_stream_window(stream)
        .with_stream_window_max(stream)
        .with_connection_window(connection)
        .with_connection_window_max(connection)
        .with_window_rule(rule)
}

fn nth(index: u64) -> StreamId {
    StreamId::new(Side::Server, Dir::Uni, index)
}

/// Returns the maximum number of bytes that the client may have allocated while its application holds `held`
/// bytes.
fn bound(config: &StreamsConfig, held: usize) -> usize {
    config.connection_window() as usize
        + MAX_RECEIVE_SLACK
        + STREAMS as usize * MAX_STREAM_SLACK
        + CONTROL
        + held
}

/// Reads all available bytes of a stream, as the client's application.
fn read(ends: &mut Ends, id: StreamId) -> usize {
    ends.receiving(|streams| {
        let mut read = 0;
        while let Ok(bytes) = streams.peek(id) {
            let len = bytes.len();
            streams.consume(id, len).unwrap();
            read += len;
        }
        read
    })
}

/// Once all data has been read, almost no memory remains allocated.
#[test]
fn what_was_read_on_many_streams_is_not_kept() {
    const LEN: usize = 33_000;
    for version in WIRES {
        let config = windows(1 << 20, 3 << 19, WindowRule::Adaptive);
        let mut ends = Ends::connected(version, config.clone());
        let data = vec![7; LEN];
        let (mut written, mut received) = (vec![0; STREAMS as usize], 0);
        for _ in 0..STREAMS {
            ends.sending().open(Dir::Uni).unwrap();
        }
        let mut most = 0;
        while received < LEN * STREAMS as usize {
            for (index, written) in (0..).zip(&mut written) {
                if *written < LEN {
                    *written += ends.sending().write(nth(index), &data[*written..]).unwrap_or(0);
                }
            }
            ends.exchange();
            most = most.max(ends.allocated());
            received += (0..STREAMS).map(|index| read(&mut ends, nth(index))).sum::<usize>();
        }
        ends.exchange();
        assert!(most <= bound(&config, 0), "{version:?}: {most}");
        let left = ends.allocated();
        let most = MAX_RECEIVE_SLACK / 2 + STREAMS as usize * 1_024;
        assert!(left <= most, "{version:?}: {left} bytes with nothing unread");
    }
}

/// A few bytes of each stream that the application holds retain no more memory than the budget.
#[test]
fn what_is_taken_holds_little_more_than_itself() {
    const LEN: usize = 33_000;
    for version in WIRES {
        let config = windows(1 << 20, 3 << 19, WindowRule::Adaptive);
        let mut ends = Ends::connected(version, config.clone());
        let data = vec![7; LEN];
        let mut held: Vec<Bytes> = Vec::new();
        for index in 0..STREAMS {
            let id = ends.sending().open(Dir::Uni).unwrap();
            assert_eq!(id, nth(index));
            let (mut written, mut received) = (0, 0);
            while received < LEN {
                if written < LEN {
                    written += ends.sending().write(id, &data[written..]).unwrap_or(0);
                }
                ends.exchange();
                let taken = ends.receiving(|streams| streams.take(id, 100));
                if let Ok(bytes) = taken {
                    received += bytes.len();
                    held.push(bytes);
                }
                received += read(&mut ends, id);
            }
        }
        ends.exchange();
        let bytes = held.iter().map(Bytes::len).sum::<usize>();
        assert!(held.len() >= STREAMS as usize && bytes < 200_000, "{bytes}");
        let allocated = ends.allocated();
        let most = MAX_RECEIVE_SLACK / 2 + STREAMS as usize * 1_024 + 2 * bytes;
        assert!(allocated <= most, "{version:?}: {allocated} bytes for {bytes}");
        assert!(held.iter().all(|bytes| bytes.iter().all(|byte| *byte == 7)));
        ends.give_back(held);
        assert!(ends.allocated() <= allocated - bytes);
    }
}

/// Small windows lead to small chunks, with either wire format.
#[test]
fn small_windows_take_little() {
    for version in WIRES {
        let config = windows(4_096, 3 << 19, WindowRule::Adaptive);
        let mut ends = Ends::connected(version, config);
        let id = ends.sending().open(Dir::Uni).unwrap();
        let (mut received, mut most) = (0, 0);
        while received < 400_000 {
            while ends.sending().write(id, &[7; 4_096]).is_ok() {}
            ends.exchange();
            most = most.max(ends.allocated());
            received += read(&mut ends, id);
        }
        assert!(most < 48_000, "{version:?}: {most} bytes for a window of 4096");
    }
}

/// Performs a random action. The client reads `unordered` of every three streams out of order.
fn happen(ends: &mut Ends, rng: &mut ChaCha8Rng, held: &mut Vec<Bytes>, unordered: u64) {
    let mut below = |n: u64| u64::from(rng.next_u32()) % n;
    let is_unordered = |index: u64| index % 3 < unordered;
    match below(12) {
        0..=3 => {
            // Most writes are short, so that there are many frames; long ones reach the ends of chunks.
            let len = [1, 30, 1_500, 50_000][below(4) as usize];
            let streams = ends.sending();
            let first = below(STREAMS);
            for index in first..(first + 1 + below(8)).min(STREAMS) {
                while streams.open(Dir::Uni).is_some() {}
                let _ = streams.write(nth(index), &vec![7; len]);
            }
            ends.send();
        }
        4 | 5 if !ends.flying.is_empty() => {
            // Delivers some of the datagrams in flight, in any order.
            let mut some = Vec::new();
            for _ in 0..1 + below(40) {
                if ends.flying.is_empty() {
                    break;
                }
                let at = below(ends.flying.len() as u64) as usize;
                let datagram = ends.flying.swap_remove(at);
                if below(12) > 0 {
                    some.push(datagram);
                }
            }
            if !some.is_empty() {
                ends.arrive(some);
            }
        }
        6 => ends.exchange(),
        7 => ends.answer(Duration::from_millis(1 + below(40))),
        8 | 9 => {
            let (first, max) = (below(STREAMS), 1 + below(60_000) as usize);
            for index in first..(first + 1 + below(60)).min(STREAMS) {
                if is_unordered(index) {
                    ends.receiving(
                        |streams| while below(8) > 0 && streams.take_unordered(nth(index), max).is_ok() {},
                    );
                    continue;
                }
                ends.receiving(|streams| {
                    let len = streams.peek(nth(index)).map_or(0, |bytes| bytes.len());
                    if len > 0 {
                        streams.consume(nth(index), len.min(max)).unwrap();
                    }
                });
            }
        }
        10 => {
            let (first, max) = (below(STREAMS), 1 + below(3_000) as usize);
            for index in first..(first + 1 + below(60)).min(STREAMS) {
                if is_unordered(index) {
                    held.extend(
                        ends.receiving(|streams| streams.take_unordered(nth(index), max))
                            .map(|piece| piece.1),
                    );
                    continue;
                }
                held.extend(ends.receiving(|streams| streams.take(nth(index), max)));
            }
        }
        _ if below(4) == 0 => ends.give_back(std::mem::take(held)),
        _ => {}
    }
}

proptest! {
    #![proptest_config(proptest::test_runner::Config { cases: 64, ..Default::default() })]

    #[test]
    fn no_sequence_makes_more_than_the_window_and_a_slack(
        seed: u64,
        version in proptest::sample::select(WIRES.to_vec()),
        stream_window in proptest::sample::select(vec![4_096, 70_000, 1 << 20]),
        rule in proptest::sample::select(vec![WindowRule::Adaptive, WindowRule::Study2022]),
        // Of every three streams, the number that is read out of order.
        unordered in 0u64..=3,
    ) {
        let config = windows(stream_window, 3 << 19, rule);
        let mut ends = Ends::connected(version, config.clone());
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let mut held = Vec::new();
        for _ in 0..400 {
            happen(&mut ends, &mut rng, &mut held, unordered);
            let bytes = held.iter().map(Bytes::len).sum::<usize>() + held.capacity() * size_of::<Bytes>();
            let allocated = ends.allocated();
            prop_assert!(allocated <= bound(&config, bytes), "{} bytes", allocated);
        }
    }
}
