//! Report of the fetched files.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use super::job::{Done, Job};
use super::origin::Origin;
use crate::exit::{self, Failure, Result};
use crate::multipath;
use crate::output::hex;
use crate::reordering;

/// Results of all downloads, in the order of the command line.
pub(super) struct Report {
    /// File for JSON, if requested; `-` is standard output.
    json: Option<PathBuf>,
    quiet: bool,
    facts: Vec<Value>,
    bytes: u64,
    files: usize,
    failures: Vec<Failure>,
    /// Servers whose connections fetched files.
    origins: Vec<Arc<Origin>>,
}

impl Report {
    pub(super) fn new(json: Option<PathBuf>, quiet: bool) -> Self {
        Self { json, quiet, facts: Vec::new(), bytes: 0, files: 0, failures: Vec::new(), origins: Vec::new() }
    }

    /// Adds the result of a job.
    pub(super) fn add(&mut self, job: &Job, done: Result<Done>) {
        self.files += 1;
        let done = match done {
            Ok(done) => done,
            Err(failure) => {
                let (error, exit) = (failure.to_string(), failure.exit() as u8);
                self.facts.push(json!({ "url": job.url, "error": error, "exit": exit }));
                return self.failures.push(failure);
            }
        };
        self.bytes += done.bytes;
        if self.json.is_some() {
            self.facts.push(facts(job, &done));
        } else if !self.quiet && !self.origins.iter().any(|origin| Arc::ptr_eq(origin, &done.origin)) {
            self.origins.push(done.origin);
        }
    }

    /// Returns whether a download has failed.
    pub(super) fn has_failed(&self) -> bool {
        !self.failures.is_empty()
    }

    /// Prints the rest of the report. Fails with the status of the first failed download, if any.
    pub(super) fn finish(mut self, took: Duration) -> Result {
        let failures = std::mem::take(&mut self.failures);
        let (files, failed) = (self.files, failures.len());
        let Some(first) = failures.into_iter().next() else { return self.conclude(took, 0) };
        if files == 1 {
            return Err(first);
        }
        self.conclude(took, failed)?;
        Err(Failure::new(first.exit(), format!("{failed} of {files} files could not be had")))
    }

    /// Concludes the report. JSON is one object, or an array for several downloads.
    fn conclude(self, took: Duration, failed: usize) -> Result {
        let files = self.files;
        let Some(path) = &self.json else {
            self.origins.iter().for_each(|origin| tell_paths(origin));
            if files > 1 && !self.quiet {
                let had = files - failed;
                let of = if failed == 0 { String::new() } else { format!(" of {files}") };
                exit::note(format_args!("{had}{of} files: {}", measured(self.bytes, took)));
            }
            return Ok(());
        };
        let json = match <[Value; 1]>::try_from(self.facts) {
            Ok([only]) => only,
            Err(all) => Value::Array(all),
        };
        if path == Path::new("-") {
            return exit::say(json);
        }
        let written = File::create(path).and_then(|mut file| writeln!(file, "{json}"));
        written.map_err(|error| Failure::io(format_args!("cannot write {}", path.display()), &error))
    }
}

/// Reports a complete file to people, with its size, time and rate.
pub(super) fn tell_file(job: &Job, done: &Done) {
    let how = match (done.early_data, done.origin.connection().handshake_data().resumed) {
        (true, _) => ", 0-RTT",
        (false, true) => ", resumed",
        _ => "",
    };
    let continued = match done.continued {
        0 => String::new(),
        1 => ", continued once".to_owned(),
        times => format!(", continued {times} times"),
    };
    exit::note(format_args!("{}: {}{how}{continued}", job.url, measured(done.bytes, done.took)));
}

/// Reports to people the bytes of each path of a connection, or the reason why it had only one.
fn tell_paths(origin: &Origin) {
    let stats = origin.connection().stats();
    let several = stats.all_paths().nth(1).is_some();
    for path in stats.all_paths().filter(|_| several) {
        exit::note(format_args!("  {}", multipath::words(path)));
    }
    if let Some(why) = origin.why_single() {
        exit::note(format_args!("  one path only: {why}"));
    }
}

fn measured(bytes: u64, took: Duration) -> String {
    let rate = mbps(bytes, took);
    // A rate that rounds to 0.0 is omitted.
    let rate = if rate < 0.05 { String::new() } else { format!(" ({rate:.1} Mbit/s)") };
    format!("{bytes} bytes in {:.3} s{rate}", took.as_secs_f64())
}

fn mbps(bytes: u64, took: Duration) -> f64 {
    bytes as f64 * 8.0 / took.as_secs_f64().max(1e-9) / 1e6
}

fn facts(job: &Job, done: &Done) -> Value {
    let connection = done.origin.connection();
    let data = connection.handshake_data();
    let stats = connection.stats();
    json!({
        "url": job.url,
        "bytes": done.bytes,
        "seconds": done.took.as_secs_f64(),
        "goodput_mbps": mbps(done.bytes, done.took),
        "sha256": done.digest.as_ref().map(hex),
        "status": done.status.map(|status| status.as_u16()),
        "version": format!("{:#010x}", data.version.0),
        "alpn": data.protocol.map(|protocol| String::from_utf8_lossy(&protocol).into_owned()),
        "resumed": data.resumed,
        "zero_rtt_accepted": done.early_data,
        "continued": done.continued,
        "key_updates": stats.key_updates,
        "ordered_ratio": stats.ordered_ratio(),
        "reordering": reordering::facts(&stats.reordering()),
        "placed_bytes": stats.received.placed,
        "copied_bytes": stats.received.copied,
        "restored_bytes": stats.received.restored,
        "paths": multipath::all_facts(&stats),
        "one_path_because": done.origin.why_single(),
    })
}
