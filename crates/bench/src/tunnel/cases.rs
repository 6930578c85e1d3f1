//! Cases of the measurement: their links, and the traffic over them.

use std::time::Duration;

use anabranch_lab::link::{Jitter, LinkSpec};

/// Maximum UDP payload on Ethernet over IPv4, in bytes.
const MTU: usize = 1_472;

/// A link between the tunnel's two ends.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Link {
    pub(super) mbps: f64,
    /// Delay of each direction, in milliseconds.
    pub(super) delay: u64,
    /// Maximum additional delay of a packet, in milliseconds.
    pub(super) jitter: u64,
    /// Share of the packets that are lost, in percent.
    pub(super) loss: f64,
}

impl Link {
    const fn new(mbps: f64, delay: u64) -> Self {
        Self { mbps, delay, jitter: 0, loss: 0.0 }
    }

    const fn jitter(self, jitter: u64) -> Self {
        Self { jitter, ..self }
    }

    const fn loss(self, loss: f64) -> Self {
        Self { loss, ..self }
    }

    /// Returns the link with a queue of one bandwidth-delay product.
    pub(super) fn spec(&self) -> LinkSpec {
        let spec = LinkSpec::new((self.mbps * 1e6) as u64, Duration::from_millis(2 * self.delay)).mtu(MTU);
        let spec =
            if self.jitter > 0 { spec.both(Jitter::new(Duration::from_millis(self.jitter))) } else { spec };
        if self.loss > 0.0 { spec.loss(self.loss / 100.0) } else { spec }
    }
}

/// Traffic of a case, and what is measured.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Kind {
    /// One TCP flow, from the target or to it.
    Tcp { up: bool },
    /// One TCP flow from the target, while the first link is dead for a time.
    Outage,
    /// One QUIC connection through the tunnel, from the target.
    Quic,
    /// One flow of UDP datagrams of a length in bytes, at a rate in Mbit/s of payload, to the target.
    Udp { mbps: f64, len: usize },
    /// The same kind of flow through WireGuard in user space, for comparison.
    WireGuard { mbps: f64, len: usize },
    /// Memory of the proxy for each of many idle flows.
    Idle { udp: bool },
    /// One download over HTTP/3 without a tunnel, for comparison.
    Plain,
}

/// One row of the table.
#[derive(Clone, Debug)]
pub(super) struct Case {
    pub(super) name: String,
    pub(super) links: &'static [Link],
    pub(super) kind: Kind,
}

const EQUAL: &[Link] = &[Link::new(100.0, 25), Link::new(100.0, 25)];
const UNEQUAL: &[Link] = &[Link::new(300.0, 10), Link::new(80.0, 30)];
const DOWN: Kind = Kind::Tcp { up: false };

/// Cases without the profiles. Those without links are carried over the loopback interface.
const CASES: &[(&str, &[Link], Kind)] = &[
    ("tcp-2x100", EQUAL, DOWN),
    ("tcp-2x100-up", EQUAL, Kind::Tcp { up: true }),
    ("tcp-300+80", UNEQUAL, DOWN),
    ("tcp-300+80-up", UNEQUAL, Kind::Tcp { up: true }),
    ("udp-350", UNEQUAL, Kind::Udp { mbps: 350.0, len: 1_100 }),
    ("udp-300", UNEQUAL, Kind::Udp { mbps: 300.0, len: 1_100 }),
    ("outage", EQUAL, Kind::Outage),
    ("packets-160", &[], Kind::Udp { mbps: 1_000.0, len: 160 }),
    ("packets-160-wireguard", &[], Kind::WireGuard { mbps: 1_000.0, len: 160 }),
    ("tcp-loopback", &[], DOWN),
    ("http3-loopback", &[], Kind::Plain),
    ("idle-tcp", &[], Kind::Idle { udp: false }),
    ("idle-udp", &[], Kind::Idle { udp: true }),
];

/// Pairs of links as users have them. Each carries one TCP flow (`profile-NAME`) and one QUIC connection (`quic-NAME`).
const PROFILES: &[(&str, [Link; 2])] = &[
    ("baseline", [Link::new(50.0, 20), Link::new(50.0, 20)]),
    ("delay-40", [Link::new(50.0, 20), Link::new(50.0, 40)]),
    ("delay-70", [Link::new(50.0, 20), Link::new(50.0, 70)]),
    ("delay-120", [Link::new(50.0, 20), Link::new(50.0, 120)]),
    ("delay-320", [Link::new(50.0, 20), Link::new(50.0, 320)]),
    ("jitter-5", [Link::new(50.0, 20), Link::new(50.0, 20).jitter(5)]),
    ("jitter-20", [Link::new(50.0, 20), Link::new(50.0, 20).jitter(20)]),
    ("loss-0.5", [Link::new(50.0, 20), Link::new(50.0, 20).loss(0.5)]),
    ("loss-2", [Link::new(50.0, 20), Link::new(50.0, 20).loss(2.0)]),
    ("rate-50+12", [Link::new(50.0, 20), Link::new(12.0, 20)]),
    ("rate-100+10", [Link::new(100.0, 20), Link::new(10.0, 20)]),
    ("dual-lte", [Link::new(40.0, 30).jitter(5).loss(0.5), Link::new(25.0, 45).jitter(8).loss(0.5)]),
    ("fibre+lte", [Link::new(300.0, 8), Link::new(30.0, 40).jitter(8).loss(0.5)]),
    ("lte+starlink", [Link::new(40.0, 35).jitter(8), Link::new(100.0, 50).jitter(25).loss(1.0)]),
    ("lte+geo", [Link::new(40.0, 35), Link::new(20.0, 320).jitter(20).loss(0.5)]),
    ("congested", [Link::new(20.0, 50).jitter(20).loss(2.0), Link::new(15.0, 60).jitter(25).loss(2.0)]),
];

/// Returns all cases, in the order of the table.
pub(super) fn all() -> Vec<Case> {
    let own = CASES.iter().map(|&(name, links, kind)| Case { name: name.to_owned(), links, kind });
    let profiles = |prefix: &'static str, kind: Kind| {
        PROFILES.iter().map(move |(name, links)| Case { name: format!("{prefix}-{name}"), links, kind })
    };
    own.chain(profiles("profile", DOWN)).chain(profiles("quic", Kind::Quic)).collect()
}

impl Case {
    /// Returns the sum of the links' rates; `None` without links.
    pub(super) fn sum(&self) -> Option<f64> {
        (!self.links.is_empty()).then(|| self.links.iter().map(|link| link.mbps).sum())
    }

    /// Returns whether `pattern` names the case: its whole name, or the beginning before a dash.
    pub(super) fn is_named(&self, pattern: &str) -> bool {
        let rest = self.name.strip_prefix(pattern);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_differ_and_stand_for_groups() {
        let cases = all();
        let names: Vec<_> = cases.iter().map(|case| case.name.as_str()).collect();
        for (at, name) in names.iter().enumerate() {
            assert!(!names[..at].contains(name), "{name}");
        }
        let named = |pattern: &str| cases.iter().filter(|case| case.is_named(pattern)).count();
        assert_eq!(
            [named("profile"), named("quic"), named("outage"), named("tcp-2x100"), named("tcp-2")],
            [16, 16, 1, 2, 0]
        );
        assert_eq!(cases[2].sum(), Some(380.0));
    }
}
