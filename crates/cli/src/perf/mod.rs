//! `anabranch perf`: bulk transfers, handshakes and interoperability cases, with the options that all peers
//! have in common.
//!
//! The protocol is draft-banks-quic-performance: a stream begins with the length of the response, as eight
//! bytes, big endian; further content is discarded. DATAGRAM frames are echoed. Over HTTP/3, the response to
//! `/bytes/N` has N bytes of content.

pub(crate) mod client;
mod ecn;
pub(crate) mod http3;
mod latency;
pub(crate) mod load;
mod pattern;
mod progress;
mod recv;
pub(crate) mod server;
mod work;

use clap::{Args, Subcommand};
use serde_json::{Map, Value, json};

use crate::exit::{self, Exit, Failure, Result};
use crate::size;
use crate::verbose::Verbosity;

/// Protocol name in ALPN.
pub(crate) const ALPN: &str = "perf";

/// Measure transfers and handshakes
#[derive(Subcommand, Debug)]
pub(crate) enum Perf {
    Server(server::Server),
    Client(client::Client),
}

/// CPU and threads of the process.
#[derive(Args, Clone, Debug)]
pub(crate) struct CpuOptions {
    /// Run on this CPU only, on one thread
    #[arg(long, value_name = "CPU")]
    pub(crate) one_core: Option<usize>,
}

impl Perf {
    pub(crate) fn verbosity(&self) -> Verbosity {
        match self {
            Self::Server(server) => server.verbosity,
            Self::Client(client) => client.verbosity,
        }
    }

    pub(crate) fn place(&self) -> &CpuOptions {
        match self {
            Self::Server(server) => &server.place,
            Self::Client(client) => &client.place,
        }
    }
}

impl CpuOptions {
    /// Pins the process to the CPU. Must be called before other threads start.
    pub(crate) fn pin(&self) -> Result {
        let Some(cpu) = self.one_core else { return Ok(()) };
        let mut cpus = nix::sched::CpuSet::new();
        let pinned =
            cpus.set(cpu).and_then(|()| nix::sched::sched_setaffinity(nix::unistd::Pid::from_raw(0), &cpus));
        pinned.map_err(|error| Failure::new(Exit::Usage, format!("cannot run on CPU {cpu}: {error}")))
    }
}

/// Name of this program's allocator.
const ALLOCATOR: &str = if cfg!(feature = "mimalloc") { "mimalloc" } else { "system" };

/// Returns the user and system time of this process so far.
fn cpu_seconds() -> f64 {
    use nix::sys::resource::{UsageWho, getrusage};
    let Ok(usage) = getrusage(UsageWho::RUSAGE_SELF) else { return 0.0 };
    let seconds = |time: nix::sys::time::TimeVal| time.tv_sec() as f64 + time.tv_usec() as f64 / 1e6;
    seconds(usage.user_time()) + seconds(usage.system_time())
}

/// Format of the results.
#[derive(Args, Clone, Copy, Debug, Default)]
pub(crate) struct Form {
    /// Show results as one line of JSON
    #[arg(short = 'J', long)]
    pub(crate) json: bool,
}

/// Results on standard output: a few lines, or one line of JSON.
#[derive(Debug, Default)]
struct Report {
    facts: Map<String, Value>,
    /// Lines for people, which show the values that are lists in JSON.
    lines: Vec<String>,
}

impl Report {
    fn with(mut self, key: &str, value: impl Into<Value>) -> Self {
        self.facts.insert(key.to_owned(), value.into());
        self
    }

    fn line(mut self, line: String) -> Self {
        self.lines.push(line);
        self
    }

    /// Adds `goodput_mbps`: application data in 10^6 bits per second.
    fn goodput(self, bytes: u64, seconds: f64) -> Self {
        let mbps = bytes as f64 * 8.0 / seconds.max(1e-9) / 1e6;
        self.with("bytes", bytes).with("seconds", seconds).with("goodput_mbps", mbps)
    }

    fn print(self, form: Form) -> Result {
        let report = self.with("cpu_seconds", cpu_seconds());
        match form.json {
            true => exit::say(json!(report.with("allocator", ALLOCATOR).facts)),
            false => exit::say(report.text()),
        }
    }

    /// Returns the lines for people, without zeros and other figures that nobody needs.
    fn text(&self) -> String {
        let number = |name: &str| self.facts.get(name).and_then(Value::as_f64).unwrap_or(0.0);
        let mut lines = Vec::new();
        let bytes = self.facts.get("bytes").and_then(Value::as_u64).unwrap_or(0);
        if bytes > 0 {
            let rate = rate(bytes, number("seconds"));
            lines.push(format!("{} in {:.2} s: {rate}", size::words(bytes), number("seconds")));
        }
        for (name, value) in &self.facts {
            let text = match (name.as_str(), value) {
                ("bytes" | "goodput_mbps", _) => continue,
                ("seconds", _) if bytes > 0 => continue,
                (_, Value::String(text)) => text.clone(),
                (_, Value::Bool(true)) => "yes".to_owned(),
                (_, Value::Number(number)) if number.as_f64() != Some(0.0) => match number.as_u64() {
                    Some(number) => number.to_string(),
                    None => format!("{:.3}", number.as_f64().unwrap_or(0.0)),
                },
                _ => continue,
            };
            lines.push(format!("{:<20}{text}", name.replace('_', " ")));
        }
        lines.extend(self.lines.iter().cloned());
        lines.join("\n")
    }
}

/// Formats a rate of application data for people.
fn rate(bytes: u64, seconds: f64) -> String {
    crate::rate::words(bytes as f64 / seconds.max(1e-9))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn people_are_told_what_there_was() {
        let report = Report::default()
            .goodput(125_000_000, 1.0)
            .with("case", "transfer")
            .with("lost_packets", 3)
            .with("migrations", 0)
            .with("ecn_capable", false)
            .with("ordered_ratio", Value::Null)
            .with("reordering", Value::Null)
            .line("path 0".to_owned());
        let text = report.text();
        assert!(text.starts_with("125 MB in 1.00 s: 1.00 Gbit/s\n"), "{text}");
        assert!(text.contains("lost packets        3\n") && text.ends_with("path 0"), "{text}");
        assert!(!text.contains("migrations") && !text.contains("ecn") && !text.contains("ordered"), "{text}");
        assert_eq!(rate(1_000_000, 1.0), "8.0 Mbit/s");
    }
}
