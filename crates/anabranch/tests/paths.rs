//! Several paths of one connection over the loopback interface.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "helpers of tests are tests")]

use anabranch::{
    Connection, MultipathConfig, OpenPathError, PathEvent, PathEvents, PathId, PathPolicy, PathStatus, Route,
    TransportConfig, VarInt,
};
use anabranch_testkit::endpoints::{Connected, Pair, connect, connected, within};
use anabranch_testkit::pattern;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

const SECOND_ADDRESS: [u8; 4] = [127, 0, 0, 2];

fn second() -> IpAddr {
    SECOND_ADDRESS.into()
}

fn multipath() -> Pair {
    Pair::with_transport(TransportConfig::default().with_multipath(MultipathConfig::default()))
}

/// Connects two ends, with a second path from 127.0.0.2.
async fn two_paths() -> Connected {
    opened(multipath()).await
}

async fn opened(pair: Pair) -> Connected {
    let it = connected(&pair).await;
    assert_eq!(within(it.ours.open_path(second(), None)).await.unwrap(), PathId(1));
    it
}

fn sent(connection: &Connection) -> Vec<(u32, u64)> {
    connection.paths().iter().map(|path| (path.id.0, path.bytes_sent)).collect()
}

/// Waits for the next event, skipping changes of a path's status, which depend on the machine.
async fn happens(events: &mut PathEvents) -> Option<PathEvent> {
    loop {
        match within(events.next()).await {
            Some(PathEvent::State { .. }) => {}
            event => return event,
        }
    }
}

/// Waits for the next event, also skipping those that report the opening of a path.
async fn happens_to_open(events: &mut PathEvents) -> Option<PathEvent> {
    loop {
        match happens(events).await {
            Some(PathEvent::Opening { .. }) => {}
            event => return event,
        }
    }
}

/// Sends `data` in one direction, and checks that it arrives.
async fn transfer(from: &Connection, to: &Connection, data: Vec<u8>) {
    let expected = data.clone();
    let receiving = async { to.accept_uni().await.unwrap().read_to_end(data.len()).await.unwrap() };
    let sending = async {
        let mut stream = from.open_uni().await.unwrap();
        stream.write_all(&data).await.unwrap();
        stream.finish().unwrap();
        stream.stopped().await.unwrap();
    };
    let (received, ()) = within(async { tokio::join!(receiving, sending) }).await;
    assert!(received == expected);
}

#[tokio::test]
async fn both_ends_have_to_want_several_paths() {
    let it = connected(&Pair::new()).await;
    assert!(!it.ours.is_multipath());
    let refused = within(it.ours.open_path(second(), None)).await.unwrap_err();
    assert!(matches!(refused, OpenPathError::Refused(_)), "{refused}");
    assert_eq!(it.ours.paths().len(), 1);
}

#[tokio::test]
async fn both_paths_carry_data() {
    // The default scheduler prefers the faster path, which on the loopback interface is a matter of chance.
    let config = MultipathConfig::default().with_scheduler("round-robin".parse().unwrap());
    let it = opened(Pair::with_transport(TransportConfig::default().with_multipath(config))).await;
    assert!(it.ours.is_multipath() && it.theirs.is_multipath());
    let addresses: Vec<_> = it.ours.paths().iter().map(|path| path.tuple.local.ip()).collect();
    assert_eq!(addresses, [IpAddr::from([127, 0, 0, 1]), second()]);
    for (from, to) in [(&it.ours, &it.theirs), (&it.theirs, &it.ours)] {
        let before = sent(from);
        transfer(from, to, pattern(20_000_000)).await;
        for (before, after) in before.iter().zip(sent(from)) {
            assert!(after.1 - before.1 > 100_000, "{before:?} {after:?}");
        }
    }
}

