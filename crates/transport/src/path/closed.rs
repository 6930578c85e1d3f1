//! Records of closed paths, with their counters and the time and reason of their closure. A connection's
//! totals include them.

use super::ReorderingStats;
use super::info::PathInfo;

/// Maximum number of closed paths of a connection that are recorded one by one. The counters of further ones
/// are summed.
pub const MAX_CLOSED_PATHS: usize = 32;

/// Summed counters of several closed paths.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PathTotals {
    /// Number of paths.
    pub paths: u64,
    /// UDP payload bytes received.
    pub bytes_received: u64,
    /// UDP payload bytes sent.
    pub bytes_sent: u64,
    /// 1-RTT packets received.
    pub data_packets: u64,
    /// Received 1-RTT packets that arrived after one with a larger number.
    pub reordering: ReorderingStats,
    /// Packets sent.
    pub sent_packets: u64,
    /// Packets declared lost.
    pub lost_packets: u64,
}

impl PathTotals {
    fn add(&mut self, path: &PathInfo) {
        self.paths += 1;
        self.bytes_received += path.bytes_received;
        self.bytes_sent += path.bytes_sent;
        self.data_packets += path.data_packets;
        self.reordering.add(&path.reordering);
        self.sent_packets += path.recovery.sent_packets;
        self.lost_packets += path.recovery.lost_packets;
    }
}

/// The closed paths of a connection.
#[derive(Debug, Default)]
pub(crate) struct ClosedPaths {
    kept: Vec<PathInfo>,
    merged: PathTotals,
}

impl ClosedPaths {
    /// Adds a path whose state is being removed. The first paths and the newest ones are recorded one by one;
    /// the counters of those in between are summed.
    pub(crate) fn add(&mut self, path: PathInfo) {
        if self.kept.len() == MAX_CLOSED_PATHS {
            let merged = self.kept.remove(MAX_CLOSED_PATHS / 2);
            self.merged.add(&merged);
        }
        self.kept.push(path);
    }

    pub(crate) fn kept(&self) -> &[PathInfo] {
        &self.kept
    }

    pub(crate) fn merged(&self) -> PathTotals {
        self.merged
    }
}
