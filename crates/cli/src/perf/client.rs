//! `anabranch perf client`: measurements and interoperability cases.

use anabranch::{
    Candidate, ClientConfig, Connection, Endpoint, RacePolicy, TransportConfig, VarInt, Version,
    unspecified_for,
};
use std::net::{SocketAddr, UdpSocket};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use bytes::Bytes;
use clap::{Args, ValueEnum};
use serde_json::json;
use tokio::task::JoinSet;

use super::ecn::EcnWatch;
use super::latency::Latency;
use super::load::{Case, Load};
use super::recv::{self, Recv};
use super::work::{Moved, Work};
use super::{CpuOptions, Form, Report, http3, progress};
use crate::events::{ConnectionEvents, Events, EventsTo};
use crate::exit::{self, Exit, Failure, Result};
use crate::hq;
use crate::listen::HostPort;
use crate::multipath::{self, ClientPaths, Managed};
use crate::options::{ClientPlan, Trust, Tuning};
use crate::reordering;
use crate::verbose::Verbosity;

/// Maximum time that `--case datagram` waits for the last echo.
const ECHO_WAIT: Duration = Duration::from_secs(2);
/// Interval of PINGs after a rebinding, so that the server notices the new port.
const KEEP_ALIVE: Duration = Duration::from_millis(500);
/// Maximum time to wait for a migration to complete after the work, and the interval between checks.
const MOVE_WAIT: Duration = Duration::from_secs(2);
const MOVE_CHECK: Duration = Duration::from_millis(10);
/// Time for the server to receive CONNECTION_CLOSE.
const FAREWELL: Duration = Duration::from_millis(200);
/// Default duration of a measurement, and the interval of its progress lines.
const TIME: Duration = Duration::from_secs(10);
const INTERVAL: Duration = Duration::from_secs(1);

/// Measure a server, or show its capabilities
///
/// By default it sends for ten seconds, as iperf3 does: `perf client -c HOST`, `-R` to receive, `-t` for
/// another duration, `--download` and `--upload` for a number of bytes. The server is `perf server`, or
/// another server of `perf`, `hq-interop` or HTTP/3
#[derive(Args, Debug)]
#[command(after_help = exit::STATUSES)]
pub(crate) struct Client {
    /// Name or address of the server [default port: 4433]
    #[arg(short, long, value_name = "HOST[:PORT]")]
    connect: HostPort,
    /// The server's name in the certificate [default: that of --connect, or localhost for an address]
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    #[command(flatten)]
    trust: Trust,
    #[command(flatten)]
    pub(super) load: Load,
    #[command(flatten)]
    form: Form,
    #[command(flatten)]
    pub(super) verbosity: Verbosity,
    #[command(flatten)]
    events: EventsTo,
    #[command(flatten)]
    pub(super) place: CpuOptions,
    #[command(flatten)]
    multipath: ClientPaths,
    #[command(flatten)]
    tuning: Tuning,
}

impl Client {
    /// Creates a client that fetches `paths` into `out` and trusts any server. `alpn` is the application
    /// protocol.
    pub(crate) fn fetching(
        (connect, name): (SocketAddr, String),
        case: Case,
        alpn: &str,
        out: PathBuf,
        paths: Vec<String>,
        tuning: Tuning,
    ) -> Self {
        Self {
            connect: HostPort { host: Some(connect.ip().to_string()), port: connect.port(), has_port: true },
            name: Some(name),
            trust: Trust { ca: None, pin: None, insecure: true },
            load: Load {
                case,
                alpn: Some(alpn.to_owned()),
                time: None,
                reverse: false,
                interval: None,
                download: None,
                upload: None,
                streams: 1,
                out: Some(out),
                paths,
                http3: false,
                requests: None,
                connections: 1,
                handshakes: None,
                concurrency: 1,
                datagrams: 0,
                recv: Recv::Many,
            },
            form: Form { json: true },
            verbosity: Verbosity::default(),
            events: EventsTo::default(),
            place: CpuOptions { one_core: None },
            multipath: ClientPaths::offering(None),
            tuning,
        }
    }

    /// Returns the client, which announces that it supports `max_paths` paths.
    pub(crate) fn offering(self, max_paths: u32) -> Self {
        Self { multipath: ClientPaths::offering(Some(max_paths)), ..self }
    }

