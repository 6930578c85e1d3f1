//! Typed events of everything a connection does, for observers such as qlog. They cost one branch when nobody
//! looks.

use std::time::Duration;

use anabranch_wire::{ConnectionId, Direction, PacketKind, PathId, SpaceId, TransportParameters, Version};

use crate::datagram_io::FourTuple;
use crate::error::ConnectionError;
use crate::path::{IdleReason, PathState};

/// Watches one connection.
pub trait Observer: Send {
    /// Observes an event. Calls come in the order in which events happen; `time` never goes backwards.
    fn event(&mut self, time: anabranch_wire::Time, event: &TraceEvent<'_>);
}

/// One packet as observers see it: header fields and the frames before protection or after its removal.
#[derive(Clone, Copy, Debug)]
pub struct PacketTrace<'a> {
    /// Packet type.
    pub kind: PacketKind,
    /// Version of a long header's packet.
    pub version: Version,
    /// Path that it belongs to.
    pub path: PathId,
    /// Packet number.
    pub number: u64,
    /// Destination connection ID.
    pub dcid: ConnectionId,
    /// Source connection ID; empty in short headers.
    pub scid: ConnectionId,
    /// Key phase bit of a 1-RTT packet.
    pub key_phase: bool,
    /// Bytes on the wire, header and tag included.
    pub size: usize,
    /// Plaintext payload; read it with [`anabranch_wire::Frames`].
    pub payload: &'a [u8],
    /// Direction in which `payload` is read.
    pub direction: Direction,
}

/// Reason that a received packet or datagram was not processed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DropReason {
    /// The header does not parse.
    Malformed,
    /// Keys are not there yet or not any longer.
    KeyUnavailable,
    /// The tag does not verify.
    Undecryptable,
    /// The packet number was seen before.
    Duplicate,
    /// Another version than the connection's.
    UnexpectedVersion,
    /// A Retry, Version Negotiation or other packet that the state does not allow.
    Unexpected,
    /// Source or destination connection ID does not belong to the connection.
    UnknownConnectionId,
}

/// Cause of a loss detection timer or a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TimerKind {
    /// A packet became old enough to be lost.
    Loss,
    /// Probe timeout.
    Pto,
}

/// Something happened.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum TraceEvent<'a> {
    /// The connection exists.
    Started {
        /// Addresses of its first path.
        tuple: FourTuple,
        /// This end's first connection ID.
        local_cid: ConnectionId,
        /// The peer's connection ID as far as it is known.
        remote_cid: ConnectionId,
    },
    /// The version was negotiated.
    VersionChosen {
        /// Version in use from now on.
        version: Version,
    },
    /// Transport parameters of this end or of the peer.
    Parameters {
        /// `true` if this end sent them.
        local: bool,
        /// Their values.
        parameters: &'a TransportParameters,
    },
    /// ALPN was negotiated.
    AlpnChosen {
        /// The protocol.
        protocol: &'a [u8],
    },
    /// A packet was sent.
    PacketSent(PacketTrace<'a>),
    /// A packet was received, decrypted and not a duplicate.
    PacketReceived(PacketTrace<'a>),
    /// A packet was not processed.
    PacketDropped {
        /// Its type if it was readable.
        kind: Option<PacketKind>,
        /// Its size in bytes.
        size: usize,
        /// Reason for it.
        reason: DropReason,
    },
    /// The peer acknowledged a packet for the first time.
    PacketAcked {
        /// Space of the packet.
        space: SpaceId,
        /// Path that it was sent on.
        path: PathId,
        /// Packet number.
        number: u64,
    },
    /// A packet was declared lost.
    PacketLost {
        /// Space of the packet.
        space: SpaceId,
        /// Path that it was sent on.
        path: PathId,
        /// Packet number.
        number: u64,
    },
    /// Loss turned out to be reordering: packets declared lost were acknowledged.
    SpuriousLoss {
        /// The path.
        path: PathId,
        /// Number of packets.
        packets: u64,
    },
    /// State of a path's recovery after a change.
    Metrics {
        /// The path.
        path: PathId,
        /// Smallest RTT.
        min_rtt: Duration,
        /// Smoothed RTT.
        smoothed_rtt: Duration,
        /// Newest RTT sample.
        latest_rtt: Duration,
        /// RTT variation.
        rtt_variance: Duration,
        /// Congestion window in bytes.
        window: u64,
        /// Slow-start threshold in bytes, if the controller has one and it was set.
        ssthresh: Option<u64>,
        /// Bytes in flight.
        in_flight: u64,
        /// PTOs in a row.
        pto_count: u32,
    },
    /// The controller went into another state.
    CongestionState {
        /// The path.
        path: PathId,
        /// The controller's name for it.
        state: &'static str,
    },
    /// The loss detection timer ran out.
    TimerExpired {
        /// The path.
        path: PathId,
        /// Kind of timer.
        kind: TimerKind,
        /// Space that is to be probed.
        space: SpaceId,
    },
    /// ECN validation ended for a path.
    EcnState {
        /// The path.
        path: PathId,
        /// `true` if marks may be used.
        capable: bool,
    },
    /// The path's datagrams may be this large.
    MtuChanged {
        /// The path.
        path: PathId,
        /// UDP payload in bytes.
        mtu: u16,
    },
    /// Keys became available.
    KeysInstalled {
        /// Space that they protect.
        space: SpaceId,
        /// `true` if they are for early data.
        early: bool,
    },
    /// Keys were dropped.
    KeysDiscarded {
        /// Space that they protected.
        space: SpaceId,
    },
    /// The key phase changed.
    KeyUpdated {
        /// Number of updates so far.
        generation: u64,
        /// `true` if the peer began it.
        remote: bool,
    },
    /// A path runs between new addresses.
    PathAssigned {
        /// The path.
        path: PathId,
        /// Its addresses.
        tuple: FourTuple,
        /// `true` if they are validated.
        validated: bool,
    },
    /// The path began to fail or works again, or one of the ends made it a backup or took that back.
    PathState {
        /// The path.
        path: PathId,
        /// New state of the path.
        state: PathState,
        /// Reason that it sends no data now; `None` if it is about to send.
        idle: Option<IdleReason>,
    },
    /// The path was given up, by this end or by the peer.
    PathAbandoned {
        /// The path.
        path: PathId,
        /// Reason: a code of RFC 10069 §5, or of the application.
        code: u64,
    },
    /// The handshake was confirmed.
    HandshakeConfirmed,
    /// The connection ended.
    Closed {
        /// Reason for it.
        error: &'a ConnectionError,
    },
}
