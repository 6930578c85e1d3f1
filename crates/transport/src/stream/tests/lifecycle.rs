//! A stream from its first frame to its removal.

use super::*;
use anabranch_wire::VarInt;

#[test]
fn a_request_and_its_answer() {
    let (mut client, mut server) = pair(&config());
    let id = client.open(Dir::Bi).unwrap();
    assert_eq!(client.write(id, b"question"), Ok(8));
    client.finish(id).unwrap();
    assert_eq!(client.write(id, b"more"), Err(WriteError::Closed));
    assert_eq!(client.finish(id), Err(ClosedStream));
    exchange(&mut client, &mut server);
    assert_eq!(events(&mut client), [StreamEvent::Finished(id)]);
    assert_eq!(events(&mut server), [StreamEvent::Opened(Dir::Bi), StreamEvent::Readable(id)]);
    assert_eq!((server.accept(Dir::Bi), server.accept(Dir::Bi)), (Some(id), None));
    assert!(server.is_readable(id));
    assert_eq!(read(&mut server, id), (b"question".to_vec(), ReadError::Finished));
    assert!(!server.is_readable(id));
    let mut answer = Bytes::from(vec![9; 800]);
    assert_eq!(server.write_bytes(id, &mut answer), Ok(800));
    assert!(answer.is_empty());
    server.finish(id).unwrap();
    exchange(&mut client, &mut server);
    assert_eq!(server.open_streams(), 0, "both halves are over");
    assert_eq!(client.open_streams(), 1, "the answer is not read yet");
    assert_eq!(read(&mut client, id), (vec![9; 800], ReadError::Finished));
    assert_eq!(client.open_streams(), 0);
    assert_eq!(client.peek(id), Err(ReadError::Closed));
    assert_eq!(client.write(id, b"x"), Err(WriteError::Closed));
    assert_eq!(client.bytes_sent(), 8);
    assert_eq!(client.bytes_received(), 800);
}

#[test]
fn an_end_without_data() {
    let (mut client, mut server) = pair(&config());
    let id = client.open(Dir::Uni).unwrap();
    client.finish(id).unwrap();
    assert!(client.has_pending_data());
    let packet = send(&mut client, 1200).unwrap();
    assert_eq!(packet.frames(), [stream_frame(id, 0, b"", true)]);
    lost(&mut client, &packet);
    let again = send(&mut client, 1200).unwrap();
    assert_eq!(again.frames(), packet.frames());
    deliver(&mut server, &again);
    acked(&mut client, &again);
    assert_eq!(events(&mut client), [StreamEvent::Finished(id)]);
    assert_eq!(client.open_streams(), 0);
    assert_eq!(server.peek(id), Err(ReadError::Finished));
    assert_eq!(server.open_streams(), 0);
}

#[test]
fn a_late_end_is_sent_alone_and_told() {
    let (mut client, mut server) = pair(&config());
    let id = client.open(Dir::Uni).unwrap();
    client.write(id, b"data").unwrap();
    exchange(&mut client, &mut server);
    assert_eq!(read(&mut server, id), (b"data".to_vec(), ReadError::Blocked));
    events(&mut server);
    client.finish(id).unwrap();
    let packet = send(&mut client, 1200).unwrap();
    assert_eq!(packet.frames(), [stream_frame(id, 4, b"", true)]);
    deliver(&mut server, &packet);
    assert_eq!(events(&mut server), [StreamEvent::Readable(id)]);
    assert_eq!(server.take(id, 10), Err(ReadError::Finished));
}

#[test]
fn readable_is_told_once_until_reading_blocks() {
    let (mut client, mut server) = pair(&config());
    let id = client.open(Dir::Uni).unwrap();
    for _ in 0..3 {
        client.write(id, b"x").unwrap();
        exchange(&mut client, &mut server);
    }
    assert_eq!(events(&mut server), [StreamEvent::Opened(Dir::Uni), StreamEvent::Readable(id)]);
    server.consume(id, 3).unwrap();
    client.write(id, b"y").unwrap();
    exchange(&mut client, &mut server);
    assert_eq!(events(&mut server), [], "reading has not blocked yet");
    assert_eq!(read(&mut server, id), (b"y".to_vec(), ReadError::Blocked));
    client.write(id, b"z").unwrap();
    exchange(&mut client, &mut server);
    assert_eq!(events(&mut server), [StreamEvent::Readable(id)]);
}

