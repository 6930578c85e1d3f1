//! Counts of both ends of the observed connection, packet by packet.
//!
//! A run of 50 MB has some 70,000 packets. To keep the cost low, each packet needs little more than one walk
//! over its frames.

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

/// Counters of both ends of a connection. Clones share the counts.
#[derive(Clone, Default)]
pub(super) struct Recorder(Arc<Mutex<Counts>>);

#[derive(Default)]
struct Counts {
    client: Client,
    server: Server,
    /// Bytes that the client had received beyond the next one in order, over time.
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

    /// Writes the counts to `row` and returns the timeline. `limit` is the client's maximum number of ranges
    /// in an ACK frame.
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

/// Observer of one end.
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
