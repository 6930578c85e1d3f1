//! `anabranch get`: files from servers.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::time::{Duration, Instant};

use anabranch::{ClientConfig, Connection, ZeroRttAccepted};
use bytes::Bytes;
use clap::Args;
use serde_json::json;

use crate::exit::{self, Exit, Failure, Result};
use crate::hq;
use crate::options::{ClientPlan, Trust, Tuning};
use crate::output::Output;
use crate::signal;
use crate::target::{self, Reached, Target};

/// How long a server gets to learn that the client is done.
const FAREWELL: Duration = Duration::from_millis(200);
/// How often a connection that nobody reads from says that it lives: well within what peers take for silence.
const KEEP_ALIVE: Duration = Duration::from_secs(5);

/// Fetch files over QUIC (hq-interop)
#[derive(Args, Debug)]
pub(crate) struct Get {
    /// https://HOST:PORT/PATH
    #[arg(required = true, value_name = "URL")]
    urls: Vec<String>,
    /// File to write to, `-` for standard output; the last part of the URL's path unless said otherwise
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    #[command(flatten)]
    trust: Trust,
    /// Write one line of JSON for each file, to a file or, as `-`, to standard output
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Fetch everything this many times, each time over a connection of its own that resumes the one before
    #[arg(long, value_name = "N", default_value_t = 1)]
    repeat: u32,
    /// Seconds to wait for a server's first answer
    #[arg(long, value_name = "SECONDS", default_value_t = 10.0)]
    timeout: f64,
    #[command(flatten)]
    tuning: Tuning,
}

/// What holds for every file.
struct Terms {
    config: ClientConfig,
    /// How long a server may take for its first answer.
    timeout: Duration,
    /// How long the output may hold a connection up until it needs a sign of life.
    pause: Duration,
}

pub(crate) async fn run(options: Get) -> Result {
    let mut stop = signal::Stop::catch()?;
    tokio::select! {
        done = fetch_all(options) => done,
        // What was begun is dropped, and no part of a file remains.
        () = stop.wait() => Err(Failure::new(Exit::Interrupted, "interrupted")),
    }
}

async fn fetch_all(options: Get) -> Result {
    let targets = options.urls.iter().map(|url| Target::parse(url)).collect::<Result<Vec<_>>>()?;
    let outputs = outputs(options.output.as_deref(), &targets)?;
    let timeout = Duration::try_from_secs_f64(options.timeout)
        .map_err(|error| Failure::new(Exit::Usage, format!("--timeout: {error}")))?;
    let transport = options.tuning.transport();
    let pause = transport.max_idle_timeout.map_or(KEEP_ALIVE, |idle| KEEP_ALIVE.min(idle / 2));
    let plan = ClientPlan { trust: &options.trust, alpn: hq::ALPN, transport, chacha20: false, resume: true };
    let terms = Terms { config: plan.config()?, timeout, pause };
    let mut report = Report::open(options.json.as_deref())?;
    for _ in 0..options.repeat {
        for ((url, target), output) in options.urls.iter().zip(&targets).zip(&outputs) {
            let line = fetch(url, target, Output::choose(output)?, &terms).await?;
            report.write(&line)?;
        }
    }
    Ok(())
}

/// Where each file goes.
fn outputs(output: Option<&Path>, targets: &[Target]) -> Result<Vec<PathBuf>> {
    if let Some(output) = output {
        if targets.len() > 1 {
            let failure = Failure::new(Exit::Usage, "several URLs for one --output");
            return Err(failure.or("leave --output out, and each file is named by its URL"));
        }
        return Ok(vec![output.to_owned()]);
    }
    let mut names = Vec::with_capacity(targets.len());
    for target in targets {
        let Some(name) = target.file_name() else {
            let what = format!("the path {} names no file", target.path);
            return Err(Failure::new(Exit::Usage, what).or("say where to write with --output FILE"));
        };
        // Not `-`, which would be standard output.
        let name = Path::new(".").join(name);
        if names.contains(&name) {
            let what = format!("two URLs for one file {}", name.display());
            return Err(Failure::new(Exit::Usage, what).or("fetch them one by one, with --output"));
        }
        names.push(name);
    }
    Ok(names)
}

