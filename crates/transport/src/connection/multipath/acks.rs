//! Writing of ACK and PATH_ACK frames.

use anabranch_wire::{PathId, Time, Writer};

use crate::config::{AckPath, AckScope};
use crate::connection::connection::Connection;
use crate::connection::parts::ACK_DELAY_EXPONENT;
use crate::path::Path;
use crate::space::MAX_RANGES;
use crate::token::Tokens;

impl Connection {
    /// Requires an ACK on path `id` when the unacknowledged packets of all paths together reach `threshold`.
    /// Has no effect unless the paths share one packet number space and [`AckScope::Connection`] is
    /// configured.
    pub(in crate::connection) fn count_together(&mut self, id: PathId, threshold: u64) {
        let counts = self.paths.list.len() > 1 && self.config.ack.scope == AckScope::Connection;
        if !counts || !self.paths.numbering.is_single() {
            return;
        }
        let unacked = self.paths.list.iter().map(|path| u64::from(path.received.ack.unacked())).sum::<u64>();
        if let Some(path) = self.paths.list.get_mut(id).filter(|path| path.received.ack.unacked() > 0)
            && unacked >= threshold
        {
            path.received.ack.require_ack();
        }
    }

    /// Writes the acknowledgments that a packet on `id` carries.
    pub(in crate::connection) fn fill_acks(
        &mut self,
        now: Time,
        id: PathId,
        writer: &mut Writer<'_>,
        tokens: &mut Tokens,
    ) {
        if self.paths.list.len() == 1 {
            self.write_ack(now, id, writer, tokens);
            return;
        }
        if matches!(
            self.config.ack.path,
            AckPath::Fastest | AckPath::FastestAndAll | AckPath::FastestAndOpportunistic
        ) {
            self.paths.review_ack_path();
        }
        if self.config.ack.scope != AckScope::Path {
            self.fill_common_acks(now, id, writer, tokens);
            return self.fill_ack_copies(now, id, writer, tokens);
        }
        for index in 0..self.paths.list.len() {
            let of = self.paths.list.nth(index);
            let carried = |path: &Path| {
                let ack = &path.received.ack;
                (ack.can_ack() || ack.ack_now()) && self.paths.ack_carrier(path) == id
            };
            if self.paths.list.get(of).is_some_and(carried) && self.write_ack(now, of, writer, tokens) {
                self.paths.owe_ack_copies(of, id);
            }
        }
        self.fill_ack_copies(now, id, writer, tokens);
    }

    /// Writes the acknowledgments of all paths, regardless of the packet's own path.
    fn fill_common_acks(&mut self, now: Time, id: PathId, writer: &mut Writer<'_>, tokens: &mut Tokens) {
        let owes = |path: &Path| path.received.ack.can_ack() || path.received.ack.ack_now();
        let due = self.paths.list.iter().any(|path| path.received.ack.is_due(now));
        if !self.paths.list.iter().any(owes) {
            return;
        }
        if self.paths.numbering.is_single() {
            let newest = self.paths.list.iter().max_by_key(|path| path.received.ack.largest());
            if let Some(of) = newest.map(|path| path.id)
                && self.write_ack(now, of, writer, tokens)
            {
                let others = self.paths.list.iter_mut().filter(|path| path.id != of);
                others.for_each(|path| path.received.ack.mark_reported_by_others());
                self.paths.owe_ack_copies(of, id);
            }
            return;
        }
        let every = due && self.config.ack.scope == AckScope::EveryPath;
        for index in 0..self.paths.list.len() {
            let of = self.paths.list.nth(index);
            let wanted = |path: &Path| owes(path) || every && path.received.ack.largest().is_some();
            if self.paths.list.get(of).is_some_and(wanted) && self.write_ack(now, of, writer, tokens) {
                self.paths.owe_ack_copies(of, id);
            }
        }
    }

    /// Writes an acknowledgment of packets on `of`. Returns whether it fits.
    fn write_ack(&mut self, now: Time, of: PathId, writer: &mut Writer<'_>, tokens: &mut Tokens) -> bool {
        let multipath = self.paths.multipath.is_some();
        let Some(path) = self.paths.list.get_mut(of) else { return false };
        let before = writer.len();
        let ranges = self.paths.numbering.write_ack(
            &mut path.received,
            now,
            writer,
            multipath,
            ACK_DELAY_EXPONENT,
            tokens,
        );
        let stats = &mut self.acks.stats;
        stats.frames += u64::from(ranges > 0);
        stats.ranges += ranges as u64;
        stats.full_frames += u64::from(ranges >= self.config.ack.max_ranges.clamp(2, MAX_RANGES));
        stats.bytes += (writer.len() - before) as u64;
        ranges > 0
    }

    /// Writes the acknowledgments that `id` must repeat, because they were sent on other paths since its last
    /// packet.
    fn fill_ack_copies(&mut self, now: Time, id: PathId, writer: &mut Writer<'_>, tokens: &mut Tokens) {
        let Some(multipath) = &mut self.paths.multipath else { return };
        let mut copies = std::mem::take(&mut multipath.ack_copies);
        copies.retain(|(of, on)| {
            let Some(ack) =
                self.paths.list.get_mut(*of).filter(|_| *on == id).map(|path| &mut path.received.ack)
            else {
                return *on != id;
            };
            // A copy omits packets that arrived after the original acknowledgment. The path's next own
            // acknowledgment reports them.
            let reported = ack.as_reported();
            let kept = std::mem::replace(ack, reported);
            self.write_ack(now, *of, writer, tokens);
            if let Some(path) = self.paths.list.get_mut(*of) {
                path.received.ack = kept;
            }
            false
        });
        if let Some(multipath) = &mut self.paths.multipath {
            multipath.ack_copies = copies;
        }
    }
}
