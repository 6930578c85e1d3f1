//! Cases of the client.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use bytes::Bytes;
use peer_common::args::{Case, Client, Requests, Work};
use peer_common::progress::Progress;
use peer_common::relay::Relay;
use peer_common::report::Report;
use peer_common::{Failure, failed, socket};
use quinn::{ClientConfig, ConnectError, Connecting, Connection, ConnectionError, Endpoint, TokioRuntime};

use crate::setup::{VERSION_1, endpoint_config, transport};
use crate::{http3, tls, work};

/// Draft version that quinn can still offer and that current servers do not support.
const DRAFT_29: u32 = 0xff00_001d;

/// Time that `--case datagram` waits for the last echo.
const ECHO_WAIT: Duration = Duration::from_secs(2);

/// Keep-alive interval of a client on an idle connection.
const KEEP_ALIVE: Duration = Duration::from_millis(500);

/// Client endpoint with the server's address, and the count of verified certificates.
struct Caller {
    endpoint: Endpoint,
    config: ClientConfig,
    server: SocketAddr,
    name: String,
    verified: Arc<AtomicU64>,
}

impl Caller {
    fn new(options: &Client, server: SocketAddr) -> Result<Self, Failure> {
        let resume = matches!(options.case, Case::Resumption | Case::ZeroRtt);
        let only_chacha20 = options.case == Case::ChaCha20;
        let wish = tls::Wish { ca: &options.ca, alpn: options.work.alpn(), only_chacha20, resume };
        let (crypto, verified) = tls::client(&wish)?;
        let mut config = ClientConfig::new(crypto);
        let version = if options.case == Case::VersionNegotiation { DRAFT_29 } else { VERSION_1 };
        let mut transport = transport(&options.common)?;
        if options.case == Case::Rebind {
            // Otherwise a client that only receives, and has acknowledged everything, would never show its
            // new address.
            transport.keep_alive_interval(Some(KEEP_ALIVE));
        }
        config.transport_config(Arc::new(transport)).version(version);
        let socket = socket::bind(socket::any_like(server))?;
        let endpoint = Endpoint::new(endpoint_config(&[DRAFT_29]), None, socket, Arc::new(TokioRuntime))?;
        Ok(Self { endpoint, config, server, name: options.name.clone(), verified })
    }

    fn connecting(&self) -> Result<Connecting, ConnectError> {
        self.endpoint.connect_with(self.config.clone(), self.server, &self.name)
    }

    async fn connect(&self) -> Result<Connection, Failure> {
        Ok(self.connecting()?.await?)
    }

    async fn close(&self, connection: Connection) {
        connection.close(0u32.into(), b"");
        self.endpoint.wait_idle().await;
    }
}

/// Does the work of the options and prints a report.
pub async fn run(options: Client) -> Result<(), Failure> {
    if let Work::Handshakes { count, concurrency } = options.work {
        return handshakes(Caller::new(&options, options.connect)?, count, concurrency).await;
    }
    if let Work::Requests(requests) = &options.work {
        return many_requests(&Caller::new(&options, options.connect)?, requests).await;
    }
    match options.case {
        Case::V2 => Err(Failure::Unsupported("quinn has no QUIC version 2".into())),
        Case::VersionNegotiation => version_negotiation(&Caller::new(&options, options.connect)?).await,
        Case::Resumption | Case::ZeroRtt => again(&Caller::new(&options, options.connect)?, &options).await,
        Case::Rebind | Case::Ecn => relayed(&options).await,
        Case::Handshake
        | Case::Transfer
        | Case::Multiplexing
        | Case::KeyUpdate
        | Case::ChaCha20
        | Case::Migration
        | Case::Datagram => plain(&Caller::new(&options, options.connect)?, &options).await,
    }
}

fn report(case: Case) -> Report {
    Report::new().text("case", case.name()).text("version", &format!("{VERSION_1:#010x}"))
}

/// Makes one connection. In some cases, performs an action in the middle of the work.
async fn plain(caller: &Caller, options: &Client) -> Result<(), Failure> {
    let connection = caller.connect().await?;
    if let Work::Datagrams { count } = options.work {
        return datagrams(caller, connection, count).await;
    }
    let (case, handle, endpoint) = (options.case, connection.clone(), caller.endpoint.clone());
    let fresh = socket::bind(socket::any_like(caller.server))?;
    let (before, after) = (caller.endpoint.local_addr()?, fresh.local_addr()?);
    let moved = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&moved);
    let progress = Progress::new(&options.work, move || match case {
        Case::KeyUpdate => {
            handle.force_key_update();
            count.fetch_add(1, Relaxed);
        }
        Case::Migration => {
            let moved = fresh.try_clone().and_then(|socket| endpoint.rebind(socket)).is_ok();
            count.fetch_add(u64::from(moved), Relaxed);
        }
        _ => {}
    });
    let start = Instant::now();
    work::run(&connection, &options.work, &progress).await?;
    let mut report = report(case).goodput(progress.moved(), start.elapsed());
    let stats = connection.stats();
    let acted = moved.load(Relaxed);
    match case {
        Case::KeyUpdate => report = report.raw("key_updates", acted),
        Case::Migration => {
            report = report
                .raw("migrations", acted)
                .text("from", &before.to_string())
                .text("to", &after.to_string())
                .raw("path_challenges_answered", stats.frame_tx.path_response);
        }
        _ => {}
    }
    crate::first_path(report, &connection).cpu().print();
    caller.close(connection).await;
    match (case, acted, stats.frame_tx.path_response) {
        (Case::KeyUpdate | Case::Migration, 0, _) => failed("the work ended before its middle"),
        (Case::Migration, _, 0) => failed("the server did not validate the new path"),
        _ => Ok(()),
    }
}