    fn work(&self) -> Result<Work> {
        let http3 = self.load.http3 || self.load.alpn.as_deref() == Some(http3::ALPN);
        let files = http3 || !self.load.paths.is_empty() || self.load.alpn.as_deref() == Some(hq::ALPN);
        let work = match files {
            true => Work::Files { http3, out: self.load.out.clone(), paths: self.load.paths.clone() },
            false => match self.time() {
                Some(time) => Work::Timed { time, reverse: self.load.reverse, streams: self.load.streams },
                None => Work::Bulk {
                    download: self.load.download.unwrap_or(0),
                    upload: self.load.upload.unwrap_or(0),
                    streams: self.load.streams,
                },
            },
        };
        work.check()?;
        match &self.load.alpn {
            Some(alpn) if alpn != work.alpn() => {
                Err(Failure::new(Exit::Usage, format!("this work needs --alpn {}", work.alpn())))
            }
            _ => Ok(work),
        }
    }

    /// Returns the duration of the work; `None` if a number of bytes ends it.
    fn time(&self) -> Option<Duration> {
        let said =
            self.load.download.is_some() || self.load.upload.is_some() || self.load.handshakes.is_some();
        let idle = self.load.case == Case::Transfer && !said;
        self.load.time.or((idle || self.load.reverse).then_some(TIME))
    }

    /// Returns the interval of progress lines for people.
    fn interval(&self, work: &Work) -> Option<Duration> {
        let usual = matches!(work, Work::Timed { .. }).then_some(INTERVAL);
        self.load.interval.or(usual).filter(|every| !every.is_zero() && !self.form.json)
    }

    fn config(&self, alpn: &str) -> Result<ClientConfig> {
        let mut transport: TransportConfig = self.tuning.transport().with_multipath(self.multipath.config());
        if self.load.case == Case::Upgrade && self.tuning.wire.is_some() {
            let versions = [transport.versions(), &[Version::V1]].concat();
            transport = transport.with_versions(versions);
        }
        if matches!(self.load.case, Case::V2 | Case::VersionNegotiation) {
            transport = transport.with_versions([Version::V2, Version::V1]);
        }
        // In the 0-RTT case the interop runner counts 1-RTT packets, so the client sends no MTU probes.
        let recovery = transport.recovery().clone();
        let mtu = recovery.mtu().clone().with_discovery(self.load.case != Case::ZeroRtt);
        transport = transport.with_recovery(recovery.with_mtu(mtu));
        if self.load.case == Case::Rebind {
            transport = transport.with_keep_alive(KEEP_ALIVE);
        }
        let resume = matches!(self.load.case, Case::Resumption | Case::ZeroRtt);
        let chacha20 = self.load.case == Case::ChaCha20;
        let first = match self.load.case {
            Case::V2 | Case::VersionNegotiation => Version::V2,
            Case::Upgrade => Version::V1,
            _ => self.tuning.first_version(),
        };
        ClientPlan { trust: &self.trust, alpn, transport, first, chacha20, resume }.config()
    }
}

/// An endpoint, and the server that it connects to.
struct Caller {
    endpoint: Endpoint,
    config: ClientConfig,
    /// Possible addresses of the server.
    addresses: Vec<SocketAddr>,
    /// Address at which the server responded.
    server: OnceLock<SocketAddr>,
    name: String,
    paths: ClientPaths,
    form: Form,
    /// Path manager of the first connection.
    managed: OnceLock<Managed>,
    events: Events,
}

/// Maximum time to wait for an interface that is down if no other may be used.
const PATIENCE: Duration = Duration::from_secs(10);

impl Caller {
    async fn new(options: &Client, alpn: &str) -> Result<Self> {
        let config = options.config(alpn)?;
        let addresses = options.connect.resolve().await?;
        let Some(first) = addresses.first() else {
            let failure = Failure::new(Exit::Usage, format!("{} names no server", options.connect));
            return Err(failure.or("write --connect HOST[:PORT]"));
        };
        let endpoint = recv::endpoint(*first, options.load.recv)?;
        let known = options.connect.host.clone().filter(|_| !options.connect.is_address());
        let name = options.name.clone().or(known).unwrap_or_else(|| "localhost".to_owned());
        let (paths, form) = (options.multipath.clone(), options.form);
        let (server, managed) = (OnceLock::new(), OnceLock::new());
        let events = options.events.open()?;
        Ok(Self { endpoint, config, addresses, server, name, paths, form, managed, events })
    }

