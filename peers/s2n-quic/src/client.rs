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
use s2n_quic::Connection;
use s2n_quic::client::Connect;

use crate::http3::{self, Transport};
use crate::tls::{self, Session};
use crate::{datagrams, io, limits, next_datagram, send_datagram, work, wrong};

/// Keep-alive interval of a client on an idle connection.
const KEEP_ALIVE: Duration = Duration::from_millis(500);

/// Time that `--case datagram` waits for the last echo.
const ECHO_WAIT: Duration = Duration::from_secs(2);

/// Time that `--case resumption` waits for a ticket.
const TICKET_WAIT: Duration = Duration::from_secs(2);

/// Client endpoint with the server's address.
struct Caller {
    client: s2n_quic::Client,
    server: SocketAddr,
    name: String,
}

impl Caller {
    fn new(options: &Client, server: SocketAddr) -> Result<Self, Failure> {
        Self::resuming(options, server, None)
    }

    /// Creates a client, which resumes a session if there is one.
    fn resuming(options: &Client, server: SocketAddr, session: Option<&Session>) -> Result<Self, Failure> {
        let mut limits = limits(&options.common)?;
        if options.case == Case::Rebind {
            limits = limits.with_max_keep_alive_period(KEEP_ALIVE).map_err(wrong)?;
        }
        let (io, _) = io(socket::any_like(server), &options.common)?;
        let builder =
            s2n_quic::Client::builder().with_limits(limits)?.with_datagram(datagrams()?)?.with_io(io)?;
        let client = match options.case {
            Case::ChaCha20 => builder.with_tls(tls::only_chacha20(options)?)?.start(),
            _ => builder.with_tls(tls::client(options, session)?)?.start(),
        }
        .map_err(wrong)?;
        Ok(Self { client, server, name: options.name.clone() })
    }

    async fn connect(&self) -> Result<Connection, Failure> {
        let connect = Connect::new(self.server).with_server_name(self.name.as_str());
        Ok(self.client.connect(connect).await?)
    }
}

/// Does the work of the options and prints a report.
pub async fn run(options: Client) -> Result<(), Failure> {
    if let Work::Handshakes { count, concurrency } = options.work {
        return handshakes(Caller::new(&options, options.connect)?, count, concurrency).await;
    }
    if let Work::Requests(requests) = &options.work {
        return many_requests(Caller::new(&options, options.connect)?, requests).await;
    }
    let missing = match options.case {
        Case::Handshake | Case::Transfer | Case::Multiplexing | Case::ChaCha20 => {
            return plain(&options).await;
        }
        Case::Datagram => return exchange_datagrams(&options).await,
        Case::Resumption => return again(&options).await,
        Case::Rebind | Case::Ecn => return relayed(&options).await,
        Case::ZeroRtt => "s2n-quic has no 0-RTT",
        Case::KeyUpdate => "s2n-quic updates keys when a limit of the AEAD comes near, and not on request",
        Case::V2 => "s2n-quic has no QUIC version 2",
        Case::VersionNegotiation => "s2n-quic's client offers version 1 and no other",
        Case::Migration => "s2n-quic's client cannot be told to move to another socket",
    };
    Err(Failure::Unsupported(missing.into()))
}

/// Does the work and calls `midway` in its middle. Returns the report so far.
async fn transfer(
    caller: &Caller,
    options: &Client,
    midway: impl Fn() + Send + Sync + 'static,
) -> Result<Report, Failure> {
    let mut connection = caller.connect().await?;
    if options.case == Case::Rebind {
        // Otherwise a client that only receives, and has acknowledged everything, would never show its new
        // address.
        connection.keep_alive(true)?;
    }
    let progress = Progress::new(&options.work, midway);
    let start = Instant::now();
    let handle = connection.handle();
    work::run(connection, &options.work, &progress).await?;
    let report = report(options.case).goodput(progress.moved(), start.elapsed());
    handle.close(0u32.into());
    Ok(report)
}

fn report(case: Case) -> Report {
    Report::new().text("case", case.name()).text("version", "0x00000001")
}

async fn plain(options: &Client) -> Result<(), Failure> {
    let mut caller = Caller::new(options, options.connect)?;
    transfer(&caller, options, || {}).await?.cpu().print();
    Ok(caller.client.wait_idle().await?)
}

