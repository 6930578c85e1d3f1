//! Configuration of a path's recovery.

use core::fmt;
use core::str::FromStr;
use core::time::Duration;

use anabranch_wire::{InvalidSetting, configuration};

use crate::congestion::Algorithm;

configuration! {
    /// Settings of one path's recovery. The defaults are those of the RFCs.
    #[derive(Clone, Debug)]
    pub struct Config {
        /// Round-trip time assumed before the first sample (RFC 9002 §6.2.2: 333 ms).
        copy initial_rtt, with_initial_rtt: Duration = Duration::from_millis(333);
        /// Packet reordering threshold: a packet is lost when a packet sent this many packets later is
        /// acknowledged (RFC 9002 §6.1.1: 3).
        copy packet_threshold, with_packet_threshold: u64 = 3;
        /// Time threshold: fraction of the round-trip time after which a packet is lost if a newer one was
        /// acknowledged (RFC 9002 §6.1.2: 9/8). Only for [`LossDelay::Rfc9002`].
        copy time_threshold, with_time_threshold: (u32, u32) = (9, 8);
        /// Rule for the time threshold: the time after which a packet is lost if newer ones have been
        /// acknowledged.
        copy loss_delay, with_loss_delay: LossDelay = LossDelay::Rfc9002;
        /// Initial congestion window (RFC 9002 §7.2: 10 packets).
        copy initial_window, with_initial_window: InitialWindow = InitialWindow::Packets(10);
        /// Congestion controller.
        copy congestion, with_congestion: Algorithm = Algorithm::default();
        /// `true` if packets are paced over the round trip (RFC 9002 §7.7).
        copy pacing, with_pacing: bool = true;
        /// Pacing rate, unless the congestion controller sets one itself.
        copy pacing_gain, with_pacing_gain: PacingGain = PacingGain::default();
        /// Burst that a paced sender may send after a pause, and each time its timer wakes it.
        copy pacing_burst, with_pacing_burst: PacingBurst = PacingBurst::Timely;
        /// `true` if ECN is tried on the path (RFC 9000 §13.4).
        copy ecn, with_ecn: bool = true;
        /// Packet sizes.
        lend mtu, with_mtu: MtuConfig = MtuConfig::default();
        /// Seed of the jitter that some controllers add to their probing. Equal seeds give equal runs.
        copy seed, with_seed: u64 = 0;
    }
}

impl Config {
    /// Checks that a path can use the settings.
    ///
    /// # Errors
    /// Names the first setting that the protocol forbids or that would break the arithmetic.
    pub fn validate(&self) -> Result<(), InvalidSetting> {
        let unless = InvalidSetting::unless;
        unless(!self.initial_rtt.is_zero(), "initial_rtt", "must not be zero")?;
        unless(self.packet_threshold > 0, "packet_threshold", "must be at least 1")?;
        let (numerator, denominator) = self.time_threshold;
        let patient = denominator > 0 && numerator >= denominator;
        unless(patient, "time_threshold", "must be one round-trip time at least")?;
        let gains = [self.pacing_gain.slow_start, self.pacing_gain.otherwise];
        let moving = gains.iter().all(|(numerator, denominator)| *numerator > 0 && *denominator > 0);
        unless(moving, "pacing_gain", "must not be zero, nor have a denominator of zero")?;
        unless(self.mtu.initial >= 1200, "initial", "must be at least 1200 bytes")
    }
}

/// Rule for the time threshold of loss detection. The packet threshold, [`Config::packet_threshold`], applies
/// with every rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LossDelay {
    /// Fraction of the round-trip time, counted from the time at which the packet was sent (RFC 9002 §6.1.2).
    Rfc9002,
    /// Rule of the sender in the 2022 study of packet number spaces. A packet may take longer than the newest
    /// acknowledged one by a quarter of the smoothed round-trip time (at most 5 ms) and the peer's
    /// `max_ack_delay`. Spurious losses do not raise this threshold.
    #[cfg(feature = "research")]
    Study2022,
}

