//! Progress of a sweep for users, and its interruption by signals.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anabranch_lab::experiment::Experiment;
use anabranch_lab::record::Row;
use anabranch_lab::sweep::{Progress, SweepOptions, sweep};
use indicatif::{ProgressBar, ProgressStyle};
use tokio::runtime::Builder;
use tokio::time::timeout;

use super::RESUME;
use super::left::Left;
use crate::exit::{Exit, Failure, Result, note};
use crate::signal::Stop;

/// Progress of a sweep on standard error, and handler of signals. On a terminal the progress is a bar.
/// Otherwise a line is printed from time to time. The first signal prevents further runs and gives active
/// ones [`GRACE`] to end. After that time, or at the next signal, they are dropped. If no sweep is running,
/// the first signal ends the command.
pub(super) struct SweepProgress {
    bar: ProgressBar,
    left: Mutex<Option<Left>>,
    signals: Arc<Signals>,
}

#[derive(Default)]
struct Signals {
    /// `true` once a signal was received.
    stop: AtomicBool,
    /// `true` while a sweep is running.
    sweeping: AtomicBool,
    /// Number of completed runs in the journal; `runs` is the number of all runs.
    done: AtomicUsize,
    runs: AtomicUsize,
}

/// Time that active runs have to end after a signal, so that the command ends within two seconds.
const GRACE: Duration = Duration::from_millis(1500);

const STYLE: &str = "{bar:30} {pos}/{len} runs, {elapsed} so far, {eta} left{msg}";
const STOPPING: &str = "; ending";

impl SweepProgress {
    pub(super) fn new() -> Result<Self> {
        let bar = ProgressBar::new(0);
        if let Ok(style) = ProgressStyle::with_template(STYLE) {
            bar.set_style(style);
        }
        let signals = Arc::default();
        listen(Arc::clone(&signals), bar.clone())?;
        Ok(Self { bar, left: Mutex::default(), signals })
    }

    /// Runs the sweep and returns its rows.
    pub(super) fn sweep(&self, experiment: &Experiment, options: &SweepOptions) -> Result<Vec<Row>> {
        let rows = sweep(experiment, options, self);
        self.signals.sweeping.store(false, Ordering::SeqCst);
        self.bar.finish_and_clear();
        let rows = rows?;
        // After a signal, the steps that follow the sweep are skipped.
        if self.signals.stop.load(Ordering::SeqCst) {
            return Err(Failure::new(Exit::Interrupted, "stopped when all runs were done").or(RESUME));
        }
        Ok(rows)
    }
}

/// Waits for signals on a separate thread.
fn listen(signals: Arc<Signals>, bar: ProgressBar) -> Result {
    let runtime = Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Failure::io("cannot wait for signals", &error))?;
    let mut caught = runtime.block_on(async { Stop::catch() })?;
    std::thread::spawn(move || {
        runtime.block_on(caught.wait());
        signals.stop.store(true, Ordering::SeqCst);
        if signals.sweeping.load(Ordering::SeqCst) {
            bar.set_message(STOPPING);
            // Ends early at another signal.
            let _ = runtime.block_on(async { timeout(GRACE, caught.wait()).await });
        }
        bar.finish_and_clear();
        // Exiting is safe: each finished run is in the journal, and no other file is incomplete under its own
        // name.
        let [done, runs] = [&signals.done, &signals.runs].map(|count| count.load(Ordering::SeqCst));
        let said = match runs {
            0 => "stopped at once".to_owned(),
            _ => format!("stopped with {done} of {runs} runs done, those under way dropped"),
        };
        Failure::new(Exit::Interrupted, said).or(RESUME).report();
        std::process::exit(Exit::Interrupted as i32);
    });
    Ok(())
}

impl Progress for SweepProgress {
    fn begin(&self, runs: usize, done: usize) {
        self.signals.done.store(done, Ordering::SeqCst);
        self.signals.runs.store(runs, Ordering::SeqCst);
        self.signals.sweeping.store(true, Ordering::SeqCst);
        self.bar.reset();
        self.bar.set_length(runs as u64);
        self.bar.set_position(done as u64);
        // Runs that were completed before do not count towards the estimate of the remaining time.
        self.bar.reset_eta();
        self.bar.enable_steady_tick(Duration::from_millis(500));
        let left = Left::new(Instant::now(), runs, done);
        left.resumed().into_iter().for_each(note);
        *self.left.lock().unwrap_or_else(PoisonError::into_inner) = Some(left);
    }

    fn finished(&self, row: &Row) -> ControlFlow<()> {
        if !row.failure.is_empty() {
            self.bar.println(format!("{}, point {}: {}", row.variant, row.point, row.failure));
        }
        self.bar.inc(1);
        let mut left = self.left.lock().unwrap_or_else(PoisonError::into_inner);
        let line = left.as_mut().and_then(|left| left.finished(Instant::now()));
        line.filter(|_| self.bar.is_hidden()).into_iter().for_each(note);
        drop(left);
        self.signals.done.fetch_add(1, Ordering::SeqCst);
        if self.signals.stop.load(Ordering::SeqCst) {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    }
}
