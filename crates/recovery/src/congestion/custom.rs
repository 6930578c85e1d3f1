//! Congestion controllers that programs bring along.

use std::fmt;

use super::{Controller, Start};

/// A factory of congestion controllers: one controller for each path.
pub trait ControllerFactory: fmt::Debug + Send + Sync {
    /// Returns the name by which configurations, plans and results know the congestion controller.
    fn name(&self) -> &'static str;

    /// Creates a congestion controller.
    fn build(&self, start: &Start) -> Box<dyn Controller>;
}