/// Fetches one file over a connection of its own.
async fn fetch(url: &str, target: &Target, mut output: Output, terms: &Terms) -> Result<serde_json::Value> {
    let begin = Instant::now();
    let Reached { endpoint, connection, early_data } =
        target::connect(target, &terms.config, terms.timeout).await?;
    let connected = begin.elapsed();
    let early = early_data.is_some();
    let mut answer = hq::ask(&connection, &target.path).await?;
    let accepted = match early_data {
        Some(accepted) => target::within(target, terms.timeout, settled(&connection, accepted)).await?,
        None => false,
    };
    let mut bytes = 0;
    while let Some(piece) = answer.piece().await? {
        bytes += piece.len() as u64;
        pass_on(piece, &mut output, &connection, terms.pause).await?;
    }
    let seconds = begin.elapsed().as_secs_f64();
    output.keep().await?;
    let data = connection.handshake_data();
    let stats = connection.stats();
    connection.close(0, b"");
    // A server that misses it will find out by its idle timeout.
    let _ = tokio::time::timeout(FAREWELL, endpoint.wait_idle()).await;
    Ok(json!({
        "url": url,
        "bytes": bytes,
        "seconds": seconds,
        "handshake_seconds": if early { 0.0 } else { connected.as_secs_f64() },
        "goodput_mbps": bytes as f64 * 8.0 / seconds.max(1e-9) / 1e6,
        "version": format!("{:#010x}", data.version.0),
        "resumed": data.resumed,
        "zero_rtt_accepted": accepted,
        "lost_packets": stats.paths.iter().map(|path| path.recovery.lost_packets).sum::<u64>(),
    }))
}

/// Waits for a handshake that early data has run ahead of. It fails like any other.
async fn settled(connection: &Connection, accepted: ZeroRttAccepted) -> Result<bool> {
    let accepted = accepted.await;
    match connection.close_reason() {
        Some(error) if !accepted => Err(exit::handshake(error)),
        _ => Ok(accepted),
    }
}

/// Writes a piece. A connection that has to wait for that is kept alive.
async fn pass_on(piece: Bytes, output: &mut Output, connection: &Connection, pause: Duration) -> Result {
    let mut written = pin!(output.write(piece));
    loop {
        match tokio::time::timeout(pause, &mut written).await {
            Ok(done) => return done,
            Err(_) => connection.ping(),
        }
    }
}

/// Lines for people on standard error, or of JSON where they were asked for.
enum Report {
    People,
    Json(Box<dyn Write>),
}

impl Report {
    fn open(path: Option<&Path>) -> Result<Self> {
        match path {
            None => Ok(Self::People),
            Some(path) if path == Path::new("-") => Ok(Self::Json(Box::new(io::stdout()))),
            Some(path) => match File::create(path) {
                Ok(file) => Ok(Self::Json(Box::new(file))),
                Err(error) => Err(Failure::io(format_args!("cannot create {}", path.display()), &error)),
            },
        }
    }

    fn write(&mut self, line: &serde_json::Value) -> Result {
        match self {
            Self::People => {
                let how = match (&line["resumed"], &line["zero_rtt_accepted"]) {
                    (_, serde_json::Value::Bool(true)) => ", 0-RTT",
                    (serde_json::Value::Bool(true), _) => ", resumed",
                    _ => "",
                };
                let (url, bytes) = (line["url"].as_str().unwrap_or_default(), &line["bytes"]);
                let seconds = line["seconds"].as_f64().unwrap_or_default();
                let mbps = line["goodput_mbps"].as_f64().unwrap_or_default();
                exit::note(format_args!("{url}: {bytes} bytes in {seconds:.3} s ({mbps:.1} Mbit/s{how})"));
                Ok(())
            }
            Self::Json(out) => {
                writeln!(out, "{line}").map_err(|error| Failure::io("cannot write JSON", &error))
            }
        }
    }
}
