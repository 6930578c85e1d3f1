//! Output to standard error, printed above the progress bars.

use std::io::{self, Write};
use std::sync::{Mutex, PoisonError};

use indicatif::MultiProgress;

/// The visible bars; hidden bars if standard error is not a terminal.
static BARS: Mutex<Option<MultiProgress>> = Mutex::new(None);

/// Prints lines above `bars` from now on.
pub(crate) fn show(bars: &MultiProgress) {
    *BARS.lock().unwrap_or_else(PoisonError::into_inner) = Some(bars.clone());
}

/// Hides the bars while `write` writes to standard error.
pub(crate) fn above<R>(write: impl FnOnce() -> R) -> R {
    let bars = BARS.lock().unwrap_or_else(PoisonError::into_inner).clone();
    match bars.filter(|bars| !bars.is_hidden()) {
        Some(bars) => bars.suspend(write),
        None => write(),
    }
}

/// Writer to standard error that prints above the bars. Each write should be of whole lines.
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
