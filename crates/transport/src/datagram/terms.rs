//! Wishes of the application for one message.

use std::time::Duration;

use crate::schedule::Route;

/// Terms on which a message is sent.
///
/// Messages of a *flow* share the connection with other flows evenly, byte by byte, however many messages the others queue.
/// They keep to the path on which they arrive first. A message takes another path if so many wait before it that it arrives
/// there at the same time, so that they arrive nearly in order. Connections that carry them also keep the paths' queues short.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[must_use]
pub struct Terms {
    pub(super) route: Route,
    pub(super) flow: Option<u64>,
    pub(super) lifetime: Option<Duration>,
    pub(super) is_copied: bool,
}

impl Terms {
    /// Sets the paths that may carry the message. The default is any path.
    pub fn with_route(self, route: Route) -> Self {
        Self { route, ..self }
    }

    /// Sets the flow that the message belongs to. Without it, the scheduler alone picks the path.
    pub fn with_flow(self, flow: u64) -> Self {
        Self { flow: Some(flow), ..self }
    }

    /// Sets the time after which the message is dropped instead of being sent.
    pub fn with_lifetime(self, lifetime: Duration) -> Self {
        Self { lifetime: Some(lifetime), ..self }
    }

    /// Sends the message on a second path as well, if one works. The application removes the duplicates.
    pub fn with_copy(self) -> Self {
        Self { is_copied: true, ..self }
    }

    /// Returns the flow that the message belongs to.
    pub fn flow(&self) -> Option<u64> {
        self.flow
    }
}
