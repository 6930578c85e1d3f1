//! Bytes that the application reads out of order.

use anabranch_wire::VarInt;
use proptest::prelude::*;

use super::*;

const ID: StreamId = StreamId::new(Side::Client, Dir::Uni, 0);

fn windows(window: u64) -> StreamsConfig {
    let config = config().with_stream_window(window).with_stream_window_max(window);
    config.with_connection_window(window).with_connection_window_max(window)
}

fn server(window: u64) -> Streams {
    streams(Side::Server, &windows(window))
}

/// Returns the byte of the stream at `offset`.
fn byte(offset: u64) -> u8 {
    (offset.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8
}

fn arrive(to: &mut Streams, offset: u64, len: u64, fin: bool) {
    let data: Vec<u8> = (offset..offset + len).map(byte).collect();
    let frame = anabranch_wire::Stream { id: ID, offset, fin, data: &data };
    receive(to, Time::ZERO, &Frame::Stream(frame)).unwrap();
}

fn take(streams: &mut Streams, max: usize) -> Result<(u64, u64), ReadError> {
    let (offset, bytes) = streams.take_unordered(ID, max)?;
    assert!(!bytes.is_empty());
    assert!((offset..).zip(&bytes).all(|(at, found)| byte(at) == *found), "at {offset}");
    Ok((offset, offset + bytes.len() as u64))
}

fn allocated(streams: &mut Streams) -> usize {
    let key = streams.table.find(ID, Time::ZERO).unwrap();
    streams.table.stream(key).receive.as_ref().unwrap().buffer.allocated()
}

/// Returns the limits that are sent to the peer.
fn granted(streams: &mut Streams) -> Vec<u64> {
    let packet = send(streams, 1000);
    let frames = packet.iter().flat_map(Packet::frames);
    let limit = |frame| match frame {
        Frame::MaxData(maximum) | Frame::MaxStreamData { maximum, .. } => Some(maximum),
        _ => None,
    };
    frames.filter_map(limit).collect()
}

#[test]
fn what_is_missing_holds_up_nothing() {
    let mut server = server(4000);
    arrive(&mut server, 1000, 300, false);
    assert_eq!(server.peek(ID), Err(ReadError::Blocked));
    assert_eq!(take(&mut server, 100), Ok((1000, 1100)));
    assert_eq!(take(&mut server, usize::MAX), Ok((1100, 1300)));
    assert_eq!(take(&mut server, usize::MAX), Err(ReadError::Blocked));
    while server.poll_event().is_some() {}
    // Known parts are not returned again, and every arrival of new data is reported.
    arrive(&mut server, 900, 600, true);
    assert_eq!(server.poll_event(), Some(StreamEvent::Readable(ID)));
    assert_eq!(take(&mut server, usize::MAX), Ok((900, 1000)));
    assert_eq!(take(&mut server, usize::MAX), Ok((1300, 1500)));
    assert_eq!(take(&mut server, usize::MAX), Err(ReadError::Blocked));
    arrive(&mut server, 0, 900, false);
    assert_eq!(server.poll_event(), Some(StreamEvent::Readable(ID)));
    assert_eq!(take(&mut server, 0), Ok((0, 1)), "one byte at least");
    assert_eq!(take(&mut server, usize::MAX), Ok((1, 900)));
    assert_eq!(take(&mut server, usize::MAX), Err(ReadError::Finished));
    assert_eq!(take(&mut server, usize::MAX), Err(ReadError::Closed));
}

#[test]
fn once_read_in_any_order_a_stream_is_read_so_to_its_end() {
    let mut server = server(4000);
    arrive(&mut server, 0, 300, false);
    assert_eq!(server.take(ID, 100).unwrap().len(), 100, "in order at first");
    assert_eq!(take(&mut server, 100), Ok((100, 200)));
    assert_eq!(server.peek(ID), Err(ReadError::Unordered));
    assert_eq!(server.take(ID, 100), Err(ReadError::Unordered));
    assert_eq!(server.consume(ID, 100), Err(ClosedStream));
    assert_eq!(take(&mut server, 100), Ok((200, 300)));
    receive(
        &mut server,
        Time::ZERO,
        &Frame::ResetStream { id: ID, code: VarInt::from_u32(7), final_size: 500 },
    )
    .unwrap();
    assert_eq!(take(&mut server, 100), Err(ReadError::Reset(VarInt::from_u32(7))));
}

/// Bytes that the application reads out of order earn credit, even if earlier bytes are missing.
#[test]
fn credit_is_given_for_what_is_taken() {
    const WINDOW: u64 = 4000;
    let mut server = server(WINDOW);
    arrive(&mut server, 100, WINDOW - 100, false);
    assert_eq!(granted(&mut server), [], "nothing was taken");
    while take(&mut server, usize::MAX).is_ok() {}
    assert_eq!(granted(&mut server), [2 * WINDOW - 100; 2]);
    arrive(&mut server, 0, 100, false);
    while take(&mut server, usize::MAX).is_ok() {}
    // Each byte counts once.
    receive(&mut server, Time::ZERO, &Frame::DataBlocked(2 * WINDOW - 100)).unwrap();
    let blocked = Frame::StreamDataBlocked { id: ID, maximum: 2 * WINDOW - 100 };
    receive(&mut server, Time::ZERO, &blocked).unwrap();
    assert_eq!(granted(&mut server), [2 * WINDOW; 2]);
}

/// Checks that the buffer keeps no data while the first byte never arrives, only the information that it is
/// missing.
#[test]
fn a_hole_that_stays_costs_no_memory() {
    let mut server = server(1 << 20);
    let mut most = 0;
    for piece in 0..20_000 {
        arrive(&mut server, 1 + piece * 1000, 1000, false);
        while take(&mut server, 700).is_ok() {}
        most = most.max(allocated(&mut server));
        granted(&mut server);
    }
    assert!(most < 100_000, "{most}");
}

/// Checks that a byte that is not taken does not keep the memory of the bytes around it.
#[test]
fn a_byte_here_and_there_that_waits_costs_no_chunk_each() {
    let mut server = server(1 << 20);
    for piece in (0..10).rev() {
        arrive(&mut server, 1 + piece * 100_000, 50_000, false);
        // Takes all bytes except the last one.
        let mut left = 49_999;
        while left > 0 {
            let (from, until) = take(&mut server, left as usize).unwrap();
            left -= until - from;
        }
    }
    let allocated = allocated(&mut server);
    assert!(allocated < 2 * MAX_RECEIVE_SLACK, "{allocated}");
}

proptest! {
    /// Checks pieces that arrive in any order and repeatedly, and are taken in pieces of any size.
    #[test]
    fn every_byte_is_taken_once(
        pieces in prop::collection::vec((0u64..60, 1u64..12, 0usize..200), 1..150),
        ordered in 0usize..100,
    ) {
        const UNIT: u64 = 50;
        const LEN: u64 = 70 * UNIT;
        let mut server = server(LEN);
        let mut taken = vec![false; LEN as usize];
        arrive(&mut server, 0, 1, false);
        if let Ok(bytes) = server.take(ID, ordered) {
            taken[..bytes.len()].fill(true);
        }
        let mut drain = |server: &mut Streams, max: usize| {
            while let Ok((from, until)) = take(server, max) {
                for taken in &mut taken[from as usize..until as usize] {
                    assert!(!std::mem::replace(taken, true));
                }
            }
            taken.iter().all(|taken| *taken)
        };
        for (start, len, max) in pieces {
            arrive(&mut server, start * UNIT, (len * UNIT).min(LEN - start * UNIT), false);
            if max < 100 {
                drain(&mut server, max);
            }
        }
        arrive(&mut server, 0, LEN, true);
        prop_assert!(drain(&mut server, usize::MAX));
        prop_assert_eq!(take(&mut server, 1), Err(ReadError::Closed));
        prop_assert_eq!(server.pool.ranges_kept(), 0);
    }
}
