//! Record of a run: one [`Row`] of plain values, the same for every experiment, and a [`Timeline`] for
//! figures.
//!
//! A row holds nothing that differs between machines or moments, so equal seeds give equal files.

use serde::{Deserialize, Serialize};

/// Paths that have values of their own in a row.
pub const MAX_ROW_PATHS: usize = 4;

/// One run of one variant at one point. Times are in seconds, sizes in bytes; a list has one value for each
/// path, in the order of their IDs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Row {
    /// The experiment's name.
    pub experiment: String,
    /// The variant's name.
    pub variant: String,
    /// The point's number (column `run` of a design).
    pub point: u64,
    /// Number of the repetition, from 0 on.
    pub repetition: u32,
    /// Seed of everything random in the run.
    pub seed: u64,
    /// The commit that ran it.
    pub commit: String,
    /// Wire image of packets.
    pub wire: String,
    /// Empty if the run ended as it should, otherwise why it did not.
    pub failure: String,
    /// Megabits per second of each of the point's paths.
    pub path_rate_mbps: Vec<f64>,
    /// One-way delay of each of the point's paths, in milliseconds.
    pub path_owd_ms: Vec<f64>,
    /// First packet of the client sent until the closing packet received by it (2022), or the last byte
    /// (2017).
    pub transfer_time_s: Option<f64>,
    /// First packet of the client sent until the last byte of the download.
    pub last_byte_s: Option<f64>,
    /// Handshake complete at the client.
    pub handshake_s: Option<f64>,
    /// STREAM bytes that the server sent again, in percent of the download.
    pub retransmitted_percent: Option<f64>,
    /// Number of times that the most often sent byte was sent.
    pub max_times_sent: Option<u64>,
    /// Mean of the ranges in each ACK frame of the client.
    pub mean_ranges: Option<f64>,
    /// Share of the client's ACK frames with as many ranges as its limit allows, 0 to 1.
    pub limit_share: Option<f64>,
    /// Numbers of ACK frames with 1, 2, … ranges.
    pub ranges_histogram: Vec<u64>,
    /// Bytes of all acknowledgment frames of the client.
    pub ack_bytes: Option<u64>,
    /// Acknowledgment frames of the client.
    pub ack_frames: Option<u64>,
    /// Packets of the server that were declared lost.
    pub lost_packets: Option<u64>,
    /// Of these, packets that had arrived after all.
    pub spurious_losses: Option<u64>,
    /// Time in which the client had data but not the byte that came next.
    pub blocked_s: Option<f64>,
    /// Stream bytes that the client decrypted right to where they are read.
    pub placed_bytes: Option<u64>,
    /// Stream bytes that the client copied there after decrypting them elsewhere.
    pub copied_bytes: Option<u64>,
    /// Received bytes that the client put aside and back because a packet was decrypted over them.
    pub restored_bytes: Option<u64>,
    /// Experimental aggregation benefit against single-path runs of the same point, where there are any.
    pub eben: Option<f64>,
    /// Time of each request since the client's first packet.
    pub request_times_s: Vec<f64>,
    /// Delay of each request, in the order in which they were made.
    pub request_delays_s: Vec<f64>,
    /// Goodput of each connection that competed, in bits per second.
    pub flow_goodput_bps: Vec<f64>,
    /// STREAM bytes that the server sent on each path.
    pub path_bytes: Vec<u64>,
    /// Packets of the server declared lost on each path.
    pub path_lost: Vec<u64>,
    /// Smoothed round-trip time of each path at the end, as the server saw it.
    pub path_rtt_s: Vec<f64>,
    /// Most packets that waited in each link's queue towards the client.
    pub path_max_queue: Vec<u64>,
    /// Packets that did not fit into each link's queue towards the client.
    pub path_overflows: Vec<u64>,
}

/// Course of a run over time, in equal bins; enough to draw it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Timeline {
    /// Seconds that a bin lasts; the first begins with the client's first packet.
    pub bin_s: f64,
    /// One for each path.
    pub paths: Vec<PathTimeline>,
    /// Bytes that the client had received beyond the next one in order, at the end of each bin.
    pub reordering: Vec<u64>,
}

/// A path in a [`Timeline`], as the server saw it; all lists have one value for each bin.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct PathTimeline {
    /// STREAM bytes sent: the scheduler's choices.
    pub sent: Vec<u64>,
    /// Of these, bytes sent before.
    pub repeated: Vec<u64>,
    /// Congestion window at the end of the bin.
    pub window: Vec<u64>,
    /// Smoothed round-trip time at the end of the bin, in microseconds.
    pub rtt_us: Vec<u64>,
    /// Packets declared lost.
    pub lost: Vec<u64>,
}
