//! Bars for people who watch: one for each file, and below them a line for each path.

use std::sync::{Mutex, PoisonError};

use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::{rate, screen};

/// Columns of a name.
const NAME: usize = 24;
/// While nobody knows how long a file is.
const OPEN: &str = "{prefix} {spinner} {decimal_bytes:>10} {msg} {elapsed:>6}";
/// With its length, there is also a time that is left.
const KNOWN: &str = "{prefix} {wide_bar} {decimal_bytes:>10}/{decimal_total_bytes:<10} {msg}";
/// A path, as far as the terminal has room.
const PATH: &str = "{wide_msg}";

/// Bars on the terminal; none unless standard error is one.
#[derive(Debug)]
pub(super) struct Progress {
    bars: MultiProgress,
    /// The lines of paths.
    paths: Mutex<Vec<ProgressBar>>,
}

impl Progress {
    pub(super) fn new(visible: bool) -> Self {
        let target = if visible { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        let bars = MultiProgress::with_draw_target(target);
        screen::show(&bars);
        Self { bars, paths: Mutex::default() }
    }

    /// Returns whether anybody sees it.
    pub(super) fn is_visible(&self) -> bool {
        !self.bars.is_hidden()
    }

    /// Returns a bar for a file of unknown length.
    pub(super) fn bar(&self, name: &str) -> ProgressBar {
        let bar = ProgressBar::no_length().with_style(style(OPEN));
        let paths = self.paths.lock().unwrap_or_else(PoisonError::into_inner);
        let bar = match paths.first() {
            Some(first) => self.bars.insert_before(first, bar),
            None => self.bars.add(bar),
        };
        bar.set_prefix(short(name));
        bar
    }

    /// Shows these lines below the bars, and no others.
    pub(super) fn show_paths(&self, lines: Vec<String>) {
        let mut paths = self.paths.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = lines.len().min(paths.len());
        paths.drain(kept..).for_each(|line| line.finish_and_clear());
        while paths.len() < lines.len() {
            paths.push(self.bars.add(ProgressBar::no_length().with_style(style(PATH))));
        }
        paths.iter().zip(lines).for_each(|(line, text)| line.set_message(text));
    }

    /// Takes everything away.
    pub(super) fn clear(&self) {
        self.show_paths(Vec::new());
        // Fails if the terminal is gone, and then there is nothing to clear.
        let _ = self.bars.clear();
    }

    /// Takes everything away for good, bars that were not finished included.
    pub(super) fn end(&self) {
        self.clear();
        self.bars.set_draw_target(ProgressDrawTarget::hidden());
    }
}

/// Sets the file's length, once it is known.
pub(super) fn set_length(bar: &ProgressBar, len: u64) {
    bar.set_style(style(KNOWN));
    bar.set_length(len);
}

/// Shows how fast the file comes, in bytes per second, and how long the rest takes.
pub(super) fn set_rate(bar: &ProgressBar, now: f64) {
    let left = bar.length().map(|len| rate::left(len.saturating_sub(bar.position()), now));
    bar.set_message(format!("{:>12} {:>7}", rate::words(now), left.unwrap_or_default()));
}

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar())
}

/// Fits a name into its columns; of a long one the end is kept, which says more than the beginning.
fn short(name: &str) -> String {
    let printable: Vec<char> = name.chars().filter(|c| !c.is_control()).collect();
    match printable.len().checked_sub(NAME) {
        Some(1..) => format!("…{}", printable[printable.len() + 1 - NAME..].iter().collect::<String>()),
        _ => format!("{:<NAME$}", printable.into_iter().collect::<String>()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn templates_are_understood() {
        for template in [OPEN, KNOWN, PATH] {
            assert!(ProgressStyle::with_template(template).is_ok(), "{template}");
        }
    }

    #[test]
    fn names_have_one_width() {
        for name in ["a", "exactly-twenty-four-long", &"long/".repeat(20), "\x1b[2Jx"] {
            assert_eq!(short(name).chars().count(), NAME, "{name}");
        }
        assert!(short(&format!("{}end", "x".repeat(99))).ends_with("end"));
        assert!(!short("\x1b[2J").contains('\x1b'));
    }

    #[test]
    fn a_rate_and_the_time_that_is_left() {
        let bar = ProgressBar::hidden();
        bar.inc(1_000_000);
        set_rate(&bar, 1e6);
        assert_eq!(bar.message().trim(), "8.0 Mbit/s");
        set_length(&bar, 61_000_000);
        set_rate(&bar, 1e6);
        assert_eq!(bar.message().split_whitespace().collect::<Vec<_>>(), ["8.0", "Mbit/s", "1:00"]);
    }
}
