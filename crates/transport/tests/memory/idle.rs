//! Memory of connections without traffic.

use std::time::Duration;

use anabranch_transport::stream::ReadError;
use anabranch_transport::wire::{Dir, Side, VarInt};
use bytes::Bytes;

use crate::acknowledgments::{End, connected};

/// Maximum memory of a server's only connection while it is idle, with the tables for it, in bytes.
const IDLE: isize = 11 << 10;
/// Maximum memory that an idle connection keeps of its last transfer, in bytes.
const KEPT: isize = 1 << 10;
/// Bytes that the server sends.
const SENT: usize = 4 << 20;

/// Lets the server rest. Returns its memory then.
fn rested(server: &mut End) -> isize {
    let at = server.connection().rest_at().expect("there was traffic");
    server.charge(|connection| connection.rest(at));
    assert_eq!(server.connection().rest_at(), None, "there is nothing more to free");
    server.live
}

#[test]
fn a_connection_that_rests_keeps_little_of_its_handshake_and_of_its_last_transfer() {
    let (mut now, [mut client, mut server]) = connected(Side::Server);
    let before = server.live;
    server.charge(|connection| connection.rest(now - Duration::from_secs(1)));
    assert_eq!(server.live, before, "an early call frees nothing");
    let idle = rested(&mut server);
    assert!(before - idle >= 3 << 9, "{before} bytes before it rests, {idle} after that");

    let mut rest = Bytes::from(vec![7; SENT]);
    let id = server.charge(|connection| connection.streams().open(Dir::Uni).unwrap());
    let (mut received, mut to_server) = (0, Vec::new());
    while received < SENT {
        server.charge(|connection| {
            let _full = connection.streams().write_bytes(id, &mut rest);
            if rest.is_empty() {
                let _again = connection.streams().finish(id);
            }
        });
        let mut to_client = server.turn(now, client.local, &mut to_server);
        now += Duration::from_millis(5);
        to_server = client.turn(now, server.local, &mut to_client);
        let streams = client.connection().streams();
        loop {
            match streams.peek(id) {
                Ok(bytes) => {
                    let len = bytes.len();
                    received += len;
                    streams.consume(id, len).unwrap();
                }
                Err(ReadError::Finished | ReadError::Blocked | ReadError::Closed) => break,
                Err(error) => panic!("{error}"),
            }
        }
    }
    for _ in 0..400 {
        let mut to_client = server.turn(now, client.local, &mut to_server);
        now += Duration::from_millis(5);
        to_server = client.turn(now, server.local, &mut to_client);
    }
    let busy = server.live;
    let after = rested(&mut server);
    assert!(after <= idle + KEPT, "{after} bytes after a transfer, {idle} before");
    assert!(busy >= after + (16 << 10), "{busy} bytes before it rests: the test shows nothing");

    server.charge(|connection| connection.close(now, VarInt::ZERO, Bytes::new()));
    for _ in 0..4 {
        server.turn(now, client.local, &mut []);
        now += Duration::from_secs(60);
    }
    let alone = server.live;
    assert!((1..=IDLE).contains(&(after - alone)), "{} bytes are freed at the end", after - alone);
}
