//! Servers with several workers on one address.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "helpers of tests are tests")]

use std::net::UdpSocket;
use std::time::Duration;

use anabranch::{
    Connection, Endpoint, EndpointConfig, LoadBalancing, MultipathConfig, PathState, RetryPolicy, ServerId,
    TransportConfig, VarInt, bind_workers, random_config,
};
use anabranch_testkit::endpoints::{Pair, connect, echo, loopback, serve, within};
use tokio::task::JoinSet;

const WORKERS: usize = 4;
const CLIENTS: usize = 24;

/// Creates a server on these sockets, and a task that accepts and serves all its clients.
fn server(pair: &Pair, sockets: Vec<UdpSocket>) -> Endpoint {
    let server =
        Endpoint::with_workers(&random_config().unwrap(), Some(pair.server.clone()), sockets).unwrap();
    let accepting = server.clone();
    tokio::spawn(async move {
        while let Some(incoming) = accepting.accept().await {
            tokio::spawn(async move {
                if let Ok(connection) = incoming.await {
                    serve(connection);
                }
            });
        }
    });
    server
}

/// Connects a client of its own endpoint.
async fn visit(pair: &Pair, server: &Endpoint) -> (Endpoint, Connection) {
    let client = pair.client();
    let connecting = client.connect(server.local_addr().unwrap(), "localhost").unwrap();
    let connection = within(connecting).await.unwrap();
    (client, connection)
}

/// Binds sockets to one address without a filter: the kernel chooses among them by the client's address.
fn bind_without_steering(count: usize) -> Vec<UdpSocket> {
    let bind = |address: std::net::SocketAddr| {
        let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::DGRAM, None).unwrap();
        socket.set_reuse_port(true).unwrap();
        socket.bind(&address.into()).unwrap();
        UdpSocket::from(socket)
    };
    let first = bind(loopback());
    let address = first.local_addr().unwrap();
    std::iter::once(first).chain((1..count).map(|_| bind(address))).collect()
}

