//! Traffic of QUIC connections by path. Each scrape reads open connections; the traffic of a connection that
//! ends is added to the totals.

use anabranch::{Connection, ConnectionStats, REORDERING_DELAYS, REORDERING_DISTANCES, ReorderingStats};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;

/// Number of path IDs with metrics of their own; higher path IDs are counted as `other`.
const MAX_PATHS: u32 = 8;

/// The paths of all connections.
#[derive(Debug, Default)]
pub(crate) struct Paths(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    next: u64,
    /// Open connections. A handle does not keep a connection open that the peer closes, and it is dropped
    /// with the connection's task.
    open: BTreeMap<u64, Connection>,
    /// Traffic of ended connections.
    ended: Totals,
    /// Counters as last exported; a counter must never decrease.
    shown: Totals,
    /// Closed paths of ended connections.
    closed: Closed,
    /// Overtaken packets of connections that have ended.
    overtaken: Overtaken,
    /// Overtaken packets of all connections at the last export.
    overtaken_shown: Overtaken,
}

/// Number of received 1-RTT packets, and statistics of those that were overtaken.
#[derive(Clone, Copy, Debug, Default)]
struct Overtaken {
    packets: u64,
    stats: ReorderingStats,
}

impl Overtaken {
    fn add(&mut self, stats: &ConnectionStats) {
        self.packets += stats.merged.data_packets;
        self.packets += stats.all_paths().map(|path| path.data_packets).sum::<u64>();
        self.stats.add(&stats.reordering());
    }
}

/// Traffic by path ID. The traffic of all paths with an ID of [`MAX_PATHS`] or more is summed up in the entry
/// [`MAX_PATHS`], which is exported as `other`.
type Totals = BTreeMap<u32, Total>;

/// Number of closed paths, by reason.
type Closed = BTreeMap<&'static str, u64>;

/// Traffic on all paths with the same path ID.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Total {
    sent_bytes: u64,
    received_bytes: u64,
    sent_packets: u64,
    lost_packets: u64,
    /// Sum of the smoothed round-trip times of measured paths in open connections, and the number of these
    /// paths.
    rtt_seconds: f64,
    paths: u32,
}

/// Number of paths of open connections, by state.
type States = BTreeMap<&'static str, u32>;

impl Paths {
    pub(crate) fn watch(self: &Arc<Self>, connection: Connection) -> Watched {
        let mut state = self.lock();
        let id = state.next;
        state.next += 1;
        state.open.insert(id, connection);
        Watched { paths: Arc::clone(self), id }
    }

    /// Returns the open connections, with numbers that no other ones have.
    pub(crate) fn open(&self) -> Vec<(u64, Connection)> {
        self.lock().open.iter().map(|(id, connection)| (*id, connection.clone())).collect()
    }

