//! Handling of ACK frames: acknowledged packets, round-trip time samples, ECN counts, and growth of the
//! window.

use core::ops::RangeInclusive;
use core::time::Duration;

use anabranch_wire::{SpaceId, Time};

use super::Recovery;
use super::spaces::Space;
use crate::config::LossDelay;
use crate::congestion::{Acked, Controller, Sibling, State};
use crate::ecn::Verdict;
use crate::outcome::{AckError, AckInfo, Measures, Outcome};
use crate::rate::{RateSample, Snapshot};

impl<T: Clone> Recovery<T> {
    /// Handles an ACK frame for packets of `space` on this path. `ranges` contain the path's orders, in
    /// descending order. Ranges that earlier frames acknowledged may be omitted.
    pub fn on_ack(
        &mut self,
        now: Time,
        space: SpaceId,
        ranges: impl Iterator<Item = RangeInclusive<u64>>,
        ack: AckInfo,
        siblings: &[Sibling],
        out: &mut Outcome<T>,
    ) -> Result<(), AckError> {
        self.timer.touched = self.timer.touched.max(now);
        let prior_in_flight = self.bytes_in_flight;
        let prior_epoch = self.epoch.id;
        let mut largest = ack.largest;
        let mut tally = Tally::default();
        for range in ranges {
            let (low, high) = range.into_inner();
            if let Some(order) = self.spaces.get_mut(space).sent.unsent(low, high) {
                return Err(AckError::Unsent(order));
            }
            largest = largest.max(Some(high));
            self.take_acked(now, space, low, high, &mut tally, out);
        }
        let largest_acked = &mut self.spaces.get_mut(space).largest_acked;
        let previous = *largest_acked;
        *largest_acked = previous.max(largest);
        if let Some(scan) = &mut self.scan
            && largest > previous
            && tally.newest == largest
        {
            scan.largest_took = tally.newest_counted.then(|| now - tally.newest_time);
        }
        // An ACK frame whose newly acknowledged packets are all untracked has an effect, too, if it raises
        // the largest acknowledged order: packets sent before may now be lost.
        if tally.newest.is_none() && !tally.late && largest <= previous {
            return Ok(());
        }
        if tally.mtu_raised {
            tally.growth += self.larger_start(self.stats.mtu);
            self.stats.mtu = self.mtu.current();
            out.mtu_changed = Some(self.mtu.current());
        }
        let rtt_sample = self.sample_rtt(now, space, largest, &ack, &tally);
        if largest > previous && !ack.ecn_is_shared {
            self.judge_ecn(now, space, &ack, &tally, siblings, out);
        }
        self.sampler.on_delivered(now, tally.bytes + tally.late_bytes);
        self.bytes_since_loss += tally.bytes;
        // A congestion event that began with this acknowledgment cannot be undone by it.
        if self.epoch.id == prior_epoch {
            self.forgive(now, tally.forgiven);
        }
        self.detect_losses(now, space, siblings, out);
        if self.is_held(now) {
            tally.growth = 0;
        }
        // RFC 9002 §7.3.2: the packets of this acknowledgment were sent before recovery began, so they do not
        // grow the window.
        if self.epoch.id != prior_epoch {
            tally.growth = 0;
        }
        if let Some((sent_time, snapshot)) = tally.snapshot {
            let sample = self.sampler.sample(sent_time, &snapshot, self.rtt.min());
            self.delivery.record(now, &sample, self.rtt.smoothed());
            self.note_short_queue(now, rtt_sample);
            self.grow(&tally, &Seen { now, sent_time, prior_in_flight, rtt_sample, sample }, siblings);
        }
        // RFC 9002 §6.2.1: a client that does not know whether the server validated its address keeps its
        // backoff.
        if tally.newest.is_some() && self.timer.progress.peer_validated_address {
            self.timer.pto_count = 0;
        }
        if tally.eliciting > 0 {
            self.spaces.get_mut(space).probes = 0;
        }
        Ok(())
    }

    /// Returns the bytes to add to the window in slow start because the packet size grew (RFC 9002 §7.2: the
    /// initial window is calculated anew). The window becomes as large as if packets had had this size from
    /// the start. Growth that the bytes in flight will cause is scaled in advance.
    fn larger_start(&self, before: u16) -> u64 {
        if self.epoch.id != 0 || self.congestion.state() != State::SlowStart {
            return 0;
        }
        let [old, new] = [before, self.mtu.current()].map(|mtu| self.config.initial_window.bytes(mtu));
        (self.congestion.window() + self.bytes_in_flight) * new.saturating_sub(old) / old.max(1)
    }

