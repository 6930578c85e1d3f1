//! Lifetime of a served connection. It ends gracefully once the connection has been idle for too long or a
//! shutdown begins.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use anabranch_wire::StreamId;
use tokio::time::{Instant, Sleep};

use super::super::connection::ASSUMED_RTT;
use super::super::{Connection, Limits};
use super::shutdown::Shutdown;

/// Interval at which a draining connection is checked.
const DRAIN_INTERVAL: Duration = Duration::from_millis(10);

/// Minimum time between two checks of a connection that is being served.
const MIN_TICK: Duration = Duration::from_millis(10);

/// Minimum time that a client is given to learn of the shutdown. Over a short link, a round trip is less than it takes to wake a
/// program on a busy host.
const MIN_NOTICE: Duration = Duration::from_millis(50);

/// State that decides when a connection ends.
pub(super) struct Lifetime {
    idle_timeout: Duration,
    /// Time allowed for open requests when a connection is closed because it was idle.
    grace: Duration,
    tick: Duration,
    shutdown: Pin<Box<dyn Future<Output = Duration> + Send>>,
    phase: Phase,
    timer: Pin<Box<Sleep>>,
    last_request: Instant,
    /// Number of bytes that the client had not acknowledged at the last check.
    buffered: u64,
    /// ID of the first request that the client had not opened: at the last check, and at the check before.
    marks: [StreamId; 2],
    /// Number of bytes that the client had sent at the last check.
    received: u64,
    /// Number of bytes that the client must send between two checks to count as busy sending.
    steady: u64,
}

#[derive(Clone, Copy, Debug)]
enum Phase {
    Open,
    /// The client has been asked to send no more requests (GOAWAY).
    Announced {
        deadline: Instant,
    },
    /// No more requests are accepted.
    Draining {
        deadline: Instant,
    },
}

impl Lifetime {
    pub(super) fn new(limits: &Limits, shutdown: &Shutdown) -> Self {
        let tick = (limits.header_timeout.min(limits.idle_timeout) / 2).max(MIN_TICK);
        let steady = u64::try_from(u128::from(limits.min_rate) * tick.as_millis() / 1_000);
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
            received: 0,
            // Without a minimum rate, no amount of other data excuses a header section that does not arrive.
            steady: steady.ok().filter(|_| limits.min_rate > 0).map_or(u64::MAX, |steady| steady.max(1)),
        }
    }

    /// Records the arrival of a request.
    pub(super) fn on_request(&mut self) {
        self.last_request = Instant::now();
    }

    /// Returns ready when the connection must be closed. `busy` is `true` while requests are being processed.
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
                    let done = !busy && connection.is_quiet();
                    if done || now >= deadline {
                        return Poll::Ready(());
                    }
                    self.timer.as_mut().reset(now + DRAIN_INTERVAL);
                }
            }
        }
        Poll::Pending
    }

    /// Announces the shutdown to the client, and allows one round trip for GOAWAY to arrive (RFC 9114 §5.2), or [`MIN_NOTICE`] if that
    /// is longer.
    fn announce(&mut self, connection: &Connection, drain: Duration) {
        connection.announce_shutdown();
        let (now, notice) = (Instant::now(), connection.quic().rtt().unwrap_or(ASSUMED_RTT).max(MIN_NOTICE));
        self.phase = Phase::Announced { deadline: now + drain };
        self.timer.as_mut().reset(now + notice.min(drain));
    }

    /// Returns whether the connection has been idle for too long: no request was processed, and the client
    /// acknowledged no further data.
    fn is_idle(&mut self, connection: &Connection, now: Instant, busy: bool) -> bool {
        let buffered = connection.unacknowledged_bytes();
        let reading = buffered != std::mem::replace(&mut self.buffered, buffered);
        if busy || reading {
            self.last_request = now;
        }
        now.saturating_duration_since(self.last_request) >= self.idle_timeout
    }

    /// Drops requests whose header sections have not arrived although they were opened at least two ticks
    /// ago. Ticks in which the client sent other data at a sufficient rate do not count: on a slow link, that
    /// data may have to be sent first.
    fn expire_heads(&mut self, connection: &Connection) {
        let received = connection.received_bytes();
        if received - std::mem::replace(&mut self.received, received) >= self.steady {
            return;
        }
        let [newer, older] = self.marks;
        self.marks = [connection.expire_heads(older), newer];
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use http::{Request, Response};

    use super::*;
    use crate::http3::Config;
    use crate::{Endpoint, SelfSigned, config};

    /// The server waits for the client to acknowledge the end of a stream, too. Without the end the client
    /// would not know that the response is complete.
    #[tokio::test]
    async fn a_connection_is_not_quiet_before_the_client_has_the_end_of_a_response() {
        let identity = SelfSigned::new(["localhost"]).unwrap();
        let local = "127.0.0.1:0".parse().unwrap();
        let server = Endpoint::server(identity.server_config(["h3"]).unwrap(), local).unwrap();
        let mut endpoint = Endpoint::client(local).unwrap();
        endpoint.set_default_client_config(config::client(identity.roots().unwrap(), ["h3"]).unwrap());
        let connecting = endpoint.connect(server.local_addr().unwrap(), "localhost").unwrap();
        let (ours, theirs) = tokio::join!(connecting, async { server.accept().await.unwrap().await });
        let client = Connection::new(ours.unwrap(), Config::default());
        let server = Connection::new(theirs.unwrap(), Config::default());
        let request = Request::get("https://localhost/").body(()).unwrap();
        let mut response = client.request_without_body(request).await.unwrap();
        let (_, mut send, receive) = server.accept().await.unwrap().unwrap();
        send.send_response(Response::new(())).unwrap();
        send.write(Bytes::from("all")).await.unwrap();
        assert_eq!(response.read_chunk(100).await.unwrap().unwrap(), "all");
        while server.unacknowledged_bytes() > 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        send.finish().unwrap();
        drop((send, receive));
        assert!(!server.is_quiet());
        assert_eq!(response.read_chunk(100).await.unwrap(), None);
        while !server.is_quiet() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
}
