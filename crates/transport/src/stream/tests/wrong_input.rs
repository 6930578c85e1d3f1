//! Invalid input from the peer, and the exact error codes that it receives.

use anabranch_wire::TransportErrorCode as Code;
use anabranch_wire::VarInt;

use super::*;

/// Returns a server that has opened one stream of each kind. The client has opened one of each kind as well.
fn server() -> Streams {
    let mut server = streams(Side::Server, &config());
    server.open(Dir::Bi).unwrap();
    server.open(Dir::Uni).unwrap();
    for dir in [Dir::Bi, Dir::Uni] {
        let frame = stream_frame(id(Side::Client, dir, 0), 0, b"hello", false);
        receive(&mut server, Time::ZERO, &frame).unwrap();
    }
    server
}

fn code(frames: &[Frame<'_>]) -> Option<Code> {
    let mut server = server();
    let (last, before) = frames.split_last().unwrap();
    for frame in before {
        receive(&mut server, Time::ZERO, frame).unwrap();
    }
    receive(&mut server, Time::ZERO, last).err().map(|error| error.code)
}

const CLIENT_BI: StreamId = id(Side::Client, Dir::Bi, 0);
const CLIENT_UNI: StreamId = id(Side::Client, Dir::Uni, 0);
const SERVER_BI: StreamId = id(Side::Server, Dir::Bi, 0);
const SERVER_UNI: StreamId = id(Side::Server, Dir::Uni, 0);

fn reset(id: StreamId, final_size: u64) -> Frame<'static> {
    Frame::ResetStream { id, code: VarInt::from_u32(0), final_size }
}

fn stop(id: StreamId) -> Frame<'static> {
    Frame::StopSending { id, code: VarInt::from_u32(0) }
}

fn max_data(id: StreamId) -> Frame<'static> {
    Frame::MaxStreamData { id, maximum: 1 << 20 }
}

fn blocked(id: StreamId) -> Frame<'static> {
    Frame::StreamDataBlocked { id, maximum: 0 }
}

#[test]
fn data_beyond_a_stream_limit() {
    let data = [0; 1001];
    assert_eq!(code(&[stream_frame(CLIENT_BI, 0, &data[..1000], false)]), None);
    assert_eq!(code(&[stream_frame(CLIENT_BI, 0, &data, false)]), Some(Code::FLOW_CONTROL_ERROR));
    assert_eq!(code(&[stream_frame(CLIENT_BI, 1000, b"x", false)]), Some(Code::FLOW_CONTROL_ERROR));
    assert_eq!(code(&[stream_frame(CLIENT_UNI, 1 << 61, b"x", true)]), Some(Code::FLOW_CONTROL_ERROR));
    assert_eq!(code(&[stream_frame(CLIENT_UNI, 1000, b"", true)]), None);
    assert_eq!(code(&[stream_frame(CLIENT_UNI, 1001, b"", true)]), Some(Code::FLOW_CONTROL_ERROR));
    assert_eq!(code(&[reset(CLIENT_BI, 1000)]), None);
    assert_eq!(code(&[reset(CLIENT_BI, 1001)]), Some(Code::FLOW_CONTROL_ERROR));
    assert_eq!(code(&[reset(CLIENT_BI, anabranch_wire::MAX_VARINT)]), Some(Code::FLOW_CONTROL_ERROR));
}

#[test]
fn data_beyond_the_connection_limit() {
    // 10 bytes are used; 4990 of the 5000 remain.
    let fill = |last: u64| -> Vec<Frame<'static>> {
        let full = (1..5).map(|index| reset(id(Side::Client, Dir::Bi, index), 1000));
        full.chain([reset(id(Side::Client, Dir::Bi, 5), last)]).collect()
    };
    // The credit of reset streams returns at once, but the peer may use it only after the new limit has been
    // sent.
    assert_eq!(code(&fill(990)), None);
    assert_eq!(code(&fill(991)), Some(Code::FLOW_CONTROL_ERROR));
    let jump = |index| stream_frame(id(Side::Client, Dir::Uni, index), 999, b"x", false);
    let jumps: Vec<Frame<'_>> = (1..6).map(jump).collect();
    assert_eq!(code(&jumps[..4]), None);
    assert_eq!(code(&jumps), Some(Code::FLOW_CONTROL_ERROR), "holes count");
}

#[test]
fn streams_beyond_the_limit() {
    for dir in [Dir::Bi, Dir::Uni] {
        for index in [10, 11, 1_000_000, (1 << 60) - 1] {
            let beyond = id(Side::Client, dir, index);
            let last = Some(Code::STREAM_LIMIT_ERROR);
            assert_eq!(code(&[stream_frame(beyond, 0, b"", false)]), last);
            assert_eq!(code(&[reset(beyond, 0)]), last);
            assert_eq!(code(&[blocked(beyond)]), last);
            if dir == Dir::Bi {
                assert_eq!(code(&[stop(beyond)]), last);
                assert_eq!(code(&[max_data(beyond)]), last);
            }
        }
        assert_eq!(code(&[reset(id(Side::Client, dir, 9), 0)]), None);
    }
}

