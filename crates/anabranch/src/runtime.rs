//! Tasks and timers of the driver and of what it starts: tokio's. The unit tests under the model checker replace them with its own tasks
//! and a clock that advances only while every task waits.

#[cfg(all(test, feature = "model"))]
pub(crate) use crate::model::{Instant, Sleep, since_epoch, sleep, sleep_until, spawn, timeout};

#[cfg(not(all(test, feature = "model")))]
pub(crate) use self::real::since_epoch;
#[cfg(not(all(test, feature = "model")))]
pub(crate) use tokio::spawn;
#[cfg(not(all(test, feature = "model")))]
pub(crate) use tokio::time::{Instant, Sleep, sleep, sleep_until, timeout};

#[cfg(not(all(test, feature = "model")))]
mod real {
    use std::time::{Duration, SystemTime, UNIX_EPOCH};

    /// Returns the time since the UNIX epoch by the system's clock.
    pub(crate) fn since_epoch() -> Duration {
        SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
    }
}
