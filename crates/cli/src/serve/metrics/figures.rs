//! Counters, gauges and histograms of a server: connections, handshakes, requests and content.

use std::fmt::{self, Write};
use std::sync::Arc;

use anabranch::Connection;
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{EncodeLabelSet, EncodeLabelValue, LabelValueEncoder};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;

use super::super::log::Entry;
use super::super::protocol::Protocol;
use super::memory::FileMemory;
use super::paths::{Paths, Watched};
use crate::files::Memory;

/// Transport of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(in crate::serve) enum Transport {
    Quic,
    Tcp,
}

/// Outcome of a handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(in crate::serve) enum Handshake {
    Completed,
    Failed,
}

impl EncodeLabelValue for Transport {
    fn encode(&self, encoder: &mut LabelValueEncoder<'_>) -> fmt::Result {
        encoder.write_str(match self {
            Self::Quic => "quic",
            Self::Tcp => "tcp",
        })
    }
}

impl EncodeLabelValue for Handshake {
    fn encode(&self, encoder: &mut LabelValueEncoder<'_>) -> fmt::Result {
        encoder.write_str(match self {
            Self::Completed => "completed",
            Self::Failed => "failed",
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfTransport {
    transport: Transport,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfHandshake {
    transport: Transport,
    result: Handshake,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfProtocol {
    protocol: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfStatus {
    protocol: &'static str,
    /// HTTP status; 0 if the client had gone before there was a response.
    status: u16,
}

/// All metrics of a server.
#[derive(Debug)]
pub(in crate::serve) struct Metrics {
    registry: Registry,
    active: Family<OfTransport, Gauge>,
    connections: Family<OfTransport, Counter>,
    handshakes: Family<OfHandshake, Counter>,
    requests: Family<OfStatus, Counter>,
    content: Family<OfProtocol, Counter>,
    aborted: Family<OfProtocol, Counter>,
    durations: Family<OfProtocol, Histogram, fn() -> Histogram>,
    paths: Arc<Paths>,
}

/// Creates a histogram with buckets from 100 µs to about 105 s.
fn durations() -> Histogram {
    Histogram::new(exponential_buckets(0.000_1, 4.0, 11))
}

impl Metrics {
    /// Creates the metrics. `memory` is the memory of files that are being sent.
    pub(in crate::serve) fn new(memory: Memory) -> Self {
        let mut metrics = Self {
            registry: Registry::with_prefix("anabranch"),
            active: Family::default(),
            connections: Family::default(),
            handshakes: Family::default(),
            requests: Family::default(),
            content: Family::default(),
            durations: Family::new_with_constructor(durations),
            aborted: Family::default(),
            paths: Arc::default(),
        };
        metrics.register(memory);
        metrics
    }

    fn register(&mut self, memory: Memory) {
        let registry = &mut self.registry;
        registry.register("connections_active", "Connections that are open", self.active.clone());
        registry.register("connections", "Connections that were begun", self.connections.clone());
        registry.register("handshakes", "Handshakes that ended", self.handshakes.clone());
        registry.register("http_requests", "Requests that ended", self.requests.clone());
        registry.register("http_content_bytes", "Bytes of content sent", self.content.clone());
        let what = "Seconds from a request to the end of its answer";
        registry.register("http_request_duration_seconds", what, self.durations.clone());
        let what = "Requests whose answers were given up before their end";
        registry.register("http_requests_aborted", what, self.aborted.clone());
        registry.register_collector(Box::new(Arc::clone(&self.paths)));
        registry.register_collector(Box::new(FileMemory(memory)));
    }

    /// Counts an open connection until the returned value is dropped.
    pub(in crate::serve) fn connection(&self, transport: Transport) -> Open {
        let label = OfTransport { transport };
        self.connections.get_or_create(&label).inc();
        let active = self.active.get_or_create_owned(&label);
        active.inc();
        Open(active)
    }

    pub(in crate::serve) fn handshake(&self, transport: Transport, result: Handshake) {
        self.handshakes.get_or_create(&OfHandshake { transport, result }).inc();
    }

    /// Returns the number of open QUIC connections, and the bytes that all connections have sent and
    /// received.
    pub(in crate::serve) fn moved(&self) -> (usize, u64, u64) {
        self.paths.moved()
    }

    /// Includes a connection's paths in the metrics until the returned value is dropped; then adds their
    /// traffic to the totals.
    pub(in crate::serve) fn watch(&self, connection: &Connection) -> Watched {
        self.paths.watch(connection.clone())
    }

    pub(in crate::serve) fn request(&self, protocol: Protocol, entry: &Entry) {
        let protocol = protocol.name();
        let label = OfProtocol { protocol };
        self.requests.get_or_create(&OfStatus { protocol, status: entry.status.unwrap_or(0) }).inc();
        self.content.get_or_create(&label).inc_by(entry.bytes);
        if !entry.complete {
            self.aborted.get_or_create(&label).inc();
        }
        self.durations.get_or_create(&label).observe(entry.duration.as_secs_f64());
    }

    /// Returns all metrics in the text format.
    pub(in crate::serve) fn text(&self) -> String {
        let mut text = String::new();
        // Writing to a string cannot fail.
        let _ = encode(&mut text, &self.registry);
        text
    }
}

/// An open connection.
#[derive(Debug)]
pub(in crate::serve) struct Open(Gauge);

impl Drop for Open {
    fn drop(&mut self) {
        self.0.dec();
    }
}
