//! The access log: one line on standard error for each request. It is written on a thread of its own, so that whoever
//! reads it holds up no answer; lines that it cannot keep up with are counted and dropped.

use std::fmt::{self, Write as _};
use std::io::{self, BufWriter, Write};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::{Duration, SystemTime};

use clap::ValueEnum;
use serde_json::json;
use time::OffsetDateTime;
use time::format_description::StaticFormatDescription;
use time::format_description::well_known::Rfc3339;
use time::macros::format_description;

/// Lines that may wait to be written.
const MAX_WAITING: usize = 4_096;
/// Most bytes of anything that a client says which are kept for the log.
const MAX_FIELD: usize = 1_024;
/// How long the last lines may take at the end.
const FLUSH: Duration = Duration::from_millis(500);

/// The time in the common log format.
const TIME: StaticFormatDescription =
    format_description!("[day]/[month repr:short]/[year]:[hour]:[minute]:[second] +0000");

/// How lines look.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(super) enum Format {
    /// The combined log format, with the protocol in the place of the version, and the seconds that it took at the end; behind
    /// them `aborted` if the answer was given up, by whichever side
    #[default]
    Text,
    /// One object on each line
    Json,
    /// No log
    None,
}

/// A request and what became of it.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) time: SystemTime,
    pub(super) peer: SocketAddr,
    pub(super) protocol: &'static str,
    pub(super) method: String,
    pub(super) target: String,
    /// `None` if the client was gone before there was an answer.
    pub(super) status: Option<u16>,
    /// Content that was sent, without the protocol's own bytes.
    pub(super) bytes: u64,
    pub(super) duration: Duration,
    /// Whether all of the answer was handed over to be sent, rather than given up by either side.
    pub(super) complete: bool,
    pub(super) referer: Option<String>,
    pub(super) agent: Option<String>,
}

/// As much of a field as the log keeps.
pub(super) fn clip(field: &str) -> String {
    let end = (0..=MAX_FIELD.min(field.len())).rev().find(|at| field.is_char_boundary(*at));
    field[..end.unwrap_or(0)].to_owned()
}

/// Where entries are handed in. Cloning it is cheap.
#[derive(Clone, Debug)]
pub(super) struct AccessLog {
    /// `None` without a log.
    queue: Option<SyncSender<Message>>,
    lost: Arc<AtomicU64>,
}

#[derive(Debug)]
enum Message {
    Entry(Entry),
    /// Tells when all before it is written.
    Flush(SyncSender<()>),
}

impl AccessLog {
    pub(super) fn start(format: Format) -> Self {
        let lost = Arc::new(AtomicU64::new(0));
        if format == Format::None {
            return Self { queue: None, lost };
        }
        let (queue, entries) = sync_channel(MAX_WAITING);
        let counter = Arc::clone(&lost);
        // If standard error cannot be written to, there is nobody to tell.
        std::thread::spawn(move || _ = write_all(&entries, io::stderr(), format, &counter));
        Self { queue: Some(queue), lost }
    }

    pub(super) fn write(&self, entry: Entry) {
        let Some(queue) = &self.queue else { return };
        if queue.try_send(Message::Entry(entry)).is_err() {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Waits until what was handed in is written, but not for long.
    pub(super) fn flush(&self) {
        let Some(queue) = &self.queue else { return };
        let (tell, told) = sync_channel(1);
        if queue.try_send(Message::Flush(tell)).is_ok() {
            let _ = told.recv_timeout(FLUSH);
        }
    }
}

/// Writes what there is, and leaves no line unwritten while there is nothing more.
fn write_all(
    entries: &Receiver<Message>,
    out: impl Write,
    format: Format,
    lost: &AtomicU64,
) -> io::Result<()> {
    let mut out = BufWriter::new(out);
    while let Ok(first) = entries.recv() {
        let mut next = Some(first);
        while let Some(message) = next {
            match message {
                Message::Entry(entry) if format == Format::Json => writeln!(out, "{}", entry.json())?,
                Message::Entry(entry) => writeln!(out, "{}", entry.combined())?,
                Message::Flush(tell) => {
                    out.flush()?;
                    let _ = tell.send(());
                }
            }
            next = entries.try_recv().ok();
        }
        match lost.swap(0, Ordering::Relaxed) {
            0 => {}
            lost => writeln!(out, "anabranch: {lost} lines of the access log were lost")?,
        }
        out.flush()?;
    }
    Ok(())
}

impl Entry {
    /// The combined log format.
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

/// Text that neither ends its quotes nor does anything to a terminal.
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

    fn written(format: Format, entries: impl IntoIterator<Item = Entry>) -> String {
        let (queue, receiver) = sync_channel(MAX_WAITING);
        entries.into_iter().for_each(|entry| queue.send(Message::Entry(entry)).unwrap());
        drop(queue);
        let mut out = Vec::new();
        write_all(&receiver, &mut out, format, &AtomicU64::new(3)).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn lines_are_combined_and_escaped() {
        let lines = written(Format::Text, [entry("/\u{1b}[31m\u{9b}ü\\")]);
        let expected = "192.0.2.7 - - [01/Jan/1970:00:00:00 +0000] \"GET /\\x1b[31m\\xc2\\x9b\\xc3\\xbc\\x5c h2\" \
                        200 12 \"-\" \"a \\x22browser\\x22\\x0a\" 0.001500\n\
                        anabranch: 3 lines of the access log were lost\n";
        assert_eq!(lines, expected);
    }

    #[test]
    fn json_has_a_line_for_each() {
        let lines = written(Format::Json, [entry("/\n"), entry("/b")]);
        let first: serde_json::Value = serde_json::from_str(lines.lines().next().unwrap()).unwrap();
        assert_eq!(
            (&first["path"], &first["status"], &first["seconds"]),
            (&"/\n".into(), &200.into(), &0.0015.into())
        );
        assert_eq!(lines.lines().count(), 3);
    }

    #[test]
    fn aborted_answers_say_so() {
        let aborted = || Entry { complete: false, ..entry("/") };
        let lines = written(Format::Text, [aborted()]);
        assert!(lines.lines().next().unwrap().ends_with(" 0.001500 aborted"), "{lines}");
        let lines = written(Format::Json, [aborted(), entry("/")]);
        let complete = lines.lines().take(2).map(|line| line.contains("\"complete\":true"));
        assert_eq!(complete.collect::<Vec<_>>(), [false, true]);
    }

    #[test]
    fn fields_are_clipped() {
        assert_eq!(clip(&"ü".repeat(MAX_FIELD)).len(), MAX_FIELD);
    }

    #[test]
    fn a_log_that_nobody_writes_is_bounded() {
        let (queue, _waiting) = sync_channel(MAX_WAITING);
        let log = AccessLog { queue: Some(queue), lost: Arc::default() };
        (0..MAX_WAITING + 5).for_each(|_| log.write(entry("/")));
        assert_eq!(log.lost.load(Ordering::Relaxed), 5);
        let begin = std::time::Instant::now();
        log.flush();
        assert!(begin.elapsed() < 2 * FLUSH);
    }
}
