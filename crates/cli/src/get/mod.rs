//! `anabranch get`: downloads from servers.

mod answer;
mod ask;
mod fetch;
mod job;
mod monitor;
mod origin;
mod origins;
mod paths;
mod progress;
mod report;
mod resume;
mod session;

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::Args;
use tokio::task::JoinSet;

use self::ask::Ask;
use self::fetch::Round;
use self::job::{Done, Job};
use self::monitor::Monitor;
use self::origin::Terms;
use self::origins::Origins;
use self::progress::Progress;
use self::report::Report;
use self::session::SessionFile;
use crate::events::EventsTo;
use crate::exit::{self, Exit, Failure, Result};
use crate::hq;
use crate::multipath::ClientPaths;
use crate::options::{ClientPlan, Trust, Tuning};
use crate::output::Destination;
use crate::signal;
use crate::target::{LazyEndpoint, Target};
use crate::verbose::Verbosity;

/// Maximum number of concurrent downloads.
const MAX_AT_ONCE: usize = 16;
/// Application protocol of HTTP/3.
const H3: &str = "h3";
/// Standard output.
const STANDARD: &str = "-";

/// Fetch files over HTTP/3
///
/// Each file is named by the last part of its URL's path, or index.html. It gets its name only when it is
/// complete, so a failure leaves nothing behind. Files of one server share a connection. A file that cannot
/// be fetched does not stop the others, and lost parts are requested again (--retry)
#[derive(Args, Debug)]
#[command(after_help = exit::STATUSES)]
pub(crate) struct Get {
    /// https://HOST:PORT/PATH
    #[arg(required = true, value_name = "URL")]
    urls: Vec<String>,
    /// File to write to, `-` for standard output, or a directory for files that are named by their URLs
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    #[command(flatten)]
    trust: Trust,
    /// Use HTTP/3, which is the default
    #[arg(long, conflicts_with = "hq")]
    http3: bool,
    /// Use hq-interop, HTTP/0.9 over QUIC, as interoperability tests do
    #[arg(long)]
    hq: bool,
    #[command(flatten)]
    ask: Ask,
    /// Write JSON to a file or, as `-`, to standard output: an object, or an array for several files; the
    /// content is discarded unless --output is set
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Fetch everything this many times, each time over new connections that resume the previous ones (0-RTT)
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    repeat: u32,
    /// Store address tokens of servers in a file: a later run saves the round trip of address validation that
    /// a busy server asks for. TLS sessions are not stored, as there is no way to serialize them; they last
    /// for one run (--repeat)
    #[arg(long, value_name = "FILE")]
    session_file: Option<PathBuf>,
    /// Seconds to wait for a server's first response
    #[arg(long, value_name = "SECONDS", default_value_t = 10.0)]
    timeout: f64,
    /// Retry this many times, after growing pauses, when a connection or a response is lost: `get` requests
    /// the missing part of the same file (Range, If-Range) and checks that it fits. Progress resets the
    /// count. 0 disables retries
    #[arg(long, value_name = "N", default_value_t = 8)]
    retry: u32,
    /// Update the keys each time that this many packets were sent with them, which tests a server's support; by default only
    /// before they reach their limits
    #[arg(long, value_name = "PACKETS", value_parser = clap::value_parser!(u64).range(1..))]
    key_update: Option<u64>,
    /// Show neither progress nor figures
    #[arg(short, long)]
    quiet: bool,
    #[command(flatten)]
    pub(crate) verbosity: Verbosity,
    #[command(flatten)]
    events: EventsTo,
    #[command(flatten)]
    paths: ClientPaths,
    #[command(flatten)]
    tuning: Tuning,
}

pub(crate) async fn run(options: Get) -> Result {
    let jobs = jobs(&options)?;
    let in_turn = jobs.iter().any(|job| job.destination == Destination::Standard);
    options.events.check(in_turn, "content")?;
    options.events.check(options.json.as_deref() == Some(Path::new(STANDARD)), "the final JSON")?;
    let mut stop = signal::Stop::catch()?;
    let session = options.session_file.clone().map(SessionFile::new);
    let known = session.as_ref().map(SessionFile::load).transpose()?;
    let endpoint = LazyEndpoint::with_tokens(known.unwrap_or_default());
    let monitor = Monitor::new(Progress::new(!options.quiet && !in_turn), options.events.open()?);
    let begin = Instant::now();
    let result = tokio::select! {
        done = fetch_all(options, jobs, endpoint.clone(), &monitor) => done,
        () = monitor.run() => Ok(()),
        // Dropping the jobs removes their partial files.
        () = stop.wait() => Err(Failure::new(Exit::Interrupted, "interrupted")),
    };
    if result.is_err() {
        // CONNECTION_CLOSE makes the servers stop sending.
        endpoint.farewell().await;
    }
    monitor.end(&result, begin.elapsed());
    // The tokens are stored even after a failure, so that used ones are removed from the file.
    let stored = session.map_or(Ok(()), |session| session.store(&endpoint.tokens()));
    result.and(stored)
}

