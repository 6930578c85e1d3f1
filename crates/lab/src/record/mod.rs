//! Record of a run: a [`Row`] of plain values, the same for every experiment, and a [`Timeline`] for figures.
//!
//! A row contains nothing that differs between machines or times, so equal seeds give equal files.

use serde::{Deserialize, Serialize};

/// Maximum number of paths that have their own values in a row.
pub const MAX_ROW_PATHS: usize = 4;

/// Values of one run of one variant at one point. Times are in seconds, sizes in bytes. A list has one value
/// for each path, in the order of path IDs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Row {
    /// Name of the experiment.
    pub experiment: String,
    /// Name of the variant.
    pub variant: String,
    /// Number of the point (column `run` of a design).
    pub point: u64,
    /// Number of the repetition, from 0 on.
    pub repetition: u32,
    /// Seed of all randomness in the run.
    pub seed: u64,
    /// Commit of the program.
    pub commit: String,
    /// Wire image of packets; `guest` for guests; for external stacks, the engine with the setup.
    pub wire: String,
    /// Reason for the failure; empty if the run ended as expected.
    pub failure: String,
    /// Megabits per second of each of the point's paths.
    pub path_rate_mbps: Vec<f64>,
    /// One-way delay of each of the point's paths, in milliseconds.
    pub path_owd_ms: Vec<f64>,
    /// Time from the client's first packet to its receipt of CONNECTION_CLOSE (2022) or to the last byte
    /// (2017).
    pub transfer_time_s: Option<f64>,
    /// Time from the client's first packet to the last byte of the download.
    pub last_byte_s: Option<f64>,
    /// Fluid bound of a download over all paths of the point, with acknowledgments on the quickest of them;
    /// `None` unless rate, delay and queue alone describe the links, equally in both directions.
    pub bound_s: Option<f64>,
    /// Time at which the handshake completed at the client.
    pub handshake_s: Option<f64>,
    /// STREAM bytes that the server retransmitted, in percent of the download.
    pub retransmitted_percent: Option<f64>,
    /// Maximum number of times that any byte was sent.
    pub max_times_sent: Option<u64>,
    /// Mean number of ranges in the client's ACK frames.
    pub mean_ranges: Option<f64>,
    /// Share (0 to 1) of the client's ACK frames that have the maximum number of ranges.
    pub limit_share: Option<f64>,
    /// Numbers of ACK frames with 1, 2, … ranges.
    pub ranges_histogram: Vec<u64>,
    /// Total size of the client's acknowledgment frames in bytes.
    pub ack_bytes: Option<u64>,
    /// Number of the client's acknowledgment frames.
    pub ack_frames: Option<u64>,
    /// Number of the server's packets that were declared lost.
    pub lost_packets: Option<u64>,
    /// Number of the server's packets that were declared lost, but acknowledged later.
    pub spurious_losses: Option<u64>,
    /// Time during which the client had received data beyond a gap in the stream, and waited for the next
    /// byte in order.
    pub blocked_s: Option<f64>,
    /// Share (0 to 1) of the client's received packets that arrived in the order of their numbers, path by
    /// path.
    pub ordered_ratio: Option<f64>,
    /// Largest distance by which a packet had been overtaken when the client received it: the largest packet
    /// number received before, minus the packet's own number.
    pub reordering_packets: Option<u64>,
    /// Longest delay of an overtaken packet: the time from the arrival of the first packet that had overtaken
    /// it to its own arrival.
    pub reordering_s: Option<f64>,
    /// Stream bytes that the client decrypted directly into the reader's buffer.
    pub placed_bytes: Option<u64>,
    /// Stream bytes that the client copied into the reader's buffer after decrypting them elsewhere.
    pub copied_bytes: Option<u64>,
    /// Received bytes that the client saved and restored because a packet was decrypted over them.
    pub restored_bytes: Option<u64>,
    /// Experimental aggregation benefit relative to single-path runs of the same point, if they exist.
    pub eben: Option<f64>,
    /// Time of each request since the client's first packet.
    pub request_times_s: Vec<f64>,
    /// Delay of each response, in the order of the requests.
    pub request_delays_s: Vec<f64>,
    /// Goodput of each competing connection, in bits per second.
    pub flow_goodput_bps: Vec<f64>,
    /// STREAM bytes that the server sent on each path.
    pub path_bytes: Vec<u64>,
    /// Packets of the server that were declared lost on each path.
    pub path_lost: Vec<u64>,
    /// The server's smoothed round-trip time of each path at the end.
    pub path_rtt_s: Vec<f64>,
    /// Maximum length in packets of each link's queue towards the client.
    pub path_max_queue: Vec<u64>,
    /// Packets dropped by each link's full queue towards the client.
    pub path_overflows: Vec<u64>,
}

/// Course of a run over time in equal bins, for drawing.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Timeline {
    /// Width of a bin in seconds. The first bin begins with the client's first packet.
    pub bin_s: f64,
    /// Timelines of the paths.
    pub paths: Vec<PathTimeline>,
    /// Bytes beyond a gap in the stream that the client held at the end of each bin.
    pub reordering: Vec<u64>,
}

/// Timeline of one path at the server. Each list has one value for each bin.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct PathTimeline {
    /// STREAM bytes sent on the path, which show the scheduler's choices.
    pub sent: Vec<u64>,
    /// Part of the bytes in `sent` that had been sent before.
    pub repeated: Vec<u64>,
    /// Congestion window in bytes at the end of the bin.
    pub window: Vec<u64>,
    /// Smoothed round-trip time at the end of the bin, in microseconds.
    pub rtt_us: Vec<u64>,
    /// Number of packets declared lost.
    pub lost: Vec<u64>,
    /// Reason that the path sent no more data at the end of the bin, by the names of
    /// [`IdleReason`](anabranch_transport::IdleReason). It is empty if the path could carry data, or if the
    /// connection has no other path.
    pub idle: Vec<String>,
}
