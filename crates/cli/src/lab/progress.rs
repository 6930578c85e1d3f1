//! A bar for the runs of a sweep.

use std::ops::ControlFlow;
use std::time::Duration;

use anabranch_lab::record::Row;
use anabranch_lab::sweep::Progress;
use indicatif::{ProgressBar, ProgressStyle};

/// On standard error, if that is a terminal.
pub(super) struct Bar(ProgressBar);

const STYLE: &str = "{bar:30} {pos}/{len} runs, {elapsed} so far, {eta} left{msg}";

impl Bar {
    pub(super) fn new() -> Self {
        let bar = ProgressBar::new(0);
        if let Ok(style) = ProgressStyle::with_template(STYLE) {
            bar.set_style(style);
        }
        Self(bar)
    }

    pub(super) fn clear(&self) {
        self.0.finish_and_clear();
    }
}

impl Progress for Bar {
    fn begin(&self, runs: usize, done: usize) {
        self.0.set_length(runs as u64);
        self.0.set_position(done as u64);
        // What was done before says nothing about the time that is left.
        self.0.reset_eta();
        self.0.enable_steady_tick(Duration::from_millis(500));
    }

    fn finished(&self, row: &Row) -> ControlFlow<()> {
        if !row.failure.is_empty() {
            self.0.println(format!("{}, point {}: {}", row.variant, row.point, row.failure));
        }
        self.0.inc(1);
        ControlFlow::Continue(())
    }
}
