//! A packet that is being written: what it is to hold, where it is sent, and what it holds so far.

use anabranch_wire::{Announced, Outgoing, PacketKind, PathId, SpaceId};

use crate::schedule::Kinds;
use crate::space::Numbered;
use crate::token::{Token, Tokens};

/// Kinds of frames that a packet may carry.
#[derive(Clone, Copy, Debug)]
pub(in crate::connection) struct Fill {
    /// An ACK frame.
    pub(in crate::connection) ack: bool,
    /// Frames that the peer has to acknowledge.
    pub(in crate::connection) data: bool,
    /// Those among them that any path may carry: control frames.
    pub(in crate::connection) control: bool,
    /// Those among them that any path may carry: data of streams and datagrams, by kind.
    pub(in crate::connection) streams: Kinds,
    /// At least a PING, so that the packet is acknowledged.
    pub(in crate::connection) probe: bool,
}

/// Path and space of a packet to be written.
#[derive(Clone, Copy, Debug)]
pub(in crate::connection) struct Target {
    pub(in crate::connection) path: PathId,
    pub(in crate::connection) space: SpaceId,
    pub(in crate::connection) kind: PacketKind,
    /// The peer's connection ID, if not the one in use on the path.
    pub(in crate::connection) dcid: Option<anabranch_wire::ConnectionId>,
    /// Description of the packet's stream data in its header.
    pub(in crate::connection) announced: Option<Announced>,
}

/// A packet whose frames are written but not yet protected.
pub(in crate::connection) struct Draft {
    pub(in crate::connection) kind: PacketKind,
    pub(in crate::connection) space: SpaceId,
    /// Start of the packet in the datagram, and its end with the tag.
    pub(in crate::connection) start: usize,
    pub(in crate::connection) end: usize,
    pub(in crate::connection) outgoing: Outgoing,
    pub(in crate::connection) numbered: Numbered,
    pub(in crate::connection) tokens: Tokens,
    /// Recovery counts it as in flight.
    pub(in crate::connection) tracked: bool,
    pub(in crate::connection) mtu_probe: bool,
}

impl Draft {
    /// Returns the tokens of its frames.
    pub(in crate::connection) fn tokens(&self) -> &[Token] {
        &self.tokens
    }

    /// Returns whether the peer has to acknowledge it.
    pub(in crate::connection) fn is_eliciting(&self) -> bool {
        is_eliciting(&self.tokens)
    }
}

pub(in crate::connection) fn is_eliciting(tokens: &[Token]) -> bool {
    tokens.iter().any(|token| !matches!(token, Token::Ack { .. }))
}
