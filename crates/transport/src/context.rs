//! Properties of a received packet that the handlers of its frames need.

use anabranch_wire::{ConnectionId, Direction, PacketKind, PathId, SpaceId};

use crate::datagram_io::FourTuple;

/// Properties of an authentic packet while its frames are processed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Context<'a> {
    pub(crate) kind: PacketKind,
    pub(crate) space: SpaceId,
    pub(crate) path: PathId,
    pub(crate) number: u64,
    pub(crate) tuple: &'a FourTuple,
    pub(crate) dcid: &'a ConnectionId,
    /// Size of the datagram that held the packet, in bytes.
    pub(crate) datagram_len: usize,
    /// Direction in which the frames are read.
    pub(crate) direction: Direction,
    /// `true` if the packet shows no migration of the peer: it arrived on the only path, between the path's
    /// addresses and with the connection ID in use. On a server, the packet's own frames do not change this.
    /// They may open further paths, but they cannot retire the connection ID with which the packet arrived.
    pub(crate) is_usual: bool,
}