    /// Returns the number of open connections, and the bytes that all connections have sent and received.
    pub(super) fn moved(&self) -> (usize, u64, u64) {
        let mut state = self.lock();
        let totals = state.totals();
        let sum = |bytes: fn(&Total) -> u64| totals.values().map(bytes).sum();
        (state.open.len(), sum(|total| total.sent_bytes), sum(|total| total.received_bytes))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Guard of a connection whose paths are included in the metrics until it is dropped.
#[derive(Debug)]
pub(crate) struct Watched {
    paths: Arc<Paths>,
    id: u64,
}

impl Drop for Watched {
    fn drop(&mut self) {
        let mut state = self.paths.lock();
        let ended = state.open.remove(&self.id);
        if let Some(connection) = &ended {
            let stats = connection.stats();
            add(&mut state.ended, &stats, false);
            count_closed(&mut state.closed, &stats);
            state.overtaken.add(&stats);
        }
        drop(state);
    }
}

impl State {
    fn states(&self) -> States {
        let mut states = States::new();
        for path in self.open.values().flat_map(Connection::paths) {
            *states.entry(path.state.name()).or_default() += 1;
        }
        states
    }

    fn closed(&self) -> Closed {
        let mut closed = self.closed.clone();
        self.open.values().for_each(|connection| count_closed(&mut closed, &connection.stats()));
        closed
    }

    /// Returns the counts of all connections, or those of the previous scrape if they are larger: an exported counter
    /// must never decrease.
    fn overtaken(&mut self) -> Overtaken {
        let mut now = self.overtaken;
        self.open.values().for_each(|connection| now.add(&connection.stats()));
        if now.packets >= self.overtaken_shown.packets {
            self.overtaken_shown = now;
        }
        self.overtaken_shown
    }

    fn totals(&mut self) -> Totals {
        let mut now = self.ended.clone();
        self.open.values().for_each(|connection| add(&mut now, &connection.stats(), true));
        for (id, shown) in &self.shown {
            now.entry(*id).or_default().keep_at_least(shown);
        }
        self.shown.clone_from(&now);
        now
    }
}

/// Counts the closed paths of a connection that has ended.
fn count_closed(closed: &mut Closed, stats: &ConnectionStats) {
    for closure in stats.all_paths().filter_map(|path| path.closure) {
        *closed.entry(closure.reason()).or_default() += 1;
    }
    if stats.merged.paths > 0 {
        *closed.entry("unknown").or_default() += stats.merged.paths;
    }
}

fn add(totals: &mut Totals, stats: &ConnectionStats, open: bool) {
    if stats.merged.paths > 0 {
        let total = totals.entry(MAX_PATHS).or_default();
        total.sent_bytes += stats.merged.bytes_sent;
        total.received_bytes += stats.merged.bytes_received;
        total.sent_packets += stats.merged.sent_packets;
        total.lost_packets += stats.merged.lost_packets;
    }
    for path in stats.all_paths() {
        let total = totals.entry(path.id.0.min(MAX_PATHS)).or_default();
        total.sent_bytes += path.bytes_sent;
        total.received_bytes += path.bytes_received;
        total.sent_packets += path.recovery.sent_packets;
        total.lost_packets += path.recovery.lost_packets;
        if open && path.closure.is_none() && path.rtt_via.is_some() {
            total.rtt_seconds += path.smoothed_rtt.as_secs_f64();
            total.paths += 1;
        }
    }
}

impl Total {
    fn keep_at_least(&mut self, before: &Self) {
        self.sent_bytes = self.sent_bytes.max(before.sent_bytes);
        self.received_bytes = self.received_bytes.max(before.received_bytes);
        self.sent_packets = self.sent_packets.max(before.sent_packets);
        self.lost_packets = self.lost_packets.max(before.lost_packets);
    }
}

impl Collector for Paths {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let (totals, states, closed, overtaken) = {
            let mut state = self.lock();
            (state.totals(), state.states(), state.closed(), state.overtaken())
        };
        type Counter = (&'static str, &'static str, fn(&Total) -> u64);
        let counters: [Counter; 4] = [
            ("quic_sent_bytes", "Bytes of UDP payload sent", |total| total.sent_bytes),
            ("quic_received_bytes", "Bytes of UDP payload received", |total| total.received_bytes),
            ("quic_sent_packets", "Packets sent", |total| total.sent_packets),
            ("quic_lost_packets", "Packets lost", |total| total.lost_packets),
        ];
        for (name, help, value) in counters {
            let mut metric = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
            for (id, total) in &totals {
                let labels = [("path", label(*id))];
                metric.encode_family(&labels)?.encode_counter::<NoLabelSet, _, u64>(&value(total), None)?;
            }
        }
        let help = "Paths that were closed before their connection";
        let mut metric = encoder.encode_descriptor("quic_closed_paths", help, None, MetricType::Counter)?;
        for (reason, paths) in closed {
            metric
                .encode_family(&[("reason", reason)])?
                .encode_counter::<NoLabelSet, _, u64>(&paths, None)?;
        }
        let help = "Mean smoothed round-trip time of open connections, of paths that have been measured";
        let mut metric = encoder.encode_descriptor("quic_rtt_seconds", help, None, MetricType::Gauge)?;
        for (id, total) in totals.iter().filter(|(_, total)| total.paths > 0) {
            let labels = [("path", label(*id))];
            metric.encode_family(&labels)?.encode_gauge(&(total.rtt_seconds / f64::from(total.paths)))?;
        }
        let help = "Paths of open connections";
        let mut metric = encoder.encode_descriptor("quic_paths", help, None, MetricType::Gauge)?;
        for (state, paths) in states {
            metric.encode_family(&[("state", state)])?.encode_gauge(&i64::from(paths))?;
        }
        encode_overtaken(&mut encoder, &overtaken)
    }
}

fn encode_overtaken(encoder: &mut DescriptorEncoder<'_>, overtaken: &Overtaken) -> fmt::Result {
    let Overtaken { packets, stats } = overtaken;
    let help = "1-RTT packets received";
    let mut metric = encoder.encode_descriptor("quic_received_packets", help, None, MetricType::Counter)?;
    metric.encode_counter::<NoLabelSet, _, u64>(packets, None)?;
    let classes = |limits: &[f64], counts: &[u64]| -> Vec<(f64, u64)> {
        limits.iter().copied().chain([f64::INFINITY]).zip(counts.iter().copied()).collect()
    };
    let help = "Packet numbers by which received packets had been overtaken";
    let mut metric =
        encoder.encode_descriptor("quic_reordering_distance_packets", help, None, MetricType::Histogram)?;
    let limits = REORDERING_DISTANCES.map(|limit| limit as f64);
    let buckets = classes(&limits, &stats.distances);
    metric.encode_histogram::<NoLabelSet>(stats.total_distance as f64, stats.packets(), &buckets, None)?;
    let help = "Seconds since received packets had been overtaken";
    let mut metric =
        encoder.encode_descriptor("quic_reordering_delay_seconds", help, None, MetricType::Histogram)?;
    let buckets = classes(&REORDERING_DELAYS.map(|limit| limit.as_secs_f64()), &stats.delays);
    let timed = stats.delays.iter().sum();
    metric.encode_histogram::<NoLabelSet>(stats.total_delay.as_secs_f64(), timed, &buckets, None)
}

fn label(id: u32) -> String {
    if id < MAX_PATHS { id.to_string() } else { "other".to_owned() }
}

#[cfg(test)]
mod tests {
    use anabranch::{Endpoint, SelfSigned, config};
    use prometheus_client::encoding::text::encode;
    use prometheus_client::registry::Registry;

