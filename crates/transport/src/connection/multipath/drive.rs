//! What a driver asks and tells about paths: which of them exist, and what became of their sockets.

use anabranch_wire::PathId;

use crate::connection::connection::Connection;

impl Connection {
    /// Whether a path carries data, `false` while the peer has not answered on it; `None` once it is given up.
    pub fn is_path_open(&self, id: PathId) -> Option<bool> {
        self.paths.get(id).filter(|path| !path.is_abandoned()).map(|path| path.is_usable())
    }

    /// Whether anything of a path is kept: packets may still leave and arrive on it, even if it was abandoned.
    pub fn has_path(&self, id: PathId) -> bool {
        self.paths.get(id).is_some()
    }
}
