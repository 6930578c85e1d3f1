//! Idle timeout and keep-alive (RFC 9000 §10.1).

use std::time::Duration;

use anabranch_wire::Time;

use super::Rest;
use crate::config::TransportConfig;
use crate::error::{ConnectionError, Silence};

/// Number of PTOs within which a peer must respond after this endpoint was asleep for longer than the idle
/// timeout. The idle timeout itself is at least as long (RFC 9000 §10.1).
const AWAKE_PTOS: u32 = 3;

/// Idle timeout and keep-alive (RFC 9000 §10.1).
#[derive(Debug)]
pub(crate) struct Idle {
    pub(crate) timeout: Option<Duration>,
    pub(crate) keep_alive: Option<Duration>,
    /// Time at which the idle timer was last restarted.
    pub(crate) since: Time,
    /// Time at which the last packet was received or the last ack-eliciting one was sent.
    pub(crate) last_traffic: Time,
    /// Time at which the handshake must be complete; `None` once it is.
    pub(crate) handshake_until: Option<Time>,
    /// `true` if an ack-eliciting packet was sent since the last packet was received.
    pub(crate) sent: bool,
    /// Time at which the last authentic packet was received.
    pub(crate) heard: Option<Time>,
    /// Time for which this endpoint has been asleep since the last authentic packet was received.
    pub(crate) asleep: Duration,
    /// Time by which the peer must respond. Set if the peer's own idle timeout may have expired while this
    /// endpoint was asleep.
    pub(crate) awake_until: Option<Time>,
    pub(crate) rest: Rest,
}

impl Idle {
    pub(crate) fn new(now: Time, config: &TransportConfig) -> Self {
        let (timeout, keep_alive) = (config.max_idle_timeout, config.keep_alive);
        let handshake_until = Some(now + config.handshake_timeout);
        Self {
            timeout,
            keep_alive,
            since: now,
            last_traffic: now,
            handshake_until,
            sent: false,
            heard: None,
            asleep: Duration::ZERO,
            awake_until: None,
            rest: Rest::default(),
        }
    }

    /// Records that the handshake is complete.
    pub(crate) fn on_handshake_complete(&mut self) {
        self.handshake_until = None;
    }

    /// Sets the peer's `max_idle_timeout` in milliseconds; 0 for none. The smaller of both endpoints' values
    /// applies.
    pub(crate) fn set_peer_timeout(&mut self, millis: u64) {
        let peer = (millis > 0).then(|| Duration::from_millis(millis));
        self.timeout = match (self.timeout, peer) {
            (Some(ours), Some(peer)) => Some(ours.min(peer)),
            (ours, peer) => ours.or(peer),
        };
    }

    pub(crate) fn on_received(&mut self, now: Time) {
        self.since = now;
        self.last_traffic = now;
        self.sent = false;
        self.rest.on_received();
        self.heard = Some(now);
        self.asleep = Duration::ZERO;
        self.awake_until = None;
    }

    /// Returns the time at which the last authentic packet arrived.
    pub(crate) fn heard(&self) -> Option<Time> {
        self.heard
    }

    /// Records that this endpoint was asleep for `asleep`. `pto` is the probe timeout.
    pub(crate) fn on_awake(&mut self, now: Time, asleep: Duration, pto: Duration) {
        self.asleep = self.asleep.saturating_add(asleep);
        if self.timeout.is_some_and(|timeout| self.asleep >= timeout) {
            self.awake_until.get_or_insert(now + pto * AWAKE_PTOS);
        }
    }

    pub(crate) fn silence(&self, now: Time) -> Silence {
        Silence { heard: self.heard.map(|heard| now.saturating_since(heard)), asleep: self.asleep }
    }

    /// Restarts the idle timer for the first ack-eliciting packet since the last received packet.
    pub(crate) fn on_sent(&mut self, now: Time, eliciting: bool) {
        self.rest.on_sent(eliciting);
        if eliciting {
            self.last_traffic = now;
            if !self.sent {
                self.sent = true;
                self.since = now;
            }
        }
    }

    /// Returns the end of the idle timeout. It is at least three PTOs after the timer was restarted, so that
    /// a few lost packets do not end the connection.
    pub(crate) fn silence_ends(&self, pto: Duration) -> Option<Time> {
        self.timeout.map(|timeout| self.since + timeout.max(pto * 3))
    }

    pub(crate) fn deadline(&self, pto: Duration) -> Option<Time> {
        self.silence_ends(pto).into_iter().chain(self.handshake_until).chain(self.awake_until).min()
    }

    /// Returns the error if the connection has timed out. An idle timeout takes precedence over a handshake
    /// timeout, because it is more specific.
    pub(crate) fn overdue(&self, now: Time, pto: Duration) -> Option<ConnectionError> {
        let is_over = |deadline: Option<Time>| deadline.is_some_and(|deadline| now >= deadline);
        let silence = self.silence(now);
        if is_over(self.silence_ends(pto)) || is_over(self.awake_until) {
            return Some(ConnectionError::TimedOut(silence));
        }
        let heard = silence.heard.is_some();
        let error =
            if heard { ConnectionError::HandshakeTimedOut } else { ConnectionError::TimedOut(silence) };
        is_over(self.handshake_until).then_some(error)
    }

    pub(crate) fn keep_alive_deadline(&self) -> Option<Time> {
        Some(self.last_traffic + self.keep_alive?)
    }
}
