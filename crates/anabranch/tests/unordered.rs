//! Out-of-order reading of streams, over a link that reorders and loses datagrams.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "helpers of tests are tests")]

use anabranch::{
    Chunk, Connection, Endpoint, ReadError, ReadExactError, RecvStream, StreamsConfig, TransportConfig,
    VarInt, Version,
};
use anabranch_testkit::endpoints::{Pair, connected, loopback, within};
use anabranch_testkit::pattern;
use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use tokio::net::UdpSocket;

/// Number of datagrams in a group whose order the link reverses.
const GROUP: usize = 6;

/// Number of datagrams after which the link loses one, if it is large.
const LOST: usize = 40;

/// Length in bytes above which a datagram to the client carries stream data.
const LARGE: usize = 1_000;

/// Starts a link between the server and one client, whose address it takes from the first datagram. Large
/// datagrams reach the client in groups in reverse order, and some are lost.
async fn link(server: SocketAddr) -> SocketAddr {
    let inside = UdpSocket::bind(loopback()).await.unwrap();
    let outside = UdpSocket::bind(loopback()).await.unwrap();
    outside.connect(server).await.unwrap();
    let address = inside.local_addr().unwrap();
    tokio::spawn(async move {
        let (mut up, mut down) = (vec![0; 65_536], vec![0; 65_536]);
        let (mut group, mut count, mut client) = (Vec::<Vec<u8>>::new(), 0, None);
        loop {
            let whole = tokio::select! {
                read = inside.recv_from(&mut up) => {
                    let Ok((n, from)) = read else { return };
                    client = Some(from);
                    let _ = outside.send(&up[..n]).await;
                    continue;
                }
                read = outside.recv(&mut down) => {
                    let Ok(n) = read else { return };
                    count += 1;
                    if n > LARGE && count % LOST == 0 {
                        continue;
                    }
                    group.push(down[..n].to_vec());
                    n <= LARGE || group.len() == GROUP
                }
                () = tokio::time::sleep(Duration::from_millis(3)), if !group.is_empty() => true,
            };
            if let Some(client) = client.filter(|_| whole) {
                for datagram in group.drain(..).rev() {
                    let _ = inside.send_to(&datagram, client).await;
                }
            }
        }
    });
    address
}

/// Returns both sides of a connection over [`link`], and their endpoints.
async fn over_link(transport: TransportConfig, version: Version) -> (Connection, Connection, [Endpoint; 2]) {
    let mut pair = Pair::with_transport(transport.with_versions([version]));
    pair.client = pair.client.with_initial_version(version);
    let (client, server) = pair.endpoints();
    let through = link(server.local_addr().unwrap()).await;
    let connecting = client.connect(through, "localhost").unwrap();
    let accepting = async { server.accept().await.unwrap().await.unwrap() };
    let (ours, theirs) = within(async { tokio::join!(connecting, accepting) }).await;
    (ours.unwrap(), theirs, [client, server])
}

/// Copies pieces to their offsets until the stream ends. Returns the number of pieces that were read after a
/// piece with a higher offset.
async fn gather(stream: &mut RecvStream, into: &mut [u8], max: usize) -> usize {
    let (mut filled, mut highest, mut overtaken) = (vec![false; into.len()], 0, 0);
    while let Some(Chunk { offset, bytes, .. }) = stream.read_unordered(max).await.unwrap() {
        assert!((1..=max).contains(&bytes.len()));
        let place = offset as usize..offset as usize + bytes.len();
        into[place.clone()].copy_from_slice(&bytes);
        assert!(filled[place.clone()].iter_mut().all(|filled| !std::mem::replace(filled, true)), "{place:?}");
        overtaken += usize::from(offset < highest);
        highest = highest.max(offset);
    }
    assert!(filled.iter().all(|filled| *filled));
    overtaken
}

