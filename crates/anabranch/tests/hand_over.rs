//! Sockets that one endpoint hands over to another one, as two processes do.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "helpers of tests are tests")]

use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use anabranch::{
    Connection, Endpoint, HandOver, MAX_OLDER_PROCESSES, MultipathConfig, PathState, TransportConfig, VarInt,
    bind_workers, random_config,
};
use anabranch_testkit::endpoints::{Pair, echo, loopback, serve, within};
use tokio::sync::watch;

fn pair() -> Pair {
    Pair::with_transport(TransportConfig::default().with_multipath(MultipathConfig::default()))
}

/// Accepts and serves all clients of `server`.
fn accept_all(server: &Endpoint) {
    let server = server.clone();
    tokio::spawn(async move {
        while let Some(incoming) = server.accept().await {
            tokio::spawn(async move {
                if let Ok(connection) = incoming.await {
                    serve(connection);
                }
            });
        }
    });
}

fn first(pair: &Pair, workers: usize) -> Endpoint {
    let sockets = bind_workers(loopback(), workers).unwrap();
    Endpoint::with_workers(&random_config().unwrap(), Some(pair.server.clone()), sockets).unwrap()
}

/// Passes a hand-over through a Unix socket.
fn through_a_socket(handed: HandOver) -> HandOver {
    let (one, other) = UnixStream::pair().unwrap();
    let sending = std::thread::spawn(move || handed.send(&one));
    let received = HandOver::receive(&other).unwrap();
    sending.join().unwrap().unwrap();
    received
}

/// Has another endpoint take the sockets over, and returns once it has them.
async fn next(pair: &Pair, old: &Endpoint) -> Endpoint {
    let handed = through_a_socket(old.hand_over().unwrap());
    let new = Endpoint::take_over(&random_config().unwrap(), Some(pair.another_server()), handed).unwrap();
    within(old.relieved()).await;
    assert_eq!(new.local_addr().unwrap(), old.local_addr().unwrap());
    assert_eq!(new.workers(), old.workers());
    new
}

