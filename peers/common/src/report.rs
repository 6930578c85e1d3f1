//! Report of a peer: one JSON object on one line of stdout.

use std::fmt::Write as _;
use std::io::Write as _;

use nix::sys::resource::{UsageWho, getrusage};

use crate::latency::Latencies;

/// JSON object under construction.
#[derive(Default)]
pub struct Report {
    body: String,
}

impl Report {
    /// Creates an empty object.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a value whose JSON form equals its `Display` form: an integer, a finite float or a boolean.
    pub fn raw(mut self, key: &str, value: impl std::fmt::Display) -> Self {
        let comma = if self.body.is_empty() { "" } else { "," };
        // Writing to a string cannot fail.
        let _ = write!(self.body, "{comma}\"{key}\":{value}");
        self
    }

    /// Adds a string.
    pub fn text(self, key: &str, value: &str) -> Self {
        let mut quoted = String::from("\"");
        for c in value.chars() {
            match c {
                '"' | '\\' => quoted.extend(['\\', c]),
                c if c < ' ' => quoted.push(' '),
                c => quoted.push(c),
            }
        }
        quoted.push('"');
        self.raw(key, quoted)
    }

    /// Adds `bytes`, `seconds` and `goodput_mbps` (10^6 bits per second of application data).
    pub fn goodput(self, bytes: u64, elapsed: std::time::Duration) -> Self {
        let seconds = elapsed.as_secs_f64().max(1e-9);
        let mbps = bytes as f64 * 8.0 / seconds / 1e6;
        self.raw("bytes", bytes)
            .raw("seconds", format!("{seconds:.6}"))
            .raw("goodput_mbps", format!("{mbps:.3}"))
    }

    /// Adds `requests`, `bytes` (content of all responses), `seconds`, `requests_per_s` and `latency_us`.
    pub fn requests(self, count: u64, bytes: u64, elapsed: std::time::Duration, times: Latencies) -> Self {
        let seconds = elapsed.as_secs_f64().max(1e-9);
        self.raw("requests", count)
            .raw("bytes", bytes)
            .raw("seconds", format!("{seconds:.6}"))
            .raw("requests_per_s", format!("{:.1}", count as f64 / seconds))
            .raw("latency_us", times.json())
    }

    /// Adds `allocator`, and `cpu_seconds`: user and system time of this process so far.
    pub fn cpu(self) -> Self {
        self.text("allocator", crate::allocator::name()).raw("cpu_seconds", format!("{:.6}", cpu_seconds()))
    }

    /// Returns the object as one line.
    pub fn line(&self) -> String {
        format!("{{{}}}", self.body)
    }

    /// Writes the line to stdout. Errors are ignored, because the reader may be gone.
    pub fn print(&self) {
        let mut out = std::io::stdout().lock();
        let _ = writeln!(out, "{}", self.line());
        let _ = out.flush();
    }
}

/// Returns the user and system time of this process so far, in seconds.
pub fn cpu_seconds() -> f64 {
    let Ok(usage) = getrusage(UsageWho::RUSAGE_SELF) else { return 0.0 };
    [usage.user_time(), usage.system_time()]
        .iter()
        .map(|t| t.tv_sec() as f64 + t.tv_usec() as f64 * 1e-6)
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_is_one_line_of_json() {
        let report = Report::new().raw("n", 3).raw("ok", true).text("s", "a \"b\"\\\n");
        assert_eq!(report.line(), r#"{"n":3,"ok":true,"s":"a \"b\"\\ "}"#);
    }

    #[test]
    fn requests_are_counted_per_second() {
        let second = std::time::Duration::from_secs(1);
        let mut times = Latencies::default();
        times.add(second);
        let line = Report::new().requests(10, 1000, 4 * second, times).line();
        let rates = r#"{"requests":10,"bytes":1000,"seconds":4.000000,"requests_per_s":2.5,"#;
        assert_eq!(line, format!(r#"{rates}"latency_us":{{"p50":1000000.000,"p99":1000000.000}}}}"#));
    }

    #[test]
    fn goodput_counts_megabits() {
        let line = Report::new().goodput(1_000_000, std::time::Duration::from_secs(2)).line();
        assert_eq!(line, r#"{"bytes":1000000,"seconds":2.000000,"goodput_mbps":4.000}"#);
    }
}
