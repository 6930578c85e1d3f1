//! `anabranch serve`: files of a directory over HTTP/3, HTTP/2 and HTTP/1.1.
//!
//! One [`Files`] service serves the requests of all protocols. [`shared::Shared`] is the state that all
//! connections share, and the module of each protocol passes requests to the service.

mod activity;
mod balancing;
mod drain;
#[cfg_attr(not(any(target_os = "linux", target_os = "android")), path = "hand_over/absent.rs")]
mod hand_over;
mod hq;
mod log;
pub(crate) mod metrics;
mod observe;
mod progress;
mod protocol;
pub(crate) mod quic;
mod retry;
mod shared;
pub(crate) mod sockets;
pub(crate) mod systemd;
mod tcp;
mod ticket_key;

use std::net::{IpAddr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anabranch::{Endpoint, LoadBalancing, MAX_WORKERS};
use clap::Args;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use serde_json::json;
use tokio::task::JoinSet;

use self::hand_over::{Goods, Heirs, Inheritance};
use self::log::{AccessLog, Format};
use self::quic::Bound;
use self::retry::Retry;
use self::shared::Shared;
use self::sockets::Sockets;
use self::ticket_key::KeptKeys;
use crate::events::EventsTo;
use crate::exit::{self, Exit, Failure, Result};
use crate::files::Files;
use crate::identity::{Certified, Identity};
use crate::listen::{self, HostPort};
use crate::multipath::ServerPaths;
use crate::options::{Tuning, directory};
use crate::signal::Again;
use crate::verbose::Verbosity;

/// Serve the files of a directory over HTTP/3, HTTP/2 and HTTP/1.1
#[derive(Args, Debug)]
#[command(after_help = exit::STATUSES)]
pub(crate) struct Serve {
    /// Directory whose files are served [default: the current directory]; nothing outside it is served, not
    /// even by links
    #[arg(value_name = "DIR", conflicts_with = "root")]
    directory: Option<PathBuf>,
    /// Same as DIR, as an option
    #[arg(long, value_name = "DIR")]
    root: Option<PathBuf>,
    /// Addresses, or names of this host, and ports to listen on, for UDP and TCP alike: 192.0.2.1:443,
    /// localhost:4433, or :4433 for every address; port 0 lets the system choose [default: the sockets that
    /// systemd passes, or else :4433]
    #[arg(long, value_name = "HOST:PORT", num_args = 1..)]
    listen: Vec<String>,
    /// Further address of this server, announced to clients that use several paths; may be repeated. The
    /// default port is that of the first listen address
    #[arg(long, value_name = "IP[:PORT]")]
    announce: Vec<HostPort>,
    #[command(flatten)]
    identity: Identity,
    /// Protect session tickets with the keys in FILE, so that clients can resume sessions after a restart,
    /// and at every server with the same file; it is created if it is missing. Each line is a key of 64
    /// hexadecimal digits: the first one protects new tickets, all are accepted. Connections from before a
    /// restart are reset, so that clients reconnect at once. Such a server accepts no early data (0-RTT),
    /// because these tickets can be used twice
    #[arg(long, value_name = "FILE")]
    ticket_key: Option<PathBuf>,
    /// Issue connection IDs that name this server, by the configuration of QUIC-LB in FILE (TOML), so that load
    /// balancers route all packets of a connection to it. SIGHUP reads the file again. The other servers behind
    /// the load balancer need the same --ticket-key, and the same certificate
    #[arg(long, value_name = "FILE")]
    lb_config: Option<PathBuf>,
    /// Clients that have to prove their address with a Retry, which costs a round trip; tokens of earlier connections spare it
    #[arg(long, value_enum, value_name = "WHEN", default_value_t)]
    retry: Retry,
    #[command(flatten)]
    capacity: Capacity,
    /// Do not list directories that have no index.html
    #[arg(long)]
    no_listing: bool,
    /// Do not serve HTTP/2 and HTTP/1.1 over TCP
    #[arg(long)]
    no_tcp: bool,
    /// Format of the access log on standard error, a line for each request
    #[arg(long, value_enum, value_name = "FORM", default_value_t)]
    log: Format,
    /// Serve metrics for Prometheus at http://IP:PORT/metrics
    #[arg(long, value_name = "IP:PORT")]
    metrics: Option<SocketAddr>,
    /// Take the sockets over from the process that runs with the same PATH, if there is one, and hand them over to the
    /// next one, without a failed request: clients of the old process stay there until it ends (--drain). PATH
    /// is a Unix socket, which is created; only processes of the same user are trusted
    #[arg(long, value_name = "PATH")]
    handover: Option<PathBuf>,
    /// Seconds that running responses get after SIGTERM, and after a hand-over; a second signal aborts them at once
    #[arg(long, value_name = "SECONDS", default_value_t = 10)]
    drain: u32,
    /// Seconds after which a response is aborted if its client reads nothing at all of it meanwhile; earlier
    /// pauses do not count. 0 waits as long as the connection lives. If memory runs short, the responses that
    /// have stalled longest are aborted first
    #[arg(long, value_name = "SECONDS", default_value_t = 300)]
    stall_timeout: u32,
    #[command(flatten)]
    pub(crate) verbosity: Verbosity,
    #[command(flatten)]
    events: EventsTo,
    #[command(flatten)]
    paths: ServerPaths,
    #[command(flatten)]
    tuning: Tuning,
}

pub(crate) async fn run(mut options: Serve) -> Result {
    let last = listen::take_directory(&mut options.listen).filter(|_| options.root.is_none());
    let named = options.directory.clone().or(options.root.clone()).or(last.map(PathBuf::from));
    let root = directory(named.as_deref().unwrap_or(Path::new(".")))?;
    let cannot_read = |error| Failure::io(format_args!("cannot read {}", root.display()), &error);
    let files = Files::open(&root, !options.no_listing).map_err(cannot_read)?;
    let places = places(&options.listen)?;
    let kept = options.ticket_key.as_deref().map(ticket_key::load).transpose()?;
    let balancing = options.lb_config.as_deref().map(balancing::read).transpose()?;
    let certified = options.identity.load(&names(&places))?;
    let certified = certified.with_tickets(kept.as_ref().map(|kept| Arc::clone(&kept.tickets)));
    // Before descriptors of another process arrive.
    raise_descriptors();
    let mut heirs = options.handover.as_deref().map(Heirs::bind).transpose()?;
    let mut inherited = match options.handover.as_deref() {
        Some(path) => Inheritance::receive(path).await?,
        None => None,
    };
    let (sockets, scraped) = open(&options, &places, inherited.as_mut()).await?;
    // Catches signals before anybody can know that the server runs.
    let (mut stop, mut again) = Again::catch(balancing.is_some())?;

    let log = AccessLog::start(options.log);
    let stall = (options.stall_timeout > 0).then(|| Duration::from_secs(options.stall_timeout.into()));
    let events = options.events.open()?;
    let shared = Arc::new(Shared::new(files, log.clone(), stall, events.clone()));
    let (mut accepting, mut scraping) = (JoinSet::new(), JoinSet::new());
    let mut goods = Goods::of_tcp(heirs.is_some(), &sockets.tcp, scraped.as_ref())?;
    let metrics = match scraped {
        Some(listener) => {
            let metrics = Arc::clone(&shared.metrics);
            Some(metrics::serve(listener, move || metrics.text(), &mut scraping)?)
        }
        None => None,
    };
    let legacies = inherited.as_mut().map(Inheritance::take_legacies).unwrap_or_default();
    let bound = legacies.into_iter().map(Bound::Inherited).chain(sockets.udp.into_iter().map(Bound::New));
    let sockets = (bound.collect(), sockets.tcp);
    let secrets = (kept.as_ref(), balancing.as_ref());
    let endpoints = listen(&options, &certified, secrets, sockets, &shared, &mut accepting)?;
    goods.endpoints.clone_from(&endpoints);
    // Whoever starts a further process after the announcement reaches this one.
    hand_over::begin(inherited, heirs.as_mut());
    let trust = options.identity.is_made_up().then(|| trust(&certified, options.identity.kept_in()));
    let said = announcement(&addresses(&endpoints)?, &root, trust.unwrap_or_default(), metrics);
    match options.events.is_standard() {
        true => exit::note(said),
        false => exit::say(said)?,
    }
    systemd::ready();
    let told = addresses(&endpoints)?;
    events.tell(
        "listening",
        || json!({ "addresses": told.iter().map(ToString::to_string).collect::<Vec<_>>() }),
    );
    accepting.spawn(progress::tell(Arc::clone(&shared)));

    let changes = async {
        loop {
            again.wait().await;
            let file = options.lb_config.as_deref().unwrap_or(Path::new(""));
            // A mistake in the file changes nothing.
            balancing::change(file, &endpoints).unwrap_or_else(|failure| failure.say());
        }
    };
    let handed_over = tokio::select! {
        _ = accepting.join_next() => return Err(Failure::new(Exit::Io, "a socket failed")),
        () = stop.wait() => false,
        () = hand_over::succeeded(heirs.as_ref(), &goods) => true,
        () = changes => false,
    };
    drop((heirs, goods));
    if handed_over {
        scraping.abort_all();
    }
    systemd::stopping();
    let patience = Duration::from_secs(options.drain.into());
    drain::drain(&shared, &endpoints, patience, &mut stop, handed_over).await;
    log.flush();
    progress::tell_end(&shared);
    events.flush();
    Ok(())
}

/// Opens the sockets, or takes those that are inherited: for clients, and for metrics.
async fn open(
    options: &Serve,
    places: &[HostPort],
    inherited: Option<&mut Inheritance>,
) -> Result<(Sockets, Option<TcpListener>)> {
    let bind = || options.metrics.map(sockets::bind_tcp).transpose();
    let Some(inherited) = inherited else {
        return Ok((Sockets::open(places, !options.no_tcp, options.capacity.workers).await?, bind()?));
    };
    let scraped = match inherited.scraped(options.metrics) {
        Some(listener) => Some(listener),
        None => bind()?,
    };
    Ok((inherited.sockets(!options.no_tcp), scraped))
}

/// Number of tasks and of connections.
#[derive(Args, Debug)]
struct Capacity {
    /// Tasks that serve QUIC at the same time, each with a socket of its own. On a busy server, as many as there
    /// are processors use all of them. Sockets that systemd passes have a worker each
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = workers)]
    workers: usize,
    /// Maximum number of QUIC connections at the same time, at each listen address; further clients are refused. An
    /// idle connection takes some 10 KB of memory
    #[arg(long, value_name = "N", default_value_t = 65_536, value_parser = clap::value_parser!(u32).range(1..))]
    max_connections: u32,
}