/// Connects a client of its own endpoint.
async fn visit(pair: &Pair, server: &Endpoint) -> (Endpoint, Connection) {
    let client = pair.client();
    let connecting = client.connect(server.local_addr().unwrap(), "localhost").unwrap();
    (client, within(connecting).await.unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_stays_with_the_old_process_on_all_paths_and_wherever_its_client_moves() {
    for workers in [1, 3] {
        let pair = pair();
        let old = first(&pair, workers);
        accept_all(&old);
        let mut before = Vec::new();
        for _ in 0..2 * workers {
            let (client, connection) = visit(&pair, &old).await;
            within(connection.open_path(IpAddr::from([127, 0, 0, 2]), None)).await.unwrap();
            echo(&connection, &[1; 100_000]).await;
            before.push((client, connection));
        }
        let new = next(&pair, &old).await;
        accept_all(&new);
        for (client, connection) in &before {
            echo(connection, &[2; 300_000]).await;
            client.rebind(UdpSocket::bind(loopback()).unwrap()).unwrap();
            echo(connection, &[3; 300_000]).await;
            within(connection.open_path(IpAddr::from([127, 0, 0, 3]), None)).await.unwrap();
            echo(connection, &[4; 100_000]).await;
            // On a busy machine, one may seem to fail for a moment.
            within(async {
                let is_open = |path: &anabranch::PathInfo| path.state == PathState::Open;
                while connection.paths().iter().filter(|path| is_open(path)).count() != 3 {
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
            })
            .await;
        }
        let (_client, after) = visit(&pair, &new).await;
        echo(&after, &[5; 100_000]).await;
        assert_eq!((old.open_connections(), new.open_connections()), (2 * workers, 1));
        for (_, connection) in &before {
            connection.close(VarInt::ZERO, b"done");
        }
        within(old.wait_idle()).await;
        assert_eq!(new.older_processes(), 1);
        drop(old);
        echo(&after, &[6; 100_000]).await;
    }
}

/// Forwards datagrams between a client and a server. Once the server has answered, nothing of the client passes until `open` says so.
async fn relay(server: SocketAddr, open: watch::Receiver<bool>) -> SocketAddr {
    let outside = tokio::net::UdpSocket::bind(loopback()).await.unwrap();
    let inside = tokio::net::UdpSocket::bind(loopback()).await.unwrap();
    let address = outside.local_addr().unwrap();
    tokio::spawn(async move {
        let (mut one, mut other) = ([0; 2000], [0; 2000]);
        let (mut client, mut answered) = (None, false);
        loop {
            tokio::select! {
                received = outside.recv_from(&mut one) => {
                    let (len, from) = received.unwrap();
                    client = Some(from);
                    if !answered || *open.borrow() {
                        inside.send_to(&one[..len], server).await.unwrap();
                    }
                }
                received = inside.recv_from(&mut other) => {
                    let (len, _) = received.unwrap();
                    answered = true;
                    outside.send_to(&other[..len], client.unwrap()).await.unwrap();
                }
            }
        }
    });
    address
}

/// The server has accepted the clients, but nothing of them has arrived since: their handshakes are completed by the old process.
#[tokio::test(flavor = "multi_thread")]
async fn a_handshake_ends_where_it_began() {
    for workers in [1, 3] {
        let pair = pair();
        let old = first(&pair, workers);
        let (open, opened) = watch::channel(false);
        let mut connecting = Vec::new();
        for _ in 0..2 * workers {
            let client = pair.client();
            let way = relay(old.local_addr().unwrap(), opened.clone()).await;
            connecting.push((client.connect(way, "localhost").unwrap(), client));
        }
        // Half of the clients are accepted before the hand-over. The others wait in the old endpoint, and are accepted later.
        let mut incoming = Vec::new();
        for _ in 0..2 * workers {
            incoming.push(within(old.accept()).await.unwrap());
        }
        let late = incoming.split_off(workers);
        let mut waiting: Vec<_> = incoming.into_iter().map(|incoming| incoming.accept().unwrap()).collect();
        let new = next(&pair, &old).await;
        accept_all(&new);
        waiting.extend(late.into_iter().map(|incoming| incoming.accept().unwrap()));
        tokio::time::sleep(Duration::from_millis(50)).await;
        open.send(true).unwrap();
        for connecting in waiting {
            serve(within(connecting).await.unwrap());
        }
        let mut connected = Vec::new();
        for (connecting, client) in connecting {
            let connection = within(connecting).await.unwrap();
            echo(&connection, &[7; 50_000]).await;
            connected.push((connection, client));
        }
        assert_eq!(old.open_connections(), 2 * workers);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn each_of_several_generations_keeps_its_connections() {
    for workers in [1, 3] {
        let pair = pair();
        let mut generations = vec![first(&pair, workers)];
        let mut visits = Vec::new();
        for age in 0..=MAX_OLDER_PROCESSES {
            let newest = generations.last().unwrap().clone();
            accept_all(&newest);
            for _ in 0..workers {
                visits.push(visit(&pair, &newest).await);
            }
            assert_eq!(newest.open_connections(), workers);
            for (_, connection) in &visits {
                echo(connection, &vec![age as u8; 20_000]).await;
            }
            if age < MAX_OLDER_PROCESSES {
                generations.push(next(&pair, &newest).await);
            } else {
                // `MAX_OLDER_PROCESSES` of them live already.
                let error = newest.hand_over().unwrap_err();
                assert_eq!(error.kind(), std::io::ErrorKind::ResourceBusy);
            }
        }
        let oldest = generations.remove(0);
        assert_eq!(oldest.hand_over().unwrap_err().kind(), std::io::ErrorKind::ResourceBusy);
        for (_, connection) in visits.drain(..workers) {
            connection.close(VarInt::ZERO, b"done");
        }
        within(oldest.wait_idle()).await;
        oldest.close(VarInt::ZERO, b"over");
        drop(oldest);
        // The oldest one is gone, and the youngest one learns that another one may follow.
        let newest = generations.last().unwrap().clone();
        within(async {
            while newest.older_processes() == MAX_OLDER_PROCESSES {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        })
        .await;
        generations.push(next(&pair, &newest).await);
        for (client, connection) in &visits {
            client.rebind(UdpSocket::bind(loopback()).unwrap()).unwrap();
            echo(connection, &[8; 20_000]).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_successor_that_ends_gives_the_sockets_back() {
    let pair = pair();
    let old = first(&pair, 3);
    accept_all(&old);
    let (client, connection) = visit(&pair, &old).await;
    // One successor never begins, and another one ends at once.
    drop(old.hand_over().unwrap());
    echo(&connection, b"nothing has happened").await;
    let new = next(&pair, &old).await;
    accept_all(&new);
    let (_other, short) = visit(&pair, &new).await;
    end(new).await;
    within(short.closed()).await;
    falls_back(&old).await;
    client.rebind(UdpSocket::bind(loopback()).unwrap()).unwrap();
    echo(&connection, &[9; 200_000]).await;
    let (_client, later) = visit(&pair, &old).await;
    echo(&later, b"accepted by the old one").await;
}

/// A packet that no process knows is answered by a stateless reset, with the key that all have.
#[tokio::test(flavor = "multi_thread")]
async fn what_nobody_knows_is_reset() {
    let pair = pair();
    let old = first(&pair, 1);
    accept_all(&old);
    let new = next(&pair, &old).await;
    let stranger = UdpSocket::bind(loopback()).unwrap();
    stranger.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    stranger.connect(new.local_addr().unwrap()).unwrap();
    let mut answers = Vec::new();
    for _ in 0..2 {
        let mut packet = [0x55; 60];
        packet[0] = 0x40;
        stranger.send(&packet).unwrap();
        let mut answer = [0; 100];
        let len = stranger.recv(&mut answer).unwrap();
        answers.push(answer[len - 16..len].to_vec());
    }
    assert_eq!(answers[0], answers[1], "the token is that of the connection ID");
    stranger.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
    assert!(stranger.recv(&mut [0; 100]).is_err(), "one process answers");
}

/// Closes an endpoint, which then is gone like a process that has ended.
async fn end(endpoint: Endpoint) {
    endpoint.close(VarInt::ZERO, b"over");
    within(endpoint.wait_idle()).await;
}

/// Waits until no other process receives on the sockets.
async fn falls_back(endpoint: &Endpoint) {
    within(async {
        while endpoint.is_relieved() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_sockets_fall_back_from_the_youngest_to_the_oldest() {
    for workers in [1, 3] {
        let pair = pair();
        let oldest = first(&pair, workers);
        accept_all(&oldest);
        let (client, connection) = visit(&pair, &oldest).await;
        let middle = next(&pair, &oldest).await;
        accept_all(&middle);
        let youngest = next(&pair, &middle).await;
        accept_all(&youngest);
        let (_other, later) = visit(&pair, &youngest).await;
        echo(&later, b"accepted by the youngest one").await;
        end(youngest).await;
        falls_back(&middle).await;
        echo(&connection, &[1; 100_000]).await;
        let (_other, later) = visit(&pair, &middle).await;
        echo(&later, b"accepted by the middle one").await;
        end(middle).await;
        falls_back(&oldest).await;
        client.rebind(UdpSocket::bind(loopback()).unwrap()).unwrap();
        echo(&connection, &[2; 100_000]).await;
        let (_other, later) = visit(&pair, &oldest).await;
        echo(&later, b"accepted by the oldest one").await;
    }
}

/// A process that takes no packets from its channel (`HUNG`).
#[tokio::test(flavor = "multi_thread")]
async fn new_clients_do_not_wait_for_an_old_process_that_hangs() {
    let pair = pair();
    let server = pair.server.clone();
    let (give, handed) = tokio::sync::oneshot::channel();
    let (stay, until) = std::sync::mpsc::channel::<()>();
    let hung = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let old = runtime.block_on(async {
            let sockets = bind_workers(loopback(), 1).unwrap();
            let old = Endpoint::with_workers(&random_config().unwrap(), Some(server), sockets).unwrap();
            let _received = give.send(old.hand_over().unwrap());
            within(old.relieved()).await;
            old
        });
        // From now on, nothing runs the old endpoint.
        let _end = until.recv();
        drop(old);
    });
    let handed = through_a_socket(handed.await.unwrap());
    let new = Endpoint::take_over(&random_config().unwrap(), Some(pair.another_server()), handed).unwrap();
    accept_all(&new);
    let address = new.local_addr().unwrap();
    let flood = tokio::spawn(async move {
        let stranger = tokio::net::UdpSocket::bind(loopback()).await.unwrap();
        // A Handshake packet of a connection that nobody knows.
        let mut packet = [0x55; 1_200];
        packet[..6].copy_from_slice(&[0xe0, 0, 0, 0, 1, 8]);
        // No source connection ID, and a length.
        packet[14..17].copy_from_slice(&[0, 0x44, 0]);
        loop {
            for _ in 0..50 {
                let _full = stranger.send_to(&packet, address).await;
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    });
    let (_client, connection) = visit(&pair, &new).await;
    flood.abort();
    echo(&connection, b"accepted without the old one").await;
    drop(stay);
    hung.join().unwrap();
}