    /// Connects to the first of the server's addresses that responds.
    async fn connect(&self) -> Result<Connection> {
        let connection = match (self.server.get(), &self.addresses[..]) {
            _ if self.paths.is_managed() => {
                let candidates = self.paths.candidates(&self.addresses, PATIENCE).await?;
                let racing =
                    self.endpoint.connect_any(&self.config, candidates, &self.name, RacePolicy::default());
                racing.await.map_err(exit::attempt)?
            }
            (Some(server), _) | (None, [server]) => self
                .endpoint
                .connect_with(&self.config, *server, &self.name)?
                .await
                .map_err(exit::handshake)?,
            (None, addresses) => {
                let candidates = Candidate::to_any_of(addresses);
                let racing =
                    self.endpoint.connect_any(&self.config, candidates, &self.name, RacePolicy::default());
                racing.await.map_err(exit::attempt)?
            }
        };
        self.server.get_or_init(|| connection.remote_address());
        // The paths of the first connection are reported.
        _ = self.managed.set(self.paths.manage(&connection));
        Ok(connection)
    }

    /// Returns the address at which the server responded.
    fn server(&self) -> SocketAddr {
        self.server.get().copied().unwrap_or(self.addresses[0])
    }

    async fn close(&self, connection: Connection) {
        let http3 = connection.handshake_data().protocol.as_deref() == Some(http3::ALPN.as_bytes());
        connection.close(if http3 { http3::no_error() } else { VarInt::from_u32(0) }, b"");
        // Keeps the endpoint until the CONNECTION_CLOSE is sent.
        self.farewell().await;
    }

    async fn farewell(&self) {
        // A server that does not receive the CONNECTION_CLOSE detects the end by its idle timeout.
        let _ = tokio::time::timeout(FAREWELL, self.endpoint.wait_close_sent()).await;
    }
}

pub(crate) async fn run(options: Client) -> Result {
    let work = options.work()?;
    options.events.check(true, "the result")?;
    let caller = Caller::new(&options, work.alpn()).await?;
    let events = caller.events.clone();
    let begin = Instant::now();
    let result = measure(&options, caller, &work).await;
    events.tell("end", || {
        let failure = result.as_ref().err();
        json!({
            "seconds": begin.elapsed().as_secs_f64(),
            "exit": failure.map_or(0, |failure| failure.exit() as u8),
            "error": failure.map(ToString::to_string),
        })
    });
    events.flush();
    result
}

async fn measure(options: &Client, caller: Caller, work: &Work) -> Result {
    if let Some(count) = options.load.requests {
        return requests(options, &caller, count).await;
    }
    if let Some(count) = options.load.handshakes {
        return handshakes(caller, count, options.load.concurrency).await;
    }
    match options.load.case {
        Case::Resumption | Case::ZeroRtt => again(&caller, options.load.case, work).await,
        Case::Datagram => datagrams(&caller, options.load.datagrams).await,
        _ => once(&caller, options.load.case, work, options.interval(work)).await,
    }
}

fn report(case: Case, connection: &Connection) -> Report {
    let name = case.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default();
    let version = format!("{:#010x}", connection.handshake_data().version.0);
    Report::default().with("case", name).with("version", version)
}

