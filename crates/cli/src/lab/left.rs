//! Remaining runs of a sweep and the time that they will take, as lines of text.

use std::time::{Duration, Instant};

/// Minimum time between two lines.
const EVERY: Duration = Duration::from_secs(30);

/// Numbers of runs that are done and that remain.
#[derive(Debug)]
pub(super) struct Left {
    runs: usize,
    /// Number of runs that earlier sweeps had completed.
    found: usize,
    done: usize,
    begun: Instant,
    last_line: Instant,
}

impl Left {
    /// Begins to count at `now`: `found` of `runs` runs are completed.
    pub(super) fn new(now: Instant, runs: usize, found: usize) -> Self {
        Self { runs, found, done: found, begun: now, last_line: now }
    }

    /// Returns a line about the runs that earlier sweeps completed; `None` if there are none, or no runs remain.
    pub(super) fn resumed(&self) -> Option<String> {
        let left = self.runs - self.found;
        (self.found > 0 && left > 0)
            .then(|| format!("{} of {} runs are there already, {left} are left", self.found, self.runs))
    }

    /// Counts a completed run. Returns a line if one is due. Its estimate assumes that each remaining run takes as
    /// long as the average run of this sweep.
    pub(super) fn finished(&mut self, now: Instant) -> Option<String> {
        self.done += 1;
        if now < self.last_line + EVERY || self.done >= self.runs {
            return None;
        }
        self.last_line = now;
        let left = self.runs - self.done;
        let each = (now - self.begun).as_secs_f64() / (self.done - self.found) as f64;
        let time = human(each * left as f64);
        Some(format!("{} of {} runs done, {left} left: about {time}", self.done, self.runs))
    }
}

/// Formats a duration in seconds, minutes or hours, depending on its length.
fn human(seconds: f64) -> String {
    match seconds {
        ..90.0 => format!("{:.0} s", seconds.max(1.0)),
        90.0..5400.0 => format!("{:.0} min", seconds / 60.0),
        _ => format!("{:.1} h", seconds / 3600.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rest_takes_as_long_as_the_runs_of_this_sweep() {
        let begun = Instant::now();
        let mut left = Left::new(begun, 1000, 400);
        assert_eq!(left.resumed().unwrap(), "400 of 1000 runs are there already, 600 are left");
        let at = |seconds| begun + Duration::from_secs(seconds);
        for second in 1..30 {
            assert_eq!(left.finished(at(second)), None);
        }
        assert_eq!(left.finished(at(30)).unwrap(), "430 of 1000 runs done, 570 left: about 10 min");
        assert_eq!(left.finished(at(31)), None, "a line every half a minute is enough");
    }

    #[test]
    fn nothing_is_said_when_nothing_is_left() {
        let begun = Instant::now();
        assert_eq!(Left::new(begun, 10, 0).resumed(), None);
        assert_eq!(Left::new(begun, 10, 10).resumed(), None);
        let mut last = Left::new(begun, 10, 9);
        assert_eq!(last.finished(begun + Duration::from_secs(99)), None);
        assert_eq!([0.2, 89.0, 600.0, 7200.0].map(human), ["1 s", "89 s", "10 min", "2.0 h"]);
    }
}
