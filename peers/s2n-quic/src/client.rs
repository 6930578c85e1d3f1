//! Cases of the client.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use peer_common::args::{Case, Client, Work};
use peer_common::progress::Progress;
use peer_common::relay::Relay;
use peer_common::report::Report;
use peer_common::{Failure, failed, socket};
use s2n_quic::Connection;
use s2n_quic::client::Connect;
use s2n_quic::provider::tls::s2n_tls;

use crate::{POLICY, io, limits, work, wrong};

/// Keep-alive interval of a client on an idle connection.
const KEEP_ALIVE: Duration = Duration::from_millis(500);

/// Client endpoint with the server's address.
struct Caller {
    client: s2n_quic::Client,
    server: SocketAddr,
    name: String,
}

impl Caller {
    fn new(options: &Client, server: SocketAddr) -> Result<Self, Failure> {
        let mut tls = s2n_tls::Client::builder()
            .with_empty_trust_store()?
            .with_certificate(&*options.ca)?
            .with_application_protocols([options.work.alpn()])?;
        tls.config_mut().set_security_policy(&s2n_tls::security::Policy::from_version(POLICY)?)?;
        let mut limits = limits(&options.common)?;
        if options.case == Case::Rebind {
            limits = limits.with_max_keep_alive_period(KEEP_ALIVE).map_err(wrong)?;
        }
        let (io, _) = io(socket::any_like(server), &options.common)?;
        let client = s2n_quic::Client::builder()
            .with_tls(tls.build()?)?
            .with_limits(limits)?
            .with_io(io)?
            .start()
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
    if options.work.alpn() == "h3" {
        return Err(Failure::Unsupported("this peer has no HTTP/3".into()));
    }
    match options.case {
        Case::Handshake | Case::Transfer | Case::Multiplexing => plain(&options).await,
        Case::Rebind | Case::Ecn => relayed(&options).await,
        case => Err(Failure::Unsupported(format!("s2n-quic's interface has nothing for {}", case.name()))),
    }
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
    work::run(&mut connection, &options.work, &progress).await?;
    let report = Report::new()
        .text("case", options.case.name())
        .text("version", "0x00000001")
        .goodput(progress.moved(), start.elapsed());
    connection.close(0u32.into());
    Ok(report)
}

async fn plain(options: &Client) -> Result<(), Failure> {
    let mut caller = Caller::new(options, options.connect)?;
    transfer(&caller, options, || {}).await?.cpu().print();
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
