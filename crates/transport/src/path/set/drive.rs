//! Paths for the driver: which ones exist, and which ones cannot send because their sockets are full.

use std::net::SocketAddr;

use anabranch_wire::PathId;

use super::PathSet;

/// Extent to which full sockets block a connection's paths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SocketBlock {
    /// No path is blocked.
    Nothing,
    /// Some paths are blocked, others are not.
    Some,
    /// All paths are blocked.
    All,
}

impl PathSet {
    /// Returns `Some(true)` if the path carries data, `Some(false)` if the peer has not responded on it yet,
    /// and `None` if it is abandoned or unknown.
    pub(crate) fn is_path_open(&self, id: PathId) -> Option<bool> {
        self.list.get(id).filter(|path| !path.is_abandoned()).map(|path| path.is_usable())
    }

    /// Returns whether state of a path is kept. Packets may still be sent and received on it, even if it was
    /// abandoned.
    pub(crate) fn has_path(&self, id: PathId) -> bool {
        self.list.get(id).is_some()
    }

    /// Marks the paths whose local address has a full socket. They send nothing until the next call. Other paths
    /// that are as good carry the frames that any path may carry.
    pub(crate) fn set_socket_blocked(
        &mut self,
        is_socket_blocked: impl Fn(SocketAddr) -> bool,
    ) -> SocketBlock {
        let (mut held, mut free) = (false, false);
        for path in self.list.iter_mut() {
            path.is_socket_blocked = is_socket_blocked(path.tuple.local);
            held |= path.is_socket_blocked && !path.is_abandoned();
            free |= !path.is_socket_blocked && !path.is_abandoned();
        }
        match (held, free) {
            (false, _) => SocketBlock::Nothing,
            (true, true) => SocketBlock::Some,
            (true, false) => SocketBlock::All,
        }
    }
}