/// Makes two connections. The second one resumes the session of the first one.
async fn again(options: &Client) -> Result<(), Failure> {
    let session = Session::new(&options.name);
    let mut caller = Caller::resuming(options, options.connect, Some(&session))?;
    let (first, second) = options.work.halves();
    let connection = caller.connect().await?;
    let handle = connection.handle();
    work::run(connection, &first, &Progress::new(&first, || {})).await?;
    let asked = Instant::now();
    while session.ticket().is_none() {
        if asked.elapsed() > TICKET_WAIT {
            return failed("no ticket");
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    handle.close(0u32.into());

    let verified = session.verified();
    let start = Instant::now();
    let connection = caller.connect().await?;
    let handle = connection.handle();
    let progress = Progress::new(&second, || {});
    work::run(connection, &second, &progress).await?;
    let resumed = session.verified() == verified;
    report(options.case)
        .raw("resumed", resumed)
        .raw("zero_rtt_accepted", false)
        .goodput(progress.moved(), start.elapsed())
        .print();
    handle.close(0u32.into());
    caller.client.wait_idle().await?;
    if resumed { Ok(()) } else { failed("the second handshake was a full one") }
}

async fn exchange_datagrams(options: &Client) -> Result<(), Failure> {
    let Work::Datagrams { count } = options.work else { return failed("this case needs datagrams") };
    let mut caller = Caller::new(options, options.connect)?;
    let connection = caller.connect().await?.handle();
    for number in 0..count {
        send_datagram(&connection, Bytes::copy_from_slice(&number.to_be_bytes())).await?;
    }
    let mut echoes = 0;
    while echoes < count {
        match tokio::time::timeout(ECHO_WAIT, next_datagram(&connection)).await {
            Ok(datagram) => echoes += u64::from(datagram?.len() == 8),
            Err(_) => break,
        }
    }
    report(options.case).raw("sent", count).raw("echoed", echoes).print();
    connection.close(0u32.into());
    caller.client.wait_idle().await?;
    if echoes == 0 && count > 0 { failed("no datagram came back") } else { Ok(()) }
}

async fn many_requests(mut caller: Caller, requests: &Requests) -> Result<(), Failure> {
    let (mut transports, mut handles) = (Vec::new(), Vec::new());
    for _ in 0..requests.connections {
        let connection = caller.connect().await?;
        handles.push(connection.handle());
        transports.push(Transport::new(connection));
    }
    let start = Instant::now();
    let (bytes, times) = http3::client::repeat(transports, requests).await?;
    Report::new().requests(requests.count, bytes, start.elapsed(), times).cpu().print();
    for handle in handles {
        handle.close(0u32.into());
    }
    Ok(caller.client.wait_idle().await?)
}

/// Does the work through a relay, which can change the client's address and observes the ECN marks.
async fn relayed(options: &Client) -> Result<(), Failure> {
    let relay = Arc::new(Relay::start(options.connect)?);
    let mut caller = Caller::new(options, relay.address)?;
    let (nat, case) = (Arc::clone(&relay), options.case);
    let report = transfer(&caller, options, move || {
        if case == Case::Rebind {
            nat.rebind();
        }
    })
    .await?;
    let (up, down) = (&relay.watched.to_server, &relay.watched.to_client);
    let [sent, sent_marked, received, received_marked] =
        [&up.datagrams, &up.marked, &down.datagrams, &down.marked].map(|count| count.load(Relaxed));
    report
        .raw("rebindings", relay.rebound())
        .raw("sent", sent)
        .raw("sent_marked", sent_marked)
        .raw("received", received)
        .raw("received_marked", received_marked)
        .print();
    caller.client.wait_idle().await?;
    match case {
        Case::Rebind if relay.rebound() == 0 => failed("the work ended before the rebinding"),
        // A stack stops marking packets if ECN validation fails (RFC 9000 §13.4.2).
        Case::Ecn if sent_marked * 2 < sent => failed("the server did not validate the client's ECN marks"),
        Case::Ecn if received_marked == 0 => failed("the server marks nothing"),
        _ => Ok(()),
    }
}

async fn handshakes(mut caller: Caller, count: u64, concurrency: u64) -> Result<(), Failure> {
    let (client, server, name) = (caller.client.clone(), caller.server, caller.name.clone());
    let shared = Arc::new(Caller { client, server, name });
    let left = Arc::new(AtomicU64::new(count));
    let mut lanes = tokio::task::JoinSet::new();
    let start = Instant::now();
    for _ in 0..concurrency {
        let (caller, left) = (Arc::clone(&shared), Arc::clone(&left));
        lanes.spawn(async move {
            while left.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(1)).is_ok() {
                caller.connect().await?.close(0u32.into());
            }
            Ok::<_, Failure>(())
        });
    }
    while let Some(lane) = lanes.join_next().await {
        lane??;
    }
    let seconds = start.elapsed().as_secs_f64();
    Report::new().raw("handshakes", count).raw("seconds", format!("{seconds:.6}")).cpu().print();
    Ok(caller.client.wait_idle().await?)
}
