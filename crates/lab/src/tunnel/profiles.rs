//! Pairs of links as users of tunnels have them.

use core::time::Duration;

use crate::link::{Jitter, LinkSpec};

/// Maximum UDP payload on Ethernet over IPv4, in bytes.
const MTU: usize = 1_472;

/// A link between the tunnel's two ends.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Link {
    /// Rate of each direction, in Mbit/s.
    pub mbps: f64,
    /// Delay of each direction, in milliseconds.
    pub delay: u64,
    /// Maximum additional delay of a packet, in milliseconds.
    pub jitter: u64,
    /// Share of the packets that are lost, in percent.
    pub loss: f64,
}

impl Link {
    /// Creates a link with this rate in Mbit/s and this delay of each direction in milliseconds.
    pub const fn new(mbps: f64, delay: u64) -> Self {
        Self { mbps, delay, jitter: 0, loss: 0.0 }
    }

    /// Sets the maximum additional delay of a packet, in milliseconds.
    #[must_use]
    pub const fn jitter(self, jitter: u64) -> Self {
        Self { jitter, ..self }
    }

    /// Sets the share of the packets that are lost, in percent.
    #[must_use]
    pub const fn loss(self, loss: f64) -> Self {
        Self { loss, ..self }
    }

    /// Returns the link with a queue of one bandwidth-delay product.
    pub fn spec(&self) -> LinkSpec {
        let spec = LinkSpec::new((self.mbps * 1e6) as u64, Duration::from_millis(2 * self.delay)).mtu(MTU);
        let spec =
            if self.jitter > 0 { spec.both(Jitter::new(Duration::from_millis(self.jitter))) } else { spec };
        if self.loss > 0.0 { spec.loss(self.loss / 100.0) } else { spec }
    }
}

/// Pairs of links as users have them, by name.
pub const PROFILES: &[(&str, [Link; 2])] = &[
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