/// Starts to accept connections on every socket.
fn listen(
    options: &Serve,
    certified: &Certified,
    secrets: (Option<&KeptKeys>, Option<&LoadBalancing>),
    (bound, tcp): (Vec<Bound>, Vec<TcpListener>),
    shared: &Arc<Shared>,
    accepting: &mut JoinSet<()>,
) -> Result<Vec<Endpoint>> {
    let transport = options.tuning.served().with_multipath(options.paths.config());
    let config = certified.quic(quic::PROTOCOLS, transport)?.with_retry(options.retry.policy());
    let config = config.with_max_connections(options.capacity.max_connections as usize);
    let own = bound.iter().map(|bound| Ok(bound.addresses()?.into_iter().next()));
    let ports: Vec<_> =
        own.collect::<Result<Vec<_>>>()?.into_iter().flatten().map(|own| own.port()).collect();
    let announced = announced(&options.announce, ports.first().copied().unwrap_or(listen::PORT))?;
    let workers: Vec<_> = bound.iter().map(Bound::workers).collect();
    secrets.1.map_or(Ok(()), |balancing| balancing::check(balancing, &workers))?;
    let mut endpoints = Vec::new();
    for (index, bound) in bound.into_iter().enumerate() {
        let endpoint = quic::endpoint(config.clone(), secrets, bound, &announced, index == 0)?;
        accepting.spawn(quic::accept(endpoint.clone(), Arc::clone(shared)));
        endpoints.push(endpoint);
    }
    let tls = certified.tcp(tcp::PROTOCOLS)?;
    for listener in tcp {
        let listener = tcp::Listener::new(listener, Arc::clone(&tls), &ports)?;
        accepting.spawn(tcp::accept(listener, Arc::clone(shared)));
    }
    Ok(endpoints)
}

