//! Configuration of this end's acknowledgments and of its requests about the peer's acknowledgments.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use anabranch_wire::configuration;

use crate::acknowledge::AckTiming;
use crate::named::{UnknownName, named};

configuration! {
    /// Timing, content and path of acknowledgments (RFC 9000 §13.2), and the requests that this end makes of
    /// the peer (draft-ietf-quic-ack-frequency).
    #[derive(Clone, Debug)]
    pub struct AckConfig {
        /// Strategy that decides when an ACK leaves; the standard one follows `threshold`, `max_delay` and
        /// the peer's requests.
        copy timing, with_timing: AckTiming = AckTiming::Standard;
        /// Ack-eliciting packets received on a path before an ACK leaves at once.
        copy threshold, with_threshold: u64 = 2;
        /// Longest deliberate delay of an ACK; sent as `max_ack_delay`.
        copy max_delay, with_max_delay: Duration = Duration::from_millis(25);
        /// Ranges that one ACK frame holds at most, the one with its largest number included: 2 to 1024, and
        /// a value outside counts as the nearest inside.
        copy max_ranges, with_max_ranges: usize = 64;
        /// Choice of the ranges that an ACK frame names when there are more than it may hold. `None` chooses
        /// the order that measured best: [`RangeOrder::NewestFirst`] where every path has its own packet
        /// numbers, [`RangeOrder::NewsFirst`] where paths share one number space.
        into order, with_order: Option<RangeOrder> = None;
        /// Frames that name a range which does not grow, at least 1; it is then left out, even if nothing is
        /// known to have reached the peer. Only where `order` is set to a fixed order: the default ones know
        /// better.
        copy max_repeats, with_max_repeats: u32 = u32::MAX;
        /// Old packet numbers that are given up: packets with these numbers are neither acknowledged nor
        /// accepted any more.
        copy horizon, with_horizon: Horizon = Horizon::None;
        /// The path that an ACK of another path's packets may take.
        copy path, with_path: AckPath = AckPath::Soonest;
        /// Paths whose packets an outgoing ACK acknowledges when the connection has several paths.
        copy scope, with_scope: AckScope = AckScope::Path;
        /// Take a path's round trips as one and the same, whichever path brings the ACKs back: the newest
        /// packet that an ACK newly acknowledges on each path then measures it, in the single number space,
        /// too, and a change of the way back does not begin a new minimum. The stack of the 2022 study did
        /// so. Without it, only what came back the way it went does, and RFC 10069 (“Computing Path RTT”) is
        /// followed.
        copy mixed_round_trips, with_mixed_round_trips: bool = false;
        /// Ask the peer to acknowledge more rarely when it supports ACK_FREQUENCY.
        copy frequency, with_frequency: bool = true;
        /// Rule for the values that this end then requests.
        copy frequency_rule, with_frequency_rule: FrequencyRule = FrequencyRule::Adaptive;
    }
}

named! {
    /// Choice of the packet number ranges that an ACK frame names when there are more than it may hold. The
    /// range with the largest number always comes first, because the frame's delay refers to it.
    RangeOrder, "order of ranges" {
        /// The highest numbers (RFC 9000 §13.2.3).
        NewestFirst = "newest-first";
        /// The lowest numbers.
        OldestFirst = "oldest-first";
        /// Those that the fewest frames named since they last grew, the lower of two first; it is what
        /// picoquic does since it was changed for the 2022 study of the single packet number space.
        LeastSentFirst = "least-sent-first";
        /// Those that hold the packets which the fewest frames named, the earlier arrival first. Three frames
        /// name a packet and then leave it, unless there is room, so frames are short; and an ACK leaves
        /// before there is more news than it can hold, so the peer learns of each packet by the first ACK
        /// after it, however few ranges there are.
        NewsFirst = "news-first";
    }
}

named! {
    /// The path that an acknowledgment takes when the connection has several.
    AckPath, "path of acknowledgments" {
        /// The one whose packets it acknowledges, unless that path fails or is abandoned.
        Same = "same";
        /// The working path on which they arrive clearly sooner than on the one whose packets they
        /// acknowledge, if there is one, and then on that one, too. The sender learns sooner, and nothing
        /// depends on the other path. The default.
        Soonest = "soonest";
        /// The working path with the lowest smoothed round-trip time.
        Fastest = "fastest";
        /// The one whose packets it acknowledges, and once more in the next packet that leaves on each other
        /// path.
        All = "all";
        /// The working paths take turns, as they do where the path that has rested longest carries
        /// everything.
        InTurn = "in-turn";
        /// The working path with the lowest smoothed round-trip time, and at once each other path, too.
        FastestAndAll = "fastest-and-all";
    }
}

named! {
    /// Paths whose packets an outgoing ACK acknowledges.
    AckScope, "scope of acknowledgments" {
        /// Those of one path: each path has its own ack.
        Path = "path";
        /// Those of all paths that owe one: whichever path sends acknowledges for all. In the single number
        /// space that is one frame with the largest number of all, and packets count together whatever path
        /// they came on.
        Connection = "connection";
        /// Those of all paths, once an ACK is due on one of them.
        EveryPath = "every-path";
    }
}

named! {
    /// Rule for the values that a sender requests with ACK_FREQUENCY.
    FrequencyRule, "rule of the acknowledgment frequency" {
        /// A quarter of the window and of the smoothed round-trip time, more often in slow start; an ACK at
        /// once when packets come out of order.
        Adaptive = "adaptive";
        /// As the sender of the 2022 study of packet number spaces: a quarter of the window, a quarter of the
        /// smallest round-trip time but no more than 10 ms, and reordering does not matter.
        #[cfg(feature = "research")]
        Study2022 = "2022";
    }
}

impl FrequencyRule {
    /// Returns the distance at which a packet out of order makes an ACK leave at once; 0 turns this off.
    pub(crate) const fn reordering_threshold(self) -> u64 {
        match self {
            Self::Adaptive => 1,
            #[cfg(feature = "research")]
            Self::Study2022 => 0,
        }
    }

    /// Returns whether probe timeouts use the requested delay as soon as the peer follows the request, if the
    /// delay is less than the peer's `max_ack_delay`.
    pub(crate) const fn shortens_probe_timeouts(self) -> bool {
        matches!(self, Self::Adaptive)
    }
}

/// Received packet numbers that are given up, in addition to those dropped to bound memory. A packet at or
/// below such a number that arrives after all is dropped as a duplicate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Horizon {
    /// None.
    None,
    /// Those smaller than the largest received number less this many.
    Packets(u64),
    /// The lowest range, once it is this old, and this many frames have named it or the peer is known to know
    /// it.
    Delay {
        /// Time since the range last grew.
        age: Duration,
        /// Frames that named it since.
        times_sent: u32,
    },
}

impl Horizon {
    /// The forms that [`FromStr`] knows: nothing, packets, or milliseconds and frames.
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
            "unknown path of acknowledgments: use one of same, soonest, fastest, all, in-turn, fastest-and-all"
        );
        for wrong in ["", "0", "-1", "1s/4", "ms/4", "5ms/", "5ms/x", "newest"] {
            assert!(wrong.parse::<Horizon>().is_err(), "{wrong:?}");
        }
    }
}
