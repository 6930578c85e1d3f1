//! Execution of one case between two programs.

use std::net::SocketAddr;
use std::process::Command;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anabranch_lab::link::LinkSpec;
use anabranch_lab::random::Seed;
use anabranch_lab::relay::{Relay, Tap};

use super::case::{Case, STATELESS_RESET, Work};
use super::field::{Field, Identity};
use super::judge::{Outcome, judge};
use super::known::explain;
use super::process::{Client, Ended, NoServer, Server, UNSUPPORTED, last_line, missing};
use super::program::Program;
use super::watch::{PacketFilter, Seen};

/// Seed of all randomness in the links.
const SEED: Seed = Seed(2);

/// Reason why a case cannot continue.
enum Stop {
    Unsupported(String),
    Failed(String),
}

impl From<NoServer> for Stop {
    fn from(none: NoServer) -> Self {
        match none {
            NoServer::Unsupported(why) => Self::Unsupported(format!("server: {why}")),
            NoServer::Failed(why) => Self::Failed(why),
        }
    }
}

impl From<String> for Stop {
    fn from(why: String) -> Self {
        Self::Failed(why)
    }
}

/// Runs `case` and judges it.
pub(super) fn play(case: &Case, client: &Program, server: &Program, field: &Field) -> Outcome {
    let deaf = [("client", client), ("server", server)].into_iter().find(|(_, one)| one.speaks_only_http3());
    if let (Some((role, one)), false) = (deaf, case.is_about_files()) {
        return Outcome::Unsupported(format!("{role}: {} speaks nothing but HTTP/3", one.name));
    }
    let played = if case.name == STATELESS_RESET {
        play_stateless_reset(client, server, field)
    } else {
        play_plain(case, client, server, field)
    };
    match played {
        Ok(outcome) => outcome,
        Err(Stop::Unsupported(why)) => Outcome::Unsupported(why),
        Err(Stop::Failed(why)) => explain(&client.name, &server.name, case.name, &Seen::default(), &why)
            .unwrap_or(Outcome::Failed(why)),
    }
}

fn play_plain(case: &Case, client: &Program, server: &Program, field: &Field) -> Result<Outcome, Stop> {
    let identity = if case.long_chain { &field.long } else { &field.short };
    let files = files(case, field)?;
    let downloads = field.downloads()?;
    let loopback: SocketAddr =
        if case.ipv6 { ([0, 0, 0, 0, 0, 0, 0, 1], 0).into() } else { ([127, 0, 0, 1], 0).into() };
    let serving = Server::start(server_command(server, loopback, identity, field, case.server))?;
    let watch = Arc::new(Mutex::new(PacketFilter::dropping(case.drop.clone(), case.damage)));
    let through = |link| relay(link, beside(serving.address), serving.address, Arc::clone(&watch));
    let relay = case.link.as_ref().map(through).transpose()?;
    let address = relay.as_ref().map_or(serving.address, Relay::address);

    let http3 = case.http3 || client.speaks_only_http3() || server.speaks_only_http3();
    let fetch = |files: &[String]| {
        let mut command = client_command(client, address, identity, case.client);
        command.args(if http3 { &["--http3"][..] } else { &["--alpn", "hq-interop"] });
        command.arg("--out").arg(downloads.path()).args(files.iter().map(|name| format!("/{name}")));
        command
    };
    let other = |words: &[&str]| {
        let mut command = client_command(client, address, identity, case.client);
        command.args(words);
        command
    };
    let ended = match &case.work {
        Work::Handshakes(_, at_once) if http3 => {
            one_by_one(files.iter().map(|name| fetch(std::slice::from_ref(name))), *at_once, case.patience)?
        }
        Work::Handshakes(count, at_once) => {
            let words = ["--handshakes", &count.to_string(), "--concurrency", &at_once.to_string()];
            Client::start(other(&words))?.end(case.patience)
        }
        Work::Files(_) => Client::start(fetch(&files))?.end(case.patience),
        Work::Datagrams(count) => {
            Client::start(other(&["--datagrams", &count.to_string()]))?.end(case.patience)
        }
        Work::None => Client::start(other(&[]))?.end(case.patience),
    };
    drop(relay);
    let served = serving.end();
    let seen = watch.lock().unwrap_or_else(PoisonError::into_inner).seen();
    let outcome = judge(case, &ended, case.link.as_ref().map(|_| &seen));
    if let Outcome::Pass(_) = outcome {
        // A client that offers an unknown version receives no files.
        let fetched = case.name != "versionnegotiation" && (http3 || matches!(case.work, Work::Files(_)));
        for name in files.iter().filter(|_| fetched) {
            field.compare(downloads.path(), name)?;
        }
        served?;
    }
    let excuse = match &outcome {
        Outcome::Failed(what) => explain(&client.name, &server.name, case.name, &seen, what),
        _ => None,
    };
    Ok(excuse.unwrap_or(outcome))
}

/// Returns the names of the case's files. Cases about handshakes have one file for each connection.
fn files(case: &Case, field: &Field) -> Result<Vec<String>, String> {
    let groups = match &case.work {
        Work::Files(groups) => groups.clone(),
        Work::Handshakes(count, _) => vec![(*count, 1_000)],
        Work::Datagrams(_) | Work::None => Vec::new(),
    };
    let each = groups.iter().flat_map(|(count, size)| (0..*count).map(|number| (*size, number)));
    each.map(|(size, number)| field.file(size, number)).collect()
}

