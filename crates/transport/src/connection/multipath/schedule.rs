//! Which path carries what any path may carry.

use std::time::Duration;

use anabranch_wire::{PathId, Time};
use smallvec::SmallVec;

use super::acks::min_rtt;
use crate::connection::connection::Connection;
use crate::path::{LocalCids, Path, RemoteCids};
use crate::schedule::{Carrier, Kinds, PathView, Pick, Scheduler as _, Views, Work, rank};

/// Paths that could not send what they were picked for.
pub(in crate::connection) type Tried = SmallVec<[PathId; 4]>;

/// Who carries what any path may carry, for one batch.
#[derive(Clone, Debug, Default)]
pub(in crate::connection) struct Turn {
    /// Stream data and datagrams.
    pub(in crate::connection) data: Pick,
    /// Lost stream data, if it goes another way than new data.
    pub(in crate::connection) repeated: Option<Pick>,
    /// Control frames.
    pub(in crate::connection) control: Pick,
    /// Whether there was anything to carry when the turn began: if not, nobody has to look again.
    pub(in crate::connection) shared: bool,
}

impl Turn {
    /// Everything on one path.
    pub(in crate::connection) fn all_on(path: PathId) -> Self {
        Self { data: Pick::on(path), control: Pick::on(path), shared: true, ..Self::default() }
    }

    /// The picks for data, first of all the one for new data.
    pub(in crate::connection) fn data_picks(&self) -> impl Iterator<Item = &Pick> {
        std::iter::once(&self.data).chain(&self.repeated)
    }

    /// Kinds of stream data that leave on `path`. A `lone` path, which has to probe, carries data that waits for a better one
    /// as well, but for lost data that the scheduler decided about by itself.
    pub(in crate::connection) fn kinds(&self, path: PathId, lone: bool) -> Kinds {
        let data = self.data.path == Some(path) || lone && self.data.path.is_none();
        let repeated = self.repeated.as_ref().map_or(data, |pick| pick.path == Some(path));
        Kinds { new: data, repeated }
    }
}

impl Connection {
    /// The paths that carry data and control frames now, none of `tried`.
    pub(in crate::connection) fn next_turn(&mut self, now: Time, tried: &Tried) -> Turn {
        if self.multipath.is_none() || self.paths.len() == 1 {
            let main = self.paths.main().id;
            return if tried.contains(&main) { Turn::default() } else { Turn::all_on(main) };
        }
        if let Some(multipath) = &mut self.multipath {
            multipath.unopened.review();
        }
        // Whoever only acknowledges asks no scheduler.
        let (streams, control) = (self.has_streams(), self.has_shared_control());
        if !streams && !control {
            return Turn::default();
        }
        if !self.usable().any(|path| path.recovery.has_room() && !tried.contains(&path.id)) {
            return Turn { shared: true, ..Turn::default() };
        }
        let views = self.candidates(tried);
        let work = self.work(control, tried);
        let Some(multipath) = &mut self.multipath else { return Turn::default() };
        let mut turn = Turn { shared: true, ..Turn::default() };
        if streams {
            turn.data = multipath.scheduler.pick(now, &work, &views);
        }
        if streams && work.repeated > 0 {
            turn.repeated = multipath.scheduler.pick_repeated(now, &work, &views);
        }
        if control {
            turn.control = multipath.scheduler.pick_control(now, &work, &views);
        }
        turn
    }

    /// Lists what waits, for the scheduler.
    fn work(&mut self, control: bool, tried: &Tried) -> Work {
        let owes = |path: &&Path| path.received.debt.can_ack();
        let is_paced = |path: &&Path| tried.contains(&path.id) && path.paced_until.is_some();
        Work {
            new: self.streams.new_bytes() + self.datagrams.pending_bytes(),
            repeated: self.streams.lost_bytes(),
            control,
            acks: self.paths.iter().filter(owes).map(|path| path.id).collect(),
            continues: self.streams.has_more_to_come(),
            routed: self.streams.is_routed() || self.datagrams.is_routed(),
            paced: self.usable().filter(is_paced).map(|path| self.view(path)).collect(),
            credit: self.streams.credit(),
            send_window: self.streams.send_window(),
        }
    }

