//! Packet under construction: its permitted contents, its destination and its contents so far.

use anabranch_wire::{Announced, Outgoing, PacketKind, PathId, SpaceId};

use crate::schedule::Kinds;
use crate::space::Numbered;
use crate::token::{Token, Tokens};

/// Kinds of frames that a packet may carry.
#[derive(Clone, Copy, Debug)]
pub(in crate::connection) struct Fill {
    /// `true` if the packet may carry an ACK frame.
    pub(in crate::connection) ack: bool,
    /// `true` if the packet may carry ack-eliciting frames.
    pub(in crate::connection) data: bool,
    /// `true` if the packet may carry control frames that are not bound to a path.
    pub(in crate::connection) control: bool,
    /// Kinds of stream and DATAGRAM data that the packet may carry.
    pub(in crate::connection) streams: Kinds,
    /// `true` if the packet must be ack-eliciting; a PING is added if no other frame is ack-eliciting.
    pub(in crate::connection) probe: bool,
}

/// Path and space of a packet to be written.
#[derive(Clone, Copy, Debug)]
pub(in crate::connection) struct Target {
    pub(in crate::connection) path: PathId,
    pub(in crate::connection) space: SpaceId,
    pub(in crate::connection) kind: PacketKind,
    /// The peer's connection ID, if it differs from the one in use on the path.
    pub(in crate::connection) dcid: Option<anabranch_wire::ConnectionId>,
    /// Description of the packet's stream data for its header.
    pub(in crate::connection) announced: Option<Announced>,
}

/// Packet whose frames are written but which is not protected yet.
pub(in crate::connection) struct Draft {
    pub(in crate::connection) kind: PacketKind,
    pub(in crate::connection) space: SpaceId,
    /// The peer's connection ID, if it differs from the one in use on the path.
    pub(in crate::connection) dcid: Option<anabranch_wire::ConnectionId>,
    /// Offset of the packet in the datagram, and offset of its end, tag included.
    pub(in crate::connection) start: usize,
    pub(in crate::connection) end: usize,
    pub(in crate::connection) outgoing: Outgoing,
    pub(in crate::connection) numbered: Numbered,
    pub(in crate::connection) tokens: Tokens,
    /// `true` if loss recovery tracks the packet as in flight.
    pub(in crate::connection) tracked: bool,
    pub(in crate::connection) mtu_probe: bool,
}

impl Draft {
    /// Returns the tokens of the packet's frames.
    pub(in crate::connection) fn tokens(&self) -> &[Token] {
        &self.tokens
    }

    /// Returns whether the packet is ack-eliciting.
    pub(in crate::connection) fn is_eliciting(&self) -> bool {
        is_eliciting(&self.tokens)
    }
}

pub(in crate::connection) fn is_eliciting(tokens: &[Token]) -> bool {
    tokens.iter().any(|token| !matches!(token, Token::Ack { .. }))
}