/// Runs clients, `at_once` of them concurrently, until all have ended or one has failed. Returns the result
/// of the last client, or of the one that failed.
fn one_by_one(
    commands: impl Iterator<Item = Command>,
    at_once: usize,
    patience: Duration,
) -> Result<Ended, String> {
    let (began, mut commands) = (Instant::now(), commands.peekable());
    let mut last = None;
    while commands.peek().is_some() {
        let running: Vec<_> = commands.by_ref().take(at_once).map(Client::start).collect::<Result<_, _>>()?;
        for client in running {
            let ended = client.end(patience.saturating_sub(began.elapsed()));
            if ended.code != Some(0) {
                return Ok(ended);
            }
            last = Some(ended);
        }
    }
    let ended = last.ok_or("there was nothing to do")?;
    Ok(Ended { elapsed: began.elapsed(), ..ended })
}

/// Starts a relay from `listen` to `server` with the properties of `link`. `watch` observes its traffic.
pub(super) fn relay(
    link: &LinkSpec,
    listen: SocketAddr,
    server: SocketAddr,
    watch: Arc<Mutex<PacketFilter>>,
) -> Result<Relay, String> {
    let tap: Tap = Box::new(move |way, client, datagram| {
        watch.lock().unwrap_or_else(PoisonError::into_inner).see(way, client, datagram, Instant::now())
    });
    Relay::tapped(listen, server, link, SEED, Instant::now, tap).map_err(|error| format!("relay: {error}"))
}

/// Returns the IP address of `server` with port 0, so that the system chooses a port.
fn beside(server: SocketAddr) -> SocketAddr {
    SocketAddr::new(server.ip(), 0)
}

fn server_command(
    program: &Program,
    listen: SocketAddr,
    identity: &Identity,
    field: &Field,
    flags: &[&str],
) -> Command {
    let mut command = program.command("server");
    command.arg("--listen").arg(listen.to_string());
    command.arg("--cert").arg(&identity.chain).arg("--key").arg(&identity.key);
    command.arg("--root").arg(field.www()).args(flags);
    command
}

fn client_command(program: &Program, connect: SocketAddr, identity: &Identity, flags: &[&str]) -> Command {
    let mut command = program.command("client");
    let anchor = if program.trusts_only_roots() { &identity.root } else { &identity.ca };
    command.arg("--connect").arg(connect.to_string()).arg("--ca").arg(anchor);
    command.args(["--name", "localhost"]).args(flags);
    command
}

/// Idle timeout of both endpoints in the stateless reset case.
const IDLE: Duration = Duration::from_secs(8);
/// Time after which the connection's server is killed.
const LIFE: Duration = Duration::from_secs(1);
/// Time within which a reset must end the connection. The client probes with growing intervals until the
/// server responds.
const RESET_WITHIN: Duration = Duration::from_secs(4);
/// Keys from which stateless reset tokens are derived.
const KEYS: [&str; 2] = [
    "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f",
    "f0f1f2f3f4f5f6f7f8f9fafbfcfdfeffe0e1e2e3e4e5e6e7e8e9eaebecedeeef",
];

/// Runs the stateless reset case (RFC 9000 §10.3). A reset with the right token must end the connection at
/// once, and one with a wrong token must not.
fn play_stateless_reset(client: &Program, server: &Program, field: &Field) -> Result<Outcome, Stop> {
    let (believed, after) = outlive_server(client, server, field, KEYS[0])?;
    if after > RESET_WITHIN {
        let message = last_line(&believed.log);
        return Err(Stop::Failed(format!("ended {:.1} s after the restart: {message}", after.as_secs_f64())));
    }
    if !believed.log.to_lowercase().contains("reset") {
        return Err(Stop::Failed(format!("client does not speak of a reset: {}", last_line(&believed.log))));
    }
    let (_, ignored) = outlive_server(client, server, field, KEYS[1])?;
    if ignored < RESET_WITHIN {
        return Err(Stop::Failed("a reset with another key's token ended the connection".to_owned()));
    }
    Ok(Outcome::Pass(format!(
        "{:.1} s; {:.1} s with another key",
        after.as_secs_f64(),
        ignored.as_secs_f64()
    )))
}

/// Kills the server during an upload and starts another one with `key` in its place. Returns the client's
/// result, and the time from the restart to the client's end.
fn outlive_server(
    client: &Program,
    server: &Program,
    field: &Field,
    key: &str,
) -> Result<(Ended, Duration), Stop> {
    let idle = IDLE.as_millis().to_string();
    let start = |listen, key: &str| {
        let flags = ["--reset-key", key, "--idle-ms", &idle];
        Server::start(server_command(server, listen, &field.short, field, &flags))
    };
    let serving = start(([127, 0, 0, 1], 0).into(), KEYS[0])?;
    let address = serving.address;
    // The link is so slow that the client still has data to send when the server is killed.
    let link = LinkSpec::new(10_000_000, Duration::from_millis(20));
    let relay = relay(&link, beside(address), address, Arc::default())?;
    let flags = ["--case", "transfer", "--upload", "100000000", "--idle-ms", &idle];
    let client = Client::start(client_command(client, relay.address(), &field.short, &flags))?;
    thread::sleep(LIFE);
    serving.kill();
    let restarted = Instant::now();
    let serving = start(address, key)?;
    let ended = client.end(LIFE + IDLE * 3);
    let after = restarted.elapsed();
    serving.end()?;
    match ended.code {
        Some(UNSUPPORTED) => Err(Stop::Unsupported(format!("client: {}", missing(&ended.log)))),
        Some(0) => Err(Stop::Failed("the upload ended before the server".to_owned())),
        _ if ended.timed_out => Err(Stop::Failed("client did not notice that its server is gone".to_owned())),
        _ => Ok((ended, after)),
    }
}
