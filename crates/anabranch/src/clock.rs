//! The one place where real time enters.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anabranch_wire::Time;
use tokio::time::Instant;

/// Gives the core's [`Time`]: nanoseconds since the UNIX epoch, read once from the system's clock and then
/// counted by the monotonic one, so that it never goes back. The UNIX epoch lets address tokens outlive a
/// restart.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    origin: Instant,
    since_epoch: Duration,
}

impl Clock {
    pub(crate) fn new() -> Self {
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self { origin: Instant::now(), since_epoch }
    }

    pub(crate) fn now(&self) -> Time {
        Time::ZERO + self.since_epoch + self.origin.elapsed()
    }

    /// Returns the time by which the system's clock has gained on this one since the beginning. It grows
    /// while the host is suspended and the monotonic clock stands still, and when the system's clock is set.
    pub(crate) fn drift(&self) -> Duration {
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        since_epoch.saturating_sub(self.since_epoch + self.origin.elapsed())
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
