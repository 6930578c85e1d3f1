//! Errors of sockets, reported by the driver.

use anabranch_wire::Time;

use crate::connection::connection::Connection;
use crate::datagram_io::FourTuple;
use crate::path::{Path, Phase};

impl Connection {
    /// Handles the host's failure to send between these addresses, for instance because an interface is down,
    /// no route exists or a filter rejects the datagram. Other working paths take over at once. A path that
    /// was being opened is abandoned. If no other path exists, nothing changes.
    pub fn on_unreachable(&mut self, now: Time, tuple: FourTuple) {
        if self.paths.list.len() == 1 || !self.state.is_active() {
            return;
        }
        let usable = |path: &&Path| !path.is_abandoned() && !path.is_failing;
        let concerned = self.paths.list.iter().filter(usable).filter(|path| path.tuple == tuple);
        let concerned: Vec<_> = concerned.map(|path| (path.id, path.phase)).collect();
        for (id, phase) in concerned {
            match phase {
                Phase::Opening => self.on_opening_failed(now, id),
                _ if self.paths.list.iter().any(|other| other.id != id && other.is_working()) => {
                    self.begin_failing(now, id);
                }
                _ => {}
            }
        }
    }
}
