//! How long a connection is served: until it is idle for too long, or a shutdown begins; and then its end in good order.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use anabranch_wire::StreamId;
use tokio::time::{Instant, Sleep};

use super::super::{Connection, Limits};
use super::shutdown::Shutdown;

/// How often a connection that drains is looked at.
const DRAIN_INTERVAL: Duration = Duration::from_millis(10);

/// The shortest time between two looks at a connection that is served.
const MIN_TICK: Duration = Duration::from_millis(10);

/// Watches over a connection's end.
pub(super) struct Lifetime {
    idle_timeout: Duration,
    /// What requests under way are left when a connection is closed because it was idle.
    grace: Duration,
    tick: Duration,
    shutdown: Pin<Box<dyn Future<Output = Duration> + Send>>,
    phase: Phase,
    timer: Pin<Box<Sleep>>,
    last_request: Instant,
    /// Bytes that the client had not acknowledged at the last look.
    buffered: u64,
    /// The first request that had not come at the last look, and at the one before.
    marks: [StreamId; 2],
}

#[derive(Clone, Copy, Debug)]
enum Phase {
    Open,
    /// The client has been told that the end is near.
    Announced {
        deadline: Instant,
    },
    /// No more requests are taken.
    Draining {
        deadline: Instant,
    },
}

impl Lifetime {
    pub(super) fn new(limits: &Limits, shutdown: &Shutdown) -> Self {
        let tick = (limits.header_timeout.min(limits.idle_timeout) / 2).max(MIN_TICK);
        Self {
            idle_timeout: limits.idle_timeout,
            grace: limits.grace,
            tick,
            shutdown: Box::pin(shutdown.begun()),
            phase: Phase::Open,
            timer: Box::pin(tokio::time::sleep(tick)),
            last_request: Instant::now(),
            buffered: 0,
            marks: [StreamId::from_u64(0); 2],
        }
    }

    /// A request came.
    pub(super) fn on_request(&mut self) {
        self.last_request = Instant::now();
    }

    /// Ready when the connection is to be closed. `busy` says whether requests are being answered.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>, connection: &Connection, busy: bool) -> Poll<()> {
        if matches!(self.phase, Phase::Open)
            && let Poll::Ready(drain) = self.shutdown.as_mut().poll(cx)
        {
            self.announce(connection, drain);
        }
        while self.timer.as_mut().poll(cx).is_ready() {
            let now = Instant::now();
            match self.phase {
                Phase::Open => {
                    self.expire_heads(connection);
                    if self.is_idle(connection, now, busy) {
                        self.announce(connection, self.grace);
                    } else {
                        self.timer.as_mut().reset(now + self.tick);
                    }
                }
                Phase::Announced { deadline } => {
                    connection.finish_shutdown();
                    self.phase = Phase::Draining { deadline };
                }
                Phase::Draining { deadline } => {
                    let done = !busy && connection.unfinished() == (0, 0);
                    if done || now >= deadline {
                        return Poll::Ready(());
                    }
                    self.timer.as_mut().reset(now + DRAIN_INTERVAL);
                }
            }
        }
        Poll::Pending
    }

    /// Tells the client to make no more requests, and gives it a round trip to hear of it (RFC 9114 §5.2).
    fn announce(&mut self, connection: &Connection, drain: Duration) {
        connection.announce_shutdown();
        let now = Instant::now();
        self.phase = Phase::Announced { deadline: now + drain };
        self.timer.as_mut().reset(now + connection.quic().rtt().min(drain));
    }

    /// Whether the client has asked for nothing for too long, and is not still reading what it asked for.
    fn is_idle(&mut self, connection: &Connection, now: Instant, busy: bool) -> bool {
        let buffered = connection.unfinished().1;
        let reading = buffered != std::mem::replace(&mut self.buffered, buffered);
        if busy || reading {
            self.last_request = now;
        }
        now.saturating_duration_since(self.last_request) >= self.idle_timeout
    }

    /// Drops requests whose heads are not there although they began at least two ticks ago.
    fn expire_heads(&mut self, connection: &Connection) {
        let [newer, older] = self.marks;
        self.marks = [connection.expire_heads(older), newer];
    }
}
