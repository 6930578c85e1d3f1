//! Cost of small frames while the maximum number of ranges waits for missing bytes.

use std::time::Instant;

use super::*;

/// Number of separate ranges: as many as a stream with the largest default window may have.
const RANGES: u64 = 65_536;

/// Number of separate ranges that any stream may have.
const FEW: u64 = 1_024;

/// Distance in bytes from one range to the next. Each range has one byte.
const SPACING: u64 = 4;

/// Number of frames in a packet.
const FRAMES: u64 = 200;

/// Returns a packet with one byte of stream data at each of these offsets.
fn packet(id: StreamId, offsets: impl Iterator<Item = u64>) -> Vec<u8> {
    let mut buf = vec![0; 2_000];
    let mut w = Writer::new(&mut buf, Direction::Forward);
    for offset in offsets {
        w.frame(&stream_frame(id, offset, b"x", false)).unwrap();
    }
    w.written().to_vec()
}

/// Handles a packet and returns the time it took, in nanoseconds.
#[expect(clippy::disallowed_methods, reason = "what is measured is what it costs")]
fn take_in(streams: &mut Streams, payload: &[u8]) -> u128 {
    let begin = Instant::now();
    let mut frames = Frames::new(payload, Direction::Forward);
    while let Some(frame) = frames.next_stream() {
        streams.on_stream(Time::ZERO, RTT, &frame).unwrap();
    }
    assert!(frames.is_over());
    begin.elapsed().as_nanos()
}

/// Returns the lower quartile, which excludes measurements during which the machine did something else.
fn quiet(mut values: Vec<u128>) -> u128 {
    values.sort_unstable();
    values[values.len() / 4]
}

/// Creates a stream with `ranges` separate ranges, from frames that are as small as possible.
fn fragmented(streams: &mut Streams, index: u64, ranges: u64) -> StreamId {
    let stream = id(Side::Server, Dir::Uni, index);
    take_in(streams, &packet(stream, [SPACING].into_iter()));
    let key = streams.table.find(stream, Time::ZERO).unwrap();
    let half = streams.table.stream(key).receive.as_mut().unwrap();
    half.buffer.set_max_fragments(ranges as usize);
    for first in (1..=ranges).step_by(100) {
        let offsets = (first..(first + 100).min(ranges + 1)).map(|range| range * SPACING);
        take_in(streams, &packet(stream, offsets));
    }
    stream
}

/// Returns a packet of frames in the middle half of `ranges`, each at a different place.
fn attack(stream: StreamId, ranges: u64, round: u64) -> Vec<u8> {
    let place = |at: u64| ranges / 4 + (round * FRAMES / 2 + at) * 7_919 % (ranges / 2);
    // The gap between two ranges is filled from both ends, which joins them. Another frame begins a new range
    // between two others.
    let offsets = (0..FRAMES / 2).step_by(2).flat_map(|at| {
        let (joined, split) = (place(at) * SPACING, place(at + 1) * SPACING);
        [joined + 1, joined + 3, joined + 2, split + 2]
    });
    packet(stream, offsets)
}

/// Checks the cost of frames that extend, join and begin ranges. Among the maximum number of ranges they cost
/// at most three times as much as among the number that any stream may have. The two are measured
/// alternately.
#[test]
fn frames_among_many_ranges_cost_little_more_than_among_few() {
    const ROUNDS: u64 = 60;
    let windows = StreamsConfig {
        max_uni: 2 * ROUNDS,
        stream_window: 1 << 20,
        stream_window_max: 1 << 20,
        connection_window: 1 << 28,
        connection_window_max: 1 << 28,
        ..config()
    };
    let mut streams = Streams::new(Side::Client, &windows, 0);
    let large = fragmented(&mut streams, 0, RANGES);
    assert_eq!(streams.pool.ranges_kept(), RANGES as usize);
    let (mut among_few, mut among_many) = (Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        let small = fragmented(&mut streams, 1 + round, FEW);
        among_few.push(take_in(&mut streams, &attack(small, FEW, 0)));
        among_many.push(take_in(&mut streams, &attack(large, RANGES, round)));
    }
    assert_eq!(streams.pool.ranges_kept() as u64, RANGES + ROUNDS * FEW);
    let (few, many) = (quiet(among_few), quiet(among_many));
    eprintln!("{FRAMES} frames: {few} ns among {FEW} ranges, {many} ns among {RANGES}");
    assert!(many <= 3 * few, "{many} ns among {RANGES} ranges, {few} ns among {FEW}");
}