async fn datagrams(caller: &Caller, connection: Connection, count: u64) -> Result<(), Failure> {
    let mut echoes = 0;
    for number in 0..count {
        connection.send_datagram_wait(Bytes::copy_from_slice(&number.to_be_bytes())).await?;
    }
    while echoes < count {
        match tokio::time::timeout(ECHO_WAIT, connection.read_datagram()).await {
            Ok(datagram) => echoes += u64::from(datagram?.len() == 8),
            Err(_) => break,
        }
    }
    report(Case::Datagram).raw("sent", count).raw("echoed", echoes).print();
    caller.close(connection).await;
    if echoes == 0 && count > 0 { failed("no datagram came back") } else { Ok(()) }
}

/// Makes two connections. The second one resumes the session of the first one.
async fn again(caller: &Caller, options: &Client) -> Result<(), Failure> {
    let (first, second) = options.work.halves();
    let connection = caller.connect().await?;
    let progress = Progress::new(&first, || {});
    work::run(&connection, &first, &progress).await?;
    caller.close(connection).await;
    let verified = caller.verified.load(Relaxed);

    let connecting = caller.connecting()?;
    let start = Instant::now();
    let (connection, accepted) = if options.case == Case::ZeroRtt {
        match connecting.into_0rtt() {
            Ok((connection, accepted)) => (connection, Some(accepted)),
            Err(_) => return failed("no ticket that allows 0-RTT"),
        }
    } else {
        (connecting.await?, None)
    };
    let progress = Progress::new(&second, || {});
    work::run(&connection, &second, &progress).await?;
    let zero_rtt = match accepted {
        Some(accepted) => accepted.await,
        None => false,
    };
    let resumed = caller.verified.load(Relaxed) == verified;
    report(options.case)
        .raw("resumed", resumed)
        .raw("zero_rtt_accepted", zero_rtt)
        .goodput(progress.moved(), start.elapsed())
        .print();
    caller.close(connection).await;
    match options.case {
        Case::ZeroRtt if !zero_rtt => failed("0-RTT was not accepted"),
        _ if !resumed => failed("the second handshake was a full one"),
        _ => Ok(()),
    }
}

/// Does the work through a relay, which can change the client's address and observes the ECN marks.
async fn relayed(options: &Client) -> Result<(), Failure> {
    let relay = Arc::new(Relay::start(options.connect)?);
    let caller = Caller::new(options, relay.address)?;
    let connection = caller.connect().await?;
    let (nat, case) = (Arc::clone(&relay), options.case);
    let progress = Progress::new(&options.work, move || {
        if case == Case::Rebind {
            nat.rebind();
        }
    });
    let start = Instant::now();
    work::run(&connection, &options.work, &progress).await?;
    let (up, down) = (&relay.watched.to_server, &relay.watched.to_client);
    let [sent, sent_marked, received, received_marked] =
        [&up.datagrams, &up.marked, &down.datagrams, &down.marked].map(|count| count.load(Relaxed));
    report(case)
        .goodput(progress.moved(), start.elapsed())
        .raw("rebindings", relay.rebound())
        .raw("path_challenges_answered", connection.stats().frame_tx.path_response)
        .raw("sent", sent)
        .raw("sent_marked", sent_marked)
        .raw("received", received)
        .raw("received_marked", received_marked)
        .print();
    caller.close(connection).await;
    match case {
        Case::Rebind if relay.rebound() == 0 => failed("the work ended before the rebinding"),
        // A stack stops marking packets if ECN validation fails (RFC 9000 §13.4.2).
        Case::Ecn if sent_marked * 2 < sent => failed("the server did not validate the client's ECN marks"),
        Case::Ecn if received_marked == 0 => failed("the server marks nothing"),
        _ => Ok(()),
    }
}

async fn version_negotiation(caller: &Caller) -> Result<(), Failure> {
    match caller.connecting()?.await {
        Err(ConnectionError::VersionMismatch) => {
            Report::new()
                .text("case", Case::VersionNegotiation.name())
                .text("offered", &format!("{DRAFT_29:#010x}"))
                .raw("version_negotiation", true)
                .print();
            Ok(())
        }
        Ok(_) => failed("the server speaks draft 29"),
        Err(other) => Err(other.into()),
    }
}

async fn many_requests(caller: &Caller, requests: &Requests) -> Result<(), Failure> {
    let mut connections = Vec::new();
    for _ in 0..requests.connections {
        connections.push(caller.connect().await?);
    }
    let start = Instant::now();
    let transports = connections.iter().map(http3::transport).collect();
    let (bytes, times) = http3::client::repeat(transports, requests).await?;
    Report::new().requests(requests.count, bytes, start.elapsed(), times).cpu().print();
    for connection in connections {
        caller.close(connection).await;
    }
    Ok(())
}

async fn handshakes(caller: Caller, count: u64, concurrency: u64) -> Result<(), Failure> {
    let caller = Arc::new(caller);
    let left = Arc::new(AtomicU64::new(count));
    let mut lanes = tokio::task::JoinSet::new();
    let start = Instant::now();
    for _ in 0..concurrency {
        let (caller, left) = (Arc::clone(&caller), Arc::clone(&left));
        lanes.spawn(async move {
            while left.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(1)).is_ok() {
                caller.connect().await?.close(0u32.into(), b"");
            }
            Ok::<_, Failure>(())
        });
    }
    while let Some(lane) = lanes.join_next().await {
        lane??;
    }
    let seconds = start.elapsed().as_secs_f64();
    let full = caller.verified.load(Relaxed);
    Report::new().raw("handshakes", count).raw("seconds", format!("{seconds:.6}")).cpu().print();
    if full == count { Ok(()) } else { failed(format!("only {full} handshakes were full ones")) }
}