#[test]
fn a_reset_drops_data_and_is_told() {
    let (mut client, mut server) = pair(&config());
    let id = client.open(Dir::Uni).unwrap();
    client.write(id, &[1; 600]).unwrap();
    exchange(&mut client, &mut server);
    client.write(id, &[2; 300]).unwrap();
    assert_eq!(client.pending_bytes(), 300);
    client.reset(id, VarInt::from_u32(42)).unwrap();
    assert_eq!(client.reset(id, VarInt::from_u32(43)), Err(ClosedStream));
    assert_eq!((client.pending_bytes(), client.buffered_bytes()), (0, 0));
    let packet = send(&mut client, 1200).unwrap();
    assert_eq!(packet.frames(), [Frame::ResetStream { id, code: VarInt::from_u32(42), final_size: 600 }]);
    lost(&mut client, &packet);
    let again = send(&mut client, 1200).unwrap();
    assert_eq!(again.frames(), packet.frames());
    deliver(&mut server, &again);
    deliver(&mut server, &packet);
    acked(&mut client, &again);
    lost(&mut client, &packet);
    assert_eq!(send(&mut client, 1200).map(|packet| packet.frames), None);
    assert_eq!(client.open_streams(), 0);
    assert_eq!(server.flow.receive_credit.outstanding(), 0, "unread data counts as read");
    assert_eq!(server.open_streams(), 1, "the application does not know yet");
    assert_eq!(server.peek(id), Err(ReadError::Reset(VarInt::from_u32(42))));
    assert_eq!(server.open_streams(), 0);
}

#[test]
fn a_reset_after_all_data_changes_nothing() {
    let (mut client, mut server) = pair(&config());
    let id = client.open(Dir::Uni).unwrap();
    client.write(id, b"all").unwrap();
    client.finish(id).unwrap();
    let data = send(&mut client, 1200).unwrap();
    client.reset(id, VarInt::from_u32(1)).unwrap();
    let reset = send(&mut client, 1200).unwrap();
    deliver(&mut server, &data);
    deliver(&mut server, &reset);
    assert_eq!(read(&mut server, id), (b"all".to_vec(), ReadError::Finished));
    assert_eq!(server.flow.receive_credit.outstanding(), 0);
}

#[test]
fn data_after_a_reset_is_dropped() {
    let (mut client, mut server) = pair(&config());
    let id = client.open(Dir::Uni).unwrap();
    client.write(id, b"all").unwrap();
    client.finish(id).unwrap();
    let data = send(&mut client, 1200).unwrap();
    client.reset(id, VarInt::from_u32(1)).unwrap();
    let reset = send(&mut client, 1200).unwrap();
    deliver(&mut server, &reset);
    deliver(&mut server, &data);
    assert_eq!(read(&mut server, id), (vec![], ReadError::Reset(VarInt::from_u32(1))));
    deliver(&mut server, &data);
    assert_eq!(server.open_streams(), 0, "a late frame does not open the stream again");
    assert_eq!(server.flow.receive_credit.outstanding(), 0);
}

#[test]
fn stop_sending_makes_the_peer_reset() {
    let (mut client, mut server) = pair(&config());
    let id = client.open(Dir::Bi).unwrap();
    client.write(id, &[1; 500]).unwrap();
    exchange(&mut client, &mut server);
    server.stop(id, VarInt::from_u32(7)).unwrap();
    assert_eq!(server.stop(id, VarInt::from_u32(8)), Err(ClosedStream));
    assert_eq!(server.peek(id), Err(ReadError::Closed));
    assert_eq!(server.consume(id, 1), Err(ClosedStream));
    assert_eq!(server.flow.receive_credit.outstanding(), 0);
    events(&mut client);
    exchange(&mut client, &mut server);
    assert_eq!(
        events(&mut client),
        [StreamEvent::Stopped(id, VarInt::from_u32(7)), StreamEvent::ResetAcknowledged(id)]
    );
    assert_eq!(client.write(id, b"more"), Err(WriteError::Stopped(VarInt::from_u32(7))));
    assert_eq!(client.stopped(id), Some(VarInt::from_u32(7)));
    assert!(client.is_send_closed(id));
    assert_eq!(client.send_state(id), Some(SendState::ResetRecvd));
    assert_eq!(server.open_streams(), 1, "the server may still send");
    assert!(server.is_receive_closed(id));
    server.finish(id).unwrap();
    exchange(&mut client, &mut server);
    assert_eq!(client.peek(id), Err(ReadError::Finished));
    assert_eq!((client.open_streams(), server.open_streams()), (0, 0));
}

#[test]
fn stop_sending_after_everything_is_acknowledged_is_ignored() {
    let (mut client, mut server) = pair(&config());
    let id = client.open(Dir::Bi).unwrap();
    client.finish(id).unwrap();
    exchange(&mut client, &mut server);
    events(&mut client);
    receive(&mut client, Time::ZERO, &Frame::StopSending { id, code: VarInt::from_u32(1) }).unwrap();
    assert_eq!(events(&mut client), []);
    assert!(!client.has_pending_control());
}

#[test]
fn a_lost_stop_sending_is_repeated_only_while_it_matters() {
    let (mut client, mut server) = pair(&config());
    let id = client.open(Dir::Uni).unwrap();
    client.write(id, b"x").unwrap();
    exchange(&mut client, &mut server);
    server.stop(id, VarInt::from_u32(3)).unwrap();
    let stop = send(&mut server, 1200).unwrap();
    lost(&mut server, &stop);
    assert_eq!(send(&mut server, 1200).unwrap().frames(), stop.frames());
    client.finish(id).unwrap();
    let end = send(&mut client, 1200).unwrap();
    deliver(&mut server, &end);
    assert_eq!(server.open_streams(), 0);
    lost(&mut server, &stop);
    assert!(!server.has_pending_control());
}