    use super::*;

    #[test]
    fn identifiers_beyond_the_bound_share_a_label() {
        assert_eq!(
            (label(0), label(MAX_PATHS - 1), label(MAX_PATHS)),
            ("0".into(), "7".into(), "other".into())
        );
    }

    /// Counters survive the end of a connection; its round-trip time does not.
    #[tokio::test]
    async fn connections_that_end_are_added_up() {
        let identity = SelfSigned::new(["localhost"]).unwrap();
        let loopback = ([127, 0, 0, 1], 0).into();
        let server = Endpoint::server(identity.server_config(["x"]).unwrap(), loopback).unwrap();
        let address = server.local_addr().unwrap();
        let client = Endpoint::client(loopback).unwrap();
        let config = config::client(identity.roots().unwrap(), ["x"]).unwrap();
        let connecting = client.connect_with(&config, address, "localhost").unwrap();
        let accepting = async { server.accept().await.unwrap().await.unwrap() };
        let (connection, accepted) = tokio::join!(connecting, accepting);
        let connection = connection.unwrap();

        let paths = Arc::new(Paths::default());
        let mut registry = Registry::default();
        registry.register_collector(Box::new(Arc::clone(&paths)));
        let text = || {
            let mut text = String::new();
            encode(&mut text, &registry).unwrap();
            text
        };
        let sent = |text: &str| -> u64 {
            let line = text.lines().find_map(|line| line.strip_prefix("quic_sent_bytes_total{path=\"0\"} "));
            line.unwrap_or("0").parse().unwrap()
        };
        let watched = paths.watch(accepted.clone());
        let while_open = text();
        assert!(sent(&while_open) > 1_000, "{while_open}");
        assert!(while_open.contains("quic_rtt_seconds{path=\"0\"}"), "{while_open}");
        assert!(while_open.contains("quic_paths{state=\"open\"} 1"), "{while_open}");
        let received = while_open.lines().find_map(|line| line.strip_prefix("quic_received_packets_total "));
        assert!(received.is_some_and(|packets| packets != "0"), "{while_open}");
        for metric in ["distance_packets", "delay_seconds"] {
            let last = format!("quic_reordering_{metric}_bucket{{le=\"+Inf\"}} ");
            assert!(while_open.contains(&last), "{while_open}");
        }
        connection.close(anabranch::VarInt::ZERO, b"");
        accepted.closed().await;
        drop(watched);
        let afterwards = text();
        assert!(sent(&afterwards) >= sent(&while_open) && !afterwards.contains("quic_rtt_seconds{"));
        assert!(paths.lock().open.is_empty());
    }
}
