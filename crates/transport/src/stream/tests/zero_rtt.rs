//! Remembered limits for 0-RTT that is accepted or refused.

use anabranch_wire::{TransportErrorCode, VarInt};

use super::*;

fn early(config: &StreamsConfig) -> Streams {
    let mut client = Streams::new(Side::Client, config, 0);
    assert_eq!(client.open(Dir::Bi), None, "no limits yet");
    client.set_peer_parameters(&parameters(config)).unwrap();
    assert_eq!(events(&mut client), [StreamEvent::Available(Dir::Bi)]);
    client
}

#[test]
fn accepted_limits_may_grow() {
    let mut client = early(&config());
    let id = client.open(Dir::Bi).unwrap();
    client.write(id, &[0; 1500]).unwrap();
    let larger = StreamsConfig { stream_window: 3000, max_bidi: 20, connection_window: 9000, ..config() };
    client.set_peer_parameters(&parameters(&larger)).unwrap();
    assert_eq!(events(&mut client), [StreamEvent::Writable(id)]);
    assert_eq!(client.writable(id), Some(2000));
    assert_eq!(std::iter::from_fn(|| client.open(Dir::Bi)).count(), 19);
}

#[test]
fn accepted_limits_must_not_shrink() {
    let shrunk = [
        StreamsConfig { stream_window: 999, ..config() },
        StreamsConfig { connection_window: 4999, ..config() },
        StreamsConfig { max_bidi: 9, ..config() },
        StreamsConfig { max_uni: 9, ..config() },
    ];
    for shrunk in shrunk {
        let error = early(&config()).set_peer_parameters(&parameters(&shrunk)).unwrap_err();
        assert_eq!(error.code, TransportErrorCode::PROTOCOL_VIOLATION);
    }
    early(&config()).set_peer_parameters(&parameters(&config())).unwrap();
}

#[test]
fn refused_data_is_sent_again() {
    let mut client = early(&config());
    let mut server = streams(Side::Server, &config());
    let (a, b) = (client.open(Dir::Bi).unwrap(), client.open(Dir::Uni).unwrap());
    client.write(a, b"first").unwrap();
    client.finish(a).unwrap();
    client.write(b, b"second").unwrap();
    while send(&mut client, 1200).is_some() {}
    client.write(b, b" and third").unwrap();
    client.reject_zero_rtt();
    assert!(send(&mut client, 1200).is_none(), "no credit before the new limits");
    client.set_peer_parameters(&parameters(&config())).unwrap();
    assert_eq!(client.pending_bytes(), 21);
    exchange(&mut client, &mut server);
    assert_eq!(read(&mut server, a), (b"first".to_vec(), ReadError::Finished));
    assert_eq!(read(&mut server, b), (b"second and third".to_vec(), ReadError::Blocked));
    assert_eq!(client.bytes_sent(), 21);
}

#[test]
fn refused_data_waits_for_lower_limits_to_rise() {
    let mut client = early(&config());
    let mut ids = Vec::new();
    for _ in 0..4 {
        let id = client.open(Dir::Uni).unwrap();
        client.write(id, &[id.index() as u8; 900]).unwrap();
        client.finish(id).unwrap();
        ids.push(id);
    }
    while send(&mut client, 1200).is_some() {}
    let lower = StreamsConfig { max_uni: 2, stream_window: 400, connection_window: 600, ..config() };
    let mut server = streams(Side::Server, &lower);
    client.reject_zero_rtt();
    client.set_peer_parameters(&parameters(&lower)).unwrap();
    for _ in 0..200 {
        // The server accepts every frame, so no limit is violated.
        exchange(&mut client, &mut server);
        while let Some(id) = server.accept(Dir::Uni) {
            assert!(ids.contains(&id));
        }
        for id in &ids {
            while let Ok(data) = server.take(*id, 100) {
                assert!(data.iter().all(|&byte| byte == id.index() as u8));
            }
        }
    }
    assert_eq!(server.bytes_received(), 3600);
    assert_eq!((client.open_streams(), server.open_streams()), (0, 0));
}

#[test]
fn refused_resets_and_stops_are_sent_again() {
    let mut client = early(&config());
    let id = client.open(Dir::Bi).unwrap();
    client.write(id, &[0; 500]).unwrap();
    while send(&mut client, 1200).is_some() {}
    client.reset(id, VarInt::from_u32(5)).unwrap();
    client.stop(id, VarInt::from_u32(6)).unwrap();
    while send(&mut client, 1200).is_some() {}
    client.reject_zero_rtt();
    client.set_peer_parameters(&parameters(&config())).unwrap();
    let packet = send(&mut client, 1200).unwrap();
    let reset = Frame::ResetStream { id, code: VarInt::from_u32(5), final_size: 0 };
    assert_eq!(packet.frames(), [reset, Frame::StopSending { id, code: VarInt::from_u32(6) }]);
    assert_eq!(client.flow.send_credit.available(), 5000);
}