#[test]
fn data_on_a_stopped_stream_returns_its_credit() {
    let mut server = streams(Side::Server, &config());
    let id = id(Side::Client, Dir::Uni, 0);
    receive(&mut server, Time::ZERO, &stream_frame(id, 500, &[0; 100], false)).unwrap();
    server.stop(id, VarInt::from_u32(0)).unwrap();
    for offset in [0, 600, 700] {
        receive(&mut server, Time::ZERO, &stream_frame(id, offset, &[0; 100], false)).unwrap();
    }
    assert_eq!(server.bytes_received(), 800);
    assert_eq!(server.flow.receive_credit.outstanding(), 0);
    receive(&mut server, Time::ZERO, &stream_frame(id, 900, &[], true)).unwrap();
    assert_eq!(server.bytes_received(), 900);
    assert_eq!(server.flow.receive_credit.outstanding(), 0);
    assert_eq!(server.open_streams(), 0, "the final size is all that was still wanted");
}

#[test]
fn opening_a_high_stream_makes_no_objects_for_lower_ones() {
    let config = StreamsConfig { max_bidi: 20_000, ..config() };
    let mut server = streams(Side::Server, &config);
    let high = id(Side::Client, Dir::Bi, 10_000);
    receive(&mut server, Time::ZERO, &stream_frame(high, 0, b"x", false)).unwrap();
    assert_eq!(server.open_streams(), 1);
    assert_eq!(events(&mut server), [StreamEvent::Opened(Dir::Bi), StreamEvent::Readable(high)]);
    let accepted = std::iter::from_fn(|| server.accept(Dir::Bi)).count();
    assert_eq!(accepted, 10_001);
    assert_eq!(server.open_streams(), 1, "accepting alone makes none either");
    let low = id(Side::Client, Dir::Bi, 77);
    assert_eq!(server.peek(low), Err(ReadError::Blocked));
    assert_eq!(server.write(low, b"hello"), Ok(5));
    assert_eq!(server.open_streams(), 2);
    receive(&mut server, Time::ZERO, &stream_frame(low, 0, b"y", true)).unwrap();
    assert_eq!(read(&mut server, low), (b"y".to_vec(), ReadError::Finished));
}

#[test]
fn an_idle_connection_owns_no_memory() {
    let streams = streams(Side::Server, &config());
    assert_eq!(streams.control.capacity() + streams.events.capacity() + streams.waiting.queue.capacity(), 0);
    assert_eq!(streams.table.capacity(), 0);
}

#[test]
fn calls_on_unknown_streams_are_harmless() {
    let mut client = streams(Side::Client, &config());
    for unknown in [id(Side::Client, Dir::Bi, 3), id(Side::Server, Dir::Uni, 3)] {
        assert_eq!(client.write(unknown, b"x"), Err(WriteError::Closed));
        assert_eq!(client.peek(unknown), Err(ReadError::Closed));
        assert_eq!(client.take(unknown, 1), Err(ReadError::Closed));
        assert_eq!(client.consume(unknown, 1), Err(ClosedStream));
        assert_eq!(client.finish(unknown), Err(ClosedStream));
        assert_eq!(client.reset(unknown, VarInt::from_u32(0)), Err(ClosedStream));
        assert_eq!(client.stop(unknown, VarInt::from_u32(0)), Err(ClosedStream));
        assert_eq!(client.priority(unknown), None);
        client.set_priority(unknown, Priority::default());
        let data = Token::Stream { id: unknown, offset: 0, len: 5, fin: true };
        for token in [data, Token::ResetStream(unknown), Token::MaxStreamData(unknown)] {
            client.on_acked(&token);
            client.on_lost(&token);
        }
    }
    assert_eq!(send(&mut client, 1200).map(|packet| packet.frames), None);
}

#[test]
fn a_stream_is_unacknowledged_until_the_peer_has_its_end() {
    let (mut client, mut server) = pair(&config());
    let (finished, reset) = (client.open(Dir::Bi).unwrap(), client.open(Dir::Bi).unwrap());
    client.write(finished, b"all").unwrap();
    client.write(reset, b"some").unwrap();
    exchange(&mut client, &mut server);
    assert_eq!(client.buffered_bytes(), 0);
    client.finish(finished).unwrap();
    client.reset(reset, VarInt::from_u32(7)).unwrap();
    assert_eq!((client.unacknowledged_streams(Dir::Bi), client.unacknowledged_streams(Dir::Uni)), (2, 0));
    let packet = send(&mut client, 1200).unwrap();
    assert_eq!(client.unacknowledged_streams(Dir::Bi), 2);
    acked(&mut client, &packet);
    assert_eq!(client.unacknowledged_streams(Dir::Bi), 0);
}
