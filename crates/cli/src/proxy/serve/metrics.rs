//! Metrics of a proxy for Prometheus. The number of values of each label is bounded: users are those of the configuration.

use std::fmt;
use std::sync::Arc;

use anabranch::Connection;
use anabranch::proxy::server::{Observer, Outcome, Proxy, Record, UserTotals};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{
    DescriptorEncoder, EncodeLabelSet, EncodeLabelValue, LabelValueEncoder, NoLabelSet,
};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use super::log::{Log, version};
use crate::serve::metrics::{Paths, Watched};

/// Transport of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Transport {
    Quic,
    Tcp,
}

impl EncodeLabelValue for Transport {
    fn encode(&self, encoder: &mut LabelValueEncoder<'_>) -> fmt::Result {
        fmt::Write::write_str(
            encoder,
            match self {
                Self::Quic => "quic",
                Self::Tcp => "tcp",
            },
        )
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfTransport {
    transport: Transport,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfTunnel {
    protocol: &'static str,
    carried: &'static str,
    outcome: &'static str,
    refused: &'static str,
}

/// All metrics of a proxy except those of users, which come from [`Proxy::totals`].
#[derive(Debug)]
pub(super) struct Metrics {
    registry: Registry,
    active: Family<OfTransport, Gauge>,
    tunnels: Family<OfTunnel, Counter>,
    /// Sums of `tunnels`: those that were opened and, below, those that were refused.
    opened: Counter,
    refused: Counter,
    paths: Arc<Paths>,
}

/// Number of opened tunnels that have ended, and number of refused ones.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ended {
    pub(super) opened: u64,
    pub(super) refused: u64,
}

/// Observer that counts tunnels and writes the access log.
struct Counting {
    tunnels: Family<OfTunnel, Counter>,
    opened: Counter,
    refused: Counter,
    log: Log,
}

impl Observer for Counting {
    fn ended(&self, record: &Record) {
        let is_refused = matches!(record.outcome, Outcome::Refused(_));
        let refused = if is_refused { "true" } else { "false" };
        if is_refused { &self.refused } else { &self.opened }.inc();
        let label = OfTunnel {
            protocol: version(record),
            carried: record.carried.name(),
            outcome: record.outcome.name(),
            refused,
        };
        self.tunnels.get_or_create(&label).inc();
        self.log.write(record);
    }
}

impl Metrics {
    pub(super) fn new() -> Self {
        let mut registry = Registry::with_prefix("anabranch");
        let (active, tunnels) = (Family::default(), Family::default());
        let paths = Arc::new(Paths::default());
        registry.register("connections_active", "Connections that are open", Family::clone(&active));
        registry.register(
            "proxy_tunnels",
            "Tunnels that have ended or were refused",
            Family::clone(&tunnels),
        );
        registry.register_collector(Box::new(Arc::clone(&paths)));
        Self { registry, active, tunnels, opened: Counter::default(), refused: Counter::default(), paths }
    }

    /// Returns the observer for the proxy.
    pub(super) fn observer(&self, log: Log) -> Arc<dyn Observer> {
        let (opened, refused) = (self.opened.clone(), self.refused.clone());
        Arc::new(Counting { tunnels: self.tunnels.clone(), opened, refused, log })
    }

    /// Counts an open connection until the returned value is dropped.
    pub(super) fn connection(&self, transport: Transport) -> Open {
        let active = self.active.get_or_create_owned(&OfTransport { transport });
        active.inc();
        Open(active)
    }

    /// Includes a connection's paths in the metrics until the returned value is dropped.
    pub(super) fn watch(&self, connection: &Connection) -> Watched {
        self.paths.watch(connection.clone())
    }

    /// Returns the open connections with their unique numbers.
    pub(super) fn connections(&self) -> Vec<(u64, Connection)> {
        self.paths.open()
    }

    /// Returns the numbers of tunnels that have ended.
    pub(super) fn ended(&self) -> Ended {
        Ended { opened: self.opened.get(), refused: self.refused.get() }
    }

    /// Returns all metrics in the text format.
    pub(super) fn text(&self, proxy: &Proxy) -> String {
        let mut users = Registry::with_prefix("anabranch");
        users.register_collector(Box::new(UsersOf(proxy.clone())));
        let (mut text, mut of_users) = (String::new(), String::new());
        // Writing to a string cannot fail.
        let _ = encode(&mut text, &self.registry);
        let _ = encode(&mut of_users, &users);
        // The text has one end marker only.
        format!("{}{of_users}", text.trim_end_matches("# EOF\n"))
    }
}

/// Count of an open connection, until it is dropped.
#[derive(Debug)]
pub(super) struct Open(Gauge);

impl Drop for Open {
    fn drop(&mut self) {
        self.0.dec();
    }
}

/// Collector of the totals of all users.
#[derive(Debug)]
struct UsersOf(Proxy);

impl Collector for UsersOf {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let totals = self.0.totals();
        type Count = fn(&UserTotals) -> u64;
        let counters: [(&str, &str, Count); 3] = [
            ("proxy_user_sent_bytes", "Bytes of payload from a user to targets", |totals| totals.sent),
            ("proxy_user_received_bytes", "Bytes of payload from targets to a user", |totals| {
                totals.received
            }),
            ("proxy_user_dropped_datagrams", "Datagrams of a user that were dropped", |totals| {
                totals.dropped
            }),
        ];
        let help = "Tunnels of a user that are open";
        let mut metric =
            encoder.encode_descriptor("proxy_user_tunnels_active", help, None, MetricType::Gauge)?;
        for (user, totals) in &totals {
            let flows = i64::try_from(totals.flows).unwrap_or(i64::MAX);
            metric.encode_family(&[("user", user.as_str())])?.encode_gauge(&flows)?;
        }
        for (name, help, count) in counters {
            let mut metric = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
            for (user, totals) in &totals {
                let label = [("user", user.as_str())];
                let mut family = metric.encode_family(&label)?;
                family.encode_counter::<NoLabelSet, _, u64>(&count(totals), None)?;
            }
        }
        Ok(())
    }
}
