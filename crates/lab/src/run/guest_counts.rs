//! Counters of a run between guests.

use crate::record::Row;

/// Counts of two guests, as far as their stacks report them.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct GuestCounts {
    pub(super) repeated_percent: Option<f64>,
    pub(super) lost_packets: Option<u64>,
}

impl GuestCounts {
    /// Writes the counts to `row`, and empties the columns that only a connection of this library can fill.
    pub(super) fn fill(self, row: &mut Row) {
        row.wire = "guest".to_owned();
        row.retransmitted_percent = self.repeated_percent;
        row.lost_packets = self.lost_packets;
        row.max_times_sent = None;
        row.mean_ranges = None;
        row.limit_share = None;
        row.ranges_histogram = Vec::new();
        row.ack_bytes = None;
        row.ack_frames = None;
        row.spurious_losses = None;
        row.blocked_s = None;
        row.path_bytes = Vec::new();
        row.path_lost = Vec::new();
        row.path_rtt_s = Vec::new();
    }
}
