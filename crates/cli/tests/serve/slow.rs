//! Row 17 of docs/threats.md: clients that hold connections without a request, send the head of a request byte by byte,
//! read a response slowly, or read nothing of it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anabranch::http3::{Config, Connection, RecvHalf};
use anabranch::{Endpoint, RecvStream, SendStream, StreamsConfig, TransportConfig, config};
use anabranch_testkit::share_of;
use http::Request;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use super::client::{self, Over, PATIENCE, Server, runtime};
use super::limits::figure;

/// Number of clients of the full attack.
const FULL: u64 = 10_000;
/// Maximum number of clients that connect at the same time.
const CONNECTING: usize = 32;
/// Flow-control window of the clients' streams, in bytes.
const WINDOW: u64 = 16_384;
/// `MAX_READ_AHEAD` of the server: bytes that all responses share for pieces of files.
const MAX_READ_AHEAD: u64 = 256 << 20;
/// Number of bytes that a response reads ahead beyond it: two pieces of `MIN_PIECE`.
const MIN_READ_AHEAD: u64 = 2 * 4096;
/// Maximum resident memory of the server for each client, in bytes, without pieces of files. A connection takes about 35 KiB; the
/// rest is memory of ended ones that the allocator keeps.
const EACH: u64 = 96 * 1024;
/// Maximum growth of its resident memory that does not depend on the number of clients, in bytes.
const FIXED: u64 = 32 << 20;
/// Time for which clients are slow in a part of the attack. Memory is checked then, and that slow readers are served.
const SHORT: Duration = Duration::from_secs(5);
/// Time for which clients are slow in the full attack: `header_timeout`, `idle_timeout` and `grace` are 60 s, and a client that
/// never ends the head of its request is sent away after two of them.
const LONG: Duration = Duration::from_secs(150);

/// Slow client.
enum Slow {
    /// Makes no request.
    Holds(Connection),
    /// Sends the head of a request byte by byte.
    Heads(anabranch::Connection, (SendStream, RecvStream)),
    /// Reads 1 KiB of a response each second.
    Reads(Connection, RecvHalf),
    /// Reads nothing of a response.
    Stalls(Connection, RecvHalf),
}

impl Slow {
    const READS: usize = 2;

    async fn connect(endpoint: &Endpoint, server: &Server, number: u64) -> Self {
        let connecting = endpoint.connect(server.address, "localhost").unwrap();
        let quic = tokio::time::timeout(PATIENCE, connecting).await.expect("a handshake in time").unwrap();
        let ask = |quic| async {
            let connection = Connection::new(quic, Config::default());
            let url = format!("https://localhost:{}/huge", server.address.port());
            let request = Request::get(url).body(()).unwrap();
            let mut receive = connection.request_without_body(request).await.unwrap();
            assert_eq!(receive.response().await.unwrap().status(), 200);
            (connection, receive)
        };
        match number % 4 {
            0 => Self::Holds(Connection::new(quic, Config::default())),
            1 => {
                let mut streams = quic.open_bi().await.unwrap();
                // A HEADERS frame of 16,000 bytes.
                streams.0.write_all(&[0x01, 0x7e, 0x80]).await.unwrap();
                Self::Heads(quic, streams)
            }
            2 => {
                let (connection, receive) = ask(quic).await;
                Self::Reads(connection, receive)
            }
            _ => {
                let (connection, receive) = ask(quic).await;
                Self::Stalls(connection, receive)
            }
        }
    }

    fn kind(&self) -> usize {
        match self {
            Self::Holds(_) => 0,
            Self::Heads(..) => 1,
            Self::Reads(..) => Self::READS,
            Self::Stalls(..) => 3,
        }
    }

    /// Does a second's part of the client's slow work.
    async fn go_on(&mut self) {
        match self {
            // Fails once the server has ended the request.
            Self::Heads(_, streams) => drop(streams.0.write(&[0]).await),
            Self::Reads(_, receive) => assert!(receive.read_chunk(1024).await.unwrap().is_some()),
            Self::Holds(_) | Self::Stalls(..) => {}
        }
    }

