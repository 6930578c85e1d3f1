//! Observer of transport connections and of their HTTP/3 sessions. It writes
//! [qlog](https://datatracker.ietf.org/doc/draft-ietf-quic-qlog-main-schema/):
//! draft-ietf-quic-qlog-main-schema-13, draft-ietf-quic-qlog-quic-events-12 and
//! draft-ietf-quic-qlog-h3-events-12, as JSON text sequences (`.sqlog`).
//!
//! Events of a path have the custom field `path_id`, which multipath needs (quicwg/qlog#134), besides the
//! draft's `tuple`. Equal traces give equal bytes. Secrets and reset tokens are never written.
//!
//! ```
//! use anabranch_qlog::{Clock, Qlog, TraceInfo};
//! use anabranch_transport::trace::{Observer, TraceEvent};
//! use anabranch_wire::{ConnectionId, Side, Time, Version};
//!
//! let path = std::env::temp_dir().join(format!("example-{}.sqlog", std::process::id()));
//! let info = TraceInfo {
//!     side: Side::Client,
//!     title: "example".to_owned(),
//!     group_id: ConnectionId::EMPTY,
//!     clock: Clock::Virtual,
//! };
//! let mut qlog = Qlog::new(Box::new(std::fs::File::create(&path)?), &info);
//! // `Connection::set_observer` takes the trace; the connection then reports each of its events.
//! qlog.event(Time::from_millis(5), &TraceEvent::VersionChosen { version: Version::V1 });
//! drop(qlog);
//! let text = std::fs::read_to_string(&path)?;
//! assert_eq!(text.lines().count(), 2, "the header, and one event");
//! # std::fs::remove_file(&path)?;
//! # Ok::<(), std::io::Error>(())
//! ```
#![cfg_attr(docsrs, feature(doc_cfg))]
#![forbid(unsafe_code)]

mod event;
mod frame;
#[cfg(feature = "http3")]
mod http3;
mod json;
mod parameters;

use std::collections::BTreeMap;
use std::fmt;
use std::io::Write;

use anabranch_transport::trace::{Observer, TraceEvent};
use anabranch_wire::{ConnectionId, PathId, Side, Time};

use crate::event::Context;

/// Character before every record of a JSON text sequence (RFC 7464 §2.2).
const RECORD_SEPARATOR: char = '\u{1e}';
/// Number of buffered bytes at which the buffer is written to the sink.
const BUFFER: usize = 32 * 1024;
/// Default maximum length of a trace, in bytes. This suffices for some hundred thousand packets.
pub const MAX_TRACE: u64 = 256 << 20;
/// Maximum number of paths whose current tuple is stored. If there are more, the path with the lowest ID is
/// removed, and its later events lack the tuple.
const MAX_PATHS: usize = 1_024;
/// Value that is used until the transport parameters are known (RFC 9000 §18.2).
const DEFAULT_ACK_DELAY_EXPONENT: u32 = 3;

/// Origin of the times of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Clock {
    /// `Time` counts from the UNIX epoch.
    Unix,
    /// `Time` counts from an epoch that the driver chooses, for instance the start of a simulation.
    Virtual,
}

/// Header of a trace.
#[derive(Clone, Debug)]
pub struct TraceInfo {
    /// Endpoint that writes the trace.
    pub side: Side,
    /// Title, for instance the program's name.
    pub title: String,
    /// First destination connection ID of the client, which is the same in the traces of both endpoints.
    pub group_id: ConnectionId,
    /// Origin of the times.
    pub clock: Clock,
}

/// Writer of one connection's trace to a sink.
///
/// Logging never affects a connection. If the sink fails, the rest of the trace is dropped, see
/// [`Qlog::failed`].
pub struct Qlog {
    /// `None` once the sink has failed.
    sink: Option<Box<dyn Write + Send>>,
    buffer: String,
    context: Context,
    /// Number of each path's current tuple. A path that still uses the connection's first tuple has no entry.
    tuples: BTreeMap<PathId, u64>,
    next_tuple: u64,
    /// Maximum length of the trace, in bytes.
    limit: u64,
    /// Length of the trace so far, in bytes.
    written: u64,
    /// `true` once the limit was reached. Only the end of the connection is still written.
    is_cut: bool,
    /// Error of the sink, until it is taken.
    error: Option<std::io::Error>,
}

impl Qlog {
    /// Creates a trace of at most [`MAX_TRACE`] bytes.
    pub fn new(sink: Box<dyn Write + Send>, info: &TraceInfo) -> Self {
        let mut buffer = String::new();
        write_header(&mut buffer, info);
        let context = Context {
            side: info.side,
            local_ack_delay_exponent: DEFAULT_ACK_DELAY_EXPONENT,
            remote_ack_delay_exponent: DEFAULT_ACK_DELAY_EXPONENT,
        };
        let written = buffer.len() as u64;
        Self {
            sink: Some(sink),
            buffer,
            context,
            tuples: BTreeMap::new(),
            next_tuple: 1,
            limit: MAX_TRACE,
            written,
            is_cut: false,
            error: None,
        }
    }

    /// Limits the trace to `bytes`, because otherwise a peer could make it grow without bound. At the limit a
    /// warning is written (`loglevel:warning`). Only the end of the connection is written after it.
    #[must_use]
    pub fn with_limit(mut self, bytes: u64) -> Self {
        self.limit = bytes;
        self
    }

