//! Congestion controllers that programs supply.

use std::fmt;

use super::{Controller, Start};

/// Factory of congestion controllers, which creates one for each path.
pub trait ControllerFactory: fmt::Debug + Send + Sync {
    /// Returns the congestion controller's name in configurations, plans and results.
    fn name(&self) -> &'static str;

    /// Creates a congestion controller.
    fn build(&self, start: &Start) -> Box<dyn Controller>;
}
