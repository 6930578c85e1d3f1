//! Timing of ACK frames for 1-RTT packets (RFC 9000 §13.2.1, §13.2.2).
//!
//! When ack-eliciting packets arrive, an [`AckRule`] determines the ACK: it is sent within a delay,
//! immediately after a number of packets, and possibly immediately if packets are out of order. The rule of
//! [`AckTiming::Standard`] comes from the configuration and from the peer's ACK_FREQUENCY frames. A program
//! can supply its own [`AckStrategy`] through an [`AckStrategyFactory`] in [`AckTiming::Custom`]. The
//! scheduler chooses the path of an ACK ([`Scheduler::pick_ack`](crate::schedule::Scheduler::pick_ack)).

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use anabranch_wire::{PathId, Time, custom};

use crate::named::UnknownName;

/// Rule for the next acknowledgment of a path's packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct AckRule {
    /// Number of ack-eliciting packets after which an ACK is sent immediately; with 1, every packet is
    /// acknowledged immediately. (The threshold of an ACK_FREQUENCY frame is one less.)
    pub threshold: u64,
    /// Maximum time by which an ACK is deliberately delayed.
    pub max_delay: Duration,
    /// Amount of reordering that causes an immediate ACK. With 0, reordering never causes one. With 1, every
    /// packet that arrives out of order causes one (RFC 9000 §13.2.1). With a larger value `n`, a missing
    /// packet causes one if its number is at least `n` below the largest received number, and if no ACK has
    /// reported it as missing yet (draft-ietf-quic-ack-frequency §6.2).
    pub reordering_threshold: u64,
}

impl AckRule {
    /// Creates a rule.
    pub const fn new(threshold: u64, max_delay: Duration, reordering_threshold: u64) -> Self {
        Self { threshold, max_delay, reordering_threshold }
    }
}

/// Group of ack-eliciting 1-RTT packets that have just arrived, as passed to an [`AckStrategy`].
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct AckArrival {
    /// Path on which the packets arrived.
    pub path: PathId,
    /// Number of these packets; their packet numbers are consecutive.
    pub packets: u64,
    /// Number of earlier ack-eliciting packets of this path that have not been acknowledged yet.
    pub unacked: u64,
    /// The path's smoothed round-trip time; `None` before the first sample.
    pub smoothed_rtt: Option<Duration>,
    /// Rule of the configuration, or of the peer's latest ACK_FREQUENCY frame.
    pub requested: AckRule,
}

/// Acknowledgment strategy; each connection has its own.
pub trait AckStrategy: fmt::Debug + Send {
    /// Returns the rule that applies until the next ack-eliciting packets arrive. A threshold below 1 counts
    /// as 1. A delay longer than that of [`AckArrival::requested`] is reduced to it, because the peer's probe
    /// timeouts allow for no longer delay (RFC 9002 §6.2.1). The delay begins when the first packet after an
    /// ACK arrives.
    fn rule(&mut self, now: Time, arrival: &AckArrival) -> AckRule;
}

/// Factory of acknowledgment strategies: it creates one for each connection.
pub trait AckStrategyFactory: fmt::Debug + Send + Sync {
    /// Returns the strategy's name in configurations, plans and results.
    fn name(&self) -> &'static str;

    /// Creates a strategy.
    fn build(&self) -> Box<dyn AckStrategy>;
}

/// Choice of the strategy that determines when ACK frames are sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum AckTiming {
    /// Rule of the configuration, until the peer requests another one with ACK_FREQUENCY.
    #[default]
    Standard,
    /// Strategy that the program supplies.
    Custom(CustomAckStrategy),
}

custom!(CustomAckStrategy(AckStrategyFactory) in AckTiming, "strategy of acknowledging");

impl AckTiming {
    /// Names that [`FromStr`] accepts.
    pub const NAMES: &[&str] = &["standard"];

    /// Returns the strategy's name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Standard => "standard",
            Self::Custom(custom) => custom.name(),
        }
    }

    /// Creates the custom strategy; returns `None` for [`AckTiming::Standard`].
    pub(crate) fn build(self) -> Option<Box<dyn AckStrategy>> {
        match self {
            Self::Standard => None,
            Self::Custom(custom) => Some(custom.0.build()),
        }
    }
}

impl fmt::Display for AckTiming {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for AckTiming {
    type Err = UnknownName;

    fn from_str(name: &str) -> Result<Self, UnknownName> {
        match name {
            "standard" => Ok(Self::Standard),
            _ => Self::registered(name).ok_or(UnknownName::new("strategy of acknowledging", Self::NAMES)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Strategy that always returns the same rule.
    #[derive(Clone, Copy, Debug)]
    struct Always(&'static str, AckRule);

    impl AckStrategy for Always {
        fn rule(&mut self, _: Time, _: &AckArrival) -> AckRule {
            self.1
        }
    }

    impl AckStrategyFactory for Always {
        fn name(&self) -> &'static str {
            self.0
        }

        fn build(&self) -> Box<dyn AckStrategy> {
            Box::new(*self)
        }
    }

    #[test]
    fn strategies_are_found_by_name() {
        static RARE: Always =
            Always("rare", AckRule { threshold: 9, max_delay: Duration::ZERO, reordering_threshold: 0 });
        static IMPOSTOR: Always = Always("standard", RARE.1);
        assert!("rare".parse::<AckTiming>().is_err());
        let registered = AckTiming::register(&RARE).unwrap();
        assert_eq!("rare".parse(), Ok(registered));
        assert_eq!(registered.to_string(), "rare");
        assert_eq!("standard".parse(), Ok(AckTiming::Standard));
        AckTiming::register(&RARE).unwrap_err();
        AckTiming::register(&IMPOSTOR).unwrap_err();
    }
}
