//! The end of slow start, found by a rule of its own.

use core::fmt::Debug;

use super::Acked;

/// Looks for the end of slow start.
pub trait Exit: Debug + Clone + Default + Send {
    /// Takes an acknowledgment in.
    fn on_acked(&mut self, ack: &Acked<'_>) -> Growth;

    /// Returns the window in bytes after slow start has ended at `window`.
    fn window_after(&self, window: u64) -> u64 {
        window
    }

    /// Returns whether the window grows more slowly, because the end is suspected.
    fn is_conservative(&self) -> bool {
        false
    }
}

/// Meaning of an acknowledgment for slow start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Growth {
    /// Grow the window by so many bytes.
    By(u64),
    /// Slow start is over.
    Done,
}
