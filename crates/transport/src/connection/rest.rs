//! Memory of a connection without traffic.

use anabranch_recovery::Outcome;
use anabranch_wire::Time;

use crate::connection::connection::Connection;

impl Connection {
    /// Returns the time at which [`Self::rest`] frees memory, unless there is traffic before; `None` if there is nothing to free.
    /// It is no timer of the protocol: [`Self::poll_timeout`] does not include it.
    pub fn rest_at(&self) -> Option<Time> {
        self.idle.rest.at(self.idle.last_traffic).filter(|_| self.state.is_active())
    }

    /// Frees the memory that queues of events and packets once needed, and that of the packet keys, if [`Self::rest_at`] has passed. An
    /// early call does nothing.
    pub fn rest(&mut self, now: Time) {
        if self.rest_at().is_none_or(|at| now < at) {
            return;
        }
        self.idle.rest.begin(now);
        self.output.events.shrink_to_fit();
        self.output.endpoint_events.shrink_to_fit();
        self.outcome = Outcome::default();
        self.keys.rest(now);
        for path in self.paths.list.iter_mut() {
            path.recovery.shrink();
            path.remote_cids.shrink();
            path.local_cids.shrink();
        }
    }

    /// Returns whether the connection rests again as soon as it has acknowledged a keep-alive, so that it should do both at once:
    /// a server with many such connections then needs memory for one of them at a time.
    pub fn rests_once_acknowledged(&self) -> bool {
        self.idle.rest.is_pinged()
    }

    /// Frees the memory of the keys, whatever the traffic.
    #[cfg(test)]
    pub(crate) fn rest_keys(&mut self, now: Time) {
        self.keys.rest(now);
    }

    /// Returns whether the 1-RTT packet keys are in memory.
    #[cfg(test)]
    pub(crate) fn has_ready_keys(&self) -> bool {
        self.keys.one_rtt.as_ref().is_some_and(|keys| keys.is_ready())
    }
}
