//! Expiry of the loss and probe timers, and removal of packets whose acknowledgment is no longer expected.

use anabranch_wire::{SpaceId, Time};

use super::Recovery;
use crate::congestion::Sibling;
use crate::outcome::{Expired, Outcome};
use crate::sent::{Packet, Sent};
use crate::timer::{SpaceTimes, Timer};

/// Number of packets that a probe timeout allows regardless of the window (RFC 9002 §6.2.4).
const PTO_PROBES: u32 = 2;

impl<T: Clone> Recovery<T> {
    /// Returns the time at which to call [`Self::on_timeout`]: the loss detection timer (RFC 9002 Appendix
    /// A.8).
    pub fn poll_timeout(&self) -> Option<Time> {
        match Timer::loss(&self.times) {
            Some((time, _)) => Some(time),
            None => self.timer.probe(&self.rtt, &self.times).map(|(time, _)| time),
        }
    }

    /// Handles the loss detection timer, if it has expired (RFC 9002 Appendix A.9).
    pub fn on_timeout(&mut self, now: Time, siblings: &[Sibling], out: &mut Outcome<T>) -> Option<Expired> {
        if let Some((time, space)) = Timer::loss(&self.times) {
            if time > now {
                return None;
            }
            self.detect_losses(now, space, siblings, out);
            return Some(Expired::Loss);
        }
        let (time, space) = self.timer.probe(&self.rtt, &self.times)?;
        if time > now {
            return None;
        }
        self.timer.touched = self.timer.touched.max(now);
        self.timer.pto_count += 1;
        self.stats.ptos += 1;
        for id in SpaceId::ALL {
            // RFC 9002 §6.2.4: a probe may be coalesced with packets of other spaces that have ack-eliciting
            // packets in flight.
            let eliciting = self.times[id as usize].eliciting;
            let probes =
                if id != space { 1.min(eliciting) } else { u64::from(PTO_PROBES).min(eliciting.max(1)) };
            if probes > 0 || self.spaces.get(id).is_some() {
                self.spaces.get_mut(id).probes = u32::try_from(probes).unwrap_or(PTO_PROBES);
            }
        }
        if self.mtu.on_pto(self.timer.pto_count) {
            self.stats.mtu = self.mtu.current();
            out.mtu_changed = Some(self.mtu.current());
        }
        if self.spaces.get(space).is_some_and(|space| !space.evicted.is_empty()) {
            self.detect_losses(now, space, siblings, out);
        }
        Some(Expired::Pto { space })
    }

    /// Permits this path to send the probes that another path's PTO asks for, regardless of its congestion
    /// window.
    pub fn probe_instead(&mut self, space: SpaceId) {
        let probes = &mut self.spaces.get_mut(space).probes;
        *probes = PTO_PROBES.max(*probes);
    }

    /// Resets the backoff of the probe timeout, because the network was unavailable and is available again.
    pub fn forget_backoff(&mut self) {
        self.timer.pto_count = 0;
    }

    /// Discards `space` when its keys are discarded. Its packets are neither acknowledged nor lost (RFC 9002
    /// §6.4).
    pub fn discard_space(&mut self, space: SpaceId) {
        self.clear(space, |_, _, _| ());
        self.times[space as usize] = SpaceTimes::default();
        self.spaces.discard(space);
        self.timer.pto_count = 0;
    }

    /// Declares all unacknowledged packets of `space` lost for reasons other than congestion: Retry, rejected
    /// 0-RTT, an abandoned path. Their frames are sent again.
    pub fn lose_all(&mut self, space: SpaceId, out: &mut Outcome<T>) {
        let now = self.timer.touched;
        self.clear(space, |this, order, sent| {
            this.remember(now, space, order, &sent, 0);
            out.lost.push((order, sent));
        });
        self.times[space as usize] = SpaceTimes::default();
        self.spaces.get_mut(space).probes = 0;
        self.timer.pto_count = 0;
    }

    /// Removes all packets of a space, oldest first, and subtracts them from bytes in flight.
    fn clear(&mut self, id: SpaceId, mut each: impl FnMut(&mut Self, u64, Sent<T>)) {
        if self.spaces.get(id).is_none() {
            return;
        }
        for (order, packet) in core::mem::take(&mut self.spaces.get_mut(id).evicted) {
            self.uncount(&packet);
            each(self, order, packet.sent);
        }
        loop {
            let sent = &mut self.spaces.get_mut(id).sent;
            sent.compact();
            let Some((order, packet)) = sent.pop() else { return };
            self.uncount(&packet);
            each(self, order, packet.sent);
        }
    }

    fn uncount(&mut self, packet: &Packet<T>) {
        if packet.counted {
            self.bytes_in_flight -= u64::from(packet.sent.size);
            if packet.sent.mtu_probe {
                self.mtu.on_probe_forgotten();
            }
        }
    }
}
