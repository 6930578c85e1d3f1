//! `anabranch demo`: one connection over several links between a server and a client in this process, with a
//! summary of the transfer.

mod arrivals;
mod bars;
mod chart;
mod links;
mod report;
mod source;
mod summary;
mod timeline;
mod transfer;

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use anabranch::congestion::Algorithm as Congestion;
use anabranch::schedule::Algorithm as Scheduler;
use anabranch::{
    MultipathConfig, Numbering, RecoveryConfig, SelfSigned, StreamsConfig, TransportConfig, config,
};
use clap::Args;
use tokio::task::JoinSet;

use self::bars::Bars;
use self::links::{Fail, Plan};
use self::source::Source;
use self::summary::{Settings, Summary};
use self::transfer::{Ends, NAME, Scene};
use crate::algorithm;
use crate::exit::{self, Exit, Failure, Result};
use crate::signal::Stop;
use crate::size;
use crate::verbose::Verbosity;
use crate::wire::Wire;

/// Application protocol of both ends.
const ALPN: [&str; 1] = ["anabranch-demo"];
/// Unit of `--size` in bytes.
const MB: u64 = 1_000_000;
/// Maximum amount to move, in bytes; a stream is limited to 2^62 bytes (RFC 9000 §4.5).
const MAX_SIZE: u64 = 1_000_000_000_000 * MB;
/// Minimum flow control window, in bytes: links of 2 Gbit/s have long queues.
const WINDOW: u64 = 64 << 20;
/// Standard output.
const STANDARD: &str = "-";

/// Move data over several links at once, and show the result
///
/// A server and a client in this process are connected by links of the given rate, round-trip time and loss,
/// on the loopback interface. Every link is first measured alone, then all of them are used together.
#[derive(Args, Debug)]
pub(crate) struct Demo {
    /// Amount to move, in MB (10^6 bytes) unless it has a unit: 100, 500kB, 1GiB
    #[arg(long, value_name = "MB", default_value = "100", value_parser = bytes)]
    size: u64,
    /// Move this file instead
    #[arg(long, value_name = "FILE", conflicts_with = "size")]
    file: Option<PathBuf>,
    /// Links, each RATE/RTT[/LOSS]; their queues hold one bandwidth-delay product
    #[arg(long, value_name = "LINKS", default_value = "50mbit/20ms,30mbit/60ms/1%")]
    paths: Plan,
    /// Failure of a link at TIME after the start; with +TIME, the link recovers after that time. May be repeated.
    /// Paths count from 0
    #[arg(long, value_name = "PATH@TIME[+TIME]")]
    fail: Vec<Fail>,
    /// Scheduler, which chooses the path of the next packet
    #[arg(long, value_name = "NAME", default_value = MultipathConfig::default().scheduler().name(),
          value_parser = algorithm::scheduler)]
    scheduler: Scheduler,
    /// Congestion controller
    #[arg(long, value_name = "NAME", default_value_t, value_parser = algorithm::controller)]
    congestion: Congestion,
    /// Packet number spaces: one for each path, or one for all of them
    #[arg(long, value_name = "multiple|single", default_value_t = Numbering::Multiple)]
    numbering: Numbering,
    /// Wire image of packets
    #[arg(long, value_name = "WIRE", value_enum, default_value = "v1")]
    wire: Wire,
    /// Write figures as JSON to a file or, as `-`, to standard output
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write a page with the history of each path
    #[arg(long, value_name = "FILE.html")]
    report: Option<PathBuf>,
    /// Write traces of both ends of the connection (qlog) into this directory
    #[arg(long, value_name = "DIR")]
    qlog: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) verbosity: Verbosity,
}

/// Parses the amount to move. It must not be zero, because nothing could be measured.
fn bytes(text: &str) -> std::result::Result<u64, String> {
    match size::parse_in(text, MB)? {
        0 => Err("there has to be something to move".to_owned()),
        bytes @ 1..=MAX_SIZE => Ok(bytes),
        _ => Err(format!("the most is {}", size::words(MAX_SIZE))),
    }
}

pub(crate) async fn run(options: Demo) -> Result {
    let mut stop = Stop::catch()?;
    options.check()?;
    let source = match &options.file {
        Some(file) => Source::file(file)?,
        None => Source::Made(options.size),
    };
    let bars = Bars::new(&options.paths.0, source.len());
    let played = tokio::select! {
        played = options.play(source, &bars) => played,
        () = stop.wait() => Err(Failure::new(Exit::Interrupted, "interrupted")),
    };
    bars.clear();
    let summary = played?;
    options.tell(&summary)?;
    let matches = summary.outcome.received.matches;
    if matches { Ok(()) } else { Err(Failure::new(Exit::Protocol, "the data changed on its way")) }
}

