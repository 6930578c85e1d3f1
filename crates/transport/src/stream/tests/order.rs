//! Order of streams by priority.

use super::*;

const PIECE: usize = 1000;

fn sender(count: usize) -> (Streams, Vec<StreamId>) {
    let config = StreamsConfig { stream_window: 1 << 20, connection_window: 1 << 20, ..config() };
    let mut client = streams(Side::Client, &config);
    let ids = (0..count).map(|_| client.open(Dir::Uni).unwrap()).collect();
    (client, ids)
}

/// Returns the indices of streams in the order in which their frames are sent.
fn order(client: &mut Streams, packet_size: usize) -> Vec<u64> {
    let mut order = Vec::new();
    while let Some(packet) = send(client, packet_size) {
        for frame in packet.frames() {
            match frame {
                Frame::Stream(frame) => order.push(frame.id.index()),
                other => panic!("{other:?}"),
            }
        }
    }
    order
}

#[test]
fn equal_streams_take_turns() {
    let (mut client, ids) = sender(3);
    for id in &ids {
        client.write(*id, &[0; 3 * PIECE]).unwrap();
    }
    let order = order(&mut client, PIECE + 10);
    assert_eq!(&order[..9], [0, 1, 2, 0, 1, 2, 0, 1, 2]);
}

#[test]
fn others_go_one_after_the_other() {
    let (mut client, ids) = sender(3);
    for id in ids.iter().rev() {
        client.set_priority(*id, Priority { level: 0, incremental: false });
        client.write(*id, &[0; 3 * PIECE]).unwrap();
    }
    let mut order = order(&mut client, PIECE + 10);
    order.dedup();
    assert_eq!(order, [0, 1, 2]);
}

#[test]
fn higher_levels_go_first() {
    let (mut client, ids) = sender(4);
    for (id, level) in ids.iter().zip([0, 5, -3, 5]) {
        client.write(*id, &[0; 2 * PIECE]).unwrap();
        client.set_priority(*id, Priority { level, incremental: level == 5 });
    }
    assert_eq!(client.priority(ids[2]), Some(Priority { level: -3, incremental: false }));
    let mut order = order(&mut client, PIECE + 20);
    order.dedup();
    assert_eq!(order[..3], [1, 3, 1]);
    assert_eq!(order[order.len() - 2..], [0, 2]);
}

#[test]
fn small_streams_share_a_packet() {
    let (mut client, ids) = sender(5);
    for id in &ids {
        client.write(*id, b"small").unwrap();
        client.finish(*id).unwrap();
    }
    assert_eq!(send(&mut client, 1200).unwrap().frames().len(), 5);
    assert!(!client.has_pending_data());
}

#[test]
fn lost_data_goes_before_new_data_of_the_stream() {
    let (mut client, ids) = sender(1);
    client.write(ids[0], &[1; 5000]).unwrap();
    let first = send(&mut client, 1000).unwrap();
    let second = send(&mut client, 1000).unwrap();
    assert_eq!(client.pending_bytes(), 5000 - client.bytes_sent());
    lost(&mut client, &first);
    let offset = |packet: &Packet| match packet.frames()[0] {
        Frame::Stream(frame) => frame.offset,
        other => panic!("{other:?}"),
    };
    assert_eq!(offset(&send(&mut client, 1000).unwrap()), offset(&first));
    lost(&mut client, &second);
    acked(&mut client, &second);
    assert!(offset(&send(&mut client, 1000).unwrap()) > offset(&second), "acknowledged after all");
}

#[test]
fn data_that_turns_out_to_have_arrived_is_not_pending() {
    let (mut client, ids) = sender(1);
    client.write(ids[0], &[1; 500]).unwrap();
    let packet = send(&mut client, 1000).unwrap();
    lost(&mut client, &packet);
    assert!(client.has_pending_data());
    assert_eq!(client.pending_bytes(), 500);
    acked(&mut client, &packet);
    assert!(!client.has_pending_data());
    assert_eq!(client.pending_bytes(), 0);
}

