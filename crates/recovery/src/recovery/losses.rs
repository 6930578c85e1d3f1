//! Loss detection and the response to losses.

use core::time::Duration;

use anabranch_wire::{SpaceId, Time};

use super::spaces::Space;
use super::{Epoch, Recovery};
use crate::config::LossDelay;
use crate::congestion::{Congested, Controller, LostPacket, Sibling};
use crate::outcome::Outcome;
use crate::sent::{Packet, Sent};

/// Maximum time that [`LossDelay::Study2022`] adds, for reordering, to the time between the sending and the
/// acknowledgment of the newest acknowledged packet.
#[cfg(feature = "research")]
const MAX_REORDERING_2022: Duration = Duration::from_millis(5);

impl<T: Clone> Recovery<T> {
    /// Finds the lost packets of `id` (RFC 9002 §6.1, Appendix A.10). Send times and orders increase
    /// together, so lost packets are always the oldest ones.
    pub(super) fn detect_losses(
        &mut self,
        now: Time,
        id: SpaceId,
        siblings: &[Sibling],
        out: &mut Outcome<T>,
    ) {
        let index = id as usize;
        let space = self.spaces.get_mut(id);
        space.lost.expire(now);
        let evicted = core::mem::take(&mut space.evicted);
        self.times[index].loss_time = None;
        let delay = self.loss_delay();
        let threshold = self.reordering.packets();
        let limit = self.scan_limit(id);
        let mut burst = Burst::default();
        for (order, packet) in evicted {
            self.lose(now, id, (order, packet), siblings, &mut burst, out);
        }
        loop {
            let Space { sent, run, largest_acked, .. } = self.spaces.get_mut(id);
            if sent.compact() > 0 {
                run.broken();
            }
            let Some(largest) = *largest_acked else { break };
            let Some((order, packet)) = sent.front() else { break };
            if order > largest || order >= limit {
                break;
            }
            let due = packet.sent.time + delay;
            if largest - order < threshold && due > now {
                self.times[index].loss_time = Some(due);
                break;
            }
            let Some((order, packet)) = sent.pop() else { break };
            self.lose(now, id, (order, packet), siblings, &mut burst, out);
        }
        self.after_losses(now, &burst, out);
    }

    /// Returns the order at which loss detection stops.
    fn scan_limit(&self, id: SpaceId) -> u64 {
        let scan = self.scan.as_ref().filter(|_| id == SpaceId::Data);
        scan.and_then(|scan| scan.limit).unwrap_or(u64::MAX)
    }

    /// Limits loss detection to 1-RTT packets before `order`; later ones are not declared lost until the
    /// limit changes. This imitates a sender with one list of packets for several paths: its loss detection
    /// stops at the first packet that is not lost, even if another path sent that packet.
    pub fn limit_losses(&mut self, order: u64) {
        self.scan.get_or_insert_default().limit = Some(order);
    }

    /// Returns the order of the oldest unacknowledged, ack-eliciting 1-RTT packet that loss detection without
    /// a limit would not declare lost; `None` if there is no such packet.
    pub fn first_kept(&self, now: Time) -> Option<u64> {
        let space = self.spaces.data();
        let mut under_way = space.sent.range(0..u64::MAX);
        let largest = space.largest_acked.unwrap_or(0);
        let (delay, threshold) = (self.loss_delay(), self.reordering.packets());
        let is_kept = |order, sent: Time| {
            space.largest_acked.is_none_or(|largest| order > largest)
                || largest.saturating_sub(order) < threshold && sent + delay > now
        };
        under_way
            .find(|(order, packet)| packet.sent.ack_eliciting && is_kept(*order, packet.sent.time))
            .map(|(order, _)| order)
    }

    /// Repeats loss detection after the limit has changed.
    pub fn find_losses(&mut self, now: Time, siblings: &[Sibling], out: &mut Outcome<T>) {
        self.detect_losses(now, SpaceId::Data, siblings, out);
    }

    /// Returns the time threshold: a packet is lost this long after it was sent, if a newer one was
    /// acknowledged.
    fn loss_delay(&self) -> Duration {
        match self.config.loss_delay {
            LossDelay::Rfc9002 => self.reordering.delay(&self.rtt),
            #[cfg(feature = "research")]
            LossDelay::Study2022 => {
                let took = self.scan.as_ref().and_then(|scan| scan.largest_took);
                let took = took.unwrap_or_else(|| self.rtt.loss_base());
                let more = (self.rtt.smoothed() / 4).min(MAX_REORDERING_2022);
                let max_ack_delay = self.scan.as_ref().map_or(Duration::ZERO, |scan| scan.max_ack_delay);
                took + more + max_ack_delay
            }
        }
    }

