//! Memory of chunks that were read: kept while data arrives, but not by an idle connection.

use anabranch_wire::Stream;

use super::*;

const MANY: usize = 100_000;

fn client() -> Streams {
    let windows = StreamsConfig {
        stream_window: 1 << 20,
        stream_window_max: 1 << 20,
        connection_window: 1 << 22,
        connection_window_max: 1 << 22,
        ..config()
    };
    Streams::new(Side::Client, &windows, 0)
}

fn from_server(index: u64) -> StreamId {
    StreamId::new(Side::Server, Dir::Uni, index)
}

/// Delivers a range of a stream's data.
fn bring(streams: &mut Streams, index: u64, range: std::ops::Range<usize>, fin: bool) {
    let data = vec![7; range.len()];
    let frame = Stream { id: from_server(index), offset: range.start as u64, fin, data: &data };
    streams.on_stream(Time::ZERO, RTT, &frame).unwrap();
}

/// Reads all readable bytes of a stream.
fn read(streams: &mut Streams, index: u64) {
    while let Ok(bytes) = streams.peek(from_server(index)) {
        let len = bytes.len();
        streams.consume(from_server(index), len).unwrap();
    }
}

#[test]
fn an_idle_connection_keeps_none_whatever_ends_first() {
    for (first, second) in [(1, 2), (2, 1)] {
        let mut streams = client();
        // A control stream stays open forever.
        bring(&mut streams, 0, 0..500, false);
        read(&mut streams, 0);
        bring(&mut streams, 1, 0..MANY, true);
        bring(&mut streams, 2, 0..MANY, true);
        read(&mut streams, first);
        assert_eq!(streams.table.len(), 2);
        assert!(streams.pool.kept() > 0, "the other one is not read");
        read(&mut streams, second);
        assert_eq!((streams.table.len(), streams.pool.kept()), (1, 0));
    }
}

#[test]
fn what_one_stream_has_read_is_there_for_the_next() {
    let mut streams = client();
    bring(&mut streams, 0, 0..500, false);
    bring(&mut streams, 1, 0..MANY, true);
    // Stream 2 has received only its first bytes.
    bring(&mut streams, 2, 0..1_000, false);
    read(&mut streams, 1);
    let kept = streams.pool.kept();
    assert!(kept >= MANY, "{kept}");
    bring(&mut streams, 2, 1_000..MANY, true);
    assert!(streams.pool.kept() < kept - MANY / 2, "it has taken some");
    read(&mut streams, 2);
    assert_eq!(streams.pool.kept(), 0);
}

#[test]
fn half_a_stream_that_is_over_holds_none() {
    let mut streams = client();
    streams.set_peer_parameters(&parameters(&config())).unwrap();
    let id = streams.open(Dir::Bi).unwrap();
    // The data arrives packet by packet, so the last chunk has more room than data.
    for offset in (0..MANY as u64).step_by(1_000) {
        let frame = Stream { id, offset, fin: offset + 1_000 == MANY as u64, data: &[7; 1_000] };
        streams.on_stream(Time::ZERO, RTT, &frame).unwrap();
    }
    while let Ok(bytes) = streams.peek(id) {
        let len = bytes.len();
        streams.consume(id, len).unwrap();
    }
    assert_eq!(streams.table.len(), 1, "this end has not finished");
    bring(&mut streams, 0, 0..100, true);
    read(&mut streams, 0);
    assert_eq!(streams.pool.kept(), 0);
}
