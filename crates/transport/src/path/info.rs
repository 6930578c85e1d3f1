//! Public information about one path.

use std::time::Duration;

use anabranch_wire::PathId;

use super::{Closure, IdleReason, PathState, ReorderingStats};
use crate::datagram_io::FourTuple;

/// Snapshot of a path, as it is now, or as it was when its state was removed.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct PathInfo {
    /// Path ID.
    pub id: PathId,
    /// Addresses of the path.
    pub tuple: FourTuple,
    /// `true` if the peer's address is validated.
    pub validated: bool,
    /// State of the path.
    pub state: PathState,
    /// Reason why the path sends no data at this moment; `None` if it is about to send.
    pub idle: Option<IdleReason>,
    /// Time and reason of the path's abandonment; `None` if it is not abandoned.
    pub closure: Option<Closure>,
    /// Smoothed round-trip time; an assumed value as long as `rtt_via` is `None`.
    pub smoothed_rtt: Duration,
    /// Path on which the acknowledgment of the newest RTT sample returned. If it is another path, the
    /// round-trip times combine this path's way to the peer with the other path's way back. `None` before the
    /// first sample.
    pub rtt_via: Option<PathId>,
    /// Smallest round-trip time.
    pub min_rtt: Duration,
    /// Probe timeout, without backoff (RFC 9002 §6.2.1).
    pub pto: Duration,
    /// Congestion window in bytes.
    pub window: u64,
    /// Bytes in flight.
    pub in_flight: u64,
    /// Maximum UDP payload in bytes.
    pub mtu: u16,
    /// UDP payload bytes received.
    pub bytes_received: u64,
    /// UDP payload bytes sent.
    pub bytes_sent: u64,
    /// Datagrams received.
    pub datagrams_received: u64,
    /// Datagrams sent.
    pub datagrams_sent: u64,
    /// 1-RTT packets received, without duplicates.
    pub data_packets: u64,
    /// Received 1-RTT packets that arrived after one with a larger number.
    pub reordering: ReorderingStats,
    /// Totals of loss recovery.
    pub recovery: anabranch_recovery::Stats,
}
