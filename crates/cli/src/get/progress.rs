//! Progress bars: one for each file, and below them one line for each path.

use std::sync::{Mutex, PoisonError};

use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::{rate, screen};

/// Width of a file's name, in columns.
const NAME: usize = 24;
/// Template for a file of unknown length.
const OPEN: &str = "{prefix} {spinner} {decimal_bytes:>10} {msg} {elapsed:>6}";
/// Template for a file of known length, with the remaining time.
const KNOWN: &str = "{prefix} {wide_bar} {decimal_bytes:>10}/{decimal_total_bytes:<10} {msg}";
/// Template for a path: as much as fits the terminal's width.
const PATH: &str = "{wide_msg}";

/// Progress bars on the terminal; hidden if standard error is not a terminal.
#[derive(Debug)]
pub(super) struct Progress {
    bars: MultiProgress,
    /// One line for each path.
    paths: Mutex<Vec<ProgressBar>>,
}

impl Progress {
    pub(super) fn new(visible: bool) -> Self {
        let target = if visible { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        let bars = MultiProgress::with_draw_target(target);
        screen::show(&bars);
        Self { bars, paths: Mutex::default() }
    }

    /// Returns whether the bars are visible.
    pub(super) fn is_visible(&self) -> bool {
        !self.bars.is_hidden()
    }

    /// Adds a bar for a file of unknown length.
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

    /// Shows these lines below the bars, instead of the previous ones.
    pub(super) fn show_paths(&self, lines: Vec<String>) {
        let mut paths = self.paths.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = lines.len().min(paths.len());
        paths.drain(kept..).for_each(|line| line.finish_and_clear());
        while paths.len() < lines.len() {
            paths.push(self.bars.add(ProgressBar::no_length().with_style(style(PATH))));
        }
        paths.iter().zip(lines).for_each(|(line, text)| line.set_message(text));
    }

    /// Removes the bars and the lines of paths from the terminal.
    pub(super) fn clear(&self) {
        self.show_paths(Vec::new());
        // Fails only if the terminal is gone, with nothing left to clear.
        let _ = self.bars.clear();
    }

    /// Removes everything for good, including unfinished bars.
    pub(super) fn end(&self) {
        self.clear();
        self.bars.set_draw_target(ProgressDrawTarget::hidden());
    }
}

/// Sets the file's length when it becomes known.
pub(super) fn set_length(bar: &ProgressBar, len: u64) {
    bar.set_style(style(KNOWN));
    bar.set_length(len);
}

/// Shows the download rate, in bytes per second, and the remaining time.
pub(super) fn set_rate(bar: &ProgressBar, now: f64) {
    let left = bar.length().map(|len| rate::left(len.saturating_sub(bar.position()), now));
    bar.set_message(format!("{:>12} {:>7}", rate::words(now), left.unwrap_or_default()));
}

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar())
}

/// Fits a name into its columns. A long name is cut at its beginning, because its end is more distinctive.
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
