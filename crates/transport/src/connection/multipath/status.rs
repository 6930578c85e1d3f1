//! What a path is for: data, or only if nothing else works (RFC 10069 §3.3).

use anabranch_wire::PathId;

use crate::connection::connection::Connection;

impl Connection {
    /// Says whether a path is to be used like others or only when no other works; the peer is told, and is free to do as it
    /// likes with what it sends. Says whether there is such a path.
    pub fn set_path_available(&mut self, id: PathId, available: bool) -> bool {
        let multipath = self.is_multipath();
        let Some(path) = self.paths.get_mut(id).filter(|path| multipath && !path.is_abandoned()) else {
            return false;
        };
        path.owes_status |= path.local_status.change(available);
        true
    }
}