#[tokio::test]
async fn a_path_abandoned_in_the_middle_of_a_transfer_costs_no_data() {
    // Both ends share a thread. Data made while they are connected would delay ACKs, and the state of an
    // abandoned path is kept for a multiple of the round-trip time.
    let data = pattern(20_000_000);
    for abandoned in [PathId(0), PathId(1)] {
        let data = data.clone();
        let it = two_paths().await;
        let mut events = it.ours.path_events();
        let abandoning = async {
            while it.ours.paths()[abandoned.0 as usize].bytes_sent < 100_000 {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            it.ours.abandon_path(abandoned, VarInt::from_u32(0x3e)).unwrap();
        };
        within(async { tokio::join!(transfer(&it.ours, &it.theirs, data), abandoning) }).await;
        let gone = PathEvent::Abandoned { path: abandoned, code: VarInt::from_u32(0x3e) };
        assert_eq!(happens(&mut events).await, Some(gone));
        transfer(&it.theirs, &it.ours, pattern(1_000_000)).await;
        within(async {
            while it.ours.paths().len() > 1 || it.theirs.paths().len() > 1 {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        })
        .await;
        it.ours.abandon_path(PathId(1 - abandoned.0), VarInt::from_u32(0)).unwrap_err(); // the last one
    }
}

#[tokio::test]
async fn events_tell_and_end_with_the_connection() {
    let it = connected(&multipath()).await;
    let (mut ours, mut theirs) = (it.ours.path_events(), it.theirs.path_events());
    let id = within(it.ours.begin_path(second(), None)).await.unwrap();
    let begun = happens(&mut ours).await;
    let Some(PathEvent::Opening { path, tuple }) = begun else { panic!("{begun:?}") };
    assert_eq!((path, tuple.local.ip()), (id, second()), "only who opens it is told so");
    for events in [&mut ours, &mut theirs] {
        assert_eq!(happens(events).await, Some(PathEvent::Opened { path: id }));
    }
    it.ours.close(VarInt::from_u32(0), b"");
    assert_eq!(happens(&mut ours).await, None);
    assert_eq!(happens(&mut theirs).await, None);
    assert_eq!(within(it.ours.path_events().next()).await, None);
    assert!(matches!(it.ours.open_path(second(), None).await, Err(OpenPathError::ConnectionLost(_))));
}

#[tokio::test]
async fn sockets_go_with_their_paths() {
    let it = two_paths().await;
    let bound = it.ours.paths()[1].tuple.local;
    assert!(std::net::UdpSocket::bind(bound).is_err(), "the path's");
    // A second path over the same socket would have the same four-tuple, so it is refused.
    let shared = within(it.ours.open_path(bound, None)).await.unwrap_err();
    assert!(matches!(shared, OpenPathError::Refused(anabranch::PathRefusal::Exists)), "{shared}");
    it.ours.abandon_path(PathId(1), VarInt::from_u32(0)).unwrap();
    let free = async {
        while std::net::UdpSocket::bind(bound).is_err() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    within(free).await;
    // The port becomes free when the connection ends, too.
    within(it.ours.open_path(bound, None)).await.unwrap();
    it.ours.close(VarInt::from_u32(0), b"");
    within(it.client.wait_idle()).await;
    within(async {
        while std::net::UdpSocket::bind(bound).is_err() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    })
    .await;
}

#[tokio::test]
async fn a_backup_waits_for_its_turn() {
    let it = two_paths().await;
    it.ours.set_path_status(PathId(1), PathStatus::Backup).unwrap();
    let before = sent(&it.ours);
    transfer(&it.ours, &it.theirs, pattern(5_000_000)).await;
    let after = sent(&it.ours);
    assert!(after[1].1 - before[1].1 < 100_000, "{before:?} {after:?}");
    it.ours.set_path_status(PathId(1), PathStatus::Available).unwrap();
    it.ours.set_path_status(PathId(7), PathStatus::Available).unwrap_err(); // no such path
}

#[tokio::test]
async fn addresses_that_no_path_can_begin_or_end_at() {
    let it = connected(&multipath()).await;
    let foreign: IpAddr = [192, 0, 2, 1].into();
    assert!(matches!(within(it.ours.open_path(foreign, None)).await, Err(OpenPathError::Socket(_))));
    let v6: SocketAddr = "[::1]:4433".parse().unwrap();
    let mixed = within(it.ours.open_path(second(), Some(v6))).await;
    assert!(matches!(mixed, Err(OpenPathError::Unreachable { .. })));
    // Nobody responds at this address.
    let silent = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let remote = silent.local_addr().unwrap();
    let unanswered = within(it.ours.open_path(second(), Some(remote))).await;
    assert!(matches!(unanswered, Err(OpenPathError::NoAnswer)), "{unanswered:?}");
    transfer(&it.ours, &it.theirs, pattern(100_000)).await;
}

#[tokio::test]
async fn a_manager_opens_what_its_policy_says() {
    let it = connected(&multipath()).await;
    let mut events = it.ours.path_events();
    let policy = PathPolicy::default().allowing(["lo,count=3".parse().unwrap()]);
    let manager = it.ours.manage_paths(policy);
    for id in 1..=2 {
        assert_eq!(happens_to_open(&mut events).await, Some(PathEvent::Opened { path: PathId(id) }));
    }
    let ports: std::collections::BTreeSet<u16> =
        it.ours.paths().iter().map(|path| path.tuple.local.port()).collect();
    assert_eq!(ports.len(), 3, "a port each");
    // A path that the server abandons as unstable is opened again after a while. A path that the application
    // abandons is not opened again.
    it.theirs.abandon_path(PathId(1), VarInt::from_u32(0x3e76)).unwrap();
    assert_eq!(
        happens_to_open(&mut events).await,
        Some(PathEvent::Abandoned { path: PathId(1), code: VarInt::from_u32(0x3e76) })
    );
    assert_eq!(happens_to_open(&mut events).await, Some(PathEvent::Opened { path: PathId(3) }));
    it.ours.abandon_path(PathId(3), VarInt::from_u32(0x3e)).unwrap();
    assert_eq!(
        happens_to_open(&mut events).await,
        Some(PathEvent::Abandoned { path: PathId(3), code: VarInt::from_u32(0x3e) })
    );
    let quiet = tokio::time::timeout(Duration::from_secs(2), happens_to_open(&mut events)).await;
    assert!(quiet.is_err(), "{quiet:?}");
    manager.stop();
    // The manager does not keep the connection open.
    let _manager = it.ours.manage_paths(PathPolicy::default());
    drop(it.ours);
    assert!(within(it.theirs.closed()).await.to_string().contains('0'));
}

/// The client connects to the server's IPv4 address. The server announces its IPv6 address, which gets a
/// path.
#[tokio::test]
async fn a_client_that_came_by_ipv4_finds_the_ipv6_address() {
    let Ok(v6) = std::net::UdpSocket::bind("[::1]:0") else { return };
    let address = v6.local_addr().unwrap();
    drop(v6);
    let mut pair = multipath();
    pair.server = pair.server.with_alternative_addresses(vec![address]);
    let (client, server) = pair.endpoints();
    server.add_socket(address).unwrap();
    let (ours, theirs) = connect(&client, &server).await;
    let mut events = ours.path_events();
    let policy = PathPolicy::default().allowing(["lo".parse().unwrap()]);
    let _manager = ours.manage_paths(policy);
    while happens(&mut events).await != Some(PathEvent::Opened { path: PathId(1) }) {}
    assert_eq!(ours.paths()[1].tuple.remote, address);
    assert_eq!(ours.server_addresses()[0].address, address);
    transfer(&theirs, &ours, pattern(1_000_000)).await;
    theirs.withdraw_address(address).unwrap();
    while !matches!(happens(&mut events).await, Some(PathEvent::Abandoned { path: PathId(1), .. })) {}
    transfer(&ours, &theirs, pattern(100_000)).await;
}

/// Returns the number of bytes that a path has sent so far.
fn sent_on(connection: &Connection, id: u32) -> u64 {
    sent(connection).iter().find(|(path, _)| *path == id).unwrap().1
}

#[tokio::test]
async fn streams_and_datagrams_keep_to_the_path_that_they_are_pinned_to() {
    const LEN: u64 = 400_000;
    let it = two_paths().await;
    for (pinned, other) in [(1, 0), (0, 1)] {
        let (before, beside) = (sent_on(&it.ours, pinned), sent_on(&it.ours, other));
        let receiving =
            async { it.theirs.accept_uni().await.unwrap().read_to_end(LEN as usize).await.unwrap() };
        let sending = async {
            let mut stream = it.ours.open_uni().await.unwrap();
            stream.set_route(Route::Only(PathId(pinned)));
            stream.write_all(&pattern(LEN as usize)).await.unwrap();
            stream.finish().unwrap();
            stream.stopped().await.unwrap();
        };
        let (received, ()) = within(async { tokio::join!(receiving, sending) }).await;
        assert!(received == pattern(LEN as usize));
        let (carried, leaked) = (sent_on(&it.ours, pinned) - before, sent_on(&it.ours, other) - beside);
        assert!(carried >= LEN, "path {pinned} carried {carried} bytes");
        assert!(leaked < LEN / 10, "path {other} carried {leaked} bytes, more than what keeps it alive");

        let (before, beside) = (sent_on(&it.ours, pinned), sent_on(&it.ours, other));
        for n in 0..50_u8 {
            it.ours.send_datagram_on(vec![n; 1_000].into(), Route::Avoid(PathId(other))).unwrap();
            assert_eq!(within(it.theirs.read_datagram()).await.unwrap()[0], n);
        }
        let (carried, leaked) = (sent_on(&it.ours, pinned) - before, sent_on(&it.ours, other) - beside);
        assert!(carried >= 50_000 && leaked < 10_000, "{carried} bytes and {leaked}");
    }
}