    /// Removes the packets of one acknowledged range from the list of sent packets, and counts them.
    fn take_acked(
        &mut self,
        now: Time,
        id: SpaceId,
        low: u64,
        high: u64,
        tally: &mut Tally,
        out: &mut Outcome<T>,
    ) {
        let learns = self.config.loss_delay == LossDelay::Rfc9002;
        let Self { spaces, times, mtu, epoch, stats, reordering, rtt, bytes_in_flight, .. } = self;
        let Space { sent, lost, largest_acked, run, .. } = spaces.get_mut(id);
        let eliciting = &mut times[id as usize].eliciting;
        sent.take(low, high, |order, packet| {
            let sent = packet.sent;
            let size = u64::from(sent.size);
            stats.acked_packets += 1;
            stats.acked_bytes += size;
            *eliciting -= u64::from(sent.ack_eliciting);
            tally.eliciting += u64::from(sent.ack_eliciting);
            tally.marked += u64::from(sent.ect);
            if tally.newest.is_none_or(|newest| order > newest) {
                tally.newest = Some(order);
                tally.newest_time = sent.time;
                tally.newest_counted = packet.counted || !sent.in_flight;
            }
            if packet.counted {
                *bytes_in_flight -= size;
                tally.bytes += size;
                if epoch.start.is_none_or(|start| sent.time > start) {
                    tally.growth += size;
                }
                if tally.snapshot.as_ref().is_none_or(|(newest, _)| sent.time > *newest) {
                    tally.snapshot = Some((sent.time, packet.snapshot));
                }
                tally.mtu_raised |= mtu.on_acked(now, sent.size, sent.mtu_probe);
            }
            out.acked.push((order, sent));
        });
        let largest = largest_acked.unwrap_or(0);
        lost.take(low, high, |late| {
            let size = u64::from(late.sent.size);
            stats.acked_packets += 1;
            stats.acked_bytes += size;
            stats.spurious_losses += 1;
            tally.late = true;
            tally.forgiven += u64::from(late.epoch != 0 && late.epoch == epoch.id);
            if late.epoch != 0 {
                tally.late_bytes += size;
                if learns {
                    reordering.on_spurious(now, largest.saturating_sub(late.order), rtt);
                }
            }
            run.broken();
            out.spurious.push(late.order);
            out.acked.push((late.order, late.sent));
        });
    }

    /// Takes a round-trip time sample. Usually the ACK must newly acknowledge its largest packet, and at
    /// least one ack-eliciting packet (RFC 9002 §5.1).
    fn sample_rtt(
        &mut self,
        now: Time,
        space: SpaceId,
        largest: Option<u64>,
        ack: &AckInfo,
        tally: &Tally,
    ) -> Option<Duration> {
        let named = match ack.measures {
            Measures::Nothing => false,
            Measures::Largest => tally.newest == largest,
            Measures::Newest => true,
        };
        let measures = named && tally.eliciting > 0 && tally.bytes > 0 && tally.newest_counted;
        if !measures {
            return None;
        }
        let latest = now - tally.newest_time;
        // RFC 9002 §5.3: Initial packets are not delayed on purpose. max_ack_delay applies once the handshake
        // is confirmed.
        let delay = match space {
            SpaceId::Initial => Duration::ZERO,
            _ if self.timer.progress.handshake_confirmed => ack.delay.min(self.timer.peer_max_ack_delay),
            _ => ack.delay,
        };
        self.rtt.came_by(ack.via);
        self.rtt.update(now, latest, delay);
        Some(latest)
    }

    /// Validates ECN and responds to CE marks (RFC 9000 §13.4.2, RFC 9002 §7.1).
    fn judge_ecn(
        &mut self,
        now: Time,
        space: SpaceId,
        ack: &AckInfo,
        tally: &Tally,
        siblings: &[Sibling],
        out: &mut Outcome<T>,
    ) {
        match self.ecn.on_ack(space, tally.marked, ack.ecn) {
            Verdict::Nothing => {}
            Verdict::Failed => out.ecn_failed = true,
            Verdict::Congestion(ce) => {
                self.stats.ecn_ce += ce;
                if tally.newest_counted {
                    self.congestion_event(now, tally.newest_time, true, siblings, out);
                }
            }
        }
    }

    /// Lets the congestion controller grow its window.
    fn grow(&mut self, tally: &Tally, seen: &Seen, siblings: &[Sibling]) {
        let Seen { now, sent_time, prior_in_flight, rtt_sample, sample } = *seen;
        let ack = Acked {
            now,
            bytes: tally.bytes,
            growth: tally.growth,
            utilised: !self.app_limited,
            sent_time,
            prior_in_flight,
            in_flight: self.bytes_in_flight,
            delivered: self.sampler.delivered(),
            mtu: u64::from(self.mtu.current()),
            rtt: &self.rtt,
            rtt_sample,
            sample,
            own: self.sibling(),
        };
        self.congestion.on_acked(&ack, siblings);
        // draft-ietf-ccwg-bbr §5.3.4.3: rates measured in ProbeRTT, while the path is nearly empty, say
        // nothing about its bandwidth.
        if self.congestion.state() == State::ProbeRtt {
            self.sampler.on_app_limited(self.bytes_in_flight);
        }
    }
}

/// Measurements of an ACK frame for the congestion controller.
struct Seen {
    now: Time,
    /// Send time of the packet that the delivery rate sample is based on.
    sent_time: Time,
    /// Bytes in flight before the ACK frame was processed.
    prior_in_flight: u64,
    rtt_sample: Option<Duration>,
    sample: RateSample,
}

/// Newly acknowledged packets of one ACK frame.
#[derive(Default)]
struct Tally {
    /// Order of the newest packet. This field and those up to `growth` do not include packets that had been
    /// declared lost.
    newest: Option<u64>,
    newest_time: Time,
    newest_counted: bool,
    snapshot: Option<(Time, Snapshot)>,
    eliciting: u64,
    /// Number of packets sent with ECT(0).
    marked: u64,
    /// Bytes that counted towards bytes in flight.
    bytes: u64,
    /// Part of `bytes` that was sent after the last congestion event.
    growth: u64,
    /// `true` if the frame acknowledged packets that had been declared lost.
    late: bool,
    /// Bytes of packets that had been declared lost in a congestion event of this path.
    late_bytes: u64,
    /// Number of packets that had been declared lost in the current congestion event.
    forgiven: u64,
    mtu_raised: bool,
}
