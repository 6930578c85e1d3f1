//! Settings that a layer may contain.

use anabranch_transport::acknowledge::AckTiming;
use anabranch_transport::recovery::{Algorithm as Congestion, LossDelay};
use anabranch_transport::schedule::Algorithm as Scheduler;
use anabranch_transport::{
    AckPath, AckScope, FrequencyRule, Horizon, LossScan, Numbering, RangeOrder, WindowRule,
};
use serde::{Deserialize, Serialize};

use super::{Wire, field};

/// Declares the settings once: all of them optional, with values of one layer put over those of another.
macro_rules! settings {
    ($(#[$about:meta])* pub struct $type:ident { $($(#[$meta:meta])* pub $field:ident: Option<$value:ty>,)+ }) => {
        $(#[$about])*
        pub struct $type { $($(#[$meta])* pub $field: Option<$value>,)+ }

        impl $type {
            /// Returns these settings, with those of `lower` where they are not set.
            #[must_use]
            pub fn over(self, lower: Self) -> Self {
                Self { $($field: self.$field.or(lower.$field),)+ }
            }
        }
    };
}

settings! {
/// One layer: what it sets. Everything else is left as it is.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// `true` if several paths are used at once; `false` if the first of `paths` is the only one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub multipath: Option<bool>,
    /// Paths of the point that are used, by their places from 0 on; the first one carries the handshake. All
    /// paths if this is not set.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "field::paths")]
    pub paths: Option<Vec<usize>>,
    /// Wire image of packets. If this is not set, the client begins with version 1 and offers version 2, too.
    #[serde(skip_serializing_if = "Option::is_none", with = "field::named")]
    pub wire: Option<Wire>,
    /// Numbering of the packets of several paths.
    #[serde(skip_serializing_if = "Option::is_none", with = "field::named")]
    pub numbering: Option<Numbering>,
    /// Scheduler that chooses the path of the next packet.
    #[serde(skip_serializing_if = "Option::is_none", with = "field::named")]
    pub scheduler: Option<Scheduler>,
    /// Weights of the server's paths, for the scheduler that shares by weight; 1 for paths that are not
    /// named.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "field::weights")]
    pub weights: Option<Vec<u32>>,
    /// Congestion controller.
    #[serde(skip_serializing_if = "Option::is_none", with = "field::named")]
    pub congestion: Option<Congestion>,
    /// Congestion controller of the other connections of a competition, if it is another.
    #[serde(skip_serializing_if = "Option::is_none", with = "field::named")]
    pub others_congestion: Option<Congestion>,

    /// Ranges that one ACK frame names at most, the top one included.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "field::within::<_, 2, 1024>")]
    pub max_ranges: Option<u64>,
    /// Ranges that an ACK frame names when there are more than it may hold.
    #[serde(skip_serializing_if = "Option::is_none", with = "field::named")]
    pub range_order: Option<RangeOrder>,
    /// Frames that name a range which does not grow, before it is left out.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "field::within::<_, 1, 0xffff_ffff>")]
    pub range_repeats: Option<u64>,
    /// Old packet numbers that are given up.
    #[serde(skip_serializing_if = "Option::is_none", with = "field::named")]
    pub horizon: Option<Horizon>,
    /// The same where paths share their numbers, unless `horizon` is set.
    #[serde(skip_serializing_if = "Option::is_none", with = "field::named")]
    pub single_horizon: Option<Horizon>,
    /// The path that an ACK takes.
    #[serde(skip_serializing_if = "Option::is_none", with = "field::named")]
    pub ack_path: Option<AckPath>,
    /// Paths whose packets an ACK acknowledges when it leaves.
    #[serde(skip_serializing_if = "Option::is_none", with = "field::named")]
    pub ack_scope: Option<AckScope>,
    /// `true` if a path's round trips count as one and the same, whichever path returns the ACKs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mixed_round_trips: Option<bool>,
    /// Strategy that decides when an ACK leaves.
    #[serde(skip_serializing_if = "Option::is_none", with = "field::named")]
    pub ack_timing: Option<AckTiming>,
    /// Packets that make an ACK leave at once.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "field::within::<_, 1, 1024>")]
    pub ack_threshold: Option<u64>,
    /// Longest deliberate delay of an ACK in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "field::within::<_, 1, 16383>")]
    pub max_ack_delay_ms: Option<u64>,
    /// `true` if the sender asks for rarer ACKs as its window grows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ack_frequency: Option<bool>,
    /// Rule for the ACK frequency that the sender then asks for.
    #[serde(skip_serializing_if = "Option::is_none", with = "field::named")]
    pub ack_frequency_rule: Option<FrequencyRule>,

    /// Extent of the search for losses in the single number space.
    #[serde(skip_serializing_if = "Option::is_none", with = "field::named")]
    pub loss_scan: Option<LossScan>,
    /// `true` if an end reports failing paths to the peer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path_signalling: Option<bool>,
    /// `true` if a packet number is skipped now and then, to detect acknowledgments of packets that did not
    /// arrive.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub skip_packet_numbers: Option<bool>,
    /// Rule by which an overtaken packet is declared lost for its age.
    #[serde(skip_serializing_if = "Option::is_none", with = "field::named")]
    pub loss_delay: Option<LossDelay>,
    /// Initial congestion window in packets of the size at first.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "field::within::<_, 2, 1000>")]
    pub initial_window_packets: Option<u64>,
    /// Initial congestion window in bytes; takes the place of the one in packets.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "field::within::<_, 2400, 0x1000_0000>")]
    pub initial_window_bytes: Option<u64>,
    /// `true` if packets are paced over the round trip.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pacing: Option<bool>,
    /// Percent of the window that are sent in a round-trip time, in slow start and afterwards.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "field::gains")]
    pub pacing_percent: Option<[u16; 2]>,
    /// Packets that may leave at once after a rest, and one by one otherwise; without it bursts are measured
    /// in time.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "field::within::<_, 2, 1024>")]
    pub pacing_burst_packets: Option<u64>,
    /// `true` if ECN is tried.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ecn: Option<bool>,
    /// Size of packets at first, UDP payload in bytes.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "field::within::<_, 1200, 65527>")]
    pub mtu_initial: Option<u64>,
    /// Largest size that is probed for; the one at first leaves it at that.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "field::within::<_, 1200, 65527>")]
    pub mtu_maximum: Option<u64>,

    /// Bytes that may be sent on a stream ahead of the reader, at first.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "field::within::<_, 1024, 0x4000_0000>")]
    pub stream_window: Option<u64>,
    /// Maximum to which that window grows.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "field::within::<_, 1024, 0x4000_0000>")]
    pub stream_window_max: Option<u64>,
    /// Bytes that may be sent on all streams ahead of the reader, at first.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "field::within::<_, 1024, 0x4000_0000>")]
    pub connection_window: Option<u64>,
    /// Maximum to which that window grows.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "field::within::<_, 1024, 0x4000_0000>")]
    pub connection_window_max: Option<u64>,
    /// Rule by which the windows grow.
    #[serde(skip_serializing_if = "Option::is_none", with = "field::named")]
    pub window_rule: Option<WindowRule>,
    /// Idle timeout in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "field::within::<_, 1, 3_600_000>")]
    pub idle_timeout_ms: Option<u64>,
}
}

/// Error in a layer, in one line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{file}, line {line}: {message}")]
pub struct SettingsError {
    /// The file's name.
    pub file: String,
    /// Its line, from 1 on.
    pub line: usize,
    /// Description of the fault and of the permitted values.
    pub message: String,
}

impl SettingsError {
    /// Creates the error for a fault found while reading the `text` of a TOML file.
    pub fn new(file: &str, text: &str, error: &toml::de::Error) -> Self {
        let before = error.span().and_then(|span| text.get(..span.start)).unwrap_or_default();
        let line = 1 + before.matches('\n').count();
        let message = error.message().lines().collect::<Vec<_>>().join(", ");
        Self { file: file.to_owned(), line, message }
    }
}

impl Settings {
    /// Reads a layer; `file` names it in errors.
    ///
    /// # Errors
    /// If a name is unknown or a value impossible; the error says where, and what would be possible.
    pub fn parse(file: &str, text: &str) -> Result<Self, SettingsError> {
        toml::from_str(text).map_err(|error| SettingsError::new(file, text, &error))
    }
}