/// Runs the work on one connection; some cases act in the middle of it.
async fn once(caller: &Caller, case: Case, work: &Work, every: Option<Duration>) -> Result {
    let ecn = EcnWatch::default();
    if case == Case::Ecn {
        let ecn = ecn.clone();
        caller.endpoint.set_observer(move |_| Box::new(ecn.clone()));
    }
    let connection = caller.connect().await?;
    if matches!(case, Case::KeyUpdate | Case::Migration | Case::Rebind) {
        connection.confirmed().await?;
    }
    let acted = Arc::new(AtomicU64::new(0));
    let act = in_the_middle(caller, case, &connection, Arc::clone(&acted));
    let start = Instant::now();
    let moved = Arc::<Moved>::default();
    let watch = ConnectionEvents::new(&connection, &caller.events);
    watch.established();
    let bytes = tokio::select! {
        bytes = work.run(&connection, Arc::clone(&moved), act) => bytes?,
        told = progress::tell(&connection, &moved, every) => told?,
        () = progress::tell_events(&caller.events, &connection, &moved) => 0,
    };
    let seconds = start.elapsed().as_secs_f64();
    let (stats, moves) = (connection.stats(), acted.load(Ordering::Relaxed));
    let lost = stats.lost_packets();
    let mtu = stats.paths.first().map_or(0, |path| path.mtu);
    let version = connection.handshake_data().version;
    let moved = case == Case::Migration && has_moved(caller, &connection).await;
    let lines = stats.paths.iter().filter(|_| stats.paths.len() > 1).map(multipath::words);
    let report = lines.fold(report(case, &connection), Report::line);
    report
        .goodput(bytes, seconds)
        .with("key_updates", stats.key_updates)
        .with("migrations", if case == Case::Migration { moves } else { 0 })
        .with("rebindings", if case == Case::Rebind { moves } else { 0 })
        .with("version_negotiation", case == Case::VersionNegotiation && version == Version::V1)
        .with("ecn_capable", ecn.is_capable())
        .with("lost_packets", lost)
        .with("mtu", mtu)
        .with("ordered_ratio", stats.ordered_ratio())
        .with("reordering", reordering::facts(&stats.reordering()))
        .with("placed_bytes", stats.received.placed)
        .with("copied_bytes", stats.received.copied)
        .with("restored_bytes", stats.received.restored)
        .with("paths", multipath::all_facts(&stats))
        .with("one_path_because", caller.managed.get().and_then(|managed| managed.why_single(&connection)))
        .print(caller.form)?;
    caller.close(connection).await;
    let failed = |what: &str| Err(Failure::new(Exit::Protocol, what));
    match case {
        Case::KeyUpdate | Case::Migration | Case::Rebind if moves == 0 => {
            failed("the work ended before its middle")
        }
        Case::KeyUpdate if stats.key_updates == 0 => failed("the keys were not updated"),
        Case::Migration if !moved => failed("the server did not answer on the new path"),
        Case::Ecn if !ecn.is_capable() => failed("the server did not validate the client's ECN marks"),
        Case::V2 if version != Version::V2 => failed("the server does not speak version 2"),
        Case::Upgrade if caller.config.transport().versions().first() != Some(&version) => {
            failed("the server does not change the version")
        }
        Case::VersionNegotiation if version != Version::V1 => failed("the server speaks version 2"),
        _ => Ok(()),
    }
}

/// Returns whether the connection has left the endpoint's first socket. Short work may end before the server
/// has responded on the new path, so this waits up to [`MOVE_WAIT`].
async fn has_moved(caller: &Caller, connection: &Connection) -> bool {
    let first = caller.endpoint.local_addr().ok().map(|address| address.port());
    let moved = async {
        while connection.local_address().is_none_or(|address| Some(address.port()) == first) {
            tokio::time::sleep(MOVE_CHECK).await;
        }
    };
    tokio::time::timeout(MOVE_WAIT, moved).await.is_ok()
}

/// Returns the action in the middle of a case's work. `acted` counts the actions that could be started.
fn in_the_middle(
    caller: &Caller,
    case: Case,
    connection: &Connection,
    acted: Arc<AtomicU64>,
) -> impl Fn() + Send + Sync + 'static {
    let (endpoint, connection, server) = (caller.endpoint.clone(), connection.clone(), caller.server());
    move || {
        let began = match case {
            Case::KeyUpdate => {
                connection.update_keys();
                true
            }
            Case::Rebind => {
                UdpSocket::bind(unspecified_for(server)).and_then(|socket| endpoint.rebind(socket)).is_ok()
            }
            Case::Migration => {
                let added = endpoint.add_socket(unspecified_for(server));
                added.is_ok_and(|address| connection.migrate(address).is_ok())
            }
            _ => false,
        };
        acted.fetch_add(u64::from(began), Ordering::Relaxed);
    }
}

