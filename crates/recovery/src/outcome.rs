//! Inputs and outputs of a path's recovery.

use core::fmt;
use core::time::Duration;

use anabranch_wire::{EcnCounts, PathId, SpaceId, Time};

use crate::sent::Sent;

/// Result of one acknowledgment or timeout. The caller clears and reuses it.
#[derive(Debug)]
#[non_exhaustive]
pub struct Outcome<T> {
    /// Newly acknowledged packets with their orders, including packets that had been declared lost.
    pub acked: Vec<(u64, Sent<T>)>,
    /// Packets declared lost, oldest first within a space. The caller sends their frames again.
    pub lost: Vec<(u64, Sent<T>)>,
    /// Orders of packets in `acked` that had been declared lost before.
    pub spurious: Vec<u64>,
    /// `true` if the controller was notified of congestion.
    pub congestion_event: bool,
    /// `true` if persistent congestion was found (RFC 9002 §7.6).
    pub persistent: bool,
    /// The path's new MTU, if it changed.
    pub mtu_changed: Option<u16>,
    /// `true` if ECN validation has just failed (RFC 9000 §13.4.2).
    pub ecn_failed: bool,
}

impl<T> Outcome<T> {
    /// Returns an empty outcome.
    pub fn new() -> Self {
        Self {
            acked: Vec::new(),
            lost: Vec::new(),
            spurious: Vec::new(),
            congestion_event: false,
            persistent: false,
            mtu_changed: None,
            ecn_failed: false,
        }
    }

    /// Empties the outcome and keeps its memory.
    pub fn clear(&mut self) {
        self.acked.clear();
        self.lost.clear();
        self.spurious.clear();
        self.congestion_event = false;
        self.persistent = false;
        self.mtu_changed = None;
        self.ecn_failed = false;
    }
}

impl<T> Default for Outcome<T> {
    fn default() -> Self {
        Self::new()
    }
}

/// Fields of an ACK frame besides its ranges.
#[derive(Clone, Copy, Debug, Default)]
pub struct AckInfo {
    /// The peer's acknowledgment delay, scaled by its exponent. [`Recovery`](crate::Recovery) applies the
    /// limits of RFC 9002 §5.3.
    pub delay: Duration,
    /// ECN counts of the space on this path, if the frame contained any.
    pub ecn: Option<EcnCounts>,
    /// `true` if the counts cover several paths; [`SharedEcn`](crate::SharedEcn) validates them.
    pub ecn_is_shared: bool,
    /// Path on which the frame arrived.
    pub via: PathId,
    /// Packet whose acknowledgment is a round-trip time sample.
    pub measures: Measures,
    /// Largest order of this path in the frame, if the caller omits ranges that earlier frames acknowledged.
    /// `None` if it passes all ranges of the frame.
    pub largest: Option<u64>,
}

/// Packet of an ACK frame whose acknowledgment measures the round trip of its path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Measures {
    /// No packet, because the frame arrived on a different path from the one on which the packets were sent.
    #[default]
    Nothing,
    /// Largest packet of the frame, if it is newly acknowledged (RFC 9002 §5.1).
    Largest,
    /// Largest newly acknowledged packet, even if the frame also contains larger ones that were acknowledged
    /// before. The sample then includes the time that the acknowledgment waited at the peer. Some stacks that
    /// acknowledge several paths in one frame need this.
    Newest,
}

/// Reason that an ACK frame violates the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AckError {
    /// The frame acknowledges a packet that was never sent: its order was skipped, or is beyond that of the
    /// newest packet (RFC 9000 §13.1, §21.4).
    Unsent(u64),
}

impl fmt::Display for AckError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unsent(order) => write!(f, "packet {order} acknowledged but never sent"),
        }
    }
}

impl std::error::Error for AckError {}

/// Amount that may be sent on the path now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Permit {
    /// Number of bytes that may be sent, at least one full packet.
    Bytes(u64),
    /// Nothing before this time, because of pacing.
    Wait(Time),
    /// Nothing until an acknowledgment or a loss, because the congestion window is full.
    Window,
}

/// Timer that expired.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expired {
    /// Loss timer: packets older than an acknowledged one have reached the time threshold (RFC 9002 §6.1.2).
    Loss,
    /// Probe timeout: probes must be sent (RFC 9002 §6.2).
    Pto {
        /// Packet number space whose timer expired.
        space: SpaceId,
    },
}

/// Progress of the handshake that the timers depend on (RFC 9002 §6.2.1, A.8).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// `true` if Handshake keys are available.
    pub has_handshake_keys: bool,
    /// `true` if the peer has validated this endpoint's address. Always `true` at a server; at a client after
    /// the first acknowledgment in a Handshake packet.
    pub peer_validated_address: bool,
    /// `true` if the handshake is confirmed (RFC 9001 §4.1.2).
    pub handshake_confirmed: bool,
}

/// Running totals of one path.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Packets sent.
    pub sent_packets: u64,
    /// Bytes sent in packets.
    pub sent_bytes: u64,
    /// Packets acknowledged, including packets that had been declared lost.
    pub acked_packets: u64,
    /// Bytes acknowledged, including packets that had been declared lost.
    pub acked_bytes: u64,
    /// Packets declared lost, MTU probes excluded.
    pub lost_packets: u64,
    /// Bytes declared lost, MTU probes excluded.
    pub lost_bytes: u64,
    /// Packets acknowledged after they were declared lost.
    pub spurious_losses: u64,
    /// Congestion responses that were undone because their losses were spurious.
    pub undone_responses: u64,
    /// Packets that the peer received with CE marks.
    pub ecn_ce: u64,
    /// Congestion events that the controller was notified of.
    pub congestion_events: u64,
    /// Probe timeouts.
    pub ptos: u64,
    /// Number of times that persistent congestion was found.
    pub persistent_congestions: u64,
    /// MTU probes sent.
    pub mtu_probes: u64,
    /// MTU probes lost.
    pub mtu_probes_lost: u64,
    /// Current MTU in bytes of UDP payload.
    pub mtu: u16,
}
