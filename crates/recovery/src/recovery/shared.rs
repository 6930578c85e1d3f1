//! Recovery of a path that shares its packet number space with other paths.

use core::time::Duration;

use anabranch_wire::{SpaceId, Time};

use super::Recovery;
use crate::congestion::Sibling;
use crate::outcome::Outcome;

impl<T: Clone> Recovery<T> {
    /// Returns the order below which every packet is acknowledged or permanently lost. An ACK frame that
    /// acknowledges these packets again has no effect.
    pub fn done_below(&self, now: Time, space: SpaceId) -> u64 {
        let Some(space) = self.spaces.get(space) else { return 0 };
        let under_way = space.sent.base();
        space.lost.oldest(now).map_or(under_way, |lost| lost.min(under_way))
    }

    /// Returns the number of packets of `space` that were sent with ECT(0).
    pub fn marked(&self, space: SpaceId) -> u64 {
        self.ecn.sent(space)
    }

    /// Adds a round-trip time sample of a packet that was sent at `sent` and first acknowledged on another
    /// path. Its acknowledgment has now arrived on this path too; the peer delayed it by `delay`.
    pub fn on_echo(&mut self, now: Time, sent: Time, delay: Duration) {
        // RFC 9002 §5.3: max_ack_delay applies once the handshake is confirmed, and other paths exist only
        // then.
        self.rtt.update(now, now.saturating_since(sent), delay.min(self.timer.peer_max_ack_delay));
    }

    /// Raises the round-trip time estimate if a packet, sent at `sent` and acknowledged only on another path,
    /// took longer than a probe timeout. Either the peer's ACK on this path would arrive even later, or the
    /// peer sends all ACKs on another path. Otherwise ACKs on other paths would never raise the estimate, and
    /// each packet would trigger probes.
    pub fn on_late(&mut self, now: Time, sent: Time) {
        let latest = now.saturating_since(sent);
        if latest > self.timer.pto(&self.rtt, SpaceId::Data) {
            // The peer's delay for this packet is not known, so the maximum is assumed.
            self.rtt.update(now, latest, self.timer.peer_max_ack_delay);
        }
    }

    /// Disables ECN permanently, even after a migration.
    pub fn disable_ecn(&mut self) {
        self.config.ecn = false;
        self.ecn.restart(false);
    }

    /// Records that marked packets of this path were acknowledged with valid counts.
    pub fn confirm_ecn(&mut self) {
        self.ecn.confirm();
    }

    /// Responds to `marks` packets newly reported as received with CE. The ACK acknowledged packets of this
    /// path, the newest of which was sent at `newest_sent`.
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