impl Demo {
    /// Checks the options before anything begins.
    fn check(&self) -> Result {
        let paths = self.paths.0.len();
        if let Some(fail) = self.fail.iter().find(|fail| fail.path >= paths) {
            let what = format!("--fail: there is no path {}", fail.path);
            return Err(Failure::new(Exit::Usage, what).or(format!("the last one is {}", paths - 1)));
        }
        for file in [&self.json, &self.report].into_iter().flatten() {
            let dir = file.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
            if file.is_dir() || !dir.is_dir() {
                let what = format!("{} cannot be written", file.display());
                return Err(Failure::new(Exit::Usage, what).or("name a file in a directory that is there"));
            }
        }
        let made = self.qlog.as_ref().map_or(Ok(()), std::fs::create_dir_all);
        made.map_err(|error| Failure::io("cannot make the directory for qlog", &error))
    }

    /// Measures each link alone, then moves all data over all links.
    async fn play(&self, source: Source, bars: &Bars) -> Result<Summary> {
        let identity = SelfSigned::new([NAME])?;
        let alone = self.alone(&identity, &source, bars).await?;
        let ends = self.ends(&identity, true)?;
        let size = source.len();
        let scene = Scene::set(ends, &self.paths.0, source)?;
        let outcome = scene.play(&self.fail, |timeline| bars.show(timeline)).await?;
        let settings = Settings {
            scheduler: self.scheduler.name(),
            congestion: self.congestion.name(),
            numbering: self.numbering.name(),
        };
        Ok(Summary { plan: self.paths.clone(), fails: self.fail.clone(), settings, size, alone, outcome })
    }

    /// Measures the rate of each link alone, in bits per second. The measurements run at the same time, each
    /// over a separate copy of its link.
    async fn alone(&self, identity: &SelfSigned, source: &Source, bars: &Bars) -> Result<Vec<f64>> {
        let mut rates = vec![0.0; self.paths.0.len()];
        let mut measuring = JoinSet::new();
        let mut counts = Vec::new();
        for (index, link) in self.paths.0.iter().enumerate() {
            let scene = Scene::set(self.ends(identity, false)?, std::slice::from_ref(link), source.clone())?;
            let count = Arc::new(AtomicU64::new(0));
            counts.push(Arc::clone(&count));
            measuring.spawn(async move { scene.measure(count).await.map(|rate| (index, rate)) });
        }
        let measured = async {
            while let Some(measured) = measuring.join_next().await {
                let (index, rate) = measured.map_err(|error| Failure::new(Exit::Protocol, error))??;
                rates[index] = rate;
            }
            Ok(rates)
        };
        tokio::select! {
            rates = measured => rates,
            () = bars.alone(counts) => Err(Failure::new(Exit::Protocol, "nothing was measured")),
        }
    }

    fn ends(&self, identity: &SelfSigned, multipath: bool) -> Result<Ends> {
        let several = MultipathConfig::default()
            .with_max_paths(links::MAX_LINKS as u32)
            .with_scheduler(self.scheduler)
            .with_numbering(self.numbering);
        let multipath = multipath.then_some(several);
        let streams = StreamsConfig::default()
            .with_stream_window_max(WINDOW)
            .with_connection_window_max(WINDOW + WINDOW / 2)
            .with_send_buffer(WINDOW);
        let transport = TransportConfig::default()
            .with_streams(streams)
            .with_multipath(multipath)
            .with_versions([self.wire.version()])
            .with_recovery(RecoveryConfig::default().with_congestion(self.congestion));
        let transport = Arc::new(transport);
        let server = identity.server_config(ALPN)?.with_transport(Arc::clone(&transport));
        let client = config::client(identity.roots()?, ALPN)?
            .with_transport(Arc::clone(&transport))
            .with_initial_version(self.wire.version());
        let qlog = self.qlog.clone().filter(|_| transport.multipath().is_some());
        Ok(Ends { client, server, qlog })
    }

    /// Writes the results in all requested forms.
    fn tell(&self, summary: &Summary) -> Result {
        if let Some(path) = &self.report {
            write(path, &report::page(summary))?;
        }
        let standard = self.json.as_deref() == Some(Path::new(STANDARD));
        match &self.json {
            Some(_) if standard => return exit::say(summary.json()),
            Some(path) => write(path, &format!("{}\n", summary.json()))?,
            None => {}
        }
        exit::say(summary.text())?;
        let mut written = [("report", &self.report), ("qlog", &self.qlog)].into_iter();
        written.try_for_each(|(name, path)| match path {
            Some(path) => exit::say(format_args!("{name:<14}{}", path.display())),
            None => Ok(()),
        })
    }
}

fn write(path: &Path, text: &str) -> Result {
    let written = File::create(path).and_then(|mut file| file.write_all(text.as_bytes()));
    written.map_err(|error| Failure::io(format_args!("cannot write {}", path.display()), &error))
}
