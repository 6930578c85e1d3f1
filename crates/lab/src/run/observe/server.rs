//! Counts of the server: the data that it sends on each path, its losses, and its estimates of the paths.

use core::time::Duration;
use std::collections::BTreeMap;

use anabranch_transport::IdleReason;
use anabranch_transport::trace::{PacketTrace, TraceEvent};
use anabranch_wire::{Frame, Frames, PathId, StreamId, Time};

use super::bins::Bins;
use super::sent::Sent;
use crate::record::{PathTimeline, Row, Timeline};

/// Maximum number of paths that are counted. Further paths of a connection are ignored.
const MAX_COUNTED: usize = crate::design::MAX_PATHS;

#[derive(Default)]
pub(super) struct Server {
    streams: BTreeMap<StreamId, Sent>,
    stream_bytes: u64,
    lost: u64,
    spurious: u64,
    /// Counts by path ID.
    paths: Vec<Path>,
    /// Reasons for which paths were idle, each once.
    reasons: Vec<IdleReason>,
}

struct Path {
    bytes: u64,
    lost_packets: u64,
    smoothed: Duration,
    sent: Bins,
    repeated: Bins,
    window: Bins,
    rtt: Bins,
    lost: Bins,
    /// Reason for which the path was idle, as its position in [`Server::reasons`] counted from 1; 0 for no
    /// reason.
    idle: Bins,
}

impl Default for Path {
    fn default() -> Self {
        Self {
            bytes: 0,
            lost_packets: 0,
            smoothed: Duration::ZERO,
            sent: Bins::sum(),
            repeated: Bins::sum(),
            window: Bins::last(),
            rtt: Bins::last(),
            lost: Bins::sum(),
            idle: Bins::last(),
        }
    }
}

impl Server {
    pub(super) fn event(&mut self, now: Time, event: &TraceEvent<'_>) {
        match event {
            TraceEvent::PacketSent(packet) => self.on_sent(now, packet),
            TraceEvent::PacketLost { path, .. } => {
                self.lost += 1;
                if let Some(path) = self.path(*path) {
                    path.lost_packets += 1;
                    path.lost.tell(now, 1);
                }
            }
            TraceEvent::SpuriousLoss { packets, .. } => self.spurious += packets,
            TraceEvent::Metrics { path, window, smoothed_rtt, latest_rtt, .. } => {
                let Some(path) = self.path(*path) else { return };
                path.window.tell(now, *window);
                if !latest_rtt.is_zero() {
                    path.smoothed = *smoothed_rtt;
                    path.rtt.tell(now, smoothed_rtt.as_micros() as u64);
                }
            }
            TraceEvent::PathIdle { path, reason } => self.on_idle(now, *path, *reason),
            _ => {}
        }
    }

    fn on_idle(&mut self, now: Time, id: PathId, reason: Option<IdleReason>) {
        let place = reason.map_or(0, |reason| {
            let known = self.reasons.iter().position(|known| *known == reason);
            known.unwrap_or_else(|| {
                self.reasons.push(reason);
                self.reasons.len() - 1
            }) + 1
        });
        if let Some(path) = self.path(id) {
            path.idle.tell(now, place as u64);
        }
    }

    fn on_sent(&mut self, now: Time, packet: &PacketTrace<'_>) {
        let (mut bytes, mut repeated) = (0, 0);
        for frame in Frames::new(packet.payload, packet.direction).map_while(Result::ok) {
            if let Frame::Stream(stream) = frame {
                let len = stream.data.len() as u64;
                bytes += len;
                repeated +=
                    self.streams.entry(stream.id).or_default().add(stream.offset, stream.offset + len);
            }
        }
        self.stream_bytes += bytes;
        let Some(path) = self.path(packet.path).filter(|_| bytes > 0) else { return };
        path.bytes += bytes;
        path.sent.tell(now, bytes);
        if repeated > 0 {
            path.repeated.tell(now, repeated);
        }
    }

    fn path(&mut self, id: PathId) -> Option<&mut Path> {
        let index = usize::try_from(id.0).ok().filter(|index| *index < MAX_COUNTED)?;
        if index >= self.paths.len() {
            self.paths.resize_with(index + 1, Path::default);
        }
        self.paths.get_mut(index)
    }

    /// Fills in the server's columns of the row. `paths` is the number of paths in use. Each of them has
    /// values even if nothing was sent on it.
    pub(super) fn fill(&mut self, row: &mut Row, paths: usize) {
        self.paths.resize_with(self.paths.len().max(paths.min(MAX_COUNTED)), Path::default);
        let once: u64 = self.streams.values().map(|sent| sent.once).sum();
        let percent = |bytes: u64| bytes as f64 * 100.0 / once as f64;
        row.retransmitted_percent = (once > 0).then(|| percent(self.stream_bytes - once));
        row.max_times_sent = self.streams.values().map(Sent::most).max();
        row.lost_packets = Some(self.lost);
        row.spurious_losses = Some(self.spurious);
        row.path_bytes = self.paths.iter().map(|path| path.bytes).collect();
        row.path_lost = self.paths.iter().map(|path| path.lost_packets).collect();
        row.path_rtt_s = self.paths.iter().map(|path| path.smoothed.as_secs_f64()).collect();
    }

    pub(super) fn timeline(&mut self, reordering: &mut Bins, paths: usize) -> Timeline {
        self.paths.resize_with(self.paths.len().max(paths.min(MAX_COUNTED)), Path::default);
        let all = self.paths.iter_mut().flat_map(|path| {
            let Path { sent, repeated, window, rtt, lost, idle, .. } = path;
            [sent, repeated, window, rtt, lost, idle]
        });
        let bin_s = Bins::align(all.chain([&mut *reordering]));
        let reason = |place: u64| {
            let index = usize::try_from(place).ok().and_then(|place| place.checked_sub(1));
            index.and_then(|index| self.reasons.get(index)).map_or("", |reason| reason.name()).to_owned()
        };
        let paths = self.paths.iter().map(|path| PathTimeline {
            sent: path.sent.sums(),
            repeated: path.repeated.sums(),
            window: path.window.held(),
            rtt_us: path.rtt.held(),
            lost: path.lost.sums(),
            idle: path.idle.held().into_iter().map(reason).collect(),
        });
        Timeline { bin_s, paths: paths.collect(), reordering: reordering.held() }
    }
}
