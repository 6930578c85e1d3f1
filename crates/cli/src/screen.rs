//! Standard error, where lines go above the bars that are shown there.

use std::io::{self, Write};
use std::sync::{Mutex, PoisonError};

use indicatif::MultiProgress;

/// The bars that are shown; hidden ones unless standard error is a terminal.
static BARS: Mutex<Option<MultiProgress>> = Mutex::new(None);

/// Has lines go above these bars from now on.
pub(crate) fn show(bars: &MultiProgress) {
    *BARS.lock().unwrap_or_else(PoisonError::into_inner) = Some(bars.clone());
}

/// Takes the bars away while `write` writes to standard error.
pub(crate) fn above<R>(write: impl FnOnce() -> R) -> R {
    let bars = BARS.lock().unwrap_or_else(PoisonError::into_inner).clone();
    match bars.filter(|bars| !bars.is_hidden()) {
        Some(bars) => bars.suspend(write),
        None => write(),
    }
}

/// A writer to standard error. Whoever writes whole lines to it breaks no bars.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Above;

impl Write for Above {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        above(|| io::stderr().write_all(bytes)).map(|()| bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stderr().flush()
    }
}