async fn fetch_all(options: Get, jobs: Vec<Job>, endpoint: LazyEndpoint, monitor: &Arc<Monitor>) -> Result {
    let timeout = Duration::try_from_secs_f64(options.timeout)
        .map_err(|error| Failure::new(Exit::Usage, format!("--timeout: {error}")))?;
    let alpn = if options.hq { hq::ALPN } else { H3 };
    let transport = options.tuning.transport().with_multipath(options.paths.config());
    let transport = transport.with_key_update_after(options.key_update);
    let first = options.tuning.first_version();
    let plan = ClientPlan { trust: &options.trust, alpn, transport, first, chacha20: false, resume: true };
    let (config, paths, monitor) = (plan.config()?, options.paths.clone(), Arc::clone(monitor));
    let terms = Terms { endpoint, config, hq: options.hq, paths, timeout, events: monitor.events.clone() };
    let terms = Arc::new(terms);
    let in_turn = jobs.iter().any(|job| job.destination == Destination::Standard);
    let at_once = if in_turn { 1 } else { MAX_AT_ONCE };
    let mut report = Report::new(options.json.clone(), options.quiet);
    let begin = Instant::now();
    for _ in 0..options.repeat {
        let round = Arc::new(Round {
            origins: Origins::new(Arc::clone(&terms), Arc::clone(&monitor)),
            ask: options.ask.clone(),
            hq: options.hq,
            pause: terms.pause(),
            digest: options.json.is_some(),
            retries: options.retry,
            quiet: options.quiet,
            lines: !options.quiet && options.json.is_none(),
            monitor: Arc::clone(&monitor),
        });
        let done = together(&round, &jobs, at_once).await;
        monitor.progress.clear();
        jobs.iter().zip(done?).for_each(|(job, done)| report.add(job, done));
        if let Some(round) = Arc::into_inner(round) {
            round.origins.close().await;
        }
        if report.has_failed() {
            break;
        }
    }
    report.finish(begin.elapsed())
}

/// Runs the jobs, at most `at_once` concurrently, and returns their results in order. Reports each complete
/// file at once, and with several jobs also each failure.
async fn together(round: &Arc<Round>, jobs: &[Job], at_once: usize) -> Result<Vec<Result<Done>>> {
    let mut waiting = jobs.iter().cloned().enumerate();
    let mut running = JoinSet::new();
    let mut all: Vec<Option<Result<Done>>> = jobs.iter().map(|_| None).collect();
    loop {
        while running.len() < at_once
            && let Some((place, job)) = waiting.next()
        {
            let (round, bar) = (Arc::clone(round), round.monitor.file(&job.url, &job.target.file_name()));
            running.spawn(async move {
                let done = round.fetch(&job, &bar).await;
                bar.finish_and_clear();
                (place, done)
            });
        }
        match running.join_next().await {
            Some(Ok((place, done))) => {
                jobs[place].write_end(&done, &round.monitor.events);
                match &done {
                    Ok(done) if round.lines => report::tell_file(&jobs[place], done),
                    Err(failure) if jobs.len() > 1 => failure.clone().about(&jobs[place].url).say(),
                    _ => {}
                }
                all[place] = Some(done);
            }
            Some(Err(error)) => return Err(Failure::new(Exit::Io, error)),
            None => return Ok(all.into_iter().flatten().collect()),
        }
    }
}

/// Returns the jobs: files to fetch and their destinations.
fn jobs(options: &Get) -> Result<Vec<Job>> {
    let mut jobs: Vec<Job> = Vec::with_capacity(options.urls.len());
    for url in &options.urls {
        let target = Target::parse(url)?;
        let destination = destination(options, &target)?;
        let file = matches!(destination, Destination::File(_) | Destination::Rest(_));
        if file && jobs.iter().any(|job| job.destination == destination) {
            let what = format!("two URLs for one file; the second one is {target}");
            return Err(
                Failure::new(Exit::Usage, what).or("fetch them one by one, each with an --output of its own")
            );
        }
        jobs.push(Job { url: url.clone(), target, destination });
    }
    Ok(jobs)
}

fn destination(options: &Get, target: &Target) -> Result<Destination> {
    let file = |name| if options.ask.rest { Destination::Rest(name) } else { Destination::File(name) };
    let named_in = |dir: &Path| Ok(file(dir.join(&*target.file_name())));
    let json_to_standard = options.json.as_deref() == Some(Path::new(STANDARD));
    match options.output.as_deref() {
        Some(path) if path == Path::new(STANDARD) && json_to_standard => {
            let failure = Failure::new(Exit::Usage, "content and JSON would both go to standard output");
            Err(failure.or("name a file for one of them"))
        }
        Some(path) if path == Path::new(STANDARD) => Ok(Destination::Standard),
        Some(path) if path.is_dir() => named_in(path),
        Some(path) if path.as_os_str().as_bytes().ends_with(b"/") => {
            let failure = Failure::new(Exit::Usage, format!("there is no directory {}", path.display()));
            Err(failure.or("make it first"))
        }
        Some(_) if options.urls.len() > 1 => {
            let failure = Failure::new(Exit::Usage, "several URLs for one --output");
            Err(failure.or("name a directory there, or leave it out, and each file is named by its URL"))
        }
        Some(path) => Ok(file(path.to_owned())),
        None if json_to_standard => Ok(Destination::Nowhere),
        None if options.ask.head => Ok(Destination::Standard),
        None => named_in(Path::new(".")),
    }
}
