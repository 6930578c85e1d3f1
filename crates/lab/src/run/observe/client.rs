//! Counts of the client: acknowledgments that it sends and data that it receives.

use core::time::Duration;
use std::collections::BTreeMap;

use anabranch_transport::trace::{PacketTrace, TraceEvent};
use anabranch_wire::{Frame, Frames, StreamId, Time};

use super::arrived::Arrived;
use super::bins::Bins;
use crate::record::Row;

#[derive(Default)]
pub(super) struct Client {
    /// Time at which a CONNECTION_CLOSE was received.
    pub(super) closed: Option<Time>,
    ack_bytes: u64,
    /// Numbers of ACK frames with 1, 2, … ranges.
    ranges: Vec<u64>,
    streams: BTreeMap<StreamId, Arrived>,
    /// Bytes received beyond a gap, over all streams.
    waiting: u64,
    blocked_since: Option<Time>,
    blocked: Duration,
}

impl Client {
    pub(super) fn event(&mut self, now: Time, event: &TraceEvent<'_>, reordering: &mut Bins) {
        match event {
            TraceEvent::PacketSent(packet) => self.on_sent(packet),
            TraceEvent::PacketReceived(packet) => {
                let before = self.waiting;
                self.on_received(now, packet);
                if self.waiting != before {
                    reordering.tell(now, self.waiting);
                    self.note_blocked(now);
                }
            }
            _ => {}
        }
    }

    fn on_sent(&mut self, packet: &PacketTrace<'_>) {
        let mut frames = Frames::new(packet.payload, packet.direction);
        let mut before = frames.remaining();
        while let Some(Ok(frame)) = frames.next() {
            if let Frame::Ack(ack) = &frame {
                let ranges = ack.range_count() as usize;
                if ranges > self.ranges.len() {
                    self.ranges.resize(ranges, 0);
                }
                self.ranges[ranges - 1] += 1;
                self.ack_bytes += (before - frames.remaining()) as u64;
            }
            before = frames.remaining();
        }
    }

    fn on_received(&mut self, now: Time, packet: &PacketTrace<'_>) {
        for frame in Frames::new(packet.payload, packet.direction).map_while(Result::ok) {
            match frame {
                Frame::Stream(stream) => {
                    let arrived = self.streams.entry(stream.id).or_default();
                    let before = arrived.waiting;
                    arrived.add(stream.offset, stream.offset + stream.data.len() as u64);
                    self.waiting = self.waiting + arrived.waiting - before;
                }
                Frame::ConnectionClose(_) => {
                    self.closed.get_or_insert(now);
                }
                _ => {}
            }
        }
    }

    fn note_blocked(&mut self, now: Time) {
        if self.waiting > 0 {
            self.blocked_since.get_or_insert(now);
        } else if let Some(since) = self.blocked_since.take() {
            self.blocked += now.saturating_since(since);
        }
    }

    /// Fills in the client's columns of the row. `limit` is the maximum number of ranges in an ACK frame.
    pub(super) fn fill(&self, row: &mut Row, limit: usize) {
        let frames: u64 = self.ranges.iter().sum();
        let ranges: u64 = self.ranges.iter().zip(1..).map(|(frames, ranges)| frames * ranges).sum();
        let at_limit: u64 = self.ranges.iter().skip(limit.saturating_sub(1)).sum();
        row.ack_frames = Some(frames);
        row.ack_bytes = Some(self.ack_bytes);
        row.mean_ranges = (frames > 0).then(|| ranges as f64 / frames as f64);
        row.limit_share = (frames > 0).then(|| at_limit as f64 / frames as f64);
        row.ranges_histogram = self.ranges.clone();
        row.blocked_s = Some(self.blocked.as_secs_f64());
    }
}
