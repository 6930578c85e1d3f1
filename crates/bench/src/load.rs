//! Load average of the machine, and the part of it that the benchmarks themselves cause.

use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::Error;
use crate::child::Cost;

/// Largest load average of other programs, over the last minute, at which figures are written. With two cores,
/// it is a quarter of the machine.
pub(crate) const QUIET: f64 = 0.5;

/// Interval at which Linux updates the load average, and the time over which it averages.
const PERIOD: Duration = Duration::from_secs(5);
const MINUTE: f64 = 60.0;

/// Returns the load average of the last minute.
pub(crate) fn average() -> Option<f64> {
    std::fs::read_to_string("/proc/loadavg").ok()?.split_whitespace().next()?.parse().ok()
}

/// Checks that other programs do little. `own` is the part of the load average that the benchmarks cause.
pub(crate) fn check(average: Option<f64>, own: f64, when: &str) -> Result<(), Error> {
    let average = average.ok_or("the load average is unknown, so nothing is written")?;
    let others = (average - own).max(0.0);
    if others <= QUIET {
        return Ok(());
    }
    Err(format!(
        "other programs load the machine {when}: load average {average:.2} in the last minute, {own:.2} of it by the \
         benchmarks; nothing is written above {QUIET:.2} of others"
    )
    .into())
}

/// Thread that computes which load average this process and its children would cause alone: the average of their
/// CPU time per second, with the weights of Linux's load average. A child counts when it has ended.
pub(crate) struct Watch {
    stop: Sender<()>,
    thread: JoinHandle<f64>,
}

impl Watch {
    pub(crate) fn start() -> Self {
        let (stop, stopped) = mpsc::channel();
        let thread = thread::spawn(move || {
            let mut own = Own { average: 0.0, spent: spent(), at: Instant::now() };
            while stopped.recv_timeout(PERIOD) == Err(RecvTimeoutError::Timeout) {
                own.advance(own.at.elapsed(), spent());
            }
            own.advance(own.at.elapsed(), spent());
            own.average
        });
        Self { stop, thread }
    }

    /// Returns the load average of the benchmarks at this moment.
    pub(crate) fn end(self) -> f64 {
        drop(self.stop);
        self.thread.join().unwrap_or(0.0)
    }
}

/// Decaying average of CPU seconds per second.
struct Own {
    average: f64,
    /// CPU seconds so far, and when they were read.
    spent: f64,
    at: Instant,
}

impl Own {
    fn advance(&mut self, elapsed: Duration, spent: f64) {
        let seconds = elapsed.as_secs_f64();
        if seconds <= 0.0 {
            return;
        }
        let kept = (-seconds / MINUTE).exp();
        self.average = self.average * kept + (spent - self.spent) / seconds * (1.0 - kept);
        self.spent = spent;
        self.at += elapsed;
    }
}

/// Returns the CPU seconds of this process, and of its children that have ended.
fn spent() -> f64 {
    [Cost::so_far(), Cost::of_children()].into_iter().flatten().map(|cost| cost.cpu).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_is_quiet_up_to_the_bound() {
        assert!(check(Some(QUIET), 0.0, "before").is_ok());
        assert!(check(Some(2.0 + QUIET), 2.0, "after").is_ok());
        assert!(check(Some(0.1), 2.0, "after").is_ok());
        let fault = check(Some(1.6), 1.0, "after the measurement").unwrap_err().to_string();
        assert!(
            fault.contains("after the measurement: load average 1.60") && fault.contains("1.00 of it"),
            "{fault}"
        );
        assert!(check(None, 0.0, "before").is_err());
    }

    #[test]
    fn two_busy_cores_are_a_load_of_two() {
        let mut own = Own { average: 0.0, spent: 10.0, at: Instant::now() };
        own.advance(PERIOD, 20.0);
        assert!((0.15..0.17).contains(&own.average), "{}", own.average);
        (0_u32..100).for_each(|period| own.advance(PERIOD, 30.0 + 10.0 * f64::from(period)));
        assert!((1.99..2.01).contains(&own.average), "{}", own.average);
        own.advance(Duration::from_secs(60), own.spent);
        assert!((0.7..0.8).contains(&own.average), "{}", own.average);
    }

    #[test]
    fn the_own_load_is_watched() {
        let watch = Watch::start();
        let begin = Instant::now();
        while begin.elapsed() < Duration::from_millis(50) {}
        assert!(watch.end() > 0.0);
        assert!(average().is_some());
    }
}
