//! Runs a scenario in many orders of its tasks.

use std::cell::{Cell, RefCell};
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Poll, Waker};
use std::thread::LocalKey;
use std::time::{Duration, Instant};

use shuttle::future::{self, JoinHandle};
use shuttle::scheduler::{self, PctScheduler, RandomScheduler, Schedule, Scheduler, TaskId};
use shuttle::{Config, FailurePersistence, Runner};

use super::{locks, time};
use crate::socket;

/// Environment variable with the number of executions of each test.
const EXECUTIONS: &str = "ANABRANCH_INTERLEAVINGS";
/// Number of executions of each test without that variable.
const FEW: usize = 100;
/// Environment variable with the seed of the first execution.
const SEED: &str = "ANABRANCH_SEED";
/// Maximum number of changes of priorities in an execution by priorities (PCT): faults that need so many ones are found with a known
/// probability.
const CHANGES: usize = 3;
/// Stack of each task in bytes; TLS needs most of it.
const STACK: usize = 1 << 20;
/// Identifier of the task that advances the clock. It is the first one after the main one.
const CLOCK: usize = 1;

thread_local! {
    /// Number of the present execution.
    static EXECUTION: Cell<usize> = const { Cell::new(0) };
    /// Number of this execution's tasks that have not ended.
    static RUNNING: Cell<usize> = const { Cell::new(0) };
    /// Main task, while it waits for the end of the other ones.
    static WAITING: RefCell<Option<Waker>> = const { RefCell::new(None) };
}

/// Runs `scenario` in many orders of its tasks: in random ones, and by random priorities. Afterwards, every task must end. Fails if
/// that takes longer than `limit` by the clock of the model.
pub(crate) fn check<F>(limit: Duration, scenario: impl Fn() -> F + Send + Sync + 'static)
where
    F: Future<Output = ()> + Send + 'static,
{
    let (executions, seed) = (variable(EXECUTIONS).unwrap_or(FEW), variable(SEED).unwrap_or(1) as u64);
    let scenario = Arc::new(scenario);
    let by_priority = executions / 2;
    let random = RandomScheduler::new_from_seed(seed, executions - by_priority);
    run("random orders", random, limit, scenario.clone());
    run("random priorities", PctScheduler::new_from_seed(seed, CHANGES, by_priority), limit, scenario);
}

fn variable(name: &str) -> Option<usize> {
    std::env::var(name).ok()?.parse().ok()
}

fn run<F>(
    orders: &'static str,
    scheduler: impl Scheduler + 'static,
    limit: Duration,
    scenario: Arc<impl Fn() -> F + Send + Sync + 'static>,
) where
    F: Future<Output = ()> + Send + 'static,
{
    let mut config = Config::new();
    config.stack_size = STACK;
    config.failure_persistence = FailurePersistence::None;
    config.silence_warnings = true;
    config.ungraceful_shutdown_config.immediately_return_on_panic = true;
    let progress = Progress { orders, begun: Instant::now() };
    EXECUTION.set(0);
    Runner::new(Patient(scheduler), config).run(move || {
        EXECUTION.set(EXECUTION.get() + 1);
        time::reset();
        locks::reset();
        socket::reset();
        RUNNING.set(0);
        drop(future::spawn(tick(limit)));
        let scenario = scenario.clone();
        future::block_on(async move {
            scenario().await;
            poll_fn(|cx| match RUNNING.get() {
                0 => Poll::Ready(()),
                _ => {
                    set(&WAITING, Some(cx.waker().clone()));
                    Poll::Pending
                }
            })
            .await;
        });
    });
    drop(progress);
}

/// Report of the number of executions, also of those before a failure.
struct Progress {
    orders: &'static str,
    begun: Instant,
}

impl Drop for Progress {
    fn drop(&mut self) {
        let outcome = if std::thread::panicking() { "failed in execution" } else { "executions:" };
        eprintln!("{}: {outcome} {} ({:.1?})", self.orders, EXECUTION.get(), self.begun.elapsed());
    }
}

/// Advances the clock. The scheduler runs this task only while all others wait.
async fn tick(limit: Duration) {
    loop {
        assert!(time::advance(), "all tasks wait, and no timer is armed");
        assert!(time::now() <= limit, "{:?} have passed, and tasks still wait", time::now());
        future::yield_now().await;
    }
}

/// Starts a task, which must end before the execution ends.
pub(crate) fn spawn<F>(future: F) -> JoinHandle<F::Output>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    /// Count of a task, until the task has ended or was aborted.
    struct Running;

    impl Drop for Running {
        fn drop(&mut self) {
            let left = RUNNING.try_with(|running| {
                running.set(running.get().saturating_sub(1));
                running.get()
            });
            if left == Ok(0) {
                set(&WAITING, None).into_iter().for_each(Waker::wake);
            }
        }
    }

    RUNNING.set(RUNNING.get() + 1);
    let running = Running;
    future::spawn(async move {
        let _running = running;
        future.await
    })
}

fn set(slot: &'static LocalKey<RefCell<Option<Waker>>>, waker: Option<Waker>) -> Option<Waker> {
    slot.try_with(|slot| slot.replace(waker)).ok().flatten()
}

/// A task of a scenario.
pub(crate) type Task = Pin<Box<dyn Future<Output = ()> + Send>>;

pub(crate) fn task(future: impl Future<Output = ()> + Send + 'static) -> Task {
    Box::pin(future)
}

/// Runs futures as tasks of their own, and waits for their ends.
pub(crate) async fn interleave(futures: impl IntoIterator<Item = Task>) {
    let tasks: Vec<_> = futures.into_iter().map(spawn).collect();
    for task in tasks {
        task.await.unwrap();
    }
}

/// Scheduler that runs the clock only while all other tasks wait.
#[derive(Debug)]
struct Patient<S>(S);

impl<S: Scheduler> Scheduler for Patient<S> {
    fn new_execution(&mut self) -> Option<Schedule> {
        self.0.new_execution()
    }

    fn next_task(
        &mut self,
        runnable: &[&scheduler::Task],
        current: Option<TaskId>,
        is_yielding: bool,
    ) -> Option<TaskId> {
        let others: Vec<&scheduler::Task> =
            runnable.iter().copied().filter(|task| usize::from(task.id()) != CLOCK).collect();
        match others.is_empty() {
            // The clock has no choice, and must not count as one that yields.
            true => runnable.first().map(|task| task.id()),
            false => self.0.next_task(
                &others,
                current.filter(|task| usize::from(*task) != CLOCK),
                is_yielding && current != Some(TaskId::from(CLOCK)),
            ),
        }
    }

    fn next_u64(&mut self) -> u64 {
        self.0.next_u64()
    }
}
