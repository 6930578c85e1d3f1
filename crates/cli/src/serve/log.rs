//! The access log: one line on standard error for each request. Logging never delays a response.

use std::fmt::{self, Write as _};
use std::net::SocketAddr;
use std::time::{Duration, SystemTime};

use clap::ValueEnum;
use serde_json::json;
use time::OffsetDateTime;
use time::format_description::StaticFormatDescription;
use time::format_description::well_known::Rfc3339;
use time::macros::format_description;

use crate::lines::{Form, Lines};
use crate::screen::Above;

/// Maximum number of bytes that the log stores of each field of a request.
const MAX_FIELD: usize = 1_024;

/// Time format of the common log format.
const TIME: StaticFormatDescription =
    format_description!("[day]/[month repr:short]/[year]:[hour]:[minute]:[second] +0000");

/// Format of the access log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(super) enum Format {
    /// The combined log format, with the protocol in place of the HTTP version, and the duration in seconds
    /// at the end, followed by `aborted` if either side aborted the response
    #[default]
    Text,
    /// One object on each line
    Json,
    /// No log
    None,
}

/// A request and its outcome.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) time: SystemTime,
    pub(super) peer: SocketAddr,
    pub(super) protocol: &'static str,
    pub(super) method: String,
    pub(super) target: String,
    /// HTTP status; `None` if the client had gone before there was a response.
    pub(super) status: Option<u16>,
    /// Bytes of content sent, without the protocol's overhead.
    pub(super) bytes: u64,
    pub(super) duration: Duration,
    /// `true` if the whole response was handed over to be sent, and neither side aborted it.
    pub(super) complete: bool,
    pub(super) referer: Option<String>,
    pub(super) agent: Option<String>,
}

/// Returns the beginning of a field, as much as the log stores.
pub(super) fn clip(field: &str) -> String {
    let end = (0..=MAX_FIELD.min(field.len())).rev().find(|at| field.is_char_boundary(*at));
    field[..end.unwrap_or(0)].to_owned()
}

/// Queue of entries for the log. Cloning it is cheap.
#[derive(Clone, Debug)]
pub(super) struct AccessLog(Option<Lines<Entry>>);

impl AccessLog {
    pub(super) fn start(format: Format) -> Self {
        let line: fn(&Entry) -> String = match format {
            Format::Text => Entry::combined,
            Format::Json => |entry| entry.json().to_string(),
            Format::None => return Self(None),
        };
        Self(Some(Lines::start(Above, Form { line, lost })))
    }

    pub(super) fn write(&self, entry: Entry) {
        if let Some(lines) = &self.0 {
            lines.push(entry);
        }
    }

    /// Waits until the queued entries are written, but only for a short time.
    pub(super) fn flush(&self) {
        self.0.iter().for_each(Lines::flush);
    }
}

fn lost(lines: u64) -> String {
    format!("anabranch: {lines} lines of the access log were lost")
}

impl Entry {
    /// Formats the entry in the combined log format.
    fn combined(&self) -> String {
        let time = OffsetDateTime::from(self.time).format(&TIME).unwrap_or_default();
        let status = self.status.map_or("-".to_owned(), |status| status.to_string());
        let (peer, protocol, bytes) = (self.peer.ip(), self.protocol, self.bytes);
        let (method, target) = (Escaped(&self.method), Escaped(&self.target));
        let referer = Escaped(self.referer.as_deref().unwrap_or("-"));
        let agent = Escaped(self.agent.as_deref().unwrap_or("-"));
        let seconds = self.duration.as_secs_f64();
        let end = if self.complete { "" } else { " aborted" };
        format!(
            "{peer} - - [{time}] \"{method} {target} {protocol}\" {status} {bytes} \"{referer}\" \"{agent}\" {seconds:.6}{end}"
        )
    }

    fn json(&self) -> serde_json::Value {
        json!({
            "time": OffsetDateTime::from(self.time).format(&Rfc3339).unwrap_or_default(),
            "peer": self.peer.to_string(),
            "protocol": self.protocol,
            "method": self.method,
            "path": self.target,
            "status": self.status,
            "bytes": self.bytes,
            "seconds": self.duration.as_secs_f64(),
            "complete": self.complete,
            "referer": self.referer,
            "user_agent": self.agent,
        })
    }
}

/// Text that is escaped so that it can neither end its quotes nor control a terminal.
struct Escaped<'a>(&'a str);

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.bytes().try_for_each(|byte| match byte {
            b'"' | b'\\' => write!(f, "\\x{byte:02x}"),
            b' '..=b'~' => f.write_char(char::from(byte)),
            _ => write!(f, "\\x{byte:02x}"),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(target: &str) -> Entry {
        Entry {
            time: SystemTime::UNIX_EPOCH,
            peer: "192.0.2.7:1234".parse().unwrap(),
            protocol: "h2",
            method: "GET".to_owned(),
            target: clip(target),
            status: Some(200),
            bytes: 12,
            duration: Duration::from_micros(1_500),
            complete: true,
            referer: None,
            agent: Some("a \"browser\"\n".to_owned()),
        }
    }

    #[test]
    fn lines_are_combined_and_escaped() {
        let line = entry("/\u{1b}[31m\u{9b}ü\\").combined();
        let expected = "192.0.2.7 - - [01/Jan/1970:00:00:00 +0000] \"GET /\\x1b[31m\\xc2\\x9b\\xc3\\xbc\\x5c h2\" \
                        200 12 \"-\" \"a \\x22browser\\x22\\x0a\" 0.001500";
        assert_eq!(line, expected);
        assert_eq!(lost(3), "anabranch: 3 lines of the access log were lost");
    }

    #[test]
    fn json_has_a_line_for_each() {
        let line = entry("/\n").json().to_string();
        let first: serde_json::Value = serde_json::from_str(&line).unwrap();
        assert_eq!(
            (&first["path"], &first["status"], &first["seconds"]),
            (&"/\n".into(), &200.into(), &0.0015.into())
        );
        assert_eq!(line.lines().count(), 1);
    }

    #[test]
    fn aborted_answers_say_so() {
        let aborted = Entry { complete: false, ..entry("/") };
        assert!(aborted.combined().ends_with(" 0.001500 aborted"), "{}", aborted.combined());
        let complete = [aborted, entry("/")].map(|entry| entry.json()["complete"] == true);
        assert_eq!(complete, [false, true]);
    }

    #[test]
    fn fields_are_clipped() {
        assert_eq!(clip(&"ü".repeat(MAX_FIELD)).len(), MAX_FIELD);
    }
}