    /// Declares one packet lost.
    fn lose(
        &mut self,
        now: Time,
        id: SpaceId,
        (order, packet): (u64, Packet<T>),
        siblings: &[Sibling],
        burst: &mut Burst,
        out: &mut Outcome<T>,
    ) {
        let Packet { sent, snapshot, counted } = packet;
        let size = u64::from(sent.size);
        self.times[id as usize].eliciting -= u64::from(sent.ack_eliciting);
        let mut epoch = 0;
        if counted {
            self.bytes_in_flight -= size;
        }
        if sent.mtu_probe {
            self.stats.mtu_probes_lost += 1;
            if counted {
                self.mtu.on_probe_lost(now, sent.size);
            }
        } else {
            self.stats.lost_packets += 1;
            self.stats.lost_bytes += size;
            if counted {
                self.congestion_event(now, sent.time, false, siblings, out);
                self.epoch.lost += 1;
                epoch = self.epoch.id;
                self.sampler.on_lost(size);
                self.congestion.on_lost(&LostPacket {
                    now,
                    bytes: size,
                    in_flight: snapshot.in_flight(),
                    lost_since: self.sampler.lost() - snapshot.lost(),
                    app_limited: snapshot.app_limited(),
                    delivered: self.sampler.delivered(),
                    mtu: u64::from(self.mtu.current()),
                });
                burst.smallest = Some(burst.smallest.map_or(sent.size, |size| size.min(sent.size)));
                let run = &mut self.spaces.get_mut(id).run;
                burst.persistent |=
                    sent.ack_eliciting && run.lost(sent.time, &self.rtt, self.timer.peer_max_ack_delay);
            }
            burst.ecn_failed |= sent.ect && (counted || !sent.in_flight) && self.ecn.on_lost();
        }
        self.remember(now, id, order, &sent, epoch);
        out.lost.push((order, sent));
    }

    pub(super) fn remember(&mut self, now: Time, id: SpaceId, order: u64, sent: &Sent<T>, epoch: u32) {
        let expires = now + self.timer.pto(&self.rtt, id);
        self.spaces.get_mut(id).lost.push(order, sent.clone(), epoch, expires);
    }

    /// Applies the effects of losses that concern the whole burst and not a single packet.
    fn after_losses(&mut self, now: Time, burst: &Burst, out: &mut Outcome<T>) {
        out.ecn_failed |= burst.ecn_failed;
        if burst.persistent {
            // RFC 9002 §7.6.2, §5.2.
            self.congestion.on_persistent_congestion(now, u64::from(self.mtu.current()));
            self.epoch.start = None;
            self.rtt.forget_min();
            self.stats.persistent_congestions += 1;
            out.persistent = true;
        }
        if burst.smallest.is_some_and(|size| self.mtu.on_lost(now, size)) {
            self.stats.mtu = self.mtu.current();
            out.mtu_changed = Some(self.mtu.current());
        }
    }

    /// Responds to congestion that affected a packet sent at `sent_time` (RFC 9002 §7.3.2, Appendix B.6).
    pub(super) fn congestion_event(
        &mut self,
        now: Time,
        sent_time: Time,
        ce: bool,
        siblings: &[Sibling],
        out: &mut Outcome<T>,
    ) {
        if self.epoch.start.is_some_and(|start| sent_time <= start) {
            self.epoch.ce |= ce;
            return;
        }
        self.epoch = Epoch { id: self.epoch.id.wrapping_add(1).max(1), start: Some(now), lost: 0, ce };
        self.bytes_between_losses = self.bytes_since_loss;
        self.bytes_since_loss = 0;
        self.reordering.on_congestion();
        self.stats.congestion_events += 1;
        out.congestion_event = true;
        let event = Congested {
            now,
            sent_time,
            ce,
            in_flight: self.bytes_in_flight,
            delivered: self.sampler.delivered(),
            mtu: u64::from(self.mtu.current()),
            own: self.sibling(),
        };
        self.congestion.on_congestion(&event, siblings);
    }

    /// Subtracts `forgiven` spurious losses from the current congestion event. If the event has no other
    /// losses and no CE marks, undoes the response to it (RFC 9438 §4.9.2).
    pub(super) fn forgive(&mut self, now: Time, forgiven: u64) {
        if forgiven == 0 {
            return;
        }
        self.epoch.lost -= forgiven;
        if self.epoch.lost == 0 && !self.epoch.ce {
            self.congestion.on_spurious(now);
            self.epoch.start = None;
            self.stats.undone_responses += 1;
        }
    }
}

/// State for rules of loss detection other than RFC 9002's.
#[derive(Debug, Default)]
pub(super) struct Scan {
    /// Time between the sending and the acknowledgment of the newest acknowledged packet; `None` if it was
    /// sent before congestion control restarted.
    pub(super) largest_took: Option<Duration>,
    /// The peer's own `max_ack_delay`, regardless of later requests for a longer delay.
    pub(super) max_ack_delay: Duration,
    /// Order set by [`Recovery::limit_losses`].
    limit: Option<u64>,
}

/// Losses found by one call of loss detection.
#[derive(Default)]
struct Burst {
    /// Size of the smallest lost packet, MTU probes excluded.
    smallest: Option<u16>,
    persistent: bool,
    ecn_failed: bool,
}