#[test]
fn frames_against_a_streams_direction() {
    let state = Some(Code::STREAM_STATE_ERROR);
    assert_eq!(code(&[stream_frame(SERVER_UNI, 0, b"", false)]), state);
    assert_eq!(code(&[reset(SERVER_UNI, 0)]), state);
    assert_eq!(code(&[blocked(SERVER_UNI)]), state);
    assert_eq!(code(&[stop(CLIENT_UNI)]), state);
    assert_eq!(code(&[max_data(CLIENT_UNI)]), state);
    for fine in [stop(SERVER_UNI), max_data(SERVER_UNI), stop(CLIENT_BI), max_data(CLIENT_BI)] {
        assert_eq!(code(&[fine]), None);
    }
}

#[test]
fn frames_for_our_streams_before_we_open_them() {
    let state = Some(Code::STREAM_STATE_ERROR);
    let bidi = id(Side::Server, Dir::Bi, 1);
    let uni = id(Side::Server, Dir::Uni, 1);
    assert_eq!(code(&[stream_frame(bidi, 0, b"", false)]), state);
    assert_eq!(code(&[reset(bidi, 0)]), state);
    assert_eq!(code(&[blocked(bidi)]), state);
    assert_eq!(code(&[stop(bidi)]), state);
    assert_eq!(code(&[max_data(bidi)]), state);
    assert_eq!(code(&[stop(uni)]), state);
    assert_eq!(code(&[max_data(uni)]), state);
    assert_eq!(code(&[stream_frame(SERVER_BI, 0, b"", false)]), None);
}

#[test]
fn changed_final_sizes() {
    let fin = stream_frame(CLIENT_BI, 5, b"", true);
    let wrong = Some(Code::FINAL_SIZE_ERROR);
    assert_eq!(code(&[stream_frame(CLIENT_BI, 4, b"", true)]), wrong, "below what was received");
    assert_eq!(code(&[reset(CLIENT_BI, 4)]), wrong);
    assert_eq!(code(&[fin, fin]), None);
    assert_eq!(code(&[fin, stream_frame(CLIENT_BI, 5, b"x", false)]), wrong);
    assert_eq!(code(&[fin, stream_frame(CLIENT_BI, 6, b"", true)]), wrong);
    assert_eq!(code(&[fin, stream_frame(CLIENT_BI, 4, b"", true)]), wrong);
    assert_eq!(code(&[fin, reset(CLIENT_BI, 5)]), None);
    assert_eq!(code(&[fin, reset(CLIENT_BI, 6)]), wrong);
    assert_eq!(code(&[reset(CLIENT_BI, 8), reset(CLIENT_BI, 8)]), None);
    assert_eq!(code(&[reset(CLIENT_BI, 8), reset(CLIENT_BI, 9)]), wrong);
    assert_eq!(code(&[reset(CLIENT_BI, 8), stream_frame(CLIENT_BI, 8, b"x", false)]), wrong);
    assert_eq!(code(&[reset(CLIENT_BI, 8), stream_frame(CLIENT_BI, 7, b"x", false)]), None);
}

#[test]
fn the_same_faults_on_stopped_streams() {
    let mut server = server();
    server.stop(CLIENT_BI, VarInt::from_u32(0)).unwrap();
    let beyond = stream_frame(CLIENT_BI, 1000, b"x", false);
    assert_eq!(receive(&mut server, Time::ZERO, &beyond).unwrap_err().code, Code::FLOW_CONTROL_ERROR);
    let short = reset(CLIENT_BI, 4);
    assert_eq!(receive(&mut server, Time::ZERO, &short).unwrap_err().code, Code::FINAL_SIZE_ERROR);
}

#[test]
fn too_many_holes_end_the_connection() {
    // A stream may have this many ranges until its window is granted again.
    const MOST: u64 = 1024;
    for window in [1 << 20, 1 << 16] {
        let config = StreamsConfig { stream_window: window, connection_window: window, ..config() };
        let mut server = streams(Side::Server, &config);
        let refused = (0..window / 2).rev().find_map(|index| {
            let frame = stream_frame(CLIENT_UNI, index * 2 + 1, b"x", false);
            let error = receive(&mut server, Time::ZERO, &frame).err()?;
            assert_eq!(error.code, Code::INTERNAL_ERROR);
            Some(index)
        });
        let kept = window / 2 - 1 - refused.unwrap();
        assert_eq!(kept, MOST, "ranges of 16 bytes are well below the window of {window}");
    }
}

#[test]
fn single_bytes_in_reverse_order_are_fine() {
    const WINDOW: u64 = 1 << 20;
    let config = StreamsConfig { stream_window: WINDOW, connection_window: WINDOW, ..config() };
    let mut server = streams(Side::Server, &config);
    for offset in (0..WINDOW).rev() {
        let data = [offset as u8];
        receive(&mut server, Time::ZERO, &stream_frame(CLIENT_UNI, offset, &data, false)).unwrap();
    }
    let (data, _) = read(&mut server, CLIENT_UNI);
    assert!(data.len() as u64 == WINDOW && data.iter().enumerate().all(|(i, byte)| *byte == i as u8));
}
