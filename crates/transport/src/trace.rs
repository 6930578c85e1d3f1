//! Typed events of everything that a connection does, for observers such as qlog. Without an observer an
//! event costs one branch.

use std::time::Duration;

use anabranch_wire::{
    ConnectionId, Direction, PacketKind, PathId, SpaceId, TransportParameters, VarInt, Version,
};

use crate::datagram_io::FourTuple;
use crate::error::ConnectionError;
use crate::path::{IdleReason, PathState};

/// Observer of one connection.
pub trait Observer: Send {
    /// Handles an event. Events are passed in the order in which they happen; `time` never goes backwards.
    fn event(&mut self, time: anabranch_wire::Time, event: &TraceEvent<'_>);
}

/// Packet as an observer sees it: header fields, and the plaintext frames.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct PacketTrace<'a> {
    /// Packet type.
    pub kind: PacketKind,
    /// Version of the connection; in the packet itself only if it has a long header.
    pub version: Version,
    /// Path to which the packet belongs.
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
    /// Direction in which the frames of `payload` are to be read.
    pub direction: Direction,
}

impl<'a> PacketTrace<'a> {
    /// Creates packet 0 of path 0 without connection IDs, of the size of its payload.
    pub const fn new(kind: PacketKind, version: Version, payload: &'a [u8], direction: Direction) -> Self {
        Self {
            kind,
            version,
            path: PathId::ZERO,
            number: 0,
            dcid: ConnectionId::EMPTY,
            scid: ConnectionId::EMPTY,
            key_phase: false,
            size: payload.len(),
            payload,
            direction,
        }
    }
}

/// Reason that a received packet or datagram was not processed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DropReason {
    /// The header does not parse.
    Malformed,
    /// Keys are not available yet, or have been discarded.
    KeyUnavailable,
    /// The tag does not verify.
    Undecryptable,
    /// A packet with this number was received before.
    Duplicate,
    /// The version is not the connection's.
    UnexpectedVersion,
    /// The state does not permit a Retry, a Version Negotiation or another packet of this type.
    Unexpected,
    /// Source or destination connection ID is not one of the connection.
    UnknownConnectionId,
}

/// Cause of an expired loss detection timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TimerKind {
    /// A packet in flight became old enough to be declared lost.
    Loss,
    /// Probe timeout.
    Pto,
}

/// Event of a connection.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum TraceEvent<'a> {
    /// The connection was created.
    Started {
        /// Addresses of its first path.
        tuple: FourTuple,
        /// Connection ID that this endpoint chose first.
        local_cid: ConnectionId,
        /// The peer's connection ID, as far as it is known.
        remote_cid: ConnectionId,
    },
    /// The version was negotiated.
    VersionChosen {
        /// Version in use from now on.
        version: Version,
    },
    /// Transport parameters of this endpoint or of the peer.
    Parameters {
        /// `true` if this endpoint sent them.
        local: bool,
        /// Values of the parameters.
        parameters: &'a TransportParameters,
    },
    /// ALPN selected the application protocol.
    AlpnChosen {
        /// The protocol.
        protocol: &'a [u8],
    },
    /// A packet was sent.
    PacketSent(PacketTrace<'a>),
    /// A packet was received and decrypted, and is not a duplicate.
    PacketReceived(PacketTrace<'a>),
    /// A packet was not processed.
    PacketDropped {
        /// Packet type, if it could be read.
        kind: Option<PacketKind>,
        /// Size in bytes.
        size: usize,
        /// Reason why it was dropped.
        reason: DropReason,
    },
    /// The peer acknowledged a packet for the first time.
    PacketAcked {
        /// Packet number space.
        space: SpaceId,
        /// Path on which it was sent.
        path: PathId,
        /// Packet number.
        number: u64,
    },
    /// A packet was declared lost.
    PacketLost {
        /// Packet number space.
        space: SpaceId,
        /// Path on which it was sent.
        path: PathId,
        /// Packet number.
        number: u64,
    },
    /// Loss was spurious: packets that had been declared lost were acknowledged.
    SpuriousLoss {
        /// The path.
        path: PathId,
        /// Number of packets that were wrongly declared lost.
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
        /// Number of consecutive PTOs.
        pto_count: u32,
    },
    /// The congestion controller changed its state.
    CongestionState {
        /// The path.
        path: PathId,
        /// Name that the controller gives the new state.
        state: &'static str,
    },
    /// The loss detection timer expired.
    TimerExpired {
        /// The path.
        path: PathId,
        /// Kind of timer.
        kind: TimerKind,
        /// Packet number space to probe; it has a meaning only for [`TimerKind::Pto`].
        space: SpaceId,
    },
    /// ECN validation of a path ended.
    EcnState {
        /// The path.
        path: PathId,
        /// `true` if ECN may be used on the path.
        capable: bool,
    },
    /// The maximum datagram size of a path changed.
    MtuChanged {
        /// The path.
        path: PathId,
        /// UDP payload in bytes.
        mtu: u16,
    },
    /// Keys became available.
    KeysInstalled {
        /// Packet number space that the keys protect.
        space: SpaceId,
        /// `true` if they are the 0-RTT keys.
        early: bool,
    },
    /// Keys were discarded.
    KeysDiscarded {
        /// Packet number space that the keys protected.
        space: SpaceId,
    },
    /// The key phase changed.
    KeyUpdated {
        /// Number of updates so far.
        generation: u64,
        /// `true` if the peer initiated the update.
        remote: bool,
    },
    /// A path was assigned new addresses.
    PathAssigned {
        /// The path.
        path: PathId,
        /// Its addresses.
        tuple: FourTuple,
        /// `true` if the new addresses are validated.
        validated: bool,
    },
    /// The path began to fail or recovered, or an endpoint changed its status between available and backup.
    PathState {
        /// The path.
        path: PathId,
        /// New state of the path.
        state: PathState,
        /// Reason why the path carries no data now; `None` if it may carry data.
        idle: Option<IdleReason>,
    },
    /// The reason why a path carries no data has changed, on a connection with several paths. The reason is
    /// determined whenever the connection has nothing left to send for the moment.
    PathIdle {
        /// The path.
        path: PathId,
        /// Reason why the path carries no data now; `None` if it may carry data.
        reason: Option<IdleReason>,
    },
    /// The path was abandoned, by this endpoint or by the peer.
    PathAbandoned {
        /// The path.
        path: PathId,
        /// Reason: a code of RFC 10069 §5, or of the application.
        code: VarInt,
    },
    /// The handshake was confirmed.
    HandshakeConfirmed,
    /// The connection ended.
    Closed {
        /// Reason why it ended.
        error: &'a ConnectionError,
    },
}