#[tokio::test]
async fn pieces_come_as_they_arrive_and_none_is_missing() {
    const LEN: usize = 3_000_000;
    for version in [Version::V1, Version::REVERSO] {
        // The windows are small, so they must be extended many times.
        let streams = StreamsConfig::default().with_stream_window(200_000).with_stream_window_max(200_000);
        let (ours, theirs, _endpoints) =
            over_link(TransportConfig::default().with_streams(streams), version).await;
        let data = Bytes::from(pattern(LEN));
        let mut send = theirs.open_uni().await.unwrap();
        let expected = data.clone();
        let sending = tokio::spawn(async move {
            send.write_chunk(data).await.unwrap();
            send.finish().unwrap();
            send.stopped().await.unwrap()
        });
        let mut receive = within(ours.accept_uni()).await.unwrap();
        let mut received = vec![0; LEN];
        let overtaken = within(gather(&mut receive, &mut received, 5_000)).await;
        assert!(overtaken > 0, "the link did not reorder, or pieces waited for others");
        assert!(received == expected, "other bytes than were sent");
        assert_eq!(within(sending).await.unwrap(), None);
        assert_eq!(receive.read_unordered(1).await, Ok(None), "the end stays the end");
    }
}

/// Bytes that were lent but not consumed are returned first. From then on the stream cannot be read in order.
#[tokio::test]
async fn reading_in_order_ends_where_the_other_begins() {
    let it = connected(&Pair::new()).await;
    let mut send = it.theirs.open_uni().await.unwrap();
    send.write_all(b"0123456789").await.unwrap();
    let mut receive = within(it.ours.accept_uni()).await.unwrap();
    let mut first = [0; 2];
    within(receive.read_exact(&mut first)).await.unwrap();
    assert_eq!(within(receive.read_with(|bytes| bytes.len().min(3))).await, Ok(Some(3)));
    let mut rest = Vec::new();
    while rest.len() < 5 {
        let chunk = within(receive.read_unordered(2)).await.unwrap().unwrap();
        assert_eq!(chunk.offset as usize, 5 + rest.len());
        rest.extend_from_slice(&chunk.bytes);
    }
    assert_eq!(rest, b"56789");
    let illegal = ReadError::IllegalOrderedRead;
    assert_eq!(receive.read(&mut first).await, Err(illegal.clone()));
    assert_eq!(receive.read_chunk(1).await, Err(illegal.clone()));
    assert_eq!(receive.read_with(<[u8]>::len).await, Err(illegal.clone()));
    assert_eq!(receive.read_exact(&mut first).await, Err(ReadExactError::Read(illegal.clone())));
    assert_eq!(receive.read_to_end(10).await, Err(illegal.into()));
    send.reset(VarInt::from_u32(9)).unwrap();
    assert_eq!(within(receive.read_unordered(1)).await, Err(ReadError::Reset(VarInt::from_u32(9))));
}

/// A waiting task is woken by a piece behind a gap.
#[tokio::test]
async fn the_reader_is_woken_and_stops() {
    let it = connected(&Pair::new()).await;
    let mut send = it.theirs.open_uni().await.unwrap();
    send.write_all(b"a").await.unwrap();
    let mut receive = within(it.ours.accept_uni()).await.unwrap();
    assert_eq!(within(receive.read_unordered(9)).await.unwrap().map(|chunk| chunk.offset), Some(0));
    let waiting = tokio::spawn(async move { (receive.read_unordered(9).await, receive) });
    tokio::task::yield_now().await;
    send.write_all(b"b").await.unwrap();
    let (chunk, mut receive) = within(waiting).await.unwrap();
    assert_eq!(chunk.unwrap().map(|chunk| (chunk.offset, chunk.bytes)), Some((1, Bytes::from_static(b"b"))));
    receive.stop(VarInt::from_u32(4)).unwrap();
    assert_eq!(receive.read_unordered(1).await, Err(ReadError::ClosedStream));
    assert_eq!(within(send.stopped()).await, Ok(Some(VarInt::from_u32(4))));
}
