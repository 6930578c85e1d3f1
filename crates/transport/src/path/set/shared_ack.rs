//! RTT samples of paths from ACK frames in the single packet number space.

use std::time::Duration;

use anabranch_recovery::Outcome;
use anabranch_wire::{PathId, Time};

use super::PathSet;
use crate::token::Tokens;

impl PathSet {
    /// Records that packets of the path were acknowledged on another path.
    pub(crate) fn note_echoes(&mut self, id: PathId, outcome: &Outcome<Tokens>) {
        let Some(pool) = self.multipath.as_mut().and_then(|multipath| multipath.pool.as_mut()) else {
            return;
        };
        for (order, sent) in outcome.acked.iter().filter(|(_, sent)| sent.ack_eliciting) {
            if let Some(number) = self.numbering.known_number(id, *order) {
                pool.echoes.note(id, number, sent.time);
            }
        }
    }

    /// Reports to the path's loss recovery that packets were acknowledged on another path. If that took
    /// longer than a probe timeout, the path's round-trip time estimate rises.
    pub(crate) fn note_late(&mut self, now: Time, id: PathId, outcome: &Outcome<Tokens>) {
        let newest = outcome.acked.iter().max_by_key(|(order, _)| *order).map(|(_, sent)| sent);
        if let Some(sent) = newest.filter(|sent| sent.ack_eliciting)
            && let Some(path) = self.list.get_mut(id)
        {
            path.recovery.on_late(now, sent.time);
        }
    }

    /// Handles an ACK that arrived on the path. It gives an RTT sample if its largest packet belongs to the
    /// path and was acknowledged on another path before.
    pub(crate) fn hear_echo(&mut self, now: Time, id: PathId, largest: u64, delay: Duration) {
        let Some(pool) = self.multipath.as_mut().and_then(|multipath| multipath.pool.as_mut()) else {
            return;
        };
        if let Some(sent) = pool.echoes.answer(id, largest)
            && let Some(path) = self.list.get_mut(id)
        {
            path.recovery.on_echo(now, sent, delay);
        }
    }
}
