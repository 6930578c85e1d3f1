//! Configuration of this end's acknowledgments, and of the acknowledgments that it requests of the peer.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use anabranch_wire::configuration;

use crate::acknowledge::AckTiming;
use crate::named::{UnknownName, named};

configuration! {
    /// Timing, content and path of acknowledgments (RFC 9000 §13.2), and the requests that this end sends to
    /// the peer (draft-ietf-quic-ack-frequency).
    #[derive(Clone, Debug)]
    pub struct AckConfig {
        /// Strategy that decides when an ACK is sent. The standard one follows `threshold`, `max_delay` and
        /// the peer's requests.
        copy timing, with_timing: AckTiming = AckTiming::Standard;
        /// Number of ack-eliciting packets received on a path after which an ACK is sent at once.
        copy threshold, with_threshold: u64 = 2;
        /// Maximum deliberate delay of an ACK, announced as `max_ack_delay` (RFC 9000 §18.2).
        copy max_delay, with_max_delay: Duration = Duration::from_millis(25);
        /// Maximum number of ranges in an ACK frame, including the one with the largest number. Values are
        /// clamped to the range 2 to 1024.
        copy max_ranges, with_max_ranges: usize = 64;
        /// Choice of the ranges for an ACK frame when more exist than fit. `None` uses the order that
        /// performed best in measurements: [`RangeOrder::NewestFirst`] if each path has its own packet number
        /// space, [`RangeOrder::NewsFirst`] if paths share one.
        into order, with_order: Option<RangeOrder> = None;
        /// Maximum number of ACK frames, at least 1, that report a range which no longer grows. The range is
        /// then left out, even if the peer may not have received any of these frames. Applies only if `order`
        /// is set to [`RangeOrder::NewestFirst`] or [`RangeOrder::LeastSentFirst`]; the other orders, and the
        /// default ones, limit repetition by rules of their own.
        copy max_repeats, with_max_repeats: u32 = u32::MAX;
        /// Rule for old packet numbers that this end no longer tracks: packets with these numbers are neither
        /// acknowledged nor accepted.
        copy horizon, with_horizon: Horizon = Horizon::None;
        /// Path on which an ACK is sent when the connection has several paths.
        copy path, with_path: AckPath = AckPath::Soonest;
        /// Paths whose packets an outgoing ACK acknowledges when the connection has several paths.
        copy scope, with_scope: AckScope = AckScope::Path;
        /// `Some(true)` if RTT samples are taken regardless of the path on which ACKs return. Every ACK then
        /// gives each path a sample from the path's newest packet that the ACK newly acknowledges. A change
        /// of the return path does not restart the minimum RTT. The stack of the 2022 study took its samples
        /// this way. `Some(false)` if only an ACK that returns on the path of its packet gives a sample, as
        /// RFC 10069 (“Computing Path RTT”) says. `None` is `Some(true)` in the single packet number space,
        /// in which most ACKs return on the path that is the fastest back, and `Some(false)` if each path
        /// has its own space.
        into mixed_round_trips, with_mixed_round_trips: Option<bool> = None;
        /// `true` if this end requests fewer acknowledgments from a peer that supports ACK_FREQUENCY.
        copy frequency, with_frequency: bool = true;
        /// Rule for the values that this end requests with ACK_FREQUENCY.
        copy frequency_rule, with_frequency_rule: FrequencyRule = FrequencyRule::Adaptive;
    }
}

named! {
    /// Choice of the packet number ranges for an ACK frame when more exist than fit. The range with the
    /// largest number is always included first, because the frame's ACK Delay refers to it.
    RangeOrder, "order of ranges" {
        /// Ranges with the highest numbers first (RFC 9000 §13.2.3).
        NewestFirst = "newest-first";
        /// Ranges with the lowest numbers first.
        OldestFirst = "oldest-first";
        /// Ranges reported in the fewest frames since they last grew come first; among equals, the lower
        /// range. picoquic has used this order since it was changed for the 2022 study of the single packet
        /// number space.
        LeastSentFirst = "least-sent-first";
        /// Ranges with the packets that were reported in the fewest frames come first; among equals, the
        /// packets that arrived earlier. Each packet is reported in three frames, and in later ones only if
        /// there is room, so frames are short. An ACK is sent before more unreported packets accumulate than
        /// one frame holds. The first ACK after a packet's arrival therefore always reports it, however few
        /// ranges a frame may hold.
        NewsFirst = "news-first";
    }
}

named! {
    /// Path on which an acknowledgment is sent when the connection has several paths.
    AckPath, "path of acknowledgments" {
        /// Path whose packets are acknowledged, unless it fails or is abandoned.
        Same = "same";
        /// Working path on which the acknowledgment arrives clearly sooner than on the path of the
        /// acknowledged packets. The acknowledgment is then sent on the packets' own path as well, so that it
        /// does not depend on the faster path alone. If no such path exists, only the packets' own path is
        /// used. This is the default.
        Soonest = "soonest";
        /// Working path with the lowest smoothed round-trip time.
        Fastest = "fastest";
        /// Path whose packets are acknowledged; the acknowledgment is repeated in the next packet on each
        /// other path.
        All = "all";
        /// Each working path in turn, as when the `least-recent` scheduler chooses the path of every packet.
        InTurn = "in-turn";
        /// Working path with the lowest smoothed round-trip time, and at the same time every other path.
        FastestAndAll = "fastest-and-all";
        /// Working path with the lowest smoothed round-trip time. On each other path, the next packet that is
        /// sent for another reason carries the acknowledgment as well.
        FastestAndOpportunistic = "fastest-and-opportunistic";
    }
}