/// Parses the number of workers of an endpoint.
pub(crate) fn workers(word: &str) -> std::result::Result<usize, String> {
    let number = word.parse().ok().filter(|number| (1..=MAX_WORKERS).contains(number));
    number.ok_or_else(|| format!("must be 1 to {MAX_WORKERS}"))
}

/// Parses the listen addresses of the command line.
pub(crate) fn places(words: &[String]) -> Result<Vec<HostPort>> {
    let parse =
        |word: &String| word.parse().map_err(|what| Failure::new(Exit::Usage, format!("--listen: {what}")));
    words.iter().map(parse).collect()
}

/// Returns the host names and addresses of the command line, for the certificate.
pub(crate) fn names(places: &[HostPort]) -> Vec<String> {
    let usual = ["localhost", "127.0.0.1", "::1"];
    let is_particular = |host: &&String| {
        !usual.contains(&host.as_str())
            && !host.parse::<IpAddr>().is_ok_and(|address| address.is_unspecified())
    };
    places.iter().filter_map(|place| place.host.as_ref()).filter(is_particular).cloned().collect()
}

/// Parses the addresses that are announced to clients.
pub(crate) fn announced(places: &[HostPort], port: u16) -> Result<Vec<SocketAddr>> {
    let address = |place: &HostPort| {
        let what = || format!("--announce: {place} is not an address and a port");
        let host = place.host.as_deref().and_then(|host| host.parse::<IpAddr>().ok());
        let host = host.filter(|host| !host.is_unspecified());
        let port = if place.has_port { place.port } else { port };
        host.map(|host| SocketAddr::new(host, port)).ok_or_else(|| Failure::new(Exit::Usage, what()))
    };
    places.iter().map(address).collect()
}

