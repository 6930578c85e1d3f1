//! Paths as a driver sees them: which ones exist, and which it cannot send on because their sockets are full.

use std::net::SocketAddr;

use anabranch_wire::PathId;

use super::PathSet;

/// Paths on which a driver cannot send just now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SocketBlock {
    /// None.
    Nothing,
    /// Some, while others can be sent on.
    Some,
    /// All of them.
    All,
}

impl PathSet {
    /// Returns whether a path carries data: `false` while the peer has not answered on it, `None` once it is
    /// given up.
    pub(crate) fn is_path_open(&self, id: PathId) -> Option<bool> {
        self.list.get(id).filter(|path| !path.is_abandoned()).map(|path| path.is_usable())
    }

    /// Returns whether any state of a path is kept: packets may still be sent and arrive on it, even if it
    /// was abandoned.
    pub(crate) fn has_path(&self, id: PathId) -> bool {
        self.list.get(id).is_some()
    }

    /// Tells which paths cannot be sent on for now because of their local address, whose socket is full:
    /// [`Self::poll_transmit`] leaves them out, and gives what any path may carry to others, until the next
    /// call of this.
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
