//! Periods in which a link drops all packets.

use core::ops::Range;
use core::time::Duration;

use anabranch_wire::Time;

use super::{Element, Lost, Next};
use crate::packet::Packet;

/// Link element that drops all packets during certain periods.
#[derive(Clone, Debug, Default)]
pub struct Blackout {
    windows: Vec<Range<Time>>,
    every: Option<Duration>,
}

impl Blackout {
    /// Creates a blackout: the link is down during each of `windows`.
    pub fn new(windows: impl IntoIterator<Item = Range<Time>>) -> Self {
        Self { windows: windows.into_iter().collect(), every: None }
    }

    /// Repeats the windows with `period`, which must be longer than the end of the last window.
    pub fn every(mut self, period: Duration) -> Self {
        self.every = Some(period);
        self
    }

    fn is_down(&self, at: Time) -> bool {
        let at = match self.every {
            Some(period) => {
                let period = u64::try_from(period.as_nanos()).unwrap_or(u64::MAX).max(1);
                Time::from_nanos(at.as_nanos() % period)
            }
            None => at,
        };
        self.windows.iter().any(|window| window.contains(&at))
    }
}

impl Element for Blackout {
    fn push(&mut self, at: Time, packet: Packet, next: &mut Next<'_>) {
        if self.is_down(at) {
            next.lose(packet, Lost::Blackout);
        } else {
            next.push(at, packet);
        }
    }
}
