//! Public facts about one path.

use std::time::Duration;

use anabranch_wire::PathId;

use super::{Closure, IdleReason, PathState};
use crate::datagram_io::FourTuple;

/// A path as it is now, or as it was when it was forgotten.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct PathInfo {
    /// Its identifier.
    pub id: PathId,
    /// Its addresses.
    pub tuple: FourTuple,
    /// `true` if the peer's address is validated.
    pub validated: bool,
    /// State of the path.
    pub state: PathState,
    /// Reason why the path sends no data at this moment; `None` if it is about to.
    pub idle: Option<IdleReason>,
    /// Time and reason for which the path was given up; `None` as long as it is not.
    pub closure: Option<Closure>,
    /// Smoothed round-trip time; an assumed value as long as `rtt_via` is `None`.
    pub smoothed_rtt: Duration,
    /// The path on which the acknowledgment of the newest round-trip sample came back: if it is another one,
    /// the times are those of this path's way there and that path's way back. `None` before the first sample.
    pub rtt_via: Option<PathId>,
    /// Smallest round-trip time.
    pub min_rtt: Duration,
    /// Probe timeout, without backoff (RFC 9002 §6.2.1).
    pub pto: Duration,
    /// Congestion window in bytes.
    pub window: u64,
    /// Bytes in flight.
    pub in_flight: u64,
    /// Largest UDP payload in bytes.
    pub mtu: u16,
    /// UDP payload bytes received and sent.
    pub bytes_received: u64,
    /// UDP payload bytes sent.
    pub bytes_sent: u64,
    /// Datagrams received.
    pub datagrams_received: u64,
    /// Datagrams sent.
    pub datagrams_sent: u64,
    /// 1-RTT packets received; no packet counts twice.
    pub data_packets: u64,
    /// Those of them that came after one with a larger number.
    pub overtaken_packets: u64,
    /// Loss recovery's totals.
    pub recovery: anabranch_recovery::Stats,
}
