//! Progress bars of the demo: one for each path, and one for the whole transfer.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use indicatif::{MultiProgress, ProgressBar, ProgressStyle};

use super::links::Link;
use super::timeline::Timeline;
use crate::screen;

/// Template for a path: the part of its link's rate that it uses, in kbit/s, and its state.
const PATH: &str = "{prefix} {bar:24.cyan/dim} {msg}";
/// Template for the whole transfer.
const TOTAL: &str = "{prefix} {bar:24.green/dim} {decimal_bytes:>9} of {decimal_total_bytes:<9} {msg}";
/// Width of a bar's name, in columns.
const NAME: usize = 24;
/// Interval at which the bars of single paths are updated.
const TICK: Duration = Duration::from_millis(200);

/// A bar for each path and one for the whole transfer; hidden if standard error is not a terminal.
pub(super) struct Bars {
    all: MultiProgress,
    paths: Vec<ProgressBar>,
    total: ProgressBar,
}

impl Bars {
    pub(super) fn new(links: &[Link], size: u64) -> Self {
        // `MultiProgress` draws to standard error by default, and draws nothing if that is not a terminal.
        let all = MultiProgress::new();
        screen::show(&all);
        let bar = |(index, link): (usize, &Link)| {
            let bar = all.add(ProgressBar::new(kbit(link.rate as f64)).with_style(style(PATH)));
            bar.set_prefix(format!("{:<NAME$}", format!("path {index}  {}", link.text)));
            bar
        };
        let paths = links.iter().enumerate().map(bar).collect();
        let total = all.add(ProgressBar::new(size).with_style(style(TOTAL)));
        total.set_prefix(format!("{:<NAME$}", "together"));
        Self { all, paths, total }
    }

    /// Shows the newest state.
    pub(super) fn show(&self, timeline: &Timeline) {
        let Some(newest) = timeline.samples.last() else { return };
        let last = timeline.samples.len() - 1;
        for (index, (bar, path)) in self.paths.iter().zip(&newest.paths).enumerate() {
            let rate = timeline.rate(last, |sample| sample.paths[index].received);
            bar.set_position(kbit(rate));
            bar.set_message(format!(
                "{:>6.1} Mbit/s  RTT {:>23}  window {:>5} kB  {}",
                rate / 1e6,
                path.rtt_words(),
                path.window / 1000,
                path.state,
            ));
        }
        self.total.set_position(newest.bytes);
        self.total.set_message(format!("{:.1} Mbit/s", timeline.rate(last, |sample| sample.bytes) / 1e6));
    }

    /// Shows the measurement of each path alone until this future is dropped. `counts` are the bytes received
    /// on each path.
    pub(super) async fn alone(&self, counts: Vec<Arc<AtomicU64>>) {
        let mut before = vec![0; counts.len()];
        let mut ticks = tokio::time::interval(TICK);
        self.total.set_message("each path alone, to compare with");
        loop {
            ticks.tick().await;
            for ((bar, count), before) in self.paths.iter().zip(&counts).zip(&mut before) {
                let now = count.load(Ordering::Relaxed);
                let rate = (now - *before) as f64 * 8.0 / TICK.as_secs_f64();
                *before = now;
                bar.set_position(kbit(rate));
                bar.set_message(format!("{:>6.1} Mbit/s  alone", rate / 1e6));
            }
        }
    }

    /// Removes the bars.
    pub(super) fn clear(&self) {
        // Fails only if the terminal is gone, with nothing left to clear.
        let _ = self.all.clear();
    }
}

fn kbit(rate: f64) -> u64 {
    (rate / 1e3) as u64
}

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn templates_are_understood() {
        assert!(ProgressStyle::with_template(PATH).is_ok() && ProgressStyle::with_template(TOTAL).is_ok());
    }
}
