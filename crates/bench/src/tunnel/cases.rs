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
    /// One flow of UDP datagrams of a length in bytes, at a rate in Mbit/s of payload, to the target.
    Udp { mbps: f64, len: usize },
    /// Memory of the proxy for each of many idle flows.
    Idle { udp: bool },
    /// One download over HTTP/3 without a tunnel, for comparison.
    Plain,
}

/// One row of the table.
#[derive(Clone, Copy, Debug)]
pub(super) struct Case {
    pub(super) name: &'static str,
    pub(super) links: &'static [Link],
    pub(super) kind: Kind,
}

const EQUAL: &[Link] = &[Link::new(100.0, 25), Link::new(100.0, 25)];
const UNEQUAL: &[Link] = &[Link::new(300.0, 10), Link::new(80.0, 30)];
const DOWN: Kind = Kind::Tcp { up: false };

const fn case(name: &'static str, links: &'static [Link], kind: Kind) -> Case {
    Case { name, links, kind }
}

const fn profile(name: &'static str, links: &'static [Link; 2]) -> Case {
    Case { name, links, kind: DOWN }
}

/// All cases. Those without links use the loopback interface directly.
pub(super) const CASES: &[Case] = &[
    case("tcp-2x100", EQUAL, DOWN),
    case("tcp-2x100-up", EQUAL, Kind::Tcp { up: true }),
    case("tcp-300+80", UNEQUAL, DOWN),
    case("tcp-300+80-up", UNEQUAL, Kind::Tcp { up: true }),
    case("udp-350", UNEQUAL, Kind::Udp { mbps: 350.0, len: 1_100 }),
    case("udp-300", UNEQUAL, Kind::Udp { mbps: 300.0, len: 1_100 }),
    case("outage", EQUAL, Kind::Outage),
    case("packets-160", &[], Kind::Udp { mbps: 1_000.0, len: 160 }),
    case("tcp-loopback", &[], DOWN),
    case("http3-loopback", &[], Kind::Plain),
    case("idle-tcp", &[], Kind::Idle { udp: false }),
    case("idle-udp", &[], Kind::Idle { udp: true }),
    profile("profile-baseline", &[Link::new(50.0, 20), Link::new(50.0, 20)]),
    profile("profile-delay-40", &[Link::new(50.0, 20), Link::new(50.0, 40)]),
    profile("profile-delay-70", &[Link::new(50.0, 20), Link::new(50.0, 70)]),
    profile("profile-delay-120", &[Link::new(50.0, 20), Link::new(50.0, 120)]),
    profile("profile-delay-320", &[Link::new(50.0, 20), Link::new(50.0, 320)]),
    profile("profile-jitter-5", &[Link::new(50.0, 20), Link::new(50.0, 20).jitter(5)]),
    profile("profile-jitter-20", &[Link::new(50.0, 20), Link::new(50.0, 20).jitter(20)]),
    profile("profile-loss-0.5", &[Link::new(50.0, 20), Link::new(50.0, 20).loss(0.5)]),
    profile("profile-loss-2", &[Link::new(50.0, 20), Link::new(50.0, 20).loss(2.0)]),
    profile("profile-rate-50+12", &[Link::new(50.0, 20), Link::new(12.0, 20)]),
    profile("profile-rate-100+10", &[Link::new(100.0, 20), Link::new(10.0, 20)]),
    profile(
        "profile-dual-lte",
        &[Link::new(40.0, 30).jitter(5).loss(0.5), Link::new(25.0, 45).jitter(8).loss(0.5)],
    ),
    profile("profile-fibre+lte", &[Link::new(300.0, 8), Link::new(30.0, 40).jitter(8).loss(0.5)]),
    profile(
        "profile-lte+starlink",
        &[Link::new(40.0, 35).jitter(8), Link::new(100.0, 50).jitter(25).loss(1.0)],
    ),
    profile("profile-lte+geo", &[Link::new(40.0, 35), Link::new(20.0, 320).jitter(20).loss(0.5)]),
    profile(
        "profile-congested",
        &[Link::new(20.0, 50).jitter(20).loss(2.0), Link::new(15.0, 60).jitter(25).loss(2.0)],
    ),
];

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
        let names: Vec<_> = CASES.iter().map(|case| case.name).collect();
        for (at, name) in names.iter().enumerate() {
            assert!(!names[..at].contains(name), "{name}");
        }
        let named = |pattern: &str| CASES.iter().filter(|case| case.is_named(pattern)).count();
        assert_eq!([named("profile"), named("outage"), named("tcp-2x100"), named("tcp-2")], [16, 1, 2, 0]);
        assert_eq!(CASES[2].sum(), Some(380.0));
    }
}