/// Runs the work on two connections. The second one uses the session ticket of the first.
async fn again(caller: &Caller, case: Case, work: &Work) -> Result {
    let (first, second) = work.halves();
    let connection = caller.connect().await?;
    first.run(&connection, Arc::default(), || {}).await?;
    // The ticket arrives with the server's first data or later.
    connection.confirmed().await?;
    caller.close(connection).await;

    let connecting = caller.endpoint.connect_with(&caller.config, caller.server(), &caller.name)?;
    let start = Instant::now();
    let (connection, accepted) = if case == Case::ZeroRtt {
        let early = connecting.into_0rtt();
        let early =
            early.map_err(|_| Failure::new(Exit::Protocol, "the server gave no ticket that allows 0-RTT"))?;
        (early.0, Some(early.1))
    } else {
        (connecting.await.map_err(exit::handshake)?, None)
    };
    let bytes = second.run(&connection, Arc::default(), || {}).await?;
    let seconds = start.elapsed().as_secs_f64();
    let zero_rtt = match accepted {
        Some(accepted) => accepted.await,
        None => false,
    };
    let resumed = connection.handshake_data().resumed;
    report(case, &connection)
        .with("resumed", resumed)
        .with("zero_rtt_accepted", zero_rtt)
        .goodput(bytes, seconds)
        .print(caller.form)?;
    caller.close(connection).await;
    match case {
        Case::ZeroRtt if !zero_rtt => Err(Failure::new(Exit::Protocol, "0-RTT was not accepted")),
        _ if !resumed => Err(Failure::new(Exit::Protocol, "the second handshake was a full one")),
        _ => Ok(()),
    }
}

async fn datagrams(caller: &Caller, count: u64) -> Result {
    let connection = caller.connect().await?;
    let failed = |error: anabranch::SendDatagramError| Failure::new(Exit::Protocol, error);
    for number in 0..count {
        let message = Bytes::copy_from_slice(&number.to_be_bytes());
        connection.send_datagram_wait(message).await.map_err(failed)?;
    }
    let mut echoed = 0_u64;
    while echoed < count {
        match tokio::time::timeout(ECHO_WAIT, connection.read_datagram()).await {
            Ok(message) => echoed += u64::from(message?.len() == 8),
            Err(_) => break,
        }
    }
    report(Case::Datagram, &connection).with("sent", count).with("echoed", echoed).print(caller.form)?;
    caller.close(connection).await;
    if echoed == 0 && count > 0 { Err(Failure::new(Exit::Protocol, "no datagram came back")) } else { Ok(()) }
}

/// Makes many small requests. The handshakes are not part of the measured time.
async fn requests(options: &Client, caller: &Caller, count: u64) -> Result {
    let [path] = &options.load.paths[..] else {
        return Err(Failure::new(Exit::Usage, "--requests needs one path"));
    };
    let mut connections = Vec::new();
    for _ in 0..options.load.connections {
        connections.push(http3::begin(&caller.connect().await?));
    }
    let start = Instant::now();
    let (bytes, times) =
        http3::requests(&connections, &caller.name, path, count, options.load.concurrency).await?;
    let seconds = start.elapsed().as_secs_f64();
    let latency = Latency::of(times);
    let lines = latency.into_iter().map(Latency::words);
    lines
        .fold(Report::default(), Report::line)
        .goodput(bytes, seconds)
        .with("requests", count)
        .with("latency_us", latency.map(Latency::json))
        .with("requests_per_s", count as f64 / seconds.max(1e-9))
        .print(caller.form)?;
    for connection in &connections {
        connection.close();
    }
    caller.farewell().await;
    Ok(())
}

/// Makes full handshakes; the configuration of these cases stores no sessions.
async fn handshakes(caller: Caller, count: u64, concurrency: u64) -> Result {
    let caller = Arc::new(caller);
    let left = Arc::new(AtomicU64::new(count));
    let mut lanes = JoinSet::new();
    let start = Instant::now();
    for _ in 0..concurrency {
        let (caller, left) = (Arc::clone(&caller), Arc::clone(&left));
        lanes.spawn(async move {
            let next = || left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1));
            while next().is_ok() {
                caller.connect().await?.close(VarInt::from_u32(0), b"");
            }
            Ok::<_, Failure>(())
        });
    }
    while let Some(lane) = lanes.join_next().await {
        lane.map_err(|error| Failure::new(Exit::Protocol, error))??;
    }
    let seconds = start.elapsed().as_secs_f64();
    Report::default().with("handshakes", count).with("seconds", seconds).print(caller.form)?;
    Ok(())
}
