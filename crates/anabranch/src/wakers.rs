//! Sets of waiting tasks.

use std::task::{Context, Waker};

/// Tasks that wait for the same event. They are woken while no lock is held: a waker may run code of the application, for instance if
/// its executor drops a task.
#[derive(Debug, Default)]
pub(crate) struct WakerSet(Vec<Waker>);

impl WakerSet {
    /// Adds the task of `cx`, to be woken once. A task that is already in the set is not added again.
    pub(crate) fn register(&mut self, cx: &Context<'_>) {
        if !self.0.iter().any(|waker| waker.will_wake(cx.waker())) {
            self.0.push(cx.waker().clone());
        }
    }

    /// Moves all wakers into `woken`, for the caller to wake once it holds no lock.
    pub(crate) fn drain_into(&mut self, woken: &mut Vec<Waker>) {
        woken.append(&mut self.0);
    }

    /// Removes all tasks, and returns them for the caller to wake once it holds no lock.
    #[must_use]
    pub(crate) fn take(&mut self) -> Self {
        std::mem::take(self)
    }

    /// Wakes all tasks.
    pub(crate) fn wake(self) {
        self.0.into_iter().for_each(Waker::wake);
    }
}
