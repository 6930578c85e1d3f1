//! Cases of the measurement: their links, and the traffic over them.

use anabranch_lab::tunnel::{Link, PROFILES};

/// Traffic of a case, and what is measured.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Kind {
    /// One TCP flow, from the target or to it.
    Tcp { up: bool },
    /// One TCP flow from the target, while the first link is dead for a time.
    Outage,
    /// One QUIC connection through the tunnel, from the target. With `ordered`, packets leave the tunnel in their order.
    Quic { ordered: bool },
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

/// Returns all cases, in the order of the table.
pub(super) fn all() -> Vec<Case> {
    let own = CASES.iter().map(|&(name, links, kind)| Case { name: name.to_owned(), links, kind });
    let profiles = |prefix: &'static str, kind: Kind| {
        PROFILES.iter().map(move |(name, links)| Case { name: format!("{prefix}-{name}"), links, kind })
    };
    let quic = |ordered| Kind::Quic { ordered };
    own.chain(profiles("profile", DOWN))
        .chain(profiles("quic", quic(false)))
        .chain(profiles("ordered", quic(true)))
        .collect()
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
            [
                named("profile"),
                named("quic"),
                named("ordered"),
                named("outage"),
                named("tcp-2x100"),
                named("tcp-2")
            ],
            [16, 16, 16, 1, 2, 0]
        );
        assert_eq!(cases[2].sum(), Some(380.0));
    }
}