/// Has each of many clients use its connection from several addresses, and checks that all connections go on.
async fn clients_move(pair: Pair, sockets: Vec<UdpSocket>) {
    let server = server(&pair, sockets);
    let mut visits = JoinSet::new();
    let (pair, all) = (std::sync::Arc::new(pair), std::sync::Arc::new(server.clone()));
    for number in 0..CLIENTS {
        let (pair, server) = (pair.clone(), all.clone());
        visits.spawn(async move {
            let (client, connection) = visit(&pair, &server).await;
            for round in 0..6_u8 {
                echo(&connection, &vec![round; 30_000 + number]).await;
                client.rebind(UdpSocket::bind(loopback()).unwrap()).unwrap();
            }
            echo(&connection, b"still here").await;
            (client, connection)
        });
    }
    let open = within(visits.join_all()).await;
    let workers = server.open_connections_by_worker();
    assert_eq!(workers.iter().sum::<usize>(), CLIENTS);
    assert_eq!(server.open_connections(), CLIENTS);
    // Connection IDs of clients, or their ports, choose among the workers at random: the chance that one of them gets none is 0.4 %.
    assert!(workers.iter().filter(|&&connections| connections > 0).count() >= WORKERS - 1, "{workers:?}");
    for (_, connection) in &open {
        connection.close(VarInt::ZERO, b"done");
    }
    within(server.wait_idle()).await;
    assert_eq!(server.open_connections_by_worker(), [0; WORKERS]);
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_stay_with_their_workers_when_clients_move() {
    clients_move(Pair::new(), bind_workers(loopback(), WORKERS).unwrap()).await;
}

/// The kernel gives most packets of a client that has moved to another worker, which hands them over.
#[tokio::test(flavor = "multi_thread")]
#[cfg(unix)]
async fn workers_hand_packets_over_where_the_kernel_does_not_steer() {
    clients_move(Pair::new(), bind_without_steering(WORKERS)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_path_of_a_connection_reaches_its_worker() {
    for sockets in [bind_workers(loopback(), WORKERS).unwrap(), bind_without_steering(WORKERS)] {
        let pair =
            Pair::with_transport(TransportConfig::default().with_multipath(MultipathConfig::default()));
        let server = server(&pair, sockets);
        for _ in 0..6 {
            let (client, connection) = visit(&pair, &server).await;
            for last in 2..5_u8 {
                within(connection.open_path(std::net::IpAddr::from([127, 0, 0, last]), None)).await.unwrap();
                echo(&connection, &vec![last; 100_000]).await;
            }
            assert_eq!(connection.paths().iter().filter(|path| path.state == PathState::Open).count(), 4);
            drop((client, connection));
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn tickets_and_tokens_count_at_every_worker() {
    let mut pair = Pair::new();
    pair.server = pair.server.with_retry(RetryPolicy::Always);
    let server = server(&pair, bind_workers(loopback(), WORKERS).unwrap());
    let (client, first) = visit(&pair, &server).await;
    echo(&first, b"first").await;
    for round in 0..12 {
        let connecting = client.connect(server.local_addr().unwrap(), "localhost").unwrap();
        let (again, accepted) = connecting.into_0rtt().expect("the server is remembered");
        echo(&again, b"again").await;
        assert!(within(accepted).await, "round {round}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_closed_endpoint_has_no_worker_that_accepts() {
    let pair = Pair::new();
    let sockets = bind_workers(loopback(), WORKERS).unwrap();
    let server =
        Endpoint::with_workers(&random_config().unwrap(), Some(pair.server.clone()), sockets).unwrap();
    let client = pair.client();
    let mut connections = Vec::new();
    for _ in 0..8 {
        connections.push(connect(&client, &server).await);
    }
    let accepting = tokio::spawn({
        let server = server.clone();
        async move { server.accept().await.is_none() }
    });
    server.close(VarInt::from_u32(7), b"over");
    within(server.wait_close_sent()).await;
    assert!(within(accepting).await.unwrap());
    for (ours, _) in &connections {
        within(ours.closed()).await;
    }
    drop(connections);
    within(server.wait_idle()).await;
    let late = client.connect(server.local_addr().unwrap(), "localhost").unwrap();
    assert!(within(late).await.is_err());
}

#[tokio::test]
async fn what_several_workers_cannot_do_is_refused() {
    let pair = Pair::new();
    let config = || Some(pair.server.clone());
    let none = Endpoint::with_workers(&random_config().unwrap(), config(), Vec::new());
    assert!(none.unwrap_err().to_string().contains("workers"));
    let unnamed = EndpointConfig::new([1; 32]).with_cid_len(0);
    let unnamed = Endpoint::with_workers(&unnamed, config(), bind_workers(loopback(), 2).unwrap());
    assert!(unnamed.unwrap_err().to_string().contains("cid_len"));
    let server = server(&pair, bind_workers(loopback(), 2).unwrap());
    let error = server.rebind(UdpSocket::bind(loopback()).unwrap()).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::Unsupported);
    // A further address has as many sockets.
    let further = server.add_socket(loopback()).unwrap();
    let client = pair.client();
    for _ in 0..4 {
        let connection = within(client.connect(further, "localhost").unwrap()).await.unwrap();
        echo(&connection, b"there").await;
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

/// Open connections of all workers get connection IDs of another configuration of QUIC-LB, and go on.
#[tokio::test(flavor = "multi_thread")]
async fn connections_are_renewed_for_another_load_balancer() {
    const NONCES: u64 = 1 << 48;
    let pair = Pair::new();
    let balancing =
        |config| LoadBalancing::new(config, ServerId::new(&[7]).unwrap(), 6).with_key([config; 16]);
    let config = random_config().unwrap().with_load_balancing(balancing(0));
    let sockets = bind_workers(loopback(), 2).unwrap();
    let server = Endpoint::with_workers(&config, Some(pair.server.clone()), sockets).unwrap();
    let accepting = server.clone();
    tokio::spawn(async move {
        while let Some(incoming) = accepting.accept().await {
            serve(incoming.await.unwrap());
        }
    });
    let mut open = Vec::new();
    for _ in 0..8 {
        let (client, connection) = visit(&pair, &server).await;
        echo(&connection, b"before").await;
        open.push((client, connection));
    }
    server.set_load_balancing(balancing(1), false).unwrap();
    assert_eq!(server.remaining_cids(), Some(NONCES));
    server.set_load_balancing(balancing(2), true).unwrap();
    let issued = NONCES - server.remaining_cids().unwrap();
    assert!(issued >= 2 * 8, "{issued} connection IDs");
    for (client, connection) in &open {
        client.rebind(UdpSocket::bind(loopback()).unwrap()).unwrap();
        echo(connection, b"after").await;
    }
    let encoded = balancing(3).with_encoded_length(true);
    assert_eq!(server.set_load_balancing(encoded, true).unwrap_err().setting(), "encoded_length");
}
