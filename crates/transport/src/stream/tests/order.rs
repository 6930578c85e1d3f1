//! Which stream goes first.

use super::*;

const PIECE: usize = 1000;

fn sender(count: usize) -> (Streams, Vec<StreamId>) {
    let config = StreamsConfig { stream_window: 1 << 20, connection_window: 1 << 20, ..config() };
    let mut client = streams(Side::Client, &config);
    let ids = (0..count).map(|_| client.open(Dir::Uni).unwrap()).collect();
    (client, ids)
}

/// The streams in the order in which their frames leave.
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
    // By level; then those that go one after the other by ID, those that take turns as they came.
    assert_eq!(woken, [2, 5, 4, 1, 0, 3].map(|index| StreamEvent::Writable(ids[index])));
}
