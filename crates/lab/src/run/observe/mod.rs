//! Counts of both ends of the watched connection, packet by packet.
//!
//! A run of 50 MB has some 70,000 packets that are examined here, so each costs a walk over its frames and
//! little else.

mod arrived;
mod bins;
mod client;
mod sent;
mod server;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anabranch_transport::trace::{Observer, TraceEvent};
use anabranch_wire::{Side, Time};

use self::bins::Bins;
use self::client::Client;
use self::server::Server;
use crate::record::{Row, Timeline};

/// Counts both ends of a connection; clones count together.
#[derive(Clone, Default)]
pub(super) struct Recorder(Arc<Mutex<Counts>>);

#[derive(Default)]
struct Counts {
    client: Client,
    server: Server,
    /// The sequence numbers beyond the next one, at the client.
    reordering: Bins,
}

impl Recorder {
    pub(super) fn observer(&self, side: Side) -> Box<dyn Observer> {
        Box::new(End { recorder: self.clone(), side })
    }

    /// Returns the time at which the client received a CONNECTION_CLOSE.
    pub(super) fn closed(&self) -> Option<Time> {
        self.counts().client.closed
    }

    /// Writes down what was counted. `limit` is that of the client's ranges in an ACK frame.
    pub(super) fn finish(&self, row: &mut Row, limit: usize, paths: usize) -> Timeline {
        let mut counts = self.counts();
        let Counts { client, server, reordering } = &mut *counts;
        client.fill(row, limit);
        server.fill(row, paths);
        server.timeline(reordering, paths)
    }

    fn counts(&self) -> MutexGuard<'_, Counts> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The observer of one end.
struct End {
    recorder: Recorder,
    side: Side,
}

impl Observer for End {
    fn event(&mut self, now: Time, event: &TraceEvent<'_>) {
        let mut counts = self.recorder.counts();
        match self.side {
            Side::Client => {
                let Counts { client, reordering, .. } = &mut *counts;
                client.event(now, event, reordering);
            }
            Side::Server => counts.server.event(now, event),
        }
    }
}
