//! Rules for the end of slow start.

use core::fmt::Debug;

use super::Acked;

/// Rule that decides when slow start ends.
pub trait Exit: Debug + Clone + Default + Send {
    /// Handles an acknowledgment.
    fn on_acked(&mut self, ack: &Acked<'_>) -> Growth;

    /// Returns the window in bytes after slow start, which ended at `window`.
    fn window_after(&self, window: u64) -> u64 {
        window
    }

    /// Returns whether the window grows more slowly, because slow start may have to end.
    fn is_conservative(&self) -> bool {
        false
    }
}

/// Effect of an acknowledgment in slow start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Growth {
    /// The window grows by this number of bytes.
    By(u64),
    /// Slow start has ended.
    Done,
}
