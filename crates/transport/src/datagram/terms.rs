//! Terms on which the application sends a message.

use std::time::Duration;

use crate::schedule::Route;

/// Terms on which a message is sent.
///
/// Each *flow* gets the same share of the connection in bytes, however many messages other flows queue. Messages of flows use
/// the path on which they arrive first. A message uses another path if so many bytes wait in front of it that it arrives at
/// the same time there, so the messages of a flow arrive nearly in order. While flows send, the connection also keeps
/// the paths' queues short.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[must_use]
pub struct Terms {
    pub(super) route: Route,
    pub(super) flow: Option<u64>,
    pub(super) lifetime: Option<Duration>,
    pub(super) is_copied: bool,
    pub(super) is_ordered: bool,
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

    /// Sets the time for which the message may wait. After that, it is dropped instead of being sent.
    pub fn with_lifetime(self, lifetime: Duration) -> Self {
        Self { lifetime: Some(lifetime), ..self }
    }

    /// Sends the message on a second path as well, if another path works. The receiving application must remove duplicates.
    pub fn with_copy(self) -> Self {
        Self { is_copied: true, ..self }
    }

    /// States that the receiving application restores the order of the flow's messages, for example with
    /// [`Order`](super::Order). Its messages then use other paths sooner, as long as that does not slow down a sender whose
    /// window is twice the bandwidth-delay product of the fastest path.
    pub fn with_restored_order(self) -> Self {
        Self { is_ordered: true, ..self }
    }

    /// Returns the flow that the message belongs to.
    pub fn flow(&self) -> Option<u64> {
        self.flow
    }
}
