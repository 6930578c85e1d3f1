//! Metrics of a client for Prometheus. The number of values of each label is bounded.

use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anabranch::ConnectionId;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{DescriptorEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::link::Client;
use super::seen::{Seen, Totals};
use crate::exit::Result;
use crate::serve::metrics::{self as scrape, Paths, Watched};

/// Interval at which new connections are added to the metrics, and those that have ended are removed.
const LOOK: Duration = Duration::from_secs(1);
/// Maximum number of addresses in the tunnel that are shown.
const MAX_ADDRESSES: usize = 16;

/// Metrics of the current client.
#[derive(Debug)]
struct Metrics {
    registry: Registry,
    paths: Arc<Paths>,
    watched: Mutex<BTreeMap<ConnectionId, Watched>>,
    current: watch::Receiver<Client>,
}

/// Serves the metrics in tasks that are added to `tasks`. Returns the bound address.
pub(crate) fn serve(
    listener: std::net::TcpListener,
    current: watch::Receiver<Client>,
    tasks: &mut JoinSet<()>,
) -> Result<SocketAddr> {
    let metrics = Arc::new(Metrics::new(current));
    let looking = Arc::clone(&metrics);
    tasks.spawn(async move {
        loop {
            looking.look();
            tokio::time::sleep(LOOK).await;
        }
    });
    scrape::serve(listener, move || metrics.text(), tasks)
}

impl Metrics {
    fn new(current: watch::Receiver<Client>) -> Self {
        let mut registry = Registry::with_prefix("anabranch");
        let paths = Arc::new(Paths::default());
        registry.register_collector(Box::new(Arc::clone(&paths)));
        registry.register_collector(Box::new(Tunnels(current.borrow().seen().clone())));
        registry.register_collector(Box::new(Datagrams(current.borrow().seen().clone())));
        registry.register_collector(Box::new(Addresses(current.borrow().seen().clone())));
        registry.register_collector(Box::new(Connections(current.clone())));
        Self { registry, paths, watched: Mutex::default(), current }
    }

    /// Adds new connections of the current client, and removes those that have ended.
    fn look(&self) {
        let client = self.current.borrow().clone();
        let connections = client.proxy().connections();
        client.seen().drops().follow(&connections);
        drop(client);
        let mut watched = self.watched.lock().unwrap_or_else(PoisonError::into_inner);
        let mut before = std::mem::take(&mut *watched);
        for connection in connections {
            let id = connection.original_dcid();
            let entry = before.remove(&id).unwrap_or_else(|| self.paths.watch(connection));
            watched.insert(id, entry);
        }
    }

    fn text(&self) -> String {
        self.look();
        let mut text = String::new();
        // Writing to a string cannot fail.
        let _ = encode(&mut text, &self.registry);
        text
    }
}

/// Collector of the number of connections of the current client.
#[derive(Debug)]
struct Connections(watch::Receiver<Client>);

impl Collector for Connections {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let help = "Connections to the proxy that are open";
        let mut metric = encoder.encode_descriptor("connections_active", help, None, MetricType::Gauge)?;
        let (quic, tcp) = {
            let client = self.0.borrow();
            (client.proxy().connections().len(), client.proxy().fallback_connections())
        };
        for (transport, open) in [("quic", quic), ("tcp", tcp)] {
            let open = i64::try_from(open).unwrap_or(i64::MAX);
            metric.encode_family(&[("transport", transport)])?.encode_gauge(&open)?;
        }
        Ok(())
    }
}

/// Collector of the tunnels of programs.
#[derive(Debug)]
struct Tunnels(Seen);

impl Collector for Tunnels {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let totals: Vec<_> = self.0.kinds().iter().map(|kind| (*kind, self.0.totals(*kind))).collect();
        let help = "Tunnels of programs that are open";
        let mut metric = encoder.encode_descriptor("proxy_tunnels_active", help, None, MetricType::Gauge)?;
        for (kind, totals) in &totals {
            let active = i64::try_from(totals.active).unwrap_or(i64::MAX);
            metric.encode_family(&[("carried", kind.name())])?.encode_gauge(&active)?;
        }
        type Count = fn(&Totals) -> u64;
        let counters: [(&str, &str, Count); 4] = [
            ("proxy_tunnels_opened", "Tunnels of programs that were opened", |totals| totals.opened),
            ("proxy_tunnels_failed", "Tunnels of programs that could not be opened", |totals| totals.failed),
            ("proxy_sent_bytes", "Bytes of payload from programs to targets", |totals| totals.sent),
            ("proxy_received_bytes", "Bytes of payload from targets to programs", |totals| totals.received),
        ];
        for (name, help, count) in counters {
            let mut metric = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
            for (kind, totals) in &totals {
                let label = [("carried", kind.name())];
                let mut family = metric.encode_family(&label)?;
                family.encode_counter::<NoLabelSet, _, u64>(&count(totals), None)?;
            }
        }
        Ok(())
    }
}

/// Collector of the datagrams that were dropped.
#[derive(Debug)]
struct Datagrams(Seen);

impl Collector for Datagrams {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let dropped = self.0.drops().total();
        let help = "Datagrams and packets that were dropped, in either direction";
        let mut metric =
            encoder.encode_descriptor("proxy_dropped_datagrams", help, None, MetricType::Counter)?;
        for (why, count) in [("full", dropped.full), ("expired", dropped.expired)] {
            let label = [("reason", why)];
            metric.encode_family(&label)?.encode_counter::<NoLabelSet, _, u64>(&count, None)?;
        }
        Ok(())
    }
}

/// This host's addresses in the tunnel of a VPN.
#[derive(Debug)]
struct Addresses(Seen);

impl Collector for Addresses {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let addresses = self.0.addresses();
        if addresses.is_empty() {
            return Ok(());
        }
        let help = "Addresses of this host in the tunnel, each with the value 1";
        let mut metric = encoder.encode_descriptor("proxy_address", help, None, MetricType::Gauge)?;
        for address in addresses.iter().take(MAX_ADDRESSES) {
            metric.encode_family(&[("address", address.to_string())])?.encode_gauge(&1_i64)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::seen::Kind;
    use super::*;

    #[tokio::test]
    async fn tunnels_are_counted_by_kind() {
        let client = super::super::link::tests::client();
        let seen = client.seen().clone();
        let (_keep, current) = watch::channel(client);
        let metrics = Metrics::new(current);
        let flow = seen.open(Kind::Udp, &"host:53");
        flow.traffic().add_sent(7);
        seen.drops().count();
        assert!(!metrics.text().contains("proxy_address"));
        let addresses: Vec<_> = (0..MAX_ADDRESSES as u8 + 5).map(|n| [10, 9, 0, n].into()).collect();
        seen.set_addresses(&addresses);
        let text = metrics.text();
        assert_eq!(text.matches("anabranch_proxy_address{address=").count(), MAX_ADDRESSES);
        for line in [
            "anabranch_proxy_address{address=\"10.9.0.2\"} 1",
            "anabranch_proxy_tunnels_active{carried=\"udp\"} 1",
            "anabranch_proxy_sent_bytes_total{carried=\"udp\"} 7",
            "anabranch_proxy_tunnels_opened_total{carried=\"tcp\"} 0",
            "anabranch_connections_active{transport=\"quic\"} 0",
            "anabranch_proxy_dropped_datagrams_total{reason=\"full\"} 1",
            "anabranch_proxy_dropped_datagrams_total{reason=\"expired\"} 0",
        ] {
            assert!(text.lines().any(|found| found == line), "{line}: {text}");
        }
    }
}
