//! Memory and processor time that the calls of one end take.

#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::time::Duration;

use allocation_counter::measure;
use nix::time::ClockId;

/// Sums over the calls of one end. Memory that the end allocated in a call and frees in none stays counted.
#[derive(Debug, Default)]
pub struct Meter {
    /// Bytes that the calls have allocated and not freed.
    live: i64,
    /// Maximum of `live`, within the calls too.
    peak: i64,
    busy: Duration,
}

impl Meter {
    /// Runs `call` and adds what it takes.
    pub fn charge<R>(&mut self, call: impl FnOnce() -> R) -> R {
        let mut result = None;
        let begin = thread_time();
        let memory = measure(|| result = Some(call()));
        self.busy += thread_time() - begin;
        self.peak = self.peak.max(self.live + i64::try_from(memory.bytes_max).unwrap());
        self.live += memory.bytes_current;
        result.unwrap()
    }

    /// Begins a phase: the peak is what is live now, and no time has been spent. Returns the live bytes.
    pub fn begin(&mut self) -> i64 {
        (self.peak, self.busy) = (self.live, Duration::ZERO);
        self.live
    }

    /// Returns the maximum number of live bytes in this phase.
    pub fn peak(&self) -> i64 {
        self.peak
    }

    /// Returns the processor time of this phase.
    pub fn busy(&self) -> Duration {
        self.busy
    }
}

/// Returns the time that this thread has spent on a processor. It stands still while other programs run.
fn thread_time() -> Duration {
    ClockId::CLOCK_THREAD_CPUTIME_ID.now().unwrap().into()
}
