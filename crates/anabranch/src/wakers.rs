//! Tasks that wait for something to happen.

use std::task::{Context, Waker};

/// Tasks that wait for the same thing.
#[derive(Debug, Default)]
pub(crate) struct WakerSet(Vec<Waker>);

impl WakerSet {
    /// Has the task of `cx` woken next time; a task that asks again is still woken once.
    pub(crate) fn register(&mut self, cx: &Context<'_>) {
        if !self.0.iter().any(|waker| waker.will_wake(cx.waker())) {
            self.0.push(cx.waker().clone());
        }
    }

    /// Moves all of them into `woken`, for the caller to wake once it holds no lock.
    pub(crate) fn drain_into(&mut self, woken: &mut Vec<Waker>) {
        woken.append(&mut self.0);
    }

    /// Wakes all of them.
    pub(crate) fn wake(&mut self) {
        self.0.drain(..).for_each(Waker::wake);
    }
}
