//! Access log of a proxy: a line for each tunnel, without payload and without credentials.

use std::fmt::Write;
use std::time::SystemTime;

use anabranch::proxy::server::{Outcome, Record};
use clap::ValueEnum;
use serde_json::json;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use crate::lines::{Form, Lines};
use crate::screen::Above;

/// Format of the access log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// Time, client, user, HTTP version, kind, target, address, bytes in both directions, seconds and outcome
    #[default]
    Text,
    /// One object on each line
    Json,
    /// No log
    None,
}

/// Entry of the log: the time at which the tunnel ended or was refused, and its record.
type Entry = (SystemTime, Record);

/// Queue of entries for the log. Clones are cheap and share it.
#[derive(Clone, Debug)]
pub(super) struct Log(Option<Lines<Entry>>);

impl Log {
    pub(super) fn start(format: Format) -> Self {
        let line: fn(&Entry) -> String = match format {
            Format::Text => text,
            Format::Json => |entry| json(entry).to_string(),
            Format::None => return Self(None),
        };
        let lost = |lines| format!("anabranch: {lines} lines of the access log were lost");
        Self(Some(Lines::start(Above, Form { line, lost })))
    }

    pub(super) fn write(&self, record: &Record) {
        if let Some(lines) = &self.0 {
            lines.push((SystemTime::now(), record.clone()));
        }
    }

    /// Waits for a limited time until the queued entries are written.
    pub(super) fn flush(&self) {
        self.0.iter().for_each(Lines::flush);
    }
}

/// Returns the name of a record's HTTP version.
pub(super) fn version(record: &Record) -> &'static str {
    match record.version {
        http::Version::HTTP_3 => "h3",
        http::Version::HTTP_2 => "h2",
        _ => "http/1.1",
    }
}

/// Formats an entry as text. Targets and names of users have printable ASCII characters only.
fn text((time, record): &Entry) -> String {
    let time = OffsetDateTime::from(*time).format(&Rfc3339).unwrap_or_default();
    let user = record.user.as_deref().unwrap_or("-");
    let target = record.target.as_deref().unwrap_or("-");
    let address = record.address.map_or_else(|| "-".to_owned(), |address| address.to_string());
    let (client, version, carried) = (record.client, version(record), record.carried.name());
    let mut line = format!("{time} {client} {user} {version} {carried} {target} {address}");
    let seconds = record.duration.as_secs_f64();
    // Writing to a string cannot fail.
    let _ = write!(line, " {} {} {seconds:.3}", record.sent, record.received);
    let _ = match record.outcome {
        Outcome::Refused(cause) => write!(line, " refused {}", cause.name()),
        outcome => write!(line, " {}", outcome.name()),
    };
    if record.dropped > 0 {
        let _ = write!(line, " dropped={}", record.dropped);
    }
    line
}

fn json((time, record): &Entry) -> serde_json::Value {
    json!({
        "time": OffsetDateTime::from(*time).format(&Rfc3339).unwrap_or_default(),
        "client": record.client.to_string(),
        "user": record.user,
        "protocol": version(record),
        "carried": record.carried.name(),
        "target": record.target,
        "address": record.address.map(|address| address.to_string()),
        "sent": record.sent,
        "received": record.received,
        "dropped": record.dropped,
        "seconds": record.duration.as_secs_f64(),
        "refused": matches!(record.outcome, Outcome::Refused(_)),
        "outcome": record.outcome.name(),
    })
}
