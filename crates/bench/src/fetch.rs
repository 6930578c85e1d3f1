//! Time that `anabranch get` of a few bytes takes in addition to the time of the network: from the program's
//! start to its first packet, and from the last byte of the response to the program's end.

use std::net::{SocketAddr, UdpSocket};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use clap::Args;
use serde_json::json;

use crate::Error;
use crate::child::Program;
use crate::report::{Report, median, rounded};
use crate::stacks::{Identity, Ours};

/// Time that the relay waits for a datagram before it checks the other direction.
const LOOK: Duration = Duration::from_micros(200);
/// Content of the fetched file.
const CONTENT: &str = "six b\n";

#[derive(Args)]
pub(crate) struct Options {
    /// Number of files to fetch, in sequence, each by a new process
    #[arg(long, default_value_t = 21, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    #[command(flatten)]
    ours: Ours,
}

/// Durations of one fetch in milliseconds.
struct Fetch {
    /// Time from the program's start to its end.
    total: f64,
    /// Time from the program's start to its first packet.
    before: f64,
    /// Time from the first packet to the last packet that the program needs.
    network: f64,
    /// Time from the last packet that the program needs to the program's end.
    after: f64,
}

pub(crate) fn run(options: &Options) -> Result<Report, Error> {
    let program = options.ours.program()?;
    let identity = Identity::new()?;
    let root = identity.folder().join("root");
    std::fs::create_dir_all(&root)?;
    std::fs::write(root.join("file"), CONTENT)?;
    let mut command = Command::new(&program);
    command.args(["perf", "server", "--listen", "127.0.0.1:0", "--root"]).arg(&root);
    let mut server = Program::start(command.args(identity.flags()))?;
    let line = server.line()?;
    let address = line.strip_prefix("listening ").ok_or_else(|| format!("the server said {line:?}"))?;
    let address: SocketAddr = address.parse()?;
    let fetches =
        (0..options.rounds).map(|_| fetch(&program, &identity, address)).collect::<Result<Vec<_>, _>>()?;
    server.end()?;
    Ok(report(&fetches))
}

fn fetch(program: &std::path::Path, identity: &Identity, server: SocketAddr) -> Result<Fetch, Error> {
    let relay = Relay::start(server)?;
    let url = format!("https://{}/file", relay.address);
    let mut command = Command::new(program);
    command.args(["get", &url, "-o", "-", "-q", "--ca"]).arg(&identity.flags()[1]);
    let begin = Instant::now();
    let output = command.stdin(Stdio::null()).stderr(Stdio::inherit()).output()?;
    let end = Instant::now();
    if !output.status.success() || output.stdout != CONTENT.as_bytes() {
        return Err(format!("get ended with {}", output.status).into());
    }
    let (asked, answered) = relay.end()?;
    let first = *asked.first().ok_or("nothing was asked")?;
    // The client's last datagram closes the connection. The client waited only for datagrams that the server
    // sent before that one.
    let farewell = *asked.last().ok_or("nothing was asked")?;
    let last = answered.iter().copied().filter(|at| *at <= farewell).max().ok_or("nothing was answered")?;
    let ms = |from: Instant, to: Instant| (to - from).as_secs_f64() * 1e3;
    Ok(Fetch {
        total: ms(begin, end),
        before: ms(begin, first),
        network: ms(first, last),
        after: ms(last, end),
    })
}

fn report(fetches: &[Fetch]) -> Report {
    let middle = |value: fn(&Fetch) -> f64| median(&fetches.iter().map(value).collect::<Vec<_>>());
    let [total, before, network, after] = [
        middle(|fetch| fetch.total),
        middle(|fetch| fetch.before),
        middle(|fetch| fetch.network),
        middle(|fetch| fetch.after),
    ];
    let ours = middle(|fetch| fetch.before + fetch.after);
    let cells = [total, before, network, after, ours].map(|value| format!("{value:.1}"));
    Report {
        title: format!(
            "`anabranch get` of {} bytes over loopback, medians of {} runs, in ms: until the first packet, handshake and \
             answer, from the answer to the end; ours is the first and the last of these",
            CONTENT.len(),
            fetches.len(),
        ),
        columns: vec!["total", "before", "handshake and answer", "after", "ours"],
        rows: vec![cells.to_vec()],
        json: json!({
            "runs": fetches.len(), "total_ms": rounded(total), "before_ms": rounded(before),
            "network_ms": rounded(network), "after_ms": rounded(after), "ours_ms": rounded(ours),
        }),
    }
}

/// Relay that forwards datagrams and records their arrival times.
struct Relay {
    address: SocketAddr,
    over: Arc<AtomicBool>,
    passing: JoinHandle<std::io::Result<()>>,
    /// Arrival times of the client's and of the server's datagrams.
    times: Arc<Mutex<(Vec<Instant>, Vec<Instant>)>>,
}

impl Relay {
    fn start(server: SocketAddr) -> std::io::Result<Self> {
        let bind = || {
            let socket = UdpSocket::bind("127.0.0.1:0")?;
            socket.set_read_timeout(Some(LOOK)).map(|()| socket)
        };
        let (outside, inside) = (bind()?, bind()?);
        let (address, over, times) =
            (outside.local_addr()?, Arc::new(AtomicBool::new(false)), Arc::<Mutex<_>>::default());
        let (ended, noted) = (Arc::clone(&over), Arc::clone(&times));
        let passing = std::thread::spawn(move || {
            let mut client = None;
            let mut bytes = [0; 65_536];
            while !ended.load(Ordering::Relaxed) {
                if let Ok((length, from)) = outside.recv_from(&mut bytes) {
                    client = Some(from);
                    note(&noted, true);
                    inside.send_to(&bytes[..length], server)?;
                }
                if let (Ok((length, _)), Some(client)) = (inside.recv_from(&mut bytes), client) {
                    note(&noted, false);
                    // The client may have exited already.
                    let _ = outside.send_to(&bytes[..length], client);
                }
            }
            Ok(())
        });
        Ok(Self { address, over, passing, times })
    }

    fn end(self) -> Result<(Vec<Instant>, Vec<Instant>), Error> {
        self.over.store(true, Ordering::Relaxed);
        self.passing.join().map_err(|_| "the relay failed")??;
        let times = std::mem::take(&mut *self.times.lock().unwrap_or_else(PoisonError::into_inner));
        Ok(times)
    }
}

fn note(times: &Mutex<(Vec<Instant>, Vec<Instant>)>, client: bool) {
    let mut times = times.lock().unwrap_or_else(PoisonError::into_inner);
    let now = Instant::now();
    if client { times.0.push(now) } else { times.1.push(now) }
}
