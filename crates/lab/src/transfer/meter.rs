//! Counts of one end of a connection, packet by packet.

use core::time::Duration;
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use anabranch_transport::ConnectionError;
use anabranch_transport::trace::{Observer, PacketTrace, TraceEvent};
use anabranch_wire::{Frame, Frames, PathId, Time};

/// Totals of one end.
#[derive(Clone, Debug, Default)]
pub struct Totals {
    /// Time at which the end's first packet was sent.
    pub first_sent: Option<Time>,
    /// Time at which the end's handshake was confirmed.
    pub confirmed: Option<Time>,
    /// Time at which the peer's CONNECTION_CLOSE was received.
    pub close_received: Option<Time>,
    /// `true` once the connection has ended.
    has_ended: bool,
    /// Bytes of payload in sent STREAM frames, including retransmissions.
    pub stream_bytes: u64,
    /// Number of acknowledgment frames sent.
    pub ack_frames: u64,
    /// Total size of the sent acknowledgment frames in bytes.
    pub ack_bytes: u64,
    /// Total number of ranges in the sent acknowledgment frames.
    pub ack_ranges: u64,
    /// Totals of each path.
    pub paths: BTreeMap<PathId, PathTotals>,
}

/// Totals of one path at one end.
#[derive(Clone, Debug, Default)]
pub struct PathTotals {
    /// Current estimate of the round-trip time.
    pub rtt: Option<RoundTrip>,
    /// Time at which the path's first packet was sent.
    pub first_sent: Option<Time>,
    /// Time at which the first STREAM frame was sent.
    pub first_stream: Option<Time>,
    /// Time at which the last STREAM frame was sent.
    pub last_stream: Option<Time>,
    /// Bytes of payload in sent STREAM frames, including retransmissions.
    pub stream_bytes: u64,
    /// Number of packets declared lost.
    pub lost_packets: u64,
    /// Number of packets declared lost that were acknowledged later.
    pub spurious_losses: u64,
    /// Maximum congestion window in bytes.
    pub max_window: u64,
    /// Growth of the congestion window within the smallest round-trip time of the path.
    pub growth: Growth,
    /// First slow-start threshold in bytes, with the time at which it was set.
    pub slow_start_ended: Option<(Time, u64)>,
}

/// An end's estimate of a path's round-trip time.
#[derive(Clone, Copy, Debug)]
pub struct RoundTrip {
    /// Time at which the first sample was taken.
    pub since: Time,
    /// Smoothed round-trip time.
    pub smoothed: Duration,
    /// Mean deviation of the samples.
    pub variance: Duration,
}

/// Measurement of the largest factor by which a congestion window grows within a round-trip time.
#[derive(Clone, Debug, Default)]
pub struct Growth {
    /// Windows that applied during the last round-trip time, each with the time at which it was set.
    windows: VecDeque<(Time, u64)>,
    round_trip: Option<Duration>,
    largest: f64,
}

/// Maximum number of remembered windows. Further changes within a round-trip time are left out.
const MAX_WINDOWS: usize = 4096;

impl Growth {
    /// Returns the largest factor within a round-trip time; 1 if the window never grew.
    pub fn largest(&self) -> f64 {
        self.largest.max(1.0)
    }

    fn tell(&mut self, now: Time, window: u64, latest: Duration) {
        if !latest.is_zero() {
            self.round_trip = Some(self.round_trip.map_or(latest, |least| least.min(latest)));
        }
        let Some(round_trip) = self.round_trip else {
            // Until the first round-trip sample, only the current window is kept. It then counts as the
            // initial window.
            self.windows.clear();
            self.windows.push_back((now, window));
            return;
        };
        // Windows that were replaced at least one round-trip time ago are removed. The first remaining window
        // is the one that applied then.
        while self.windows.get(1).is_some_and(|(since, _)| *since + round_trip <= now) {
            self.windows.pop_front();
        }
        if let Some((_, before)) = self.windows.front() {
            self.largest = self.largest.max(window as f64 / *before as f64);
        }
        if self.windows.len() < MAX_WINDOWS && self.windows.back().is_none_or(|(_, last)| *last != window) {
            self.windows.push_back((now, window));
        }
    }
}

/// Counter of one connection. Clones share the counts.
#[derive(Clone, Debug, Default)]
pub struct Meter(Arc<Mutex<Totals>>);

