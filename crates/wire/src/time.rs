//! Virtual or real time as the core sees it.

use core::ops::{Add, AddAssign, Sub};
use core::time::Duration;

/// An instant: nanoseconds since an epoch that the driver chooses and never changes.
///
/// The core never reads a clock. Every entry point takes a `Time`, so that a simulator can run years in
/// seconds and the same inputs give the same outputs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(u64);

impl Time {
    /// The driver's epoch.
    pub const ZERO: Self = Self(0);

    /// Returns the instant `nanos` nanoseconds after the epoch.
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// Returns the instant `micros` microseconds after the epoch.
    pub const fn from_micros(micros: u64) -> Self {
        Self(micros * 1_000)
    }

    /// Returns the instant `millis` milliseconds after the epoch.
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis * 1_000_000)
    }

    /// Nanoseconds since the epoch.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// Returns the time passed since `earlier`, zero if `earlier` lies in the future.
    pub const fn saturating_since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

impl Add<Duration> for Time {
    type Output = Self;

    /// Saturates at the end of time (584 years after the epoch).
    fn add(self, duration: Duration) -> Self {
        let nanos = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        Self(self.0.saturating_add(nanos))
    }
}

impl AddAssign<Duration> for Time {
    fn add_assign(&mut self, duration: Duration) {
        *self = *self + duration;
    }
}

impl Sub for Time {
    type Output = Duration;

    /// Subtracts like [`Time::saturating_since`].
    fn sub(self, earlier: Self) -> Duration {
        self.saturating_since(earlier)
    }
}

impl Sub<Duration> for Time {
    type Output = Self;

    /// Saturates at the epoch.
    fn sub(self, duration: Duration) -> Self {
        let nanos = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        Self(self.0.saturating_sub(nanos))
    }
}
