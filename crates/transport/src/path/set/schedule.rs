//! Views of paths for schedulers, and the schedulers' picks.

use super::{PathError, PathSet};
use std::time::Duration;

use anabranch_wire::PathId;
use smallvec::SmallVec;

use super::acks::min_rtt;
use crate::path::{LocalCids, Path, RemoteCids};
use crate::schedule::{Kinds, PathView, Pick, Scheduler as _, Views, rank};

/// Paths that could not send the frames for which they were picked.
pub(crate) type Tried = SmallVec<[PathId; 4]>;

/// Choice of the paths that carry, for one batch, the frames that any path may carry.
#[derive(Clone, Debug, Default)]
pub(crate) struct Turn {
    /// Path for stream data and datagrams.
    pub(crate) data: Pick,
    /// Path for lost stream data, if it differs from the path for new data.
    pub(crate) repeated: Option<Pick>,
    /// Path for control frames.
    pub(crate) control: Pick,
    /// `true` if frames for any path waited when the turn began. If `false`, no path checks for such frames
    /// again in this turn.
    pub(crate) shared: bool,
    /// `true` if no path was excluded from the scheduler's choice because it could not send.
    pub(crate) is_first: bool,
}

impl Turn {
    /// Creates a turn in which one path carries everything.
    pub(crate) fn all_on(path: PathId) -> Self {
        Self { data: Pick::on(path), control: Pick::on(path), shared: true, ..Self::default() }
    }

    /// Returns the picks for data, starting with the one for new data.
    pub(crate) fn data_picks(&self) -> impl Iterator<Item = &Pick> {
        std::iter::once(&self.data).chain(&self.repeated)
    }

    /// Returns the paths that carry copies of what is sent on `path`.
    pub(crate) fn copied_to(&self, path: PathId) -> Option<&[PathId]> {
        let mut picks = self.data_picks().chain([&self.control]).filter(|pick| pick.path == Some(path));
        picks.find(|pick| !pick.also.is_empty()).map(|pick| pick.also.as_slice())
    }

    /// Returns the kinds of stream data that `path` carries. A `lone` path, which must probe, also carries
    /// data that waits for a better path, except lost data for which the scheduler made a separate decision.
    pub(crate) fn kinds(&self, path: PathId, lone: bool) -> Kinds {
        let data = self.data.path == Some(path) || lone && self.data.path.is_none();
        let repeated = self.repeated.as_ref().map_or(data, |pick| pick.path == Some(path));
        Kinds { new: data, repeated }
    }
}

impl PathSet {
    /// Asks the scheduler for the path on which packets that arrived on `of` are acknowledged; `None` leaves
    /// the choice to the configured rule.
    pub(crate) fn scheduled_ack_path(&self, of: PathId) -> Option<PathId> {
        let multipath = self.multipath.as_ref()?;
        if !multipath.scheduler.routes_acks() {
            return None;
        }
        let views: Views =
            self.list.iter().filter(|path| path.is_working()).map(|path| self.view(path)).collect();
        let chosen = multipath.scheduler.pick_ack(of, &views)?;
        views.iter().any(|view| view.id == chosen).then_some(chosen)
    }

    /// Returns whether the scheduler, which may ask what was sent on each path, chooses the path of an ACK that waits.
    pub(crate) fn schedules_waiting_acks(&self) -> bool {
        let routes = self.multipath.as_ref().is_some_and(|multipath| multipath.scheduler.routes_acks());
        routes && self.list.iter().any(|path| path.received.ack.can_ack())
    }

    /// Returns views of the usable paths.
    pub(crate) fn views(&self) -> Views {
        self.usable().map(|path| self.view(path)).collect()
    }

    /// Returns views of the candidate paths, except those in `tried`: working available paths, else working
    /// backups, else all usable paths. A path does not replace better ones whose sockets are full while these
    /// have packets in flight: data waits for them, and they begin to fail if they are stuck.
    pub(crate) fn candidates(&self, tried: &[PathId]) -> Views {
        self.best().filter(|path| !tried.contains(&path.id)).map(|path| self.view(path)).collect()
    }

