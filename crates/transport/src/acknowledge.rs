//! Decision when acknowledgments of 1-RTT packets leave (RFC 9000 §13.2.1, §13.2.2).
//!
//! Every time ack-eliciting packets arrive, a path owes an ACK within a delay, at once after a number of
//! packets, and perhaps at once because packets are out of order: an [`AckRule`]. The rule of
//! [`AckTiming::Standard`] comes from the configuration and from the peer's ACK_FREQUENCY frames. A program
//! brings its own [`AckStrategy`] along with an [`AckStrategyFactory`] in [`AckTiming::Custom`]. The path
//! that an ACK takes is the scheduler's choice
//! ([`Scheduler::pick_ack`](crate::schedule::Scheduler::pick_ack)).

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use anabranch_wire::{PathId, Time, custom};

use crate::named::UnknownName;

/// Rule for the next acknowledgment of a path's packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AckRule {
    /// Ack-eliciting packets that make an ACK leave at once: 1 acknowledges each of them. (The threshold of
    /// an ACK_FREQUENCY frame is one less.)
    pub threshold: u64,
    /// Maximum deliberate delay of an ACK.
    pub max_delay: Duration,
    /// 0: reordering never makes an ACK leave at once. 1: every packet out of order does (RFC 9000 §13.2.1).
    /// More: an unreported hole this far below the largest packet does (draft-ietf-quic-ack-frequency §6.2).
    pub reordering_threshold: u64,
}

/// Ack-eliciting 1-RTT packets that have just arrived, as an [`AckStrategy`] sees them.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct AckArrival {
    /// Path on which they arrived.
    pub path: PathId,
    /// Number of these packets; their packet numbers are consecutive.
    pub packets: u64,
    /// Ack-eliciting packets that arrived before on this path and were not acknowledged yet.
    pub unacked: u64,
    /// The path's smoothed round-trip time; `None` before the first sample.
    pub smoothed_rtt: Option<Duration>,
    /// Rule of the configuration, or of the peer's newest ACK_FREQUENCY frame.
    pub requested: AckRule,
}

/// A strategy of acknowledging, one for each connection.
pub trait AckStrategy: fmt::Debug + Send {
    /// Returns the rule that holds from these packets on until the next ones arrive. The endpoint takes a
    /// threshold below 1 as 1, and a delay longer than the requested one as that: the peer's probe timeouts
    /// count on it (RFC 9002 §6.2.1). The first packet after an ACK begins the delay.
    fn rule(&mut self, now: Time, arrival: &AckArrival) -> AckRule;
}

/// A factory of strategies of acknowledging: one strategy for each connection.
pub trait AckStrategyFactory: fmt::Debug + Send + Sync {
    /// Returns the name by which configurations, plans and results know the strategy.
    fn name(&self) -> &'static str;

    /// Creates a strategy.
    fn build(&self) -> Box<dyn AckStrategy>;
}

/// Choice of the strategy that decides when acknowledgments leave.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum AckTiming {
    /// The rule of the configuration until the peer asks for another one by ACK_FREQUENCY.
    #[default]
    Standard,
    /// A strategy that the program brings along.
    Custom(CustomAckStrategy),
}

custom!(CustomAckStrategy(AckStrategyFactory) in AckTiming, "strategy of acknowledging");

impl AckTiming {
    /// The names [`FromStr`] knows.
    pub const NAMES: &[&str] = &["standard"];

    /// Returns the strategy's name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Standard => "standard",
            Self::Custom(custom) => custom.name(),
        }
    }

    /// Creates the strategy; `None` for the standard one.
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

    /// Asks for the same rule each time.
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
