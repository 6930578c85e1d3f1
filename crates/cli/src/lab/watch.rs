//! Progress of a sweep for users, and its end by a signal.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use anabranch_lab::experiment::Experiment;
use anabranch_lab::record::Row;
use anabranch_lab::sweep::{Progress, SweepOptions, sweep};
use indicatif::{ProgressBar, ProgressStyle};
use tokio::runtime::Builder;
use tokio::time::timeout;

use super::RESUME;
use crate::exit::{Exit, Failure, Result};
use crate::signal::Stop;

/// A bar on standard error, if that is a terminal, and an ear for signals. The first one has no other run
/// begin, and gives those under way [`GRACE`] to end; then, or at the next one, they are dropped. Where no
/// sweep is under way, the first is enough.
pub(super) struct SweepProgress {
    bar: ProgressBar,
    signals: Arc<Signals>,
}

#[derive(Default)]
struct Signals {
    /// One has come.
    stop: AtomicBool,
    /// Runs are under way.
    sweeping: AtomicBool,
    /// Runs that are written down, and all that there are to be.
    done: AtomicUsize,
    runs: AtomicUsize,
}

/// Time that runs under way have to end by themselves after a signal; with it, a command is gone within two
/// seconds.
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
        Ok(Self { bar, signals })
    }

    /// Runs what is to be run, and gives the rows.
    pub(super) fn sweep(&self, experiment: &Experiment, options: &SweepOptions) -> Result<Vec<Row>> {
        let rows = sweep(experiment, options, self);
        self.signals.sweeping.store(false, Ordering::SeqCst);
        self.bar.finish_and_clear();
        let rows = rows?;
        // Whoever wanted it to end does not wait for what comes after it.
        if self.signals.stop.load(Ordering::SeqCst) {
            return Err(Failure::new(Exit::Interrupted, "stopped when all runs were done").or(RESUME));
        }
        Ok(rows)
    }
}

/// Waits for signals on a thread of its own.
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
        // Each finished run is in the journal, and nothing else is left half written under its own name.
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
        // What was done before says nothing about the time that is left.
        self.bar.reset_eta();
        self.bar.enable_steady_tick(Duration::from_millis(500));
    }

    fn finished(&self, row: &Row) -> ControlFlow<()> {
        if !row.failure.is_empty() {
            self.bar.println(format!("{}, point {}: {}", row.variant, row.point, row.failure));
        }
        self.bar.inc(1);
        self.signals.done.fetch_add(1, Ordering::SeqCst);
        if self.signals.stop.load(Ordering::SeqCst) {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    }
}