    /// Returns those of the best paths that can send now.
    pub(super) fn best(&self) -> impl Iterator<Item = &Path> {
        let rank = |path: &Path| rank(path.is_failing, path.is_available());
        let waits = |path: &Path| !path.is_socket_blocked || path.recovery.bytes_in_flight() > 0;
        let carries = |path: &&Path| path.is_usable() && !path.is_amplification_blocked() && waits(path);
        let best = self.list.iter().filter(carries).map(rank).min();
        self.usable().filter(move |path| Some(rank(path)) == best)
    }

    /// Returns the paths that can send now.
    pub(crate) fn usable(&self) -> impl Iterator<Item = &Path> {
        self.list
            .iter()
            .filter(|path| path.is_usable() && !path.is_socket_blocked && !path.is_amplification_blocked())
    }

    pub(crate) fn view(&self, path: &Path) -> PathView {
        let weight = self.multipath.as_ref().map_or(1, |multipath| multipath.weight(path.id));
        view(path, weight, self.return_delay(path))
    }

    /// Brings a view up to date after packets were sent on its path.
    pub(crate) fn review(&self, of: &mut PathView) {
        if let Some(path) = self.list.get(of.id) {
            *of = view(path, of.weight, of.return_delay);
        }
    }

    /// Sets the weight of a path for schedulers that share by weight. The default is 1. A path of weight 0 is
    /// used only if no other has room.
    pub(crate) fn set_path_weight(&mut self, id: PathId, weight: u32) -> Result<(), PathError> {
        self.open_path(id)?;
        let multipath = self.multipath.as_mut().ok_or(PathError::NotNegotiated)?;
        multipath.set_weight(id, weight);
        Ok(())
    }

    /// Checks that a path exists and is not abandoned.
    pub(super) fn open_path(&self, id: PathId) -> Result<(), PathError> {
        let open = self.list.get(id).is_some_and(|path| !path.is_abandoned());
        if open { Ok(()) } else { Err(PathError::Unknown(id)) }
    }

    /// Returns the connection IDs that this end has issued for `path`, open or not.
    pub(crate) fn local_cids_mut(&mut self, path: PathId) -> Option<&mut LocalCids> {
        if self.numbering.is_single() {
            return self.multipath.as_mut()?.pool.as_mut().map(|pool| &mut pool.local);
        }
        match self.list.get_mut(path) {
            Some(path) => Some(&mut path.local_cids),
            None => self.multipath.as_mut()?.local_cids_mut(path),
        }
    }

    /// Returns the connection IDs that the peer has issued for `path`, open or not.
    pub(crate) fn remote_cids_mut(&mut self, path: PathId) -> Option<&mut RemoteCids> {
        if self.numbering.is_single() {
            return self.multipath.as_mut()?.pool.as_mut().map(|pool| &mut pool.remote);
        }
        match self.list.get_mut(path) {
            Some(path) => Some(&mut path.remote_cids),
            None => self.multipath.as_mut()?.remote_cids_mut(path),
        }
    }
}

pub(crate) fn view(path: &Path, weight: u32, return_delay: Duration) -> PathView {
    let recovery = &path.recovery;
    let room = if recovery.has_room() {
        recovery.window().saturating_sub(recovery.bytes_in_flight()).max(1)
    } else {
        0
    };
    PathView {
        id: path.id,
        is_available: path.is_available(),
        is_failing: path.is_failing,
        smoothed_rtt: recovery.rtt().smoothed(),
        min_rtt: min_rtt(path),
        return_delay,
        rtt_variation: recovery.rtt().variance(),
        has_rtt: recovery.rtt().has_sample(),
        room,
        window: recovery.window(),
        in_flight: recovery.bytes_in_flight(),
        mtu: recovery.mtu().into(),
        packets_sent: recovery.stats().sent_packets,
        bytes_sent: recovery.stats().sent_bytes,
        last_sent: recovery.last_sent(),
        weight,
    }
}
