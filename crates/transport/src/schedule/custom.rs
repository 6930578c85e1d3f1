//! Schedulers that programs bring along.

use std::fmt;

use super::Scheduler;

/// A factory of schedulers: one scheduler for each connection with several paths.
pub trait SchedulerFactory: fmt::Debug + Send + Sync {
    /// Returns the name by which configurations, plans and results know the scheduler.
    fn name(&self) -> &'static str;

    /// Creates a scheduler.
    fn build(&self) -> Box<dyn Scheduler>;
}
