//! Facts about a received packet that every owner of a frame may need.

use anabranch_wire::{ConnectionId, Direction, PacketKind, PathId, SpaceId};

use crate::datagram_io::FourTuple;

/// Facts about an authentic packet while its frames are processed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Context<'a> {
    pub(crate) kind: PacketKind,
    pub(crate) space: SpaceId,
    pub(crate) path: PathId,
    pub(crate) number: u64,
    pub(crate) tuple: &'a FourTuple,
    pub(crate) dcid: &'a ConnectionId,
    /// Size of the datagram that held the packet.
    pub(crate) datagram_len: usize,
    /// From which end the frames are read.
    pub(crate) direction: Direction,
    /// It came on the only path, between its addresses and with the connection ID that is in use: nobody has
    /// moved. Frames of the packet change nothing about that at a server, where it matters: paths that they
    /// open are others, and the connection ID that a packet came with cannot be retired by it.
    pub(crate) is_usual: bool,
}
