//! Inputs and outputs of a path's recovery.

use core::fmt;
use core::time::Duration;

use anabranch_wire::{EcnCounts, PathId, SpaceId, Time};

use crate::sent::Sent;

/// Outcome of one acknowledgment or timeout. The caller clears and reuses it.
#[derive(Debug)]
pub struct Outcome<T> {
    /// Newly acknowledged packets with their orders, late ones included.
    pub acked: Vec<(u64, Sent<T>)>,
    /// Packets declared lost, oldest first within a space; what they owe must be sent again.
    pub lost: Vec<(u64, Sent<T>)>,
    /// Orders of packets in `acked` that had been declared lost before.
    pub spurious: Vec<u64>,
    /// `true` if the controller was told of congestion.
    pub congestion_event: bool,
    /// `true` if persistent congestion was found (RFC 9002 §7.6).
    pub persistent: bool,
    /// The path's new MTU, if it changed.
    pub mtu_changed: Option<u16>,
    /// `true` if ECN validation failed just now (RFC 9000 §13.4.2).
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
    /// The peer's acknowledgment delay, scaled by its exponent; the limits of RFC 9002 §5.3 are applied
    /// inside.
    pub delay: Duration,
    /// ECN counts of the space on this path, if the frame had any.
    pub ecn: Option<EcnCounts>,
    /// The counts belong to several paths, and [`SharedEcn`](crate::SharedEcn) judges them.
    pub ecn_is_shared: bool,
    /// The path that the frame came back on.
    pub via: PathId,
    /// `true` if the frame measures the path.
    pub measures: Measures,
    /// The largest order that the frame names, if it is told without what frames before it have named.
    pub largest: Option<u64>,
}

/// Packet of an ACK frame that measures the round trip of its path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Measures {
    /// None: the frame did not come back the way the packets went.
    #[default]
    Nothing,
    /// The largest one it names, if it is newly acknowledged (RFC 9002 §5.1).
    Largest,
    /// The largest newly acknowledged one, even if the frame names larger ones that were known: what it
    /// waited for its acknowledgment is then part of the round trip. Some stacks that speak of several paths
    /// in one frame do so.
    Newest,
}

/// Reason that an ACK frame is a violation of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AckError {
    /// It acknowledges an order that was never sent: a skipped one, or one beyond the newest (RFC 9000 §13.1,
    /// §21.4).
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
pub enum Permit {
    /// So many bytes, at least one full packet.
    Bytes(u64),
    /// Nothing before this time: the pacer holds back.
    Wait(Time),
    /// Nothing until an acknowledgment or a loss: the congestion window is full.
    Window,
}

/// Timer that ran out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expired {
    /// Overtaken packets have now been missing long enough (RFC 9002 §6.1.2).
    Loss,
    /// Nothing came back: probes are owed (RFC 9002 §6.2).
    Pto {
        /// The space whose timer it was.
        space: SpaceId,
    },
}

/// Progress of the handshake, as far as timers depend on it (RFC 9002 §6.2.1, A.8).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Handshake keys are there.
    pub has_handshake_keys: bool,
    /// The peer is known to have validated this end's address: always so at a server, at a client after the
    /// first Handshake acknowledgment.
    pub peer_validated_address: bool,
    /// The handshake is confirmed (RFC 9001 §4.1.2).
    pub handshake_confirmed: bool,
}

/// Running totals of one path.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Packets sent.
    pub sent_packets: u64,
    /// Bytes sent in packets.
    pub sent_bytes: u64,
    /// Packets acknowledged, late ones included.
    pub acked_packets: u64,
    /// Bytes acknowledged, late ones included.
    pub acked_bytes: u64,
    /// Packets declared lost, MTU probes excluded.
    pub lost_packets: u64,
    /// Bytes declared lost, MTU probes excluded.
    pub lost_bytes: u64,
    /// Packets acknowledged after they were declared lost.
    pub spurious_losses: u64,
    /// Congestion responses taken back because the losses behind them were spurious.
    pub undone_responses: u64,
    /// Packets the peer received with CE marks.
    pub ecn_ce: u64,
    /// Times the controller was told of congestion.
    pub congestion_events: u64,
    /// Probe timeouts.
    pub ptos: u64,
    /// Findings of persistent congestion.
    pub persistent_congestions: u64,
    /// MTU probes sent.
    pub mtu_probes: u64,
    /// MTU probes lost.
    pub mtu_probes_lost: u64,
    /// Current MTU in bytes of UDP payload.
    pub mtu: u16,
}
