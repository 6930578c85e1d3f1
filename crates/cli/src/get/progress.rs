//! Bars for people who watch.

use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Columns of a name.
const NAME: usize = 24;
/// While nobody knows how long a file is.
const OPEN: &str = "{prefix} {spinner} {decimal_bytes:>10} {decimal_bytes_per_sec:>12} {elapsed:>4}";
/// With its length, there is also a time that is left.
const KNOWN: &str =
    "{prefix} {wide_bar} {decimal_bytes:>10}/{decimal_total_bytes:<10} {decimal_bytes_per_sec:>12} {eta:>4}";

/// One bar for each file that is on its way; none unless standard error is a terminal.
pub(super) struct Progress(MultiProgress);

impl Progress {
    pub(super) fn new(visible: bool) -> Self {
        let target = if visible { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        Self(MultiProgress::with_draw_target(target))
    }

    /// A bar for a file of unknown length.
    pub(super) fn bar(&self, name: &str) -> ProgressBar {
        let bar = self.0.add(ProgressBar::no_length().with_style(style(OPEN)));
        bar.set_prefix(short(name));
        bar
    }

    /// Has something written above the bars.
    pub(super) fn above(&self, write: impl FnOnce()) {
        self.0.suspend(write);
    }

    /// Takes all bars away.
    pub(super) fn clear(&self) {
        // Fails if the terminal is gone, and then there is nothing to clear.
        let _ = self.0.clear();
    }
}

/// The file's length, once it is known.
pub(super) fn set_length(bar: &ProgressBar, len: u64) {
    bar.set_style(style(KNOWN));
    bar.set_length(len);
}

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar())
}

/// A name in the columns that it has; the end of a long one says more than its beginning.
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
        assert!(ProgressStyle::with_template(OPEN).is_ok() && ProgressStyle::with_template(KNOWN).is_ok());
    }

    #[test]
    fn names_have_one_width() {
        for name in ["a", "exactly-twenty-four-long", &"long/".repeat(20), "\x1b[2Jx"] {
            assert_eq!(short(name).chars().count(), NAME, "{name}");
        }
        assert!(short(&format!("{}end", "x".repeat(99))).ends_with("end"));
        assert!(!short("\x1b[2J").contains('\x1b'));
    }
}
