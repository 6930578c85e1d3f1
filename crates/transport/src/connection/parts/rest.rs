//! Rest of a connection without traffic, which frees memory until the next datagram.

use std::time::Duration;

use anabranch_wire::Time;

/// Time without traffic after which a connection rests. It is longer than a request or an acknowledgment takes, so that busy connections
/// keep their memory. A connection that datagrams wake without need rests again no sooner.
const REST: Duration = Duration::from_secs(1);

/// State of a connection's rest.
#[derive(Debug, Default)]
pub(crate) struct Rest {
    stage: Stage,
    /// Times at which the last rest began and ended.
    began: Time,
    ended: Time,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Stage {
    #[default]
    Busy,
    Resting,
    /// A datagram has ended the rest. It may not be authentic.
    Woken,
    /// The first authentic packet after the rest is being processed.
    First,
    /// That packet is a keep-alive.
    Pinged,
    /// It was acknowledged, and nothing else was sent.
    Acknowledged,
}

impl Rest {
    /// Returns the time of the next rest, if there is no traffic after `last_traffic`; `None` during a rest.
    pub(crate) fn at(&self, last_traffic: Time) -> Option<Time> {
        match self.stage {
            Stage::Resting => None,
            Stage::Acknowledged => Some(last_traffic),
            _ => Some(last_traffic.max(self.ended) + REST),
        }
    }

    pub(crate) fn begin(&mut self, now: Time) {
        (self.stage, self.began) = (Stage::Resting, now);
    }

    /// Ends the rest, because datagrams have arrived.
    #[inline]
    pub(crate) fn on_datagrams(&mut self, now: Time) {
        if self.stage == Stage::Resting {
            (self.stage, self.ended) = (Stage::Woken, now);
        }
    }

    /// Records an authentic packet, before its frames are processed.
    #[inline]
    pub(crate) fn on_received(&mut self) {
        self.stage = if self.stage == Stage::Woken { Stage::First } else { Stage::Busy };
    }

    /// Records that no frame but PING makes the last packet ack-eliciting. Returns whether it is a keep-alive: the first packet after a
    /// rest that was not short. The connection rests again as soon as it has acknowledged it.
    pub(crate) fn on_ping(&mut self) -> bool {
        let is_keep_alive = self.stage == Stage::First && self.ended.saturating_since(self.began) >= REST;
        if is_keep_alive {
            self.stage = Stage::Pinged;
        }
        is_keep_alive
    }

    /// Returns whether the acknowledgment of a keep-alive is due.
    pub(crate) fn is_pinged(&self) -> bool {
        self.stage == Stage::Pinged
    }

    /// Records a sent packet.
    pub(crate) fn on_sent(&mut self, eliciting: bool) {
        let is_acknowledgment = self.stage == Stage::Pinged && !eliciting;
        self.stage = if is_acknowledgment { Stage::Acknowledged } else { Stage::Busy };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Time {
        Time::from_millis(millis)
    }

    /// Returns a connection that began to rest at 10 s.
    fn resting() -> Rest {
        let mut rest = Rest::default();
        assert_eq!(rest.at(at(9_000)), Some(at(10_000)));
        rest.begin(at(10_000));
        assert_eq!(rest.at(at(9_000)), None);
        rest
    }

    #[test]
    fn datagrams_that_are_not_authentic_end_a_rest_for_a_second() {
        let mut rest = resting();
        rest.on_datagrams(at(20_000));
        assert_eq!(rest.at(at(9_000)), Some(at(21_000)));
        rest.on_datagrams(at(20_500));
        assert_eq!(rest.at(at(9_000)), Some(at(21_000)), "they do not lengthen it");
    }

    #[test]
    fn a_connection_rests_once_it_has_acknowledged_a_keep_alive() {
        let mut rest = resting();
        rest.on_datagrams(at(20_000));
        rest.on_received();
        assert!(!rest.is_pinged());
        assert!(rest.on_ping());
        assert!(rest.is_pinged());
        assert_eq!(rest.at(at(20_000)), Some(at(21_000)));
        rest.on_sent(false);
        assert!(!rest.is_pinged());
        assert_eq!(rest.at(at(20_000)), Some(at(20_000)));
        // A peer cannot make it rest and wake for each packet.
        rest.begin(at(20_000));
        rest.on_datagrams(at(20_999));
        rest.on_received();
        assert!(!rest.on_ping(), "the rest was short");
        rest.on_sent(false);
        assert_eq!(rest.at(at(20_999)), Some(at(21_999)));
    }

    #[test]
    fn a_connection_that_receives_or_sends_more_is_busy() {
        let more: [fn(&mut Rest); 3] =
            [Rest::on_received, |rest| rest.on_sent(true), |rest| rest.on_sent(false)];
        for more in more {
            let mut rest = resting();
            rest.on_datagrams(at(20_000));
            rest.on_received();
            assert!(rest.on_ping());
            rest.on_sent(false);
            more(&mut rest);
            assert_eq!(rest.at(at(20_000)), Some(at(21_000)));
        }
    }
}