    /// Writes a record. If the trace would exceed its limit, writes a warning instead and ends the trace,
    /// except for the record of the connection's end (`is_end`).
    fn record(&mut self, time: Time, is_end: bool, fill: impl FnOnce(&mut json::Object<'_>)) {
        if self.is_cut && !is_end {
            return;
        }
        let before = self.buffer.len();
        write_record(&mut self.buffer, fill);
        let len = (self.buffer.len() - before) as u64;
        if is_end || self.written + len <= self.limit {
            self.written += len;
            return;
        }
        self.buffer.truncate(before);
        self.is_cut = true;
        let message =
            format!("the trace has reached its limit of {} bytes: what follows is missing", self.limit);
        write_record(&mut self.buffer, |o| {
            o.millis("time", u128::from(time.as_nanos()));
            o.text("name", "loglevel:warning");
            o.object("data", |o| o.text("message", &message));
        });
    }

    /// Returns whether the sink has failed.
    pub fn failed(&self) -> bool {
        self.sink.is_none()
    }

    /// Returns the error of the sink, for instance a full disk, and removes it. The bytes since the last
    /// [`flush`](Self::flush) are lost, and so is the rest of the trace.
    pub fn take_error(&mut self) -> Option<std::io::Error> {
        self.error.take()
    }

    /// Writes all buffered bytes to the sink.
    pub fn flush(&mut self) {
        let Some(sink) = &mut self.sink else { return };
        if let Err(error) = sink.write_all(self.buffer.as_bytes()).and_then(|()| sink.flush()) {
            (self.sink, self.error) = (None, Some(error));
        }
        self.buffer.clear();
    }

    /// Stores the parts of an event on which later events depend.
    fn learn(&mut self, event: &TraceEvent<'_>) {
        match *event {
            TraceEvent::Parameters { local, parameters } => {
                // RFC 9000 §18.2: at most 20, which the decoder has checked.
                let exponent = u32::try_from(parameters.ack_delay_exponent.min(20)).unwrap_or(20);
                if local {
                    self.context.local_ack_delay_exponent = exponent;
                } else {
                    self.context.remote_ack_delay_exponent = exponent;
                }
            }
            TraceEvent::PathAssigned { path, .. } => {
                self.tuples.insert(path, self.next_tuple);
                self.next_tuple += 1;
                if self.tuples.len() > MAX_PATHS {
                    self.tuples.pop_first();
                }
            }
            _ => {}
        }
    }

    /// Returns the path's TupleID. It is empty for the connection's first tuple.
    fn tuple_id(&self, path: Option<PathId>) -> String {
        path.and_then(|path| self.tuples.get(&path)).map(u64::to_string).unwrap_or_default()
    }
}

impl Observer for Qlog {
    fn event(&mut self, time: Time, event: &TraceEvent<'_>) {
        if self.sink.is_none() {
            return;
        }
        self.learn(event);
        let Some(name) = event::name(event) else { return };
        let path = event::path(event);
        let tuple = self.tuple_id(path);
        let is_end = matches!(event, TraceEvent::Closed { .. });
        let context = self.context;
        for owner in event::key_owners(event) {
            self.record(time, is_end, |o| {
                o.millis("time", u128::from(time.as_nanos()));
                o.text("name", &format!("quic:{name}"));
                if let Some(path) = path {
                    o.number("path_id", u64::from(path.0));
                }
                if !tuple.is_empty() {
                    o.text("tuple", &tuple);
                }
                o.object("data", |o| event::write_data(o, event, &context, *owner, &tuple));
            });
        }
        if self.buffer.len() >= BUFFER || is_end {
            self.flush();
        }
    }
}

impl Drop for Qlog {
    fn drop(&mut self) {
        self.flush();
    }
}

impl fmt::Debug for Qlog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Qlog").field("side", &self.context.side).field("failed", &self.failed()).finish()
    }
}

fn write_record(out: &mut String, fill: impl FnOnce(&mut json::Object<'_>)) {
    out.push(RECORD_SEPARATOR);
    json::object(out, fill);
    out.push('\n');
}

fn write_header(out: &mut String, info: &TraceInfo) {
    write_record(out, |o| {
        o.text("file_schema", "urn:ietf:params:qlog:file:sequential");
        o.text("serialization_format", "application/qlog+json-seq");
        o.text("title", &info.title);
        o.object("trace", |o| {
            o.object("common_fields", |o| {
                o.hex("group_id", &info.group_id);
                o.text("time_format", "relative_to_epoch");
                o.object("reference_time", |o| match info.clock {
                    Clock::Unix => {
                        o.text("clock_type", "system");
                        o.text("epoch", "1970-01-01T00:00:00.000Z");
                    }
                    Clock::Virtual => {
                        o.text("clock_type", "monotonic");
                        o.text("epoch", "unknown");
                    }
                });
            });
            o.object("vantage_point", |o| {
                o.text("type", if info.side.is_client() { "client" } else { "server" });
            });
            // A draft's event schema has the draft's number in its name (draft-ietf-quic-qlog-quic-events-12
            // §2.1).
            o.array("event_schemas", |a| {
                a.text("urn:ietf:params:qlog:events:quic-12");
                a.text("urn:ietf:params:qlog:events:http3-12");
                // draft-ietf-quic-qlog-main-schema-13 §8.
                a.text("urn:ietf:params:qlog:events:loglevel-13");
            });
        });
    });
}

#[cfg(test)]
mod tests;
