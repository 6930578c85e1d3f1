//! `--events`: events as they happen, one JSON object on each line. `docs/get.md` lists them.

mod connection;

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use clap::Args;
use serde_json::{Value, json};
use time::OffsetDateTime;
use time::format_description::StaticFormatDescription;
use time::macros::format_description;

pub(crate) use self::connection::{ConnectionEvents, id};
use crate::exit::{Exit, Failure, Result};
use crate::lines::{Form, Lines};

/// Format of times: RFC 3339 in UTC, with microseconds.
const TIME: StaticFormatDescription =
    format_description!("[year]-[month]-[day]T[hour]:[minute]:[second].[subsecond digits:6]Z");

/// Destination of events.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct EventsTo {
    /// Write events of connections and paths as they happen, a JSON object on each line, to FILE or, as `-`,
    /// to standard output
    #[arg(long, value_name = "FILE")]
    events: Option<PathBuf>,
}

impl EventsTo {
    /// Returns whether events go to standard output, which then must have no other content.
    pub(crate) fn is_standard(&self) -> bool {
        self.events.as_deref() == Some(Path::new("-"))
    }

    /// Fails if events and `other` would both go to standard output; `goes` states whether `other` does.
    pub(crate) fn check(&self, goes: bool, other: &str) -> Result {
        if !goes || !self.is_standard() {
            return Ok(());
        }
        let failure =
            Failure::new(Exit::Usage, format!("events and {other} would both go to standard output"));
        Err(failure.or("name a file for one of them"))
    }

    /// Opens the destination.
    pub(crate) fn open(&self) -> Result<Events> {
        let Some(path) = &self.events else { return Ok(Events::default()) };
        let form =
            Form { line: Event::line, lost: |lost| Event::new("lost", json!({ "events": lost })).line() };
        if self.is_standard() {
            return Ok(Events(Some(Lines::start(io::stdout(), form))));
        }
        let failed = |error| Failure::io(format_args!("cannot write {}", path.display()), &error);
        let file: Box<dyn Write + Send> = Box::new(File::create(path).map_err(failed)?);
        Ok(Events(Some(Lines::start(file, form))))
    }
}

/// An event.
#[derive(Debug)]
struct Event {
    time: SystemTime,
    name: &'static str,
    /// Fields, as a JSON object.
    fields: Value,
}

impl Event {
    fn new(name: &'static str, fields: Value) -> Self {
        Self { time: SystemTime::now(), name, fields }
    }

    /// Formats the event as a line that begins with time and name.
    fn line(&self) -> String {
        let time = OffsetDateTime::from(self.time).format(&TIME).unwrap_or_default();
        let fields = self.fields.to_string();
        let fields = fields.trim_start_matches('{').trim_start();
        let comma = if fields == "}" { "" } else { "," };
        format!("{{\"time\":\"{time}\",\"event\":\"{}\"{comma}{fields}", self.name)
    }
}

/// Queue of events. It discards them if they were not requested. Cloning it is cheap.
#[derive(Clone, Debug, Default)]
pub(crate) struct Events(Option<Lines<Event>>);

impl Events {
    /// Returns whether events are requested.
    pub(crate) fn are_wanted(&self) -> bool {
        self.0.is_some()
    }

    /// Emits the event `name`. `fields` returns a JSON object, and is called only if events are requested.
    pub(crate) fn tell(&self, name: &'static str, fields: impl FnOnce() -> Value) {
        if let Some(lines) = &self.0 {
            lines.push(Event::new(name, fields()));
        }
    }

    /// Waits until all events are written, but only for a short time.
    pub(crate) fn flush(&self) {
        self.0.iter().for_each(Lines::flush);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_begins_with_time_and_name() {
        let event = |fields| Event { time: SystemTime::UNIX_EPOCH, name: "end", fields }.line();
        assert_eq!(event(json!({})), r#"{"time":"1970-01-01T00:00:00.000000Z","event":"end"}"#);
        let line = event(json!({ "bytes": 7, "error": "a\nb" }));
        assert_eq!(line, r#"{"time":"1970-01-01T00:00:00.000000Z","event":"end","bytes":7,"error":"a\nb"}"#);
    }

    #[test]
    fn two_things_do_not_share_standard_output() {
        let to = |name: &str| EventsTo { events: Some(name.into()) };
        assert_eq!(to("-").check(true, "content").unwrap_err().exit(), Exit::Usage);
        assert!(to("-").check(false, "content").is_ok() && to("file").check(true, "content").is_ok());
        assert!(EventsTo::default().check(true, "content").is_ok());
    }
}
