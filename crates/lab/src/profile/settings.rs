//! Settings that a layer may contain.

use anabranch_transport::acknowledge::AckTiming;
use anabranch_transport::recovery::{Algorithm as Congestion, LossDelay};
use anabranch_transport::schedule::Algorithm as Scheduler;
use anabranch_transport::{
    AckPath, AckScope, FrequencyRule, Horizon, LossScan, Numbering, RangeOrder, WindowRule,
};
use serde::{Deserialize, Serialize};

use super::{External, Wire, field};
use crate::guest::Programs;

/// Declares the settings, each in one place. All are optional. The settings of one layer can override those
/// of another.
macro_rules! settings {
    ($(#[$about:meta])* pub struct $type:ident { $($(#[$meta:meta])* pub $field:ident: Option<$value:ty>,)+ }) => {
        $(#[$about])*
        pub struct $type { $($(#[$meta])* pub $field: Option<$value>,)+ }

        impl $type {
            /// Returns these settings, supplemented by those of `lower`.
            #[must_use]
            pub fn over(self, lower: Self) -> Self {
                Self { $($field: self.$field.or(lower.$field),)+ }
            }
        }
    };
}

settings! {
/// Settings of one layer. Unset ones leave the lower layers' values unchanged.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// External stack and the engine that runs it. Of the other settings, only `paths` and `multipath` then
    /// have an effect.
    #[serde(skip_serializing_if = "Option::is_none", with = "field::named")]
    pub external: Option<External>,
    /// `true` if several paths are used simultaneously; `false` if only the first of `paths` is used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub multipath: Option<bool>,
    /// Indices of the point's paths that are used; the first one carries the handshake. If unset, all paths
    /// are used.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "field::paths")]
    pub paths: Option<Vec<usize>>,
    /// Wire image of packets. If unset, the client begins with version 1 and also offers version 2.
    #[serde(skip_serializing_if = "Option::is_none", with = "field::named")]
    pub wire: Option<Wire>,
    /// Numbering of packets on several paths: one number space for each path, or a single one.
    #[serde(skip_serializing_if = "Option::is_none", with = "field::named")]
    pub numbering: Option<Numbering>,
    /// Scheduler that chooses the path of the next packet.
    #[serde(skip_serializing_if = "Option::is_none", with = "field::named")]
    pub scheduler: Option<Scheduler>,
    /// Weights of the server's paths for the scheduler that shares by weight. Paths without an entry have
    /// weight 1.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "field::weights")]
    pub weights: Option<Vec<u32>>,
    /// Congestion controller.
    #[serde(skip_serializing_if = "Option::is_none", with = "field::named")]
    pub congestion: Option<Congestion>,
    /// Congestion controller of the competing connections in a competition, if it differs.
    #[serde(skip_serializing_if = "Option::is_none", with = "field::named")]
    pub others_congestion: Option<Congestion>,

    /// Maximum number of ranges in one ACK frame, including the first one.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "field::within::<_, 2, 1024>")]
    pub max_ranges: Option<u64>,
    /// Selection of the ranges for an ACK frame if they exceed its maximum.
    #[serde(skip_serializing_if = "Option::is_none", with = "field::named")]
    pub range_order: Option<RangeOrder>,
    /// Number of ACK frames that repeat an unchanged range before it is omitted.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "field::within::<_, 1, 0xffff_ffff>")]
    pub range_repeats: Option<u64>,
    /// Rule by which old packet numbers are no longer acknowledged.
    #[serde(skip_serializing_if = "Option::is_none", with = "field::named")]
    pub horizon: Option<Horizon>,
    /// Rule like `horizon` for a single number space only; ignored if `horizon` is set.
    #[serde(skip_serializing_if = "Option::is_none", with = "field::named")]
    pub single_horizon: Option<Horizon>,
    /// Path on which an ACK is sent.
    #[serde(skip_serializing_if = "Option::is_none", with = "field::named")]
    pub ack_path: Option<AckPath>,
    /// Paths whose packets are acknowledged when an ACK is sent.
    #[serde(skip_serializing_if = "Option::is_none", with = "field::named")]
    pub ack_scope: Option<AckScope>,
    /// `true` if a path has a single round-trip estimate for all ACKs, regardless of the path on which they
    /// return.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mixed_round_trips: Option<bool>,
    /// Strategy that decides when an ACK is sent.
    #[serde(skip_serializing_if = "Option::is_none", with = "field::named")]
    pub ack_timing: Option<AckTiming>,
    /// Number of packets that trigger an immediate ACK.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "field::within::<_, 1, 1024>")]
    pub ack_threshold: Option<u64>,
    /// Maximum deliberate ACK delay in milliseconds (`max_ack_delay`).
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "field::within::<_, 1, 16383>")]
    pub max_ack_delay_ms: Option<u64>,
    /// `true` if the sender requests less frequent ACKs as its window grows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ack_frequency: Option<bool>,
    /// Rule for the ACK frequency that the sender requests.
    #[serde(skip_serializing_if = "Option::is_none", with = "field::named")]
    pub ack_frequency_rule: Option<FrequencyRule>,

    /// Rule that limits the search for lost packets in the single number space.
    #[serde(skip_serializing_if = "Option::is_none", with = "field::named")]
    pub loss_scan: Option<LossScan>,
    /// `true` if an end reports failing paths to the peer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path_signalling: Option<bool>,
    /// `true` if packet numbers are occasionally skipped, to detect acknowledgments of packets that were
    /// never sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub skip_packet_numbers: Option<bool>,
    /// Rule for the delay after which an overtaken packet is declared lost.
    #[serde(skip_serializing_if = "Option::is_none", with = "field::named")]
    pub loss_delay: Option<LossDelay>,
    /// Initial congestion window in packets of the initial size.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "field::within::<_, 2, 1000>")]
    pub initial_window_packets: Option<u64>,
    /// Initial congestion window in bytes; overrides the one in packets.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "field::within::<_, 2400, 0x1000_0000>")]
    pub initial_window_bytes: Option<u64>,
    /// `true` if packets are paced over the round-trip time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pacing: Option<bool>,
    /// Pacing rate in percent of the window per round-trip time, in slow start and afterwards.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "field::gains")]
    pub pacing_percent: Option<[u16; 2]>,
    /// Maximum burst in packets. Packets after the burst are sent one by one. If unset, bursts are limited by
    /// time.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "field::within::<_, 2, 1024>")]
    pub pacing_burst_packets: Option<u64>,
    /// `true` if the ends try to use ECN.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ecn: Option<bool>,
    /// Initial UDP payload of packets in bytes.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "field::within::<_, 1200, 65527>")]
    pub mtu_initial: Option<u64>,
    /// Maximum UDP payload that is probed for. If it equals the initial one, there is no probing.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "field::within::<_, 1200, 65527>")]
    pub mtu_maximum: Option<u64>,

    /// Initial flow control window of a stream in bytes.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "field::within::<_, 1024, 0x4000_0000>")]
    pub stream_window: Option<u64>,
    /// Maximum to which the stream window grows.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "field::within::<_, 1024, 0x4000_0000>")]
    pub stream_window_max: Option<u64>,
    /// Initial flow control window of the connection in bytes.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "field::within::<_, 1024, 0x4000_0000>")]
    pub connection_window: Option<u64>,
    /// Maximum to which the connection window grows.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "field::within::<_, 1024, 0x4000_0000>")]
    pub connection_window_max: Option<u64>,
    /// Rule by which the windows grow.
    #[serde(skip_serializing_if = "Option::is_none", with = "field::named")]
    pub window_rule: Option<WindowRule>,
    /// Programs of both ends that speak the guest protocol, in place of this library. Of the other settings,
    /// only `paths` and `multipath` then have an effect.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "field::programs")]
    pub guest: Option<Programs>,
    /// Idle timeout in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "field::within::<_, 1, 3_600_000>")]
    pub idle_timeout_ms: Option<u64>,
}
}

/// Error in a layer, formatted in one line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{file}, line {line}: {message}")]
pub struct SettingsError {
    /// Name of the file.
    pub file: String,
    /// Line number, from 1 on.
    pub line: usize,
    /// Description of the fault and of the valid values.
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
    /// Parses a layer. `file` is its name in errors.
    ///
    /// # Errors
    /// Fails if a name is unknown or a value is invalid. The error states the line and the valid values.
    pub fn parse(file: &str, text: &str) -> Result<Self, SettingsError> {
        toml::from_str(text).map_err(|error| SettingsError::new(file, text, &error))
    }
}
