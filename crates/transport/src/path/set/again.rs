//! Second repetitions: when a path falls silent, its frames in flight are sent again on other paths, and once
//! more a little later.
//!
//! At the time of the first repetition, the application has waited for this data for a probe timeout, and the
//! other paths carry more than before. A queue that overflows may drop a repeated frame, and detecting that
//! loss takes a whole round trip. The second repetition is sent a quarter of a round trip later, when the
//! queue has had time to drain.

use std::collections::VecDeque;
use std::time::Duration;

use anabranch_wire::Time;

use super::PathSet;
use crate::token::Token;

/// Time after a path fell silent during which repeated frames are sent twice.
pub(crate) const INSURED_FOR: Duration = Duration::from_secs(2);

/// Maximum number of frames that wait for their second repetition. Further ones are repeated only once.
pub(crate) const MAX_AGAIN: usize = 256;

/// Divisor of the round-trip time that yields the interval between the two repetitions.
pub(crate) const BETWEEN: u32 = 4;

/// Frames that wait to be repeated a second time.
#[derive(Debug, Default)]
pub(crate) struct Again {
    until: Time,
    /// Frames with their due times, in ascending order.
    waiting: VecDeque<(Time, Token)>,
}

impl Again {
    /// Begins the time during which repeated frames are sent twice, because a path fell silent.
    pub(crate) fn begin(&mut self, now: Time) {
        self.until = now + INSURED_FOR;
    }

    /// Returns the time at which the first waiting frame is due.
    pub(crate) fn next(&self) -> Option<Time> {
        self.waiting.front().map(|(at, _)| *at)
    }

    pub(crate) fn push(&mut self, at: Time, token: Token) {
        if self.waiting.len() < MAX_AGAIN {
            // Due times stay in ascending order even if the round-trip time has become shorter.
            let at = self.waiting.back().map_or(at, |(last, _)| at.max(*last));
            self.waiting.push_back((at, token));
        }
    }

    pub(crate) fn pop_due(&mut self, now: Time) -> Option<Token> {
        self.next().filter(|at| *at <= now)?;
        self.waiting.pop_front().map(|(_, token)| token)
    }
}

impl PathSet {
    /// Queues the stream data of these frames for a second repetition, if a path fell silent recently. This
    /// is called when the frames are queued for their first repetition.
    pub(crate) fn repeat_again(&mut self, now: Time, tokens: &[Token]) {
        if self.multipath.as_ref().is_none_or(|multipath| now >= multipath.again.until) {
            return;
        }
        let fastest = self.fastest().and_then(|id| self.list.get(id));
        let Some(rtt) = fastest.map(|path| path.recovery.rtt().smoothed()) else { return };
        let Some(multipath) = &mut self.multipath else { return };
        for token in tokens.iter().filter(|token| matches!(token, Token::Stream { .. })) {
            multipath.again.push(now + rtt / BETWEEN, *token);
        }
    }
}

#[cfg(test)]
mod tests {
    use anabranch_wire::{Dir, Side, StreamId};

    use super::*;

    pub(crate) fn token(offset: u64) -> Token {
        Token::Stream { id: StreamId::new(Side::Client, Dir::Uni, 0), offset, len: 1, fin: false }
    }

    #[test]
    pub(crate) fn what_waits_is_bounded_and_leaves_in_order() {
        let at = Time::from_millis;
        let mut again = Again::default();
        (0..MAX_AGAIN as u64 + 10).for_each(|n| again.push(at(100), token(n)));
        assert_eq!(again.waiting.len(), MAX_AGAIN);
        assert_eq!((again.next(), again.pop_due(at(99))), (Some(at(100)), None));
        assert_eq!(again.pop_due(at(100)), Some(token(0)));
        again.push(at(90), token(7));
        assert_eq!(again.waiting.back(), Some(&(at(100), token(7))), "not before the others");
    }
}
