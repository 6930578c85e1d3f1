//! Memory of a connection without traffic.

use std::time::Duration;

use anabranch_recovery::Outcome;
use anabranch_wire::Time;

use crate::connection::connection::Connection;

/// Time without traffic after which a connection frees the memory of its queues. It is longer than a request or an acknowledgment
/// takes, so that busy connections keep theirs.
const REST: Duration = Duration::from_secs(1);

impl Connection {
    /// Returns the time at which [`Self::rest`] frees memory, unless there is traffic before; `None` if there is nothing to free.
    /// It is no timer of the protocol: [`Self::poll_timeout`] does not include it.
    pub fn rest_at(&self) -> Option<Time> {
        (self.state.is_active() && !self.idle.is_resting).then(|| self.idle.last_traffic + REST)
    }

    /// Frees the memory that queues of events and packets once needed, if there has been no traffic for a second. An early call does
    /// nothing.
    pub fn rest(&mut self, now: Time) {
        if self.rest_at().is_none_or(|at| now < at) {
            return;
        }
        self.idle.is_resting = true;
        self.output.events.shrink_to_fit();
        self.output.endpoint_events.shrink_to_fit();
        self.outcome = Outcome::default();
        for path in self.paths.list.iter_mut() {
            path.recovery.shrink();
            path.remote_cids.shrink();
            path.local_cids.shrink();
        }
    }
}
