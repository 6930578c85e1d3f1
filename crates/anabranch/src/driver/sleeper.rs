//! Detection of suspended hosts and stopped processes.

use std::time::Duration;

use anabranch_wire::Time;

/// Minimum delay of a turn that counts as sleep of this host or process. Load alone does not delay a turn so
/// long.
const ASLEEP: Duration = Duration::from_secs(2);

/// Detector of sleep. It compares two clocks at the beginning of each turn.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sleeper {
    last: Option<(Time, Duration)>,
}

impl Sleeper {
    /// Records the start of a turn that was due by `due`. `drift` is the lead of the system's clock over the
    /// monotonic one. Returns how long this endpoint has been asleep, if it has.
    pub(super) fn on_turn(&mut self, now: Time, drift: Duration, due: Option<Time>) -> Option<Duration> {
        let (last, before) = self.last.replace((now, drift))?;
        let suspended = drift.saturating_sub(before);
        let late = due.is_some_and(|due| now.saturating_since(due.max(last)) > ASLEEP);
        let stopped = if late { now.saturating_since(last) } else { Duration::ZERO };
        Some(suspended + stopped).filter(|asleep| *asleep > ASLEEP)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(seconds: u64) -> Time {
        Time::from_millis(seconds * 1000)
    }

    const fn s(n: u64) -> Duration {
        Duration::from_secs(n)
    }

    #[test]
    fn stopped_processes_and_suspended_hosts() {
        let mut sleeper = Sleeper::default();
        assert_eq!(sleeper.on_turn(at(10), s(0), None), None);
        assert_eq!(sleeper.on_turn(at(60), s(0), None), None, "there was nothing to do");
        assert_eq!(sleeper.on_turn(at(90), s(0), Some(at(90))), None, "in time");
        assert_eq!(sleeper.on_turn(at(130), s(0), Some(at(95))), Some(s(40)), "stopped");
        assert_eq!(sleeper.on_turn(at(131), s(3600), Some(at(135))), Some(s(3600)), "suspended");
        assert_eq!(sleeper.on_turn(at(132), s(3600), Some(at(135))), None);
        assert_eq!(sleeper.on_turn(at(133), s(0), Some(at(135))), None, "somebody has set the clock");
    }
}
