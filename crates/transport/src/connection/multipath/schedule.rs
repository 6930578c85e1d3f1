//! Pending data and control frames, as presented to the scheduler.

use anabranch_wire::{PathId, Time};
use smallvec::SmallVec;

use crate::connection::connection::Connection;
use crate::path::{Path, Tried, Turn};
use crate::schedule::{Carrier, Kinds, Patience, Scheduler as _, Work};

impl Connection {
    /// Returns the paths that carry data and control frames now, except those in `tried`.
    pub(in crate::connection) fn next_turn(&mut self, now: Time, tried: &Tried) -> Turn {
        if self.paths.multipath.is_none() || self.paths.list.len() == 1 {
            let main = self.paths.list.main().id;
            return if tried.contains(&main) { Turn::default() } else { Turn::all_on(main) };
        }
        if let Some(multipath) = &mut self.paths.multipath {
            multipath.unopened.review();
        }
        // The scheduler is not called if only acknowledgments are pending.
        let (streams, control) = (self.has_streams(), self.has_shared_control());
        if !streams && !control {
            return Turn::default();
        }
        if !self.paths.usable().any(|path| path.recovery.has_room() && !tried.contains(&path.id)) {
            return Turn { shared: true, ..Turn::default() };
        }
        if streams && self.datagrams.has_flows() {
            self.paths.review_home();
        }
        let views = self.paths.candidates(tried);
        let work = self.work(control, tried);
        let unsent = self.take_unsent_pick(&views);
        let Some(multipath) = &mut self.paths.multipath else { return Turn::default() };
        let mut turn = Turn { shared: true, is_first: tried.is_empty(), ..Turn::default() };
        if streams {
            turn.data = unsent.unwrap_or_else(|| multipath.scheduler.pick(now, &work, &views));
        }
        if streams && work.repeated > 0 {
            turn.repeated = multipath.scheduler.pick_repeated(now, &work, &views);
        }
        if control {
            turn.control = multipath.scheduler.pick_control(now, &work, &views);
        }
        turn
    }

    /// Describes the pending data to the scheduler.
    pub(in crate::connection) fn work(&mut self, control: bool, tried: &Tried) -> Work {
        let owes = |path: &&Path| path.received.ack.can_ack();
        let is_paced = |path: &&Path| tried.contains(&path.id) && path.paced_until.is_some();
        Work {
            new: self.streams.new_bytes() + self.datagrams.pending_bytes(),
            repeated: self.streams.lost_bytes(),
            control,
            acks: self.paths.list.iter().filter(owes).map(|path| path.id).collect(),
            continues: self.streams.has_more_to_come(),
            routed: self.streams.is_routed() || self.datagrams.is_routed(),
            paced: self.paths.usable().filter(is_paced).map(|path| self.paths.view(path)).collect(),
            credit: self.streams.credit(),
            send_window: self.streams.send_window(),
        }
    }

    /// Returns the carrier for data on path `id`. It carries stream data of these `kinds`, and only data
    /// whose route permits the path.
    pub(in crate::connection) fn carrier(&self, id: PathId, kinds: Kinds) -> Carrier {
        let mut working = SmallVec::new();
        if self.streams.is_routed() || self.datagrams.is_routed() {
            let works = |path: &&Path| path.is_usable() && !path.is_failing;
            working.extend(self.paths.list.iter().filter(works).map(|path| path.id));
        }
        let patience = match self.datagrams.has_flows() {
            true => self.paths.patience(id),
            false => Patience::default(),
        };
        Carrier { path: id, working, kinds, patience }
    }
}
