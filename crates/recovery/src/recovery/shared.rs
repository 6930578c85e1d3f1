//! Inputs of a path whose packets share their number space with other paths'.

use core::time::Duration;

use anabranch_wire::{SpaceId, Time};

use super::Recovery;
use crate::congestion::Sibling;
use crate::outcome::Outcome;

impl<T: Clone> Recovery<T> {
    /// Returns the order below which every packet is acknowledged or lost for good: acknowledging them again has no
    /// effect.
    pub fn done_below(&self, now: Time, space: SpaceId) -> u64 {
        let space = &self.spaces[space as usize];
        let under_way = space.sent.base();
        space.lost.oldest(now).map_or(under_way, |lost| lost.min(under_way))
    }

    /// Returns the number of packets of `space` that left with ECT(0).
    pub fn marked(&self, space: SpaceId) -> u64 {
        self.ecn.sent(space)
    }

    /// Measures a round trip of this path by a packet that was sent at `sent`, was acknowledged on another
    /// path before, and is acknowledged on its own now, by a peer that has held the ACK back for `delay`.
    pub fn on_echo(&mut self, now: Time, sent: Time, delay: Duration) {
        // RFC 9002 §5.3: max_ack_delay binds after the handshake, and there is no other path before.
        self.rtt.update(now, now.saturating_since(sent), delay.min(self.timer.peer_max_ack_delay));
    }

    /// Raises the estimate by a packet that was sent at `sent` and acknowledged on another path only, if that
    /// has taken longer than a probe timeout: this path's own answer would come later still, or the peer
    /// sends them round by another path. Such answers would never raise the estimate otherwise, and each
    /// packet would draw probes for good.
    pub fn on_late(&mut self, now: Time, sent: Time) {
        let latest = now.saturating_since(sent);
        if latest > self.timer.pto(&self.rtt, SpaceId::Data) {
            // How long the peer has held the ACK back for this packet is not known, only how long it may.
            self.rtt.update(now, latest, self.timer.peer_max_ack_delay);
        }
    }

    /// Disables ECN: no packet is marked any longer, whatever happens to the path.
    pub fn disable_ecn(&mut self) {
        self.config.ecn = false;
        self.ecn.restart(false);
    }

    /// Confirms that marked packets of this path were acknowledged with counts that are right.
    pub fn confirm_ecn(&mut self) {
        self.ecn.confirm();
    }

    /// Responds to packets received with CE, according to an ACK that acknowledged packets of this path, the
    /// newest of them sent at `newest_sent`.
    pub fn on_shared_ce(
        &mut self,
        now: Time,
        newest_sent: Time,
        marks: u64,
        siblings: &[Sibling],
        out: &mut Outcome<T>,
    ) {
        self.stats.ecn_ce += marks;
        self.congestion_event(now, newest_sent, true, siblings, out);
    }
}