#[test]
fn scraps_wait_for_the_next_packet() {
    let (mut client, ids) = sender(1);
    client.write(ids[0], &[1; 500]).unwrap();
    assert!(send(&mut client, 20).is_none());
    assert!(client.has_pending_data());
    assert!(send(&mut client, 1200).is_some());
    client.write(ids[0], b"tiny").unwrap();
    assert!(send(&mut client, 20).is_some(), "all there is may be as short as it likes");
}

#[test]
fn the_more_urgent_writer_is_woken_first() {
    let config = StreamsConfig { stream_window: 1 << 20, connection_window: 1000, ..config() };
    let mut client = streams(Side::Client, &config);
    let ids: Vec<_> = (0..6).map(|_| client.open(Dir::Uni).unwrap()).collect();
    client.write(ids[5], &[0; 1000]).unwrap();
    let priorities = [(0, true), (3, true), (3, false), (-1, false), (3, true), (3, false)];
    for index in [4, 5, 3, 2, 1, 0] {
        let (level, incremental) = priorities[index];
        client.set_priority(ids[index], Priority { level, incremental });
        assert_eq!(client.write(ids[index], b"x"), Err(WriteError::Blocked));
    }
    client.on_max_data(2000);
    let woken: Vec<_> = events(&mut client);
    // Writers are woken by level. Within a level, non-incremental streams come first, by ID, then incremental
    // ones in order of arrival.
    assert_eq!(woken, [2, 5, 4, 1, 0, 3].map(|index| StreamEvent::Writable(ids[index])));
}

#[test]
fn who_stands_behind_is_spared_a_packet_of_eight() {
    for incremental in [false, true] {
        let (mut client, ids) = sender(4);
        for id in &ids {
            client.write(*id, &[0; 40 * PIECE]).unwrap();
        }
        client.set_priority(ids[0], Priority { level: 0, incremental: false });
        for id in &ids[1..3] {
            client.set_priority(*id, Priority { level: 0, incremental });
        }
        // A lower level waits until the higher levels are done.
        client.set_priority(ids[3], Priority { level: -1, incremental });
        let order = order(&mut client, PIECE + 10);
        let spared: Vec<u64> = order[..40].iter().copied().filter(|index| *index != 0).collect();
        assert_eq!(spared, [1, 2, 1, 2, 1], "incremental: {incremental}");
        let last_of_others = order.iter().rposition(|index| *index < 3);
        assert!(last_of_others < order.iter().position(|index| *index == 3), "incremental: {incremental}");
    }
}

/// Lets two writers write all the time, the first one always before the second. Returns the bytes that each
/// has sent.
fn shares(incremental: bool, config: &StreamsConfig) -> [u64; 2] {
    let mut client = streams(Side::Client, config);
    let ids: Vec<_> = (0..2).map(|_| client.open(Dir::Uni).unwrap()).collect();
    let mut limit = config.connection_window;
    let mut sent = [0; 2];
    for id in &ids {
        client.set_priority(*id, Priority { level: 0, incremental });
    }
    for _ in 0..4_000 {
        for id in &ids {
            let _ = client.write(*id, &[0; 1 << 20]);
        }
        let Some(packet) = send(&mut client, 1200) else { continue };
        for frame in packet.frames() {
            if let Frame::Stream(frame) = frame {
                sent[frame.id.index() as usize] += frame.data.len() as u64;
                limit += frame.data.len() as u64;
            }
        }
        acked(&mut client, &packet);
        client.on_max_data(limit);
    }
    sent
}

/// Checks, with the send buffer or the connection's credit as the limit, that a writer with nothing to send
/// gets at least `MIN_SHARE`, and an equal share if there is more room.
#[test]
fn the_fastest_writer_does_not_take_all_the_room() {
    let wide = StreamsConfig { stream_window: 1 << 30, connection_window: 1 << 30, ..config() };
    let by_buffer = StreamsConfig { send_buffer: 8 * MIN_SHARE, ..wide.clone() };
    let by_credit = StreamsConfig { connection_window: 8 * MIN_SHARE, ..wide };
    for config in [by_buffer, by_credit] {
        let [first, second] = shares(true, &config);
        assert!(second * 10 >= first * 8, "{first} and {second} bytes");
        let [first, second] = shares(false, &config);
        assert!(second * 10 >= first, "{first} and {second} bytes");
        assert!(second * 4 <= first, "{first} and {second} bytes");
    }
}