    /// Asks the scheduler which path acknowledges packets that arrived on `of`; `None` leaves it to the configured rule.
    pub(super) fn scheduled_ack_path(&self, of: PathId) -> Option<PathId> {
        let multipath = self.multipath.as_ref()?;
        if !multipath.scheduler.routes_acks() {
            return None;
        }
        let views: Views =
            self.paths.iter().filter(|path| Self::is_working(path)).map(|path| self.view(path)).collect();
        let chosen = multipath.scheduler.pick_ack(of, &views)?;
        views.iter().any(|view| view.id == chosen).then_some(chosen)
    }

    /// Stream data of which `kinds` the path `id` may carry, routes observed.
    pub(in crate::connection) fn carrier(&self, id: PathId, kinds: Kinds) -> Carrier {
        let mut working = SmallVec::new();
        if self.streams.is_routed() || self.datagrams.is_routed() {
            let works = |path: &&Path| path.is_usable() && !path.is_failing;
            working.extend(self.paths.iter().filter(works).map(|path| path.id));
        }
        Carrier { path: id, working, kinds }
    }

    /// The usable paths as the scheduler sees them.
    pub(super) fn views(&self) -> Views {
        self.usable().map(|path| self.view(path)).collect()
    }

    /// The paths that come into question, but for those of `tried`: available ones that work, else backups that work, else
    /// whatever is there.
    pub(super) fn candidates(&self, tried: &[PathId]) -> Views {
        let rank = |path: &Path| rank(path.is_failing, path.is_available());
        let mut views = Views::new();
        let Some(best) = self.usable().map(rank).min() else { return views };
        for path in self.usable().filter(|path| rank(path) == best && !tried.contains(&path.id)) {
            views.push(self.view(path));
        }
        views
    }

    fn usable(&self) -> impl Iterator<Item = &Path> {
        self.paths.iter().filter(|path| path.is_usable() && !path.is_held && !path.is_amplification_blocked())
    }

    fn view(&self, path: &Path) -> PathView {
        let weight = self.multipath.as_ref().map_or(1, |multipath| multipath.weight(path.id));
        view(path, weight, self.way_back(path))
    }

    /// Weighs a path for schedulers that share by weight; 1 without being told, 0 for when no other has room. Says whether
    /// there is such a path.
    pub fn set_path_weight(&mut self, id: PathId, weight: u32) -> bool {
        let open = self.paths.get(id).is_some_and(|path| !path.is_abandoned());
        match &mut self.multipath {
            Some(multipath) if open => multipath.set_weight(id, weight),
            _ => return false,
        }
        true
    }

    /// Connection IDs that this end has issued for `path`, open or not.
    pub(in crate::connection) fn local_cids_mut(&mut self, path: PathId) -> Option<&mut LocalCids> {
        if self.numbering.is_single() {
            return self.multipath.as_mut()?.pool.as_mut().map(|pool| &mut pool.local);
        }
        match self.paths.get_mut(path) {
            Some(path) => Some(&mut path.local_cids),
            None => self.multipath.as_mut()?.local_cids_mut(path),
        }
    }

    /// Connection IDs that the peer has issued for `path`, open or not.
    pub(in crate::connection) fn remote_cids_mut(&mut self, path: PathId) -> Option<&mut RemoteCids> {
        if self.numbering.is_single() {
            return self.multipath.as_mut()?.pool.as_mut().map(|pool| &mut pool.remote);
        }
        match self.paths.get_mut(path) {
            Some(path) => Some(&mut path.remote_cids),
            None => self.multipath.as_mut()?.remote_cids_mut(path),
        }
    }
}

fn view(path: &Path, weight: u32, way_back: Duration) -> PathView {
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
        way_back,
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
