//! What the user of a path may choose.

use core::time::Duration;

use crate::congestion::Algorithm;

/// Settings of one path's recovery; the defaults are the RFCs'.
#[derive(Clone, Debug)]
pub struct Config {
    /// Round-trip time assumed before the first sample (RFC 9002 §6.2.2: 333 ms).
    pub initial_rtt: Duration,
    /// Packets sent later that must be acknowledged before a packet is lost (RFC 9002 §6.1.1: 3).
    pub packet_threshold: u64,
    /// Fraction of the round-trip time after which an overtaken packet is lost (RFC 9002 §6.1.2: 9/8).
    pub time_threshold: (u32, u32),
    /// Congestion window to start with, in packets of the path's MTU (RFC 9002 §7.2: 10).
    pub initial_window_packets: u32,
    /// Congestion controller.
    pub congestion: Algorithm,
    /// Whether packets are spread over the round trip (RFC 9002 §7.7).
    pub pacing: bool,
    /// Whether to try ECN on the path (RFC 9000 §13.4).
    pub ecn: bool,
    /// Packet sizes.
    pub mtu: MtuConfig,
    /// Seed of the jitter some controllers add to their probing; equal seeds give equal runs.
    pub seed: u64,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            initial_rtt: Duration::from_millis(333),
            packet_threshold: 3,
            time_threshold: (9, 8),
            initial_window_packets: 10,
            congestion: Algorithm::Cubic,
            pacing: true,
            ecn: true,
            mtu: MtuConfig::default(),
            seed: 0,
        }
    }
}

/// Settings of packetization-layer path MTU discovery (RFC 8899). Sizes are UDP payloads in bytes.
#[derive(Clone, Debug)]
pub struct MtuConfig {
    /// Size to start with; at least 1200 (RFC 9000 §14.1).
    pub initial: u16,
    /// Largest size to search for: what an Ethernet frame leaves over IPv4. The transport takes off what IPv6 needs more.
    pub maximum: u16,
    /// Whether to search for larger sizes at all.
    pub discovery: bool,
    /// Losses of large packets, without one getting through, after which the path is a black hole for them.
    pub black_hole_threshold: u32,
    /// How long a path that turned into a black hole keeps the base size before the search starts again.
    pub black_hole_cooldown: Duration,
    /// How long a finished search rests before larger sizes are tried again (RFC 8899 §5.1.1: 600 s).
    pub raise_interval: Duration,
}

impl Default for MtuConfig {
    fn default() -> Self {
        Self {
            initial: 1200,
            maximum: 1472,
            discovery: true,
            black_hole_threshold: 6,
            black_hole_cooldown: Duration::from_secs(60),
            raise_interval: Duration::from_secs(600),
        }
    }
}
