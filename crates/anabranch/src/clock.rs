//! Clock of an endpoint, from which the core gets the time.

use std::time::Duration;

use anabranch_wire::Time;

use crate::runtime::{Instant, since_epoch};

/// Clock that returns the core's [`Time`]: nanoseconds since the UNIX epoch. It reads the system's clock only
/// when it is created. Later times are this time plus the time that has passed on the monotonic clock, so
/// they never go back. Counting from the UNIX epoch lets address tokens outlive a restart.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    origin: Instant,
    since_epoch: Duration,
}

impl Clock {
    pub(crate) fn new() -> Self {
        Self { origin: Instant::now(), since_epoch: since_epoch() }
    }

    pub(crate) fn now(&self) -> Time {
        Time::ZERO + self.since_epoch + self.origin.elapsed()
    }

    /// Returns the time by which the system's clock has run ahead of this clock since this clock was created.
    /// The lead grows while the host is suspended, because the monotonic clock then stands still. It also
    /// grows when the system's clock is set forward.
    pub(crate) fn drift(&self) -> Duration {
        since_epoch().saturating_sub(self.since_epoch + self.origin.elapsed())
    }

    /// Converts `time` to an instant for tokio's timers.
    pub(crate) fn instant(&self, time: Time) -> Instant {
        self.origin + time.saturating_since(Time::ZERO + self.since_epoch)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_and_instant_agree() {
        let clock = Clock::new();
        let now = clock.now();
        assert!(now > Time::ZERO + Duration::from_secs(1_600_000_000), "counts from the UNIX epoch");
        let later = now + Duration::from_secs(5);
        assert_eq!(clock.instant(later) - clock.instant(now), Duration::from_secs(5));
        assert!(clock.now() >= now);
    }
}
