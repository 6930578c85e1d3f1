//! What the user of a path may choose.

use core::fmt;
use core::str::FromStr;
use core::time::Duration;

use crate::congestion::Algorithm;

/// Settings of one path's recovery; the defaults are the RFCs'.
#[derive(Clone, Debug)]
pub struct Config {
    /// Round-trip time assumed before the first sample (RFC 9002 §6.2.2: 333 ms).
    pub initial_rtt: Duration,
    /// Packets sent later that must be acknowledged before a packet is lost (RFC 9002 §6.1.1: 3).
    pub packet_threshold: u64,
    /// Fraction of the round-trip time after which an overtaken packet is lost (RFC 9002 §6.1.2: 9/8). Only for
    /// [`LossDelay::Rfc9002`].
    pub time_threshold: (u32, u32),
    /// How long a packet may be missing while newer ones are acknowledged, before it is lost for its age.
    pub loss_delay: LossDelay,
    /// Congestion window to start with (RFC 9002 §7.2: 10 packets).
    pub initial_window: InitialWindow,
    /// Congestion controller.
    pub congestion: Algorithm,
    /// Whether packets are spread over the round trip (RFC 9002 §7.7).
    pub pacing: bool,
    /// How fast, where the congestion controller does not say so itself.
    pub pacing_gain: PacingGain,
    /// What may leave at once after a rest, and how much a sender that waits wakes up for.
    pub pacing_burst: PacingBurst,
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
            loss_delay: LossDelay::Rfc9002,
            initial_window: InitialWindow::Packets(10),
            congestion: Algorithm::default(),
            pacing: true,
            pacing_gain: PacingGain::default(),
            pacing_burst: PacingBurst::Timely,
            ecn: true,
            mtu: MtuConfig::default(),
            seed: 0,
        }
    }
}

/// When a packet that newer ones have overtaken is lost for its age. How many newer ones make it lost at once is
/// [`Config::packet_threshold`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LossDelay {
    /// A fraction of the round-trip time after it was sent (RFC 9002 §6.1.2).
    Rfc9002,
    /// As the sender of the 2022 study of packet number spaces had it: it may take a quarter of the smoothed round-trip time
    /// longer than the newest acknowledged packet, at most 5 ms, and the peer's `max_ack_delay`. Reordering does not teach
    /// this rule patience.
    Study2022,
}

impl LossDelay {
    /// The names that [`FromStr`] knows.
    pub const NAMES: &[&str] = &["rfc9002", "2022"];

    /// The rule's name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Rfc9002 => "rfc9002",
            Self::Study2022 => "2022",
        }
    }
}

impl fmt::Display for LossDelay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for LossDelay {
    type Err = UnknownLossDelay;

    fn from_str(name: &str) -> Result<Self, UnknownLossDelay> {
        match name {
            "rfc9002" => Ok(Self::Rfc9002),
            "2022" => Ok(Self::Study2022),
            _ => Err(UnknownLossDelay),
        }
    }
}

/// No rule of loss detection has this name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnknownLossDelay;

impl fmt::Display for UnknownLossDelay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "unknown rule of loss detection: use one of {}", LossDelay::NAMES.join(", "))
    }
}

impl core::error::Error for UnknownLossDelay {}

/// A congestion window to start with; never less than two packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum InitialWindow {
    /// So many packets of the path's MTU, but no more than as many of 1472 bytes.
    Packets(u32),
    /// So many bytes, whatever size packets have.
    Bytes(u32),
}

/// Windows that are sent in a round-trip time, as fractions (RFC 9002 §7.7).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PacingGain {
    /// In slow start. A sending rate that doubles smoothly each round trip is 2 / ln 2 = 2.89 windows per round trip.
    pub slow_start: (u16, u16),
    /// Afterwards: a little faster than the window per round trip, so that the window is used up.
    pub otherwise: (u16, u16),
}

impl Default for PacingGain {
    fn default() -> Self {
        Self { slow_start: (26, 9), otherwise: (5, 4) }
    }
}

/// How much a paced sender sends at once (RFC 9002 §7.7).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PacingBurst {
    /// Ten packets, or what two milliseconds bring; and what one brings at each awakening, so that a fast path needs few.
    Timely,
    /// A quarter of the window, and at most so many packets; then packet by packet. It costs an awakening for each, and several
    /// paths take turns more finely.
    Packets(u16),
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