impl LossDelay {
    /// Names that [`FromStr`] accepts.
    pub const NAMES: &[&str] = &[
        "rfc9002",
        #[cfg(feature = "research")]
        "2022",
    ];

    /// Returns whether the rule needs the time between the sending of packets and their acknowledgment.
    pub(crate) const fn needs_scan(self) -> bool {
        !matches!(self, Self::Rfc9002)
    }

    /// Returns the rule's name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Rfc9002 => "rfc9002",
            #[cfg(feature = "research")]
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
            #[cfg(feature = "research")]
            "2022" => Ok(Self::Study2022),
            _ => Err(UnknownLossDelay),
        }
    }
}

/// Error: no rule of loss detection has this name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnknownLossDelay;

impl fmt::Display for UnknownLossDelay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "unknown rule of loss detection: use one of {}", LossDelay::NAMES.join(", "))
    }
}

impl core::error::Error for UnknownLossDelay {}

/// Initial congestion window. It is never less than two packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum InitialWindow {
    /// Number of packets of the path's MTU. The window is at most this many packets of 1472 bytes.
    Packets(u32),
    /// Number of bytes, regardless of the packet size.
    Bytes(u32),
}

impl InitialWindow {
    /// Returns the window in bytes for packets of `mtu` bytes. A window of N packets is limited to N · 1472
    /// bytes, but to no less than two packets of `mtu` bytes (RFC 9002 §7.2).
    pub fn bytes(self, mtu: u16) -> u64 {
        let mtu = u64::from(mtu);
        match self {
            Self::Packets(packets) => {
                let packets = u64::from(packets.max(2));
                (mtu * packets).min((1472 * packets).max(2 * mtu))
            }
            Self::Bytes(bytes) => u64::from(bytes).max(2 * mtu),
        }
    }
}

/// Pacing rate in congestion windows per round-trip time, as fractions (RFC 9002 §7.7).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PacingGain {
    /// Rate in slow start. A rate that doubles smoothly in each round trip is 2 / ln 2 = 2.89 windows per
    /// round trip.
    pub slow_start: (u16, u16),
    /// Rate after slow start: slightly more than one window per round trip, so that the window is used up.
    pub otherwise: (u16, u16),
}

impl Default for PacingGain {
    fn default() -> Self {
        Self { slow_start: (26, 9), otherwise: (5, 4) }
    }
}

/// Burst that a paced sender may send at once (RFC 9002 §7.7).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum PacingBurst {
    /// Burst that depends on the rate: ten packets, or two milliseconds at the pacing rate if that is more.
    /// Each time the timer wakes the sender, it sends the packets of one millisecond, so a fast path needs
    /// few timers.
    Timely,
    /// Burst of a quarter of the window, but at most this many packets. Packets after the burst leave one by
    /// one, which needs a timer for each packet and interleaves several paths more finely.
    Packets(u16),
}

configuration! {
    /// Settings of packetization-layer path MTU discovery (RFC 8899). Sizes are UDP payloads in bytes.
    #[derive(Clone, Debug)]
    pub struct MtuConfig {
        /// Initial size, at least 1200 (RFC 9000 §14.1).
        copy initial, with_initial: u16 = 1200;
        /// Largest size to search for. The default is the UDP payload of an Ethernet frame over IPv4. The
        /// transport subtracts the larger header of IPv6.
        copy maximum, with_maximum: u16 = 1472;
        /// `true` if larger sizes are searched for.
        copy discovery, with_discovery: bool = true;
        /// Number of loss bursts with only packets above 1200 bytes after which the path counts as a black
        /// hole, if no packet of such a size was acknowledged in between.
        copy black_hole_threshold, with_black_hole_threshold: u32 = 6;
        /// Time for which the base size of 1200 bytes is kept after a black hole was found. The search then
        /// starts again.
        copy black_hole_cooldown, with_black_hole_cooldown: Duration = Duration::from_secs(60);
        /// Time between the end of a search and the next attempt at larger sizes (RFC 8899 §5.1.1: 600 s).
        copy raise_interval, with_raise_interval: Duration = Duration::from_secs(600);
    }
}
