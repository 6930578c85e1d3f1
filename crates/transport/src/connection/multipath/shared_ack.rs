//! Acknowledgments of packets whose numbers all paths share: one frame may speak of several paths.

use std::time::Duration;

use anabranch_recovery::{AckError, AckInfo, EcnFinding, Measures, Outcome};
use anabranch_wire::{Ack, PathId, SpaceId, Time};
use smallvec::SmallVec;

use crate::config::LossScan;
use crate::connection::connection::Connection;
use crate::connection::receive::Context;
use crate::error::TransportError;
use crate::token::Tokens;
use crate::trace::TraceEvent;

/// The newest packet of a path that an ACK newly acknowledged.
struct Newest {
    path: PathId,
    sent: Time,
    /// Whether it or another one had left with ECT(0).
    marked: bool,
}

impl Connection {
    /// An ACK of the single packet number space.
    pub(in crate::connection) fn on_shared_ack(
        &mut self,
        now: Time,
        context: &Context<'_>,
        ack: &Ack<'_>,
    ) -> Result<(), TransportError> {
        let news = self.numbering.news(ack.ranges());
        if let Some(number) = self.numbering.unsent(&news) {
            return Err(Self::optimistic_ack(AckError::Unsent(number)));
        }
        // The delay and the time are those of the largest packet, and of the way back that the frame has taken: only if that is
        // the packet's own path does it tell how long the path is.
        let mixed = self.config.ack.mixed_round_trips;
        let origin = self.numbering.path_of(ack.largest).filter(|path| *path == context.path);
        let delay = self.ack_delay(ack.delay);
        let mut outcome = std::mem::take(&mut self.outcome);
        let mut marked = 0;
        let mut touched: SmallVec<[Newest; 4]> = SmallVec::new();
        let mut result = Ok(());
        for index in 0..self.paths.len() {
            let id = self.paths.nth(index);
            let siblings = self.siblings(id);
            let mut orders = self.numbering.orders(id, &news).peekable();
            // What was named before counts where the newest packet is measured.
            let largest = orders.peek().and_then(|_| self.numbering.largest_named(id, ack.ranges()));
            let (via, measures) = match mixed {
                true => (id, Measures::Newest),
                false if origin == Some(id) => (context.path, Measures::Largest),
                false => (context.path, Measures::Nothing),
            };
            let info = AckInfo { delay, ecn: None, ecn_is_shared: true, via, measures, largest };
            let Some(path) = self.paths.get_mut(id) else { continue };
            result = path.recovery.on_ack(now, SpaceId::Data, orders, info, &siblings, &mut outcome);
            if result.is_err() {
                break;
            }
            if !outcome.acked.is_empty() {
                if id != context.path && !mixed {
                    self.note_echoes(id, &outcome);
                    self.note_late(now, id, &outcome);
                }
                self.on_path_acked(now, id, context.path);
            }
            let here = outcome.acked.iter().filter(|(_, sent)| sent.ect).count() as u64;
            marked += here;
            let newest = outcome.acked.iter().map(|(_, sent)| sent.time).max();
            touched.extend(newest.map(|sent| Newest { path: id, sent, marked: here > 0 }));
            self.settle(now, SpaceId::Data, id, &mut outcome);
            outcome.clear();
        }
        outcome.clear();
        self.outcome = outcome;
        result.map_err(Self::optimistic_ack)?;
        self.numbering.on_named(&news);
        self.numbering.on_acked(PathId::ZERO, ack.largest);
        self.hear_echo(now, context.path, ack.largest, delay);
        self.judge_shared_ecn(now, marked, ack, &touched);
        self.scan_for_losses(now);
        let paths = &self.paths;
        self.numbering.settle(|id| paths.get(id).map(|path| path.recovery.settled_below(now, SpaceId::Data)));
        Ok(())
    }

