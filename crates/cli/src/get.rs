//! `anabranch get`: files from servers.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anabranch::ClientConfig;
use clap::Args;
use serde_json::json;

use crate::exit::{Exit, Failure, Result};
use crate::hq;
use crate::options::{ClientPlan, Trust, Tuning};
use crate::target::{self, Reached, Target};

/// How long a server gets to learn that the client is done.
const FAREWELL: Duration = Duration::from_millis(200);

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

pub(crate) async fn run(options: Get) -> Result {
    let targets = options.urls.iter().map(|url| Target::parse(url)).collect::<Result<Vec<_>>>()?;
    if targets.len() > 1 && options.output.is_some() {
        let failure = Failure::new(Exit::Usage, "several URLs for one --output");
        return Err(failure.or("leave --output out, and each file is named by its URL"));
    }
    let timeout = Duration::try_from_secs_f64(options.timeout)
        .map_err(|error| Failure::new(Exit::Usage, format!("--timeout: {error}")))?;
    let transport = options.tuning.transport();
    let plan = ClientPlan { trust: &options.trust, alpn: hq::ALPN, transport, chacha20: false, resume: true };
    let config = plan.config()?;
    let mut report = Report::open(options.json.as_deref())?;
    for _ in 0..options.repeat {
        for (url, target) in options.urls.iter().zip(&targets) {
            let output = Output::choose(options.output.as_deref(), target)?;
            let line = fetch(url, target, output, &config, timeout).await?;
            report.write(&line)?;
        }
    }
    Ok(())
}

/// Fetches one file over a connection of its own.
async fn fetch(
    url: &str,
    target: &Target,
    mut output: Output,
    config: &ClientConfig,
    timeout: Duration,
) -> Result<serde_json::Value> {
    let begin = Instant::now();
    let Reached { endpoint, connection, early_data } = target::connect(target, config, timeout).await?;
    let connected = begin.elapsed();
    let early = early_data.is_some();
    let bytes = hq::fetch(&connection, &target.path, output.writer(), |_| {}).await?;
    let seconds = begin.elapsed().as_secs_f64();
    let accepted = match early_data {
        Some(accepted) => accepted.await,
        None => false,
    };
    output.keep()?;
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

/// Where a file goes. It gets its name only once it is whole; until then nothing of that name is touched.
enum Output {
    Stdout(io::Stdout),
    File { name: PathBuf, part: PathBuf, writer: BufWriter<File>, kept: bool },
}

impl Output {
    fn choose(output: Option<&Path>, target: &Target) -> Result<Self> {
        let name = match (output, target.file_name()) {
            (Some(path), _) if path == Path::new("-") => return Ok(Self::Stdout(io::stdout())),
            (Some(path), _) => path.to_owned(),
            (None, Some(name)) => PathBuf::from(name),
            (None, None) => {
                let what = format!("the path {} names no file", target.path);
                return Err(Failure::new(Exit::Usage, what).or("say where to write with --output FILE"));
            }
        };
        let mut part = name.clone().into_os_string();
        part.push(format!(".part-{}", std::process::id()));
        let part = PathBuf::from(part);
        let file = File::create_new(&part)
            .map_err(|error| Failure::io(format_args!("cannot create {}", part.display()), &error))?;
        Ok(Self::File { name, part, writer: BufWriter::new(file), kept: false })
    }

    fn writer(&mut self) -> &mut (dyn Write + Send) {
        match self {
            Self::Stdout(out) => out,
            Self::File { writer, .. } => writer,
        }
    }

    /// The file is whole.
    fn keep(&mut self) -> Result {
        match self {
            Self::Stdout(out) => out.flush().map_err(|error| Failure::io("cannot write", &error)),
            Self::File { name, part, writer, kept } => {
                let renamed = writer.flush().and_then(|()| std::fs::rename(&*part, &*name));
                *kept = renamed.is_ok();
                renamed.map_err(|error| Failure::io(format_args!("cannot write {}", name.display()), &error))
            }
        }
    }
}

impl Drop for Output {
    /// Nothing is left of what failed.
    fn drop(&mut self) {
        if let Self::File { part, kept: false, .. } = self {
            let _ = std::fs::remove_file(part);
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
                eprintln!("{url}: {bytes} bytes in {seconds:.3} s ({mbps:.1} Mbit/s{how})");
                Ok(())
            }
            Self::Json(out) => {
                writeln!(out, "{line}").map_err(|error| Failure::io("cannot write JSON", &error))
            }
        }
    }
}
