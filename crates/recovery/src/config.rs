//! Configuration of a path's recovery.

use core::fmt;
use core::str::FromStr;
use core::time::Duration;

use anabranch_wire::{InvalidSetting, configuration};

use crate::congestion::Algorithm;

configuration! {
    /// Settings of one path's recovery; the defaults are the RFCs'.
    #[derive(Clone, Debug)]
    pub struct Config {
        /// Round-trip time assumed before the first sample (RFC 9002 §6.2.2: 333 ms).
        copy initial_rtt, with_initial_rtt: Duration = Duration::from_millis(333);
        /// Packets sent later that must be acknowledged before a packet is lost (RFC 9002 §6.1.1: 3).
        copy packet_threshold, with_packet_threshold: u64 = 3;
        /// Fraction of the round-trip time after which an overtaken packet is lost (RFC 9002 §6.1.2: 9/8).
        /// Only for [`LossDelay::Rfc9002`].
        copy time_threshold, with_time_threshold: (u32, u32) = (9, 8);
        /// Rule for the time that a packet may be missing while newer ones are acknowledged, before it is
        /// lost for its age.
        copy loss_delay, with_loss_delay: LossDelay = LossDelay::Rfc9002;
        /// Congestion window to start with (RFC 9002 §7.2: 10 packets).
        copy initial_window, with_initial_window: InitialWindow = InitialWindow::Packets(10);
        /// Congestion controller.
        copy congestion, with_congestion: Algorithm = Algorithm::default();
        /// Spread packets over the round trip (RFC 9002 §7.7).
        copy pacing, with_pacing: bool = true;
        /// Pacing rate, where the congestion controller does not set one itself.
        copy pacing_gain, with_pacing_gain: PacingGain = PacingGain::default();
        /// Amount that may leave at once after a rest, and that a waiting sender wakes up for.
        copy pacing_burst, with_pacing_burst: PacingBurst = PacingBurst::Timely;
        /// Try ECN on the path (RFC 9000 §13.4).
        copy ecn, with_ecn: bool = true;
        /// Packet sizes.
        lend mtu, with_mtu: MtuConfig = MtuConfig::default();
        /// Seed of the jitter some controllers add to their probing; equal seeds give equal runs.
        copy seed, with_seed: u64 = 0;
    }
}

impl Config {
    /// Checks what no path could be made with.
    ///
    /// # Errors
    /// Names the first setting that contradicts the protocol or arithmetic.
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

/// Rule by which a packet that newer ones have overtaken is lost for its age. The number of newer ones that
/// make it lost at once is [`Config::packet_threshold`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LossDelay {
    /// A fraction of the round-trip time after it was sent (RFC 9002 §6.1.2).
    Rfc9002,
    /// As the sender of the 2022 study of packet number spaces had it: it may take a quarter of the smoothed
    /// round-trip time longer than the newest acknowledged packet, at most 5 ms, and the peer's
    /// `max_ack_delay`. Reordering does not teach this rule patience.
    #[cfg(feature = "research")]
    Study2022,
}

impl LossDelay {
    /// The names that [`FromStr`] knows.
    pub const NAMES: &[&str] = &[
        "rfc9002",
        #[cfg(feature = "research")]
        "2022",
    ];

    /// Returns whether the rule needs to know how long acknowledgments took.
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
    /// In slow start. A sending rate that doubles smoothly each round trip is 2 / ln 2 = 2.89 windows per
    /// round trip.
    pub slow_start: (u16, u16),
    /// Afterwards: a little faster than the window per round trip, so that the window is used up.
    pub otherwise: (u16, u16),
}

impl Default for PacingGain {
    fn default() -> Self {
        Self { slow_start: (26, 9), otherwise: (5, 4) }
    }
}

/// Amount that a paced sender sends at once (RFC 9002 §7.7).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum PacingBurst {
    /// Ten packets, or what two milliseconds bring; and what one brings at each awakening, so that a fast
    /// path needs few.
    Timely,
    /// A quarter of the window, and at most so many packets; then packet by packet. It costs an awakening for
    /// each, and several paths take turns more finely.
    Packets(u16),
}

configuration! {
    /// Settings of packetization-layer path MTU discovery (RFC 8899). Sizes are UDP payloads in bytes.
    #[derive(Clone, Debug)]
    pub struct MtuConfig {
        /// Size to start with; at least 1200 (RFC 9000 §14.1).
        copy initial, with_initial: u16 = 1200;
        /// Largest size to search for: what an Ethernet frame leaves over IPv4. The transport takes off what
        /// IPv6 needs more.
        copy maximum, with_maximum: u16 = 1472;
        /// Search for larger sizes at all.
        copy discovery, with_discovery: bool = true;
        /// Losses of large packets, without one getting through, after which the path is a black hole for
        /// them.
        copy black_hole_threshold, with_black_hole_threshold: u32 = 6;
        /// Time that a path that turned into a black hole keeps the base size before the search starts again.
        copy black_hole_cooldown, with_black_hole_cooldown: Duration = Duration::from_secs(60);
        /// Time that a finished search rests before larger sizes are tried again (RFC 8899 §5.1.1: 600 s).
        copy raise_interval, with_raise_interval: Duration = Duration::from_secs(600);
    }
}