impl Meter {
    /// Returns the counts so far.
    pub fn totals(&self) -> Totals {
        self.look(Totals::clone)
    }

    /// Calls `f` with the totals so far, without copying them.
    pub fn look<T>(&self, f: impl FnOnce(&Totals) -> T) -> T {
        f(&self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Observer for Meter {
    fn event(&mut self, now: Time, event: &TraceEvent<'_>) {
        let mut totals = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match event {
            TraceEvent::PacketSent(packet) => totals.on_sent(now, packet),
            TraceEvent::Closed { error } => {
                totals.has_ended = true;
                if matches!(
                    error,
                    ConnectionError::PeerApplication { .. } | ConnectionError::PeerTransport(_)
                ) {
                    totals.close_received = Some(now);
                }
            }
            // Only the peer's response to a close counts here. Before the connection has ended, packets are
            // not searched for a CONNECTION_CLOSE.
            TraceEvent::PacketReceived(packet) if totals.has_ended && totals.close_received.is_none() => {
                let closes = |frame| matches!(frame, Ok(Frame::ConnectionClose(_)));
                if Frames::new(packet.payload, packet.direction).any(closes) {
                    totals.close_received = Some(now);
                }
            }
            TraceEvent::PacketLost { path, .. } => totals.path(*path).lost_packets += 1,
            TraceEvent::SpuriousLoss { path, packets } => totals.path(*path).spurious_losses += packets,
            TraceEvent::Metrics {
                path, window, ssthresh, smoothed_rtt, rtt_variance, latest_rtt, ..
            } => {
                let path = totals.path(*path);
                if !latest_rtt.is_zero() {
                    let since = path.rtt.map_or(now, |rtt| rtt.since);
                    path.rtt = Some(RoundTrip { since, smoothed: *smoothed_rtt, variance: *rtt_variance });
                }
                path.max_window = path.max_window.max(*window);
                path.growth.tell(now, *window, *latest_rtt);
                if let (None, Some(threshold)) = (path.slow_start_ended, ssthresh) {
                    path.slow_start_ended = Some((now, *threshold));
                }
            }
            TraceEvent::HandshakeConfirmed => totals.confirmed = Some(now),
            _ => {}
        }
    }
}

impl Totals {
    fn path(&mut self, id: PathId) -> &mut PathTotals {
        self.paths.entry(id).or_default()
    }

    fn on_sent(&mut self, now: Time, packet: &PacketTrace<'_>) {
        self.first_sent.get_or_insert(now);
        let mut stream_bytes = 0;
        let mut frames = Frames::new(packet.payload, packet.direction);
        let mut before = frames.remaining();
        while let Some(Ok(frame)) = frames.next() {
            match &frame {
                Frame::Stream(stream) => stream_bytes += stream.data.len() as u64,
                Frame::Ack(ack) => {
                    self.ack_frames += 1;
                    self.ack_bytes += (before - frames.remaining()) as u64;
                    self.ack_ranges += ack.range_count();
                }
                _ => {}
            }
            before = frames.remaining();
        }
        self.stream_bytes += stream_bytes;
        let path = self.path(packet.path);
        path.first_sent.get_or_insert(now);
        if stream_bytes > 0 {
            path.stream_bytes += stream_bytes;
            path.first_stream.get_or_insert(now);
            path.last_stream = Some(now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn growth_is_that_within_a_round_trip() {
        let mut growth = Growth::default();
        let ms = |ms| Time::from_millis(ms);
        growth.tell(ms(0), 10_000, Duration::ZERO);
        assert_eq!(growth.largest(), 1.0);
        growth.tell(ms(20), 12_000, Duration::from_millis(20));
        growth.tell(ms(30), 15_000, Duration::from_millis(25));
        assert_eq!(growth.largest(), 1.5);
        // The window that applied 20 ms ago is 12,000 bytes, and 30,000 bytes are two and a half times as
        // much.
        growth.tell(ms(40), 30_000, Duration::from_millis(20));
        assert_eq!(growth.largest(), 2.5);
        // The window that applied 20 ms ago is 30,000 bytes.
        growth.tell(ms(60), 45_000, Duration::from_millis(20));
        assert_eq!(growth.largest(), 2.5);
        for step in 0..2 * MAX_WINDOWS as u64 {
            growth.tell(ms(60), 45_000 - step, Duration::ZERO);
        }
        assert!(growth.windows.len() <= MAX_WINDOWS);
    }
}
