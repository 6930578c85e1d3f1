//! Which path carries what any path may carry, and what happens when a path falls silent.

use anabranch_wire::{PathId, SpaceId, Time, Writer};
use smallvec::SmallVec;

use crate::connection::connection::Connection;
use crate::path::{LocalCids, Path, RemoteCids};
use crate::schedule::{PathView, Scheduler as _, candidates};
use crate::token::Tokens;

/// Paths that could not send what they were picked for.
pub(in crate::connection) type Tried = SmallVec<[PathId; 4]>;

impl Connection {
    /// The path that carries data now, none of `tried`; `None` if no path can.
    pub(in crate::connection) fn pick_carrier(&mut self, now: Time, tried: &Tried) -> Option<PathId> {
        if self.multipath.is_none() || self.paths.len() == 1 {
            let main = self.paths.main().id;
            return (!tried.contains(&main)).then_some(main);
        }
        let usable = self.paths.iter().filter(|path| path.is_usable() && !path.is_amplification_blocked());
        let mut views: Vec<PathView> = usable.map(view).collect();
        candidates(&mut views);
        views.retain(|view| !tried.contains(&view.id));
        self.multipath.as_mut()?.scheduler.pick(now, &views)
    }

    /// Connection IDs that this end has issued for `path`, open or not.
    pub(in crate::connection) fn local_cids_mut(&mut self, path: PathId) -> Option<&mut LocalCids> {
        match self.paths.get_mut(path) {
            Some(path) => Some(&mut path.local_cids),
            None => self.multipath.as_mut()?.local_cids_mut(path),
        }
    }

    /// Connection IDs that the peer has issued for `path`, open or not.
    pub(in crate::connection) fn remote_cids_mut(&mut self, path: PathId) -> Option<&mut RemoteCids> {
        match self.paths.get_mut(path) {
            Some(path) => Some(&mut path.remote_cids),
            None => self.multipath.as_mut()?.remote_cids_mut(path),
        }
    }

    /// A probe timeout has passed on the path: if there is another one, what is under way goes there at once.
    pub(in crate::connection) fn on_path_silent(&mut self, id: PathId) {
        let others = self.paths.iter().any(|path| path.id != id && path.is_usable() && !path.is_failing);
        let Some(path) = self.paths.get_mut(id).filter(|path| others && path.is_usable()) else { return };
        if !std::mem::replace(&mut path.is_failing, true) {
            self.requeue_unacked(id);
        }
    }

    /// Acknowledges packets of paths whose acknowledgments cannot, or had better not, leave on them.
    pub(in crate::connection) fn fill_foreign_acks(
        &mut self,
        now: Time,
        id: PathId,
        exponent: u64,
        writer: &mut Writer<'_>,
        tokens: &mut Tokens,
    ) {
        if self.multipath.is_none() {
            return;
        }
        let foreign = |path: &&mut Path| path.id != id && (path.is_abandoned() || path.is_failing);
        for path in self.paths.iter_mut().filter(foreign).filter(|path| path.received.debt.can_ack()) {
            let policy = &self.ack_policy;
            path.received.write_ack(now, writer, SpaceId::Data, path.id, true, exponent, policy, tokens);
        }
    }
}

fn view(path: &Path) -> PathView {
    let recovery = &path.recovery;
    let room = if recovery.has_room() {
        recovery.window().saturating_sub(recovery.bytes_in_flight()).max(1)
    } else {
        0
    };
    PathView {
        id: path.id,
        is_available: path.local_status.available && path.peer_status.available,
        is_failing: path.is_failing,
        smoothed_rtt: recovery.rtt().smoothed(),
        has_rtt: recovery.rtt().has_sample(),
        room,
        window: recovery.window(),
    }
}