/// Returns instructions for clients to trust a generated certificate.
pub(crate) fn trust(certified: &Certified, kept_in: Option<&Path>) -> Vec<String> {
    let pin = certified.pin();
    let mut lines = vec![
        format!("certificate made up for localhost, SPKI SHA-256 {}", pin.base64()),
        format!("trust it with: anabranch get --pin {pin}"),
    ];
    lines.extend(kept_in.map(|file| format!("           or: anabranch get --ca {}", file.display())));
    lines
}

/// Raises the limit of open files and connections to the system's maximum. The lower default exists for
/// programs that use `select`. If the limit cannot be raised, the server can have fewer connections at a
/// time.
pub(crate) fn raise_descriptors() {
    if let Ok((_, hard)) = getrlimit(Resource::RLIMIT_NOFILE) {
        let _ = setrlimit(Resource::RLIMIT_NOFILE, hard, hard);
    }
}

fn addresses(endpoints: &[Endpoint]) -> Result<Vec<SocketAddr>> {
    let addresses = endpoints.iter().map(Endpoint::local_addr).collect::<std::io::Result<_>>();
    addresses.map_err(|error| Failure::io("no local address", &error))
}

/// Returns the lines that are printed at the start. The first lines are for programs that start this one;
/// lines for people follow.
fn announcement(
    addresses: &[SocketAddr],
    root: &Path,
    trust: Vec<String>,
    metrics: Option<SocketAddr>,
) -> String {
    let mut lines: Vec<_> = addresses.iter().map(|address| format!("listening {address}")).collect();
    for address in addresses {
        let line = format!("open {}", url(*address));
        if !lines.contains(&line) {
            lines.push(line);
        }
    }
    lines.push(format!("serving {}", root.display()));
    lines.extend(trust);
    lines.extend(metrics.map(|address| format!("metrics http://{address}/metrics")));
    lines.join("\n")
}

/// Returns the URL for a browser on this host. Some browsers resolve `localhost` to `::1` for QUIC, so the
/// name is used only if the server listens on every IPv6 and IPv4 address.
fn url(address: SocketAddr) -> String {
    let port = address.port();
    match address.ip() {
        IpAddr::V6(ip) if ip.is_unspecified() => format!("https://localhost:{port}/"),
        IpAddr::V4(ip) if ip.is_unspecified() => format!("https://127.0.0.1:{port}/"),
        _ => format!("https://{address}/"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_lines_are_for_programs() {
        let addresses =
            ["[::]:4433", "127.0.0.1:4433", "0.0.0.0:4433", "192.0.2.1:80"].map(|text| text.parse().unwrap());
        let trust = vec!["certificate made up".to_owned()];
        let said = announcement(&addresses, Path::new("/srv"), trust, Some("127.0.0.1:9".parse().unwrap()));
        let expected = [
            "listening [::]:4433",
            "listening 127.0.0.1:4433",
            "listening 0.0.0.0:4433",
            "listening 192.0.2.1:80",
            "open https://localhost:4433/",
            "open https://127.0.0.1:4433/",
            "open https://192.0.2.1:80/",
            "serving /srv",
            "certificate made up",
            "metrics http://127.0.0.1:9/metrics",
        ];
        assert_eq!(said.lines().collect::<Vec<_>>(), expected);
    }
}
