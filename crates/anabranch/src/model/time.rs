//! Clock of the model, and its timers.

use std::cell::RefCell;
use std::future::Future;
use std::ops::{Add, Sub};
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

/// Time since the UNIX epoch at which each execution begins.
const BEGIN: Duration = Duration::from_secs(1_800_000_000);

thread_local! {
    /// Clock of this thread's execution. All tasks of an execution run in one thread.
    static CLOCK: RefCell<Clock> = RefCell::default();
}

#[derive(Default)]
struct Clock {
    now: Duration,
    timers: Vec<(Duration, u64, Waker)>,
    next: u64,
}

/// Point in time of the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Instant(Duration);

impl Instant {
    pub(crate) fn now() -> Self {
        Self(now())
    }

    pub(crate) fn elapsed(&self) -> Duration {
        now().saturating_sub(self.0)
    }
}

impl Add<Duration> for Instant {
    type Output = Self;

    fn add(self, rhs: Duration) -> Self {
        Self(self.0 + rhs)
    }
}

impl Sub for Instant {
    type Output = Duration;

    fn sub(self, rhs: Self) -> Duration {
        self.0.saturating_sub(rhs.0)
    }
}

/// Returns the time since the execution's begin.
pub(super) fn now() -> Duration {
    CLOCK.with_borrow(|clock| clock.now)
}

pub(crate) fn since_epoch() -> Duration {
    BEGIN + now()
}

/// Begins a new execution.
pub(super) fn reset() {
    let _before = CLOCK.replace(Clock::default());
}

/// Advances to the next timer, and wakes its task. Returns false if there is none.
pub(super) fn advance() -> bool {
    let waker = CLOCK.with_borrow_mut(|clock| {
        let at = (0..clock.timers.len()).min_by_key(|at| clock.timers[*at].0)?;
        let (deadline, _, waker) = clock.timers.swap_remove(at);
        clock.now = clock.now.max(deadline);
        Some(waker)
    });
    waker.map(Waker::wake).is_some()
}

/// Future that is ready at a time.
#[derive(Debug)]
pub(crate) struct Sleep {
    deadline: Instant,
    id: u64,
}

impl Sleep {
    pub(crate) fn deadline(&self) -> Instant {
        self.deadline
    }

    pub(crate) fn reset(mut self: Pin<&mut Self>, deadline: Instant) {
        self.forget();
        self.deadline = deadline;
    }

    fn forget(&self) {
        // The thread's clock may be gone when an execution that has failed is cleared away.
        let _ = CLOCK.try_with(|clock| clock.borrow_mut().timers.retain(|(_, id, _)| *id != self.id));
    }
}

impl Future for Sleep {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if self.deadline.0 <= now() {
            return Poll::Ready(());
        }
        self.forget();
        CLOCK.with_borrow_mut(|clock| clock.timers.push((self.deadline.0, self.id, cx.waker().clone())));
        Poll::Pending
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        self.forget();
    }
}

pub(crate) fn sleep_until(deadline: Instant) -> Sleep {
    let id = CLOCK.with_borrow_mut(|clock| {
        clock.next += 1;
        clock.next
    });
    Sleep { deadline, id }
}

pub(crate) fn sleep(duration: Duration) -> Sleep {
    sleep_until(Instant::now() + duration)
}

/// Error of a future that is not ready in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Elapsed;

pub(crate) async fn timeout<F: Future>(duration: Duration, future: F) -> Result<F::Output, Elapsed> {
    let (mut future, mut sleep) = (pin!(future), pin!(sleep(duration)));
    std::future::poll_fn(|cx| match future.as_mut().poll(cx) {
        Poll::Ready(output) => Poll::Ready(Ok(output)),
        Poll::Pending => sleep.as_mut().poll(cx).map(|()| Err(Elapsed)),
    })
    .await
}