    /// Where the scan for losses stops at the first packet of the connection that is not lost: finds out which one that is, and
    /// declares lost what is older.
    pub(in crate::connection) fn scan_for_losses(&mut self, now: Time) {
        let config = self.config.multipath.as_ref();
        if !self.numbering.is_single() || config.is_none_or(|config| config.loss_scan == LossScan::Path) {
            return;
        }
        let kept = self.paths.iter().filter_map(|path| Some((path.id, path.recovery.first_kept(now)?)));
        let first = self.numbering.first_of(kept);
        let mut outcome = std::mem::take(&mut self.outcome);
        for index in 0..self.paths.len() {
            let id = self.paths.nth(index);
            // The first packet itself may become lost when its time has come; what is sent later waits for the next scan.
            let after = first.map_or(u64::MAX, |number| number + 1);
            let limit = self.numbering.order_from(id, after);
            let siblings = self.siblings(id);
            let Some(path) = self.paths.get_mut(id) else { continue };
            path.recovery.limit_losses(limit);
            path.recovery.find_losses(now, &siblings, &mut outcome);
            self.settle(now, SpaceId::Data, id, &mut outcome);
            outcome.clear();
        }
        self.outcome = outcome;
    }

    /// Packets of the path were acknowledged on another one.
    fn note_echoes(&mut self, id: PathId, outcome: &Outcome<Tokens>) {
        let Some(pool) = self.multipath.as_mut().and_then(|multipath| multipath.pool.as_mut()) else {
            return;
        };
        for (order, sent) in outcome.acked.iter().filter(|(_, sent)| sent.ack_eliciting) {
            if let Some(number) = self.numbering.known_number(id, *order) {
                pool.echoes.note(id, number, sent.time);
            }
        }
    }

    /// Packets of the path were acknowledged on another one, perhaps later than they should have been on their own.
    fn note_late(&mut self, now: Time, id: PathId, outcome: &Outcome<Tokens>) {
        let newest = outcome.acked.iter().max_by_key(|(order, _)| *order).map(|(_, sent)| sent);
        if let Some(sent) = newest.filter(|sent| sent.ack_eliciting)
            && let Some(path) = self.paths.get_mut(id)
        {
            path.recovery.on_late(now, sent.time);
        }
    }

    /// An ACK came on the path, perhaps of a packet of its own that has been acknowledged elsewhere before.
    fn hear_echo(&mut self, now: Time, id: PathId, largest: u64, delay: Duration) {
        let Some(pool) = self.multipath.as_mut().and_then(|multipath| multipath.pool.as_mut()) else {
            return;
        };
        if let Some(sent) = pool.echoes.answer(id, largest)
            && let Some(path) = self.paths.get_mut(id)
        {
            path.recovery.on_echo(now, sent, delay);
        }
    }

    /// The counts are those of the space, and so is what follows from them: marks that get lost on one path cannot be told from
    /// those of another, so that no path goes on marking.
    fn judge_shared_ecn(&mut self, now: Time, marked: u64, ack: &Ack<'_>, touched: &[Newest]) {
        let finding = self.numbering.judge_ecn(marked, ack.ecn);
        let mut outcome = std::mem::take(&mut self.outcome);
        match finding {
            EcnFinding::Nothing => {}
            EcnFinding::Congestion(marks) => {
                for newest in touched {
                    let siblings = self.siblings(newest.path);
                    let Some(path) = self.paths.get_mut(newest.path) else { continue };
                    path.recovery.on_shared_ce(now, newest.sent, marks, &siblings, &mut outcome);
                }
            }
            EcnFinding::Failed => {
                for index in 0..self.paths.len() {
                    let id = self.paths.nth(index);
                    if let Some(path) = self.paths.get_mut(id) {
                        path.recovery.disable_ecn();
                    }
                    self.trace(now, &TraceEvent::EcnState { path: id, capable: false });
                }
            }
        }
        for newest in touched.iter().filter(|newest| newest.marked) {
            if let Some(path) = self.paths.get_mut(newest.path) {
                path.recovery.confirm_ecn(); // Of no effect where marking is given up.
            }
        }
        outcome.clear();
        self.outcome = outcome;
    }
}