/// Checks that a stream that was notified of room and does not use it keeps its reservation for
/// `MAX_IDLE_TURNS` turns of the others, and then loses it.
#[test]
fn room_that_is_left_and_not_used_holds_nobody_up() {
    let wide = StreamsConfig { stream_window: 1 << 30, connection_window: 1 << 30, ..config() };
    let mut client = streams(Side::Client, &StreamsConfig { send_buffer: 100_000, ..wide });
    let ids: Vec<_> = (0..10).map(|_| client.open(Dir::Uni).unwrap()).collect();
    assert_eq!(client.write(ids[0], &[0; 200_000]), Ok(100_000));
    for id in &ids[1..] {
        assert_eq!(client.write(*id, b"x"), Err(WriteError::Blocked));
    }
    let mut held_up = 0;
    for turn in 0..1_000 {
        let packet = send(&mut client, 1200).expect("something to send");
        acked(&mut client, &packet);
        let room = 100_000 - client.buffered_bytes();
        let free = client.writable(ids[0]).unwrap();
        held_up = if free < room { turn } else { held_up };
        let _ = client.write(ids[0], &[0; 200_000]);
    }
    assert!((1..=10 * MAX_IDLE_TURNS).contains(&held_up), "{held_up} turns");
    assert_eq!((client.waiting.hungry.len(), client.waiting.notified.len()), (0, 0));
}

/// Checks that no room is reserved while nothing is in flight, because no acknowledgment would then wake the
/// other writers.
#[test]
fn nobody_waits_for_room_that_is_there() {
    let config = StreamsConfig { stream_window: 1 << 30, connection_window: 1_000, ..config() };
    let mut client = streams(Side::Client, &config);
    let [a, b, c] = [(); 3].map(|()| client.open(Dir::Uni).unwrap());
    assert_eq!(client.write(c, &[0; 1_000]), Ok(1_000));
    for id in [b, a] {
        assert_eq!(client.write(id, b"x"), Err(WriteError::Blocked));
    }
    while let Some(packet) = send(&mut client, 1200) {
        acked(&mut client, &packet);
    }
    client.on_max_data(2_000);
    // Writer `b`, the first in line, is notified but does not write.
    assert_eq!(client.write(a, b"x"), Ok(1));
}

/// Checks that streams of a higher level reserve no room for others.
#[test]
fn room_is_left_to_equals_only() {
    let config = StreamsConfig { stream_window: 1 << 30, connection_window: 1_000, ..config() };
    for level in [-1, 0, 1] {
        let mut client = streams(Side::Client, &config);
        let [a, b, c] = [(); 3].map(|()| client.open(Dir::Uni).unwrap());
        assert_eq!(client.write(c, &[0; 1_000]), Ok(1_000));
        for id in [b, a] {
            assert_eq!(client.write(id, b"x"), Err(WriteError::Blocked));
        }
        client.set_priority(a, Priority { level, incremental: true });
        client.on_max_data(2_000);
        assert_eq!(client.writable(a), Some(if level > 0 { 1_000 } else { 0 }), "level {level}");
    }
}

/// Checks that a writer leaves room for others even if it writes in small pieces.
#[test]
fn a_writer_leaves_room_with_every_piece() {
    let wide = StreamsConfig { stream_window: 1 << 30, connection_window: 1 << 30, ..config() };
    let mut client = streams(Side::Client, &StreamsConfig { send_buffer: 8 * MIN_SHARE, ..wide });
    let [a, b] = [(); 2].map(|()| client.open(Dir::Uni).unwrap());
    let all = vec![0; 8 * MIN_SHARE as usize];
    assert_eq!(client.write(a, &all), Ok(all.len()));
    assert_eq!(client.write(b, &all), Err(WriteError::Blocked));
    while client.buffered_bytes() > 6 * MIN_SHARE {
        let packet = send(&mut client, 1200).unwrap();
        acked(&mut client, &packet);
    }
    while client.write(a, &[0; 100]).is_ok() {}
    assert!(client.writable(b).unwrap() >= MIN_SHARE);
}