named! {
    /// Paths whose packets an outgoing ACK acknowledges.
    AckScope, "scope of acknowledgments" {
        /// Packets of one path: each path has its own ACK.
        Path = "path";
        /// Packets of all paths with pending acknowledgments, regardless of the path on which the ACK is
        /// sent. In the single number space this is one frame with the largest number of all paths, and
        /// packets count together towards the threshold, regardless of their paths.
        Connection = "connection";
        /// Packets of all paths, including paths without pending acknowledgments, as soon as an ACK is due on
        /// one path.
        EveryPath = "every-path";
    }
}

named! {
    /// Rule for the values that a sender requests with ACK_FREQUENCY.
    FrequencyRule, "rule of the acknowledgment frequency" {
        /// ACK after a quarter of the congestion window, or after a quarter of the smoothed round-trip time,
        /// but at least 5 ms; after fewer packets in slow start, and at once for reordered ones.
        Adaptive = "adaptive";
        /// Rule of the sender in the 2022 study of packet number spaces: ACK after a quarter of the window or
        /// of the smallest round-trip time, but after at most 10 ms, regardless of reordering.
        #[cfg(feature = "research")]
        Study2022 = "2022";
    }
}

impl FrequencyRule {
    /// Returns the reordering threshold to request: the distance at which an out-of-order packet triggers an
    /// ACK at once. 0 disables this.
    pub(crate) const fn reordering_threshold(self) -> u64 {
        match self {
            Self::Adaptive => 1,
            #[cfg(feature = "research")]
            Self::Study2022 => 0,
        }
    }

    /// Returns whether a requested delay below the peer's `max_ack_delay` shortens probe timeouts, as soon as
    /// the peer has acknowledged the request.
    pub(crate) const fn shortens_probe_timeouts(self) -> bool {
        matches!(self, Self::Adaptive)
    }
}

/// Received packet numbers that this end no longer tracks, in addition to those that it drops to bound
/// memory. A packet with such a number, or a lower one, that arrives later is dropped as a duplicate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Horizon {
    /// No packet numbers.
    None,
    /// Numbers below the largest received one minus this count.
    Packets(u64),
    /// Lowest range, once it has not grown for `age`, and either `times_sent` frames have reported it or the
    /// peer is known to have received a report.
    Delay {
        /// Time since the range last grew.
        age: Duration,
        /// Number of frames that have reported the range since it last grew.
        times_sent: u32,
    },
}

impl Horizon {
    /// Returns whether the horizon is at a fixed distance from the largest received number.
    pub(crate) fn follows_largest(&self) -> bool {
        matches!(self, Self::Packets(_))
    }

    /// Forms that [`FromStr`] accepts: none, a number of packets, or milliseconds and frames.
    pub const NAMES: &[&str] = &["none", "128", "1000ms/4"];
}

impl fmt::Display for Horizon {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("none"),
            Self::Packets(packets) => write!(f, "{packets}"),
            Self::Delay { age, times_sent } => write!(f, "{}ms/{times_sent}", age.as_millis()),
        }
    }
}

impl FromStr for Horizon {
    type Err = UnknownName;

    fn from_str(text: &str) -> Result<Self, UnknownName> {
        let unknown = UnknownName::new("horizon of acknowledgments", Self::NAMES);
        let (delay, packets) = (text.split_once("ms/"), text.parse());
        match (text, delay, packets) {
            ("none", ..) => Ok(Self::None),
            (_, Some((age, times)), _) => match (age.parse(), times.parse()) {
                (Ok(age), Ok(times_sent)) => Ok(Self::Delay { age: Duration::from_millis(age), times_sent }),
                _ => Err(unknown),
            },
            (_, None, Ok(packets)) if packets > 0 => Ok(Self::Packets(packets)),
            _ => Err(unknown),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lead_back() {
        for name in RangeOrder::NAMES {
            assert_eq!(name.parse::<RangeOrder>().unwrap().name(), *name);
        }
        for name in AckPath::NAMES {
            assert_eq!(name.parse::<AckPath>().unwrap().name(), *name);
        }
        for name in AckScope::NAMES {
            assert_eq!(name.parse::<AckScope>().unwrap().name(), *name);
        }
        for name in FrequencyRule::NAMES {
            assert_eq!(name.parse::<FrequencyRule>().unwrap().name(), *name);
        }
        for name in Horizon::NAMES {
            assert_eq!(name.parse::<Horizon>().unwrap().to_string(), *name);
        }
        let error = "slowest".parse::<AckPath>().unwrap_err().to_string();
        assert_eq!(
            error,
            "unknown path of acknowledgments: use one of same, soonest, fastest, all, in-turn, \
             fastest-and-all, fastest-and-opportunistic"
        );
        for wrong in ["", "0", "-1", "1s/4", "ms/4", "5ms/", "5ms/x", "newest"] {
            assert!(wrong.parse::<Horizon>().is_err(), "{wrong:?}");
        }
    }
}
