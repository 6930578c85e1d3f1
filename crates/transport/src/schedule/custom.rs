//! Schedulers that applications provide.

use std::fmt;

use super::Scheduler;

/// Factory of schedulers. It creates one scheduler for each connection with several paths.
pub trait SchedulerFactory: fmt::Debug + Send + Sync {
    /// Returns the scheduler's name in configurations, plans and results.
    fn name(&self) -> &'static str;

    /// Creates a scheduler.
    fn build(&self) -> Box<dyn Scheduler>;
}
