//! Periodic observation of downloads and connections, for bars, log lines and events.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

use indicatif::ProgressBar;
use serde_json::{Value, json};
use tracing::Level;

use super::origin::Origin;
use super::paths::Paths;
use super::progress::{self, Progress};
use crate::events::{self, Events};
use crate::exit::{self, Result};
use crate::rate::{self, Meter};

/// Interval between observations.
const TICK: Duration = Duration::from_millis(200);
/// Number of ticks between two log lines, or two events.
const EVERY: u32 = 5;
/// Target of log lines about progress.
const TARGET: &str = "anabranch::get";

/// Downloads in progress, and the outputs that show their progress.
#[derive(Debug)]
pub(super) struct Monitor {
    pub(super) progress: Progress,
    pub(super) events: Events,
    /// `true` if progress is logged by `tracing` because there are no bars.
    lines: bool,
    /// Content bytes received, including those that were discarded later.
    bytes: AtomicU64,
    files: Mutex<Vec<File>>,
    origins: Mutex<Vec<(Weak<Origin>, Paths)>>,
}

/// A file that is being fetched.
#[derive(Debug)]
struct File {
    url: String,
    bar: ProgressBar,
    meter: Meter,
}

impl Monitor {
    pub(super) fn new(progress: Progress, events: Events) -> Arc<Self> {
        let lines = tracing::enabled!(target: TARGET, Level::INFO) && !progress.is_visible();
        let (bytes, files, origins) = (AtomicU64::new(0), Mutex::default(), Mutex::default());
        Arc::new(Self { progress, events, lines, bytes, files, origins })
    }

    /// Adds a file and returns its bar.
    pub(super) fn file(&self, url: &str, name: &str) -> ProgressBar {
        let bar = self.progress.bar(name);
        let meter = Meter::new(Instant::now(), 0);
        let file = File { url: url.to_owned(), bar: bar.clone(), meter };
        self.files.lock().unwrap_or_else(PoisonError::into_inner).push(file);
        bar
    }

    /// Adds a connection, which is observed as long as it is in use.
    pub(super) fn origin(&self, origin: &Arc<Origin>) {
        let mut origins = self.origins.lock().unwrap_or_else(PoisonError::into_inner);
        origins.push((Arc::downgrade(origin), Paths::new(events::id(origin.connection()))));
    }

    /// Counts received content bytes.
    pub(super) fn count(&self, bytes: usize) {
        self.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// Returns the number of content bytes received so far.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Observes the downloads periodically until this future is dropped; does nothing if there are no bars, log
    /// lines or events.
    pub(super) async fn run(&self) {
        if !self.progress.is_visible() && !self.lines && !self.events.are_wanted() {
            return std::future::pending().await;
        }
        let mut total = Meter::new(Instant::now(), self.bytes());
        let mut ticks = tokio::time::interval(TICK);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Skip);
        for number in 0_u32.. {
            ticks.tick().await;
            let now = Instant::now();
            total.sample(now, self.bytes());
            self.look(now);
            if number % EVERY == EVERY - 1 {
                self.tell(total.rate());
            }
        }
    }

    /// Emits the event of the command's end and its result.
    pub(super) fn end(&self, result: &Result, took: Duration) {
        self.progress.end();
        self.events.tell("end", || {
            let failure = result.as_ref().err();
            json!({
                "bytes": self.bytes(),
                "seconds": took.as_secs_f64(),
                "exit": failure.map_or(0, |failure| failure.exit() as u8),
                "error": failure.map(ToString::to_string),
            })
        });
        self.events.flush();
    }

    fn look(&self, now: Instant) {
        let mut files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        files.retain(|file| !file.bar.is_finished());
        for file in files.iter_mut() {
            file.meter.sample(now, file.bar.position());
            progress::set_rate(&file.bar, file.meter.rate());
        }
        drop(files);
        let mut origins = self.origins.lock().unwrap_or_else(PoisonError::into_inner);
        origins.retain(|(origin, _)| origin.strong_count() > 0);
        let mut news = Vec::new();
        for (origin, paths) in origins.iter_mut() {
            if let Some(origin) = origin.upgrade() {
                news.extend(paths.look(now, &origin.connection().stats()));
            }
        }
        if self.progress.is_visible() {
            self.progress.show_paths(origins.iter().flat_map(|(_, paths)| paths.lines()).collect());
            news.iter().for_each(|line| exit::note(format_args!("anabranch: {line}")));
        }
    }

    /// Emits the event of the current progress.
    fn tell(&self, total: f64) {
        let files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        let origins = self.origins.lock().unwrap_or_else(PoisonError::into_inner);
        self.events.tell("progress", || {
            let paths: Vec<Value> = origins.iter().flat_map(|(_, paths)| paths.facts()).collect();
            json!({
                "bytes": self.bytes(),
                "rate_mbps": total * 8.0 / 1e6,
                "files": files.iter().map(File::facts).collect::<Vec<_>>(),
                "paths": paths,
            })
        });
        if self.lines {
            for file in files.iter() {
                let (bytes, of, now) = (file.bar.position(), file.bar.length(), file.meter.rate());
                let left = of.map_or("–".to_owned(), |of| rate::left(of.saturating_sub(bytes), now));
                tracing::info!(target: TARGET, url = file.url, bytes, of, rate = rate::words(now), left);
            }
            for line in origins.iter().flat_map(|(_, paths)| paths.lines()) {
                tracing::info!(target: TARGET, "{}", line.trim_start());
            }
        }
    }
}

impl File {
    fn facts(&self) -> Value {
        json!({
            "url": self.url,
            "bytes": self.bar.position(),
            "of": self.bar.length(),
            "rate_mbps": self.meter.rate() * 8.0 / 1e6,
        })
    }
}