    /// Returns whether the server still serves the client.
    async fn is_served(&mut self) -> bool {
        match self {
            Self::Holds(connection) => connection.quic().close_reason().is_none(),
            Self::Heads(quic, streams) => {
                quic.close_reason().is_none() && streams.0.write(&[0]).await.is_ok()
            }
            // A reset discards data that was not read.
            Self::Reads(connection, receive) | Self::Stalls(connection, receive) => {
                connection.quic().close_reason().is_none()
                    && matches!(receive.read_chunk(1024).await, Ok(Some(_)))
            }
        }
    }
}

/// Connects the clients, a quarter of each kind.
async fn connect_all(server: &Arc<Server>, clients: u64) -> Vec<Slow> {
    let mut endpoint = Endpoint::client(([127, 0, 0, 1], 0).into()).unwrap();
    let streams = StreamsConfig::default().with_stream_window(WINDOW).with_stream_window_max(WINDOW);
    let client = config::client(config::roots(&server.field.path("cert.pem")).unwrap(), ["h3"]).unwrap();
    endpoint.set_default_client_config(client.with_transport(
        TransportConfig::default().with_streams(streams).with_keep_alive(Duration::from_secs(10)),
    ));
    let (places, mut connecting) = (Arc::new(Semaphore::new(CONNECTING)), JoinSet::new());
    for number in 0..clients {
        let (places, endpoint, server) = (Arc::clone(&places), endpoint.clone(), Arc::clone(server));
        connecting.spawn(async move {
            let _place = places.acquire().await.unwrap();
            Slow::connect(&endpoint, &server, number).await
        });
    }
    connecting.join_all().await
}

#[test]
fn slow_clients_hold_bounded_memory_and_others_are_served() {
    let clients = share_of(FULL);
    let is_full = clients == FULL;
    let mut server = Server::start(&["--metrics", "127.0.0.1:0", "--log", "none", "--stall-timeout", "60"]);
    let metrics = server.said("metrics http://").trim_end_matches("/metrics").to_owned();
    std::fs::File::create(server.field.path("root/huge")).unwrap().set_len(1 << 30).unwrap();
    assert_eq!(server.get(Over::Http3, "/small.txt").status, 200);
    let before = memory(&server);
    let server = Arc::new(server);

    runtime().block_on(async {
        let mut slow = connect_all(&server, clients).await;
        let most = watch(&server, &mut slow, if is_full { LONG } else { SHORT }).await;
        let files = figure(&metrics, "anabranch_file_memory_max_bytes");
        let limit = MAX_READ_AHEAD + clients / 2 * MIN_READ_AHEAD;
        assert!(files <= limit, "{files} bytes of files, limit {limit}");
        let (bytes, limit) = (most - before, limit + FIXED + clients * EACH);
        println!("attack | 17 | Slow clients | Server | 1 | – | – | {bytes} | {limit} | – | – | – | – |");
        assert!(bytes - files <= FIXED + clients * EACH, "{bytes} bytes, {files} of files");

        let mut served = [0; 4];
        for client in &mut slow {
            served[client.kind()] += u64::from(client.is_served().await);
        }
        assert_eq!(served[Slow::READS], clients / 4, "clients that read slowly are served");
        if is_full {
            assert_eq!(served.iter().sum::<u64>(), clients / 4, "{served:?}");
        }
    });
}

/// Lets the clients be slow for `time`, beside a client that makes a request each second. Returns the maximum resident memory
/// of the server.
async fn watch(server: &Server, slow: &mut [Slow], time: Duration) -> u64 {
    let honest = client::client(server.address, &server.field.path("cert.pem"));
    let url = format!("https://localhost:{}/small.txt", server.address.port());
    let (start, mut most) = (Instant::now(), memory(server));
    while start.elapsed() < time {
        let second = tokio::time::sleep(Duration::from_secs(1));
        for client in &mut *slow {
            client.go_on().await;
        }
        let mut body = honest.get(&url).await.unwrap().into_body();
        assert_eq!(body.read_to_end(100).await.unwrap(), "small file");
        most = most.max(memory(server));
        second.await;
    }
    most
}

/// Returns the resident memory of the server, in bytes.
fn memory(server: &Server) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", server.child.id())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().strip_suffix(" kB").unwrap().parse::<u64>().unwrap() * 1024
}
