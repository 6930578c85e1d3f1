//! What a driver asks and tells about paths: which of them exist, and what became of their sockets.

use std::net::SocketAddr;

use anabranch_wire::{PathId, Time};

use crate::connection::connection::Connection;
use crate::datagram_io::FourTuple;
use crate::path::{Path, Phase};

/// Which paths a driver cannot send on just now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Held {
    /// None.
    Nothing,
    /// Some, while others can be sent on.
    Some,
    /// All of them.
    All,
}

impl Connection {
    /// Whether a path carries data, `false` while the peer has not answered on it; `None` once it is given up.
    pub fn is_path_open(&self, id: PathId) -> Option<bool> {
        self.paths.get(id).filter(|path| !path.is_abandoned()).map(|path| path.is_usable())
    }

    /// Whether anything of a path is kept: packets may still leave and arrive on it, even if it was abandoned.
    pub fn has_path(&self, id: PathId) -> bool {
        self.paths.get(id).is_some()
    }

    /// Tells which paths cannot be sent on for now because of their local address, whose socket is full:
    /// [`Self::poll_transmit`] leaves them out, and gives what any path may carry to others, until the next call of this.
    pub fn hold_paths(&mut self, is_held: impl Fn(SocketAddr) -> bool) -> Held {
        let (mut held, mut free) = (false, false);
        for path in self.paths.iter_mut() {
            path.is_held = is_held(path.tuple.local);
            held |= path.is_held && !path.is_abandoned();
            free |= !path.is_held && !path.is_abandoned();
        }
        match (held, free) {
            (false, _) => Held::Nothing,
            (true, true) => Held::Some,
            (true, false) => Held::All,
        }
    }

    /// The host cannot send between these addresses: its interface is down, there is no route, a filter objects. Other paths
    /// take over at once; one that was being opened is given up. Without another path nothing changes.
    pub fn on_unreachable(&mut self, now: Time, tuple: FourTuple) {
        if self.paths.len() == 1 || !self.state.is_active() {
            return;
        }
        let usable = |path: &&Path| !path.is_abandoned() && !path.is_failing;
        let concerned = self.paths.iter().filter(usable).filter(|path| path.tuple == tuple);
        let concerned: Vec<_> = concerned.map(|path| (path.id, path.phase)).collect();
        for (id, phase) in concerned {
            match phase {
                Phase::Opening => self.on_opening_failed(now, id),
                _ if self.paths.iter().any(|other| other.id != id && Self::is_working(other)) => {
                    self.begin_failing(now, id);
                }
                _ => {}
            }
        }
    }
}
