//! Received ACK frames of the single packet number space. One frame may acknowledge packets of several paths.

use anabranch_recovery::{AckError, AckInfo, EcnFinding, Measures};
use anabranch_wire::{Ack, PathId, SpaceId, Time};
use smallvec::SmallVec;

use crate::config::LossScan;
use crate::connection::connection::Connection;
use crate::context::Context;
use crate::error::TransportError;
use crate::trace::TraceEvent;

/// Newest packet of a path that an ACK newly acknowledged.
struct Newest {
    path: PathId,
    sent: Time,
    /// `true` if any of the path's newly acknowledged packets was sent with ECT(0).
    marked: bool,
}

impl Connection {
    /// Handles an ACK of the single packet number space.
    pub(in crate::connection) fn on_shared_ack(
        &mut self,
        now: Time,
        context: &Context<'_>,
        ack: &Ack<'_>,
    ) -> Result<(), TransportError> {
        let news = self.paths.numbering.news(ack.ranges());
        if let Some(number) = self.paths.numbering.unsent(&news) {
            return Err(Self::optimistic_ack(AckError::Unsent(number)));
        }
        // One round trip is that of the data's path and the ACK's return path. By default it is a sample of
        // the data's path: without samples from ACKs on other paths, a congestion controller would not know
        // how long its packets take to be acknowledged. If round trips are not mixed, an ACK measures only
        // the path on which it and its largest packet travelled.
        let mixed = self.config.ack.mixed_round_trips.unwrap_or(true);
        let origin = self.paths.numbering.path_of(ack.largest).filter(|path| *path == context.path);
        let delay = self.ack_delay(ack.delay);
        let mut outcome = std::mem::take(&mut self.outcome);
        let mut marked = 0;
        let mut touched: SmallVec<[Newest; 4]> = SmallVec::new();
        let mut result = Ok(());
        for index in 0..self.paths.list.len() {
            let id = self.paths.list.nth(index);
            let siblings = self.paths.siblings(id);
            let mut orders = self.paths.numbering.orders(id, &news).peekable();
            // The largest packet of this path in the ACK, even if it was acknowledged before.
            let largest = orders.peek().and_then(|_| self.paths.numbering.largest_named(id, ack.ranges()));
            let (via, measures) = match mixed {
                true => (id, Measures::Newest),
                false if origin == Some(id) => (context.path, Measures::Largest),
                false => (context.path, Measures::Nothing),
            };
            let info = AckInfo { delay, ecn: None, ecn_is_shared: true, via, measures, largest };
            let Some(path) = self.paths.list.get_mut(id) else { continue };
            result = path.recovery.on_ack(now, SpaceId::Data, orders, info, &siblings, &mut outcome);
            if result.is_err() {
                break;
            }
            if !outcome.acked.is_empty() {
                if id != context.path && !mixed {
                    self.paths.note_echoes(id, &outcome);
                    self.paths.note_late(now, id, &outcome);
                }
                self.paths.on_path_acked(now, id, context.path);
            }
            let here = outcome.acked.iter().filter(|(_, sent)| sent.ect).count() as u64;
            marked += here;
            let newest = outcome.acked.iter().map(|(_, sent)| sent.time).max();
            touched.extend(newest.map(|sent| Newest { path: id, sent, marked: here > 0 }));
            self.apply_outcome(now, SpaceId::Data, id, &mut outcome);
            outcome.clear();
        }
        outcome.clear();
        self.outcome = outcome;
        result.map_err(Self::optimistic_ack)?;
        self.paths.numbering.on_named(&news);
        self.paths.numbering.on_acked(PathId::ZERO, ack.largest);
        self.paths.hear_echo(now, context.path, ack.largest, delay);
        self.judge_shared_ecn(now, marked, ack, &touched);
        self.scan_for_losses(now);
        let paths = &self.paths.list;
        self.paths
            .numbering
            .forget_done(|id| paths.get(id).map(|path| path.recovery.done_below(now, SpaceId::Data)));
        Ok(())
    }

    /// Scans all paths for lost packets in the order of their packet numbers, and stops at the first packet
    /// that is not lost. Has no effect if the configured loss scan is [`LossScan::Path`].
    pub(in crate::connection) fn scan_for_losses(&mut self, now: Time) {
        let config = self.config.multipath.as_ref();
        if !self.paths.numbering.is_single() || config.is_none_or(|config| config.loss_scan == LossScan::Path)
        {
            return;
        }
        let kept = self.paths.list.iter().filter_map(|path| Some((path.id, path.recovery.first_kept(now)?)));
        let first = self.paths.numbering.first_of(kept);
        let mut outcome = std::mem::take(&mut self.outcome);
        for index in 0..self.paths.list.len() {
            let id = self.paths.list.nth(index);
            // The limit includes the first packet that is not lost, so that this packet is declared lost once
            // its time threshold has passed. Packets with larger numbers wait for the next scan.
            let after = first.map_or(u64::MAX, |number| number + 1);
            let limit = self.paths.numbering.order_from(id, after);
            let siblings = self.paths.siblings(id);
            let Some(path) = self.paths.list.get_mut(id) else { continue };
            path.recovery.limit_losses(limit);
            path.recovery.find_losses(now, &siblings, &mut outcome);
            self.apply_outcome(now, SpaceId::Data, id, &mut outcome);
            outcome.clear();
        }
        self.outcome = outcome;
    }

    /// Validates the ECN counts of the shared space. If the counts are wrong, no path uses ECN any more,
    /// because missing marks cannot be attributed to a path.
    fn judge_shared_ecn(&mut self, now: Time, marked: u64, ack: &Ack<'_>, touched: &[Newest]) {
        let finding = self.paths.numbering.judge_ecn(marked, ack.ecn);
        let mut outcome = std::mem::take(&mut self.outcome);
        match finding {
            EcnFinding::Nothing => {}
            EcnFinding::Congestion(marks) => {
                for newest in touched {
                    let siblings = self.paths.siblings(newest.path);
                    let Some(path) = self.paths.list.get_mut(newest.path) else { continue };
                    path.recovery.on_shared_ce(now, newest.sent, marks, &siblings, &mut outcome);
                }
            }
            EcnFinding::Failed => {
                for index in 0..self.paths.list.len() {
                    let id = self.paths.list.nth(index);
                    if let Some(path) = self.paths.list.get_mut(id) {
                        path.recovery.disable_ecn();
                    }
                    self.trace(now, &TraceEvent::EcnState { path: id, capable: false });
                }
            }
        }
        for newest in touched.iter().filter(|newest| newest.marked) {
            if let Some(path) = self.paths.list.get_mut(newest.path) {
                path.recovery.confirm_ecn(); // Has no effect on a path whose ECN was disabled.
            }
        }
        outcome.clear();
        self.outcome = outcome;
    }
}
