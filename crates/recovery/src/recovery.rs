//! One path's recovery: the parts brought together.

use core::ops::RangeInclusive;
use core::time::Duration;

use anabranch_wire::{SpaceId, Time};

use crate::config::Config;
use crate::congestion::{
    Acked, Congested, Congestion, Controller, Departure, LostPacket, Sibling, Start, State,
};
use crate::ecn::{Ecn, EcnState, Verdict};
use crate::lost::LostPackets;
use crate::mtu::Discovery;
use crate::outcome::{AckError, AckInfo, Expired, Outcome, Permit, Progress, Stats};
use crate::pacer::{Pacer, rate_of};
use crate::persistent::LossRun;
use crate::rate::{RateSample, Sampler, Snapshot};
use crate::reordering::Reordering;
use crate::rtt::Rtt;
use crate::sent::{Front, Packet, Sent, SentList};
use crate::timer::{SpaceTimes, Timer};

/// Packets a probe timeout lets out regardless of the window (RFC 9002 §6.2.4).
const PTO_PROBES: u32 = 2;

/// Loss recovery and congestion control of one path. `T` is what a packet's frames owe.
#[derive(Debug)]
pub struct Recovery<T> {
    config: Config,
    rtt: Rtt,
    timer: Timer,
    spaces: [Space<T>; 3],
    times: [SpaceTimes; 3],
    bytes_in_flight: u64,
    congestion: Congestion,
    epoch: Epoch,
    pacer: Pacer,
    sampler: Sampler,
    reordering: Reordering,
    ecn: Ecn,
    mtu: Discovery,
    /// The sender had nothing more to send although the window was open (RFC 9002 §7.8).
    app_limited: bool,
    /// Bytes acknowledged since the last congestion event, and between the two before it.
    bytes_since_loss: u64,
    bytes_between_losses: u64,
    stats: Stats,
}

/// One packet number space of the path.
#[derive(Debug)]
struct Space<T> {
    sent: SentList<T>,
    lost: LostPackets<T>,
    largest_acked: Option<u64>,
    /// PTO probes owed.
    probes: u32,
    run: LossRun,
    /// Packets that had to be forgotten because the list was full; lost at the next opportunity.
    evicted: Vec<(u64, Packet<T>)>,
}

/// The time from one congestion event to the next (RFC 9002 §7.3.2).
#[derive(Clone, Copy, Debug, Default)]
struct Epoch {
    /// Distinguishes epochs; 0 before the first.
    id: u32,
    /// Losses of packets sent up to here are part of the event.
    start: Option<Time>,
    /// Losses of the event that have not turned out to be spurious.
    lost: u64,
    /// CE marks were (also) behind the event, so that it cannot be taken back.
    ce: bool,
}

/// What one ACK frame newly acknowledged.
#[derive(Default)]
struct Tally {
    /// Order of the newest packet; it and the rest are of packets under way, not of late ones.
    newest: Option<u64>,
    newest_time: Time,
    newest_counted: bool,
    snapshot: Option<(Time, Snapshot)>,
    eliciting: u64,
    /// Packets that left with ECT(0).
    marked: u64,
    /// Bytes that were in flight.
    bytes: u64,
    /// Those of them sent after the last congestion event.
    growth: u64,
    /// Bytes of packets that had been declared lost.
    late_bytes: u64,
    /// Late packets whose loss belonged to the current congestion event.
    forgiven: u64,
    mtu_raised: bool,
}

impl<T: Clone> Recovery<T> {
    /// Recovery of a path that opens at `now`.
    pub fn new(config: &Config, now: Time) -> Self {
        let mtu = Discovery::new(&config.mtu);
        Self {
            rtt: Rtt::new(config.initial_rtt),
            timer: Timer {
                progress: Progress::default(),
                peer_max_ack_delay: Duration::from_millis(25), // RFC 9000 §18.2, the default
                amplification_blocked: false,
                pto_count: 0,
                touched: now,
            },
            spaces: core::array::from_fn(|_| Space::new()),
            times: [SpaceTimes::default(); 3],
            bytes_in_flight: 0,
            congestion: start_congestion(config, mtu.current(), now),
            epoch: Epoch::default(),
            pacer: Pacer::new(config.pacing, now),
            sampler: Sampler::default(),
            reordering: Reordering::new(config.packet_threshold, config.time_threshold),
            ecn: Ecn::new(config.ecn),
            app_limited: false,
            bytes_since_loss: 0,
            bytes_between_losses: 0,
            stats: Stats { mtu: mtu.current(), ..Stats::default() },
            mtu,
            config: config.clone(),
        }
    }

    /// Round-trip time.
    pub fn rtt(&self) -> &Rtt {
        &self.rtt
    }

    /// Sets the peer's `max_ack_delay` (RFC 9000 §18.2).
    pub fn set_peer_max_ack_delay(&mut self, delay: Duration) {
        self.timer.peer_max_ack_delay = delay;
    }

    /// Sets the peer's `max_udp_payload_size` (RFC 9000 §18.2), which bounds the MTU.
    pub fn set_peer_max_udp_payload(&mut self, size: u16) {
        self.mtu.limit(size);
        self.stats.mtu = self.mtu.current();
    }

    /// Says how far the handshake is.
    pub fn set_progress(&mut self, progress: Progress) {
        self.timer.progress = progress;
    }

    /// Says whether the anti-amplification limit (RFC 9000 §8) keeps anything from being sent.
    pub fn amplification_blocked(&mut self, blocked: bool) {
        self.timer.amplification_blocked = blocked;
    }

    /// Congestion window in bytes.
    pub fn window(&self) -> u64 {
        self.congestion.window()
    }

    /// Bytes in flight (RFC 9002 §2).
    pub fn bytes_in_flight(&self) -> u64 {
        self.bytes_in_flight
    }

    /// Largest UDP payload in bytes that packets may have now, probes for more excepted.
    pub fn mtu(&self) -> u16 {
        self.mtu.current()
    }

    /// The congestion controller.
    pub fn congestion(&self) -> &Congestion {
        &self.congestion
    }

    /// This path as coupled controllers of other paths see it.
    pub fn sibling(&self) -> Sibling {
        Sibling {
            window: self.congestion.window(),
            smoothed_rtt: self.rtt.smoothed(),
            mtu: self.mtu.current(),
            bytes_since_loss: self.bytes_since_loss,
            bytes_between_losses: self.bytes_between_losses,
        }
    }

    /// Bytes per second at which packets leave.
    pub fn pacing_rate(&self) -> u64 {
        self.congestion.pacing_rate().unwrap_or_else(|| {
            // RFC 9002 §7.7: a little faster than the window per round trip, so that the window is used up; slow start
            // needs room to double.
            let factor = match self.congestion.state() {
                State::SlowStart | State::ConservativeSlowStart => (2, 1),
                _ => (5, 4),
            };
            rate_of(self.congestion.window(), self.rtt.smoothed(), factor)
        })
    }

    /// How much may be sent now. PTO probes and packets that are not in flight need no permission.
    pub fn permit(&mut self, now: Time) -> Permit {
        let mtu = u64::from(self.mtu.current());
        let room = self.congestion.window().saturating_sub(self.bytes_in_flight);
        if room < mtu {
            self.app_limited = false;
            return Permit::Window;
        }
        let rate = self.pacing_rate();
        match self.pacer.budget(now, rate, mtu) {
            Ok(budget) => Permit::Bytes(room.min(budget)),
            Err(until) => {
                self.app_limited = false;
                Permit::Wait(until)
            }
        }
    }

    /// PTO probes owed in `space`: packets that may leave regardless of the window. Sending an ack-eliciting packet
    /// there settles one.
    pub fn probes(&self, space: SpaceId) -> u32 {
        self.spaces[space as usize].probes
    }

    /// The sender has nothing more to send on this path although [`Self::permit`] allows it.
    pub fn app_limited(&mut self, _now: Time) {
        if self.bytes_in_flight + u64::from(self.mtu.current()) <= self.congestion.window() {
            self.app_limited = true;
            self.sampler.on_app_limited(self.bytes_in_flight);
        }
    }

    /// Whether the next packet is to leave with ECT(0).
    pub fn ecn_mark(&self) -> bool {
        self.ecn.marks()
    }

    /// What is known about ECN on the path.
    pub fn ecn_state(&self) -> EcnState {
        self.ecn.state()
    }

    /// The order after the newest sent in `space`.
    pub fn next_order(&self, space: SpaceId) -> u64 {
        self.spaces[space as usize].sent.next()
    }

    /// A packet leaves. Its order is at least [`Self::next_order`]; the orders in between are skipped for good.
    pub fn on_sent(&mut self, space: SpaceId, order: u64, sent: Sent<T>) {
        let now = sent.time;
        let size = u64::from(sent.size);
        self.timer.touched = self.timer.touched.max(now);
        self.stats.sent_packets += 1;
        self.stats.sent_bytes += size;
        if sent.ect {
            self.ecn.on_sent(now, space, self.rtt.pto_base());
        }
        if sent.mtu_probe {
            self.mtu.on_probe_sent();
            self.stats.mtu_probes += 1;
        }
        if sent.ack_eliciting {
            let times = &mut self.times[space as usize];
            times.last_eliciting = times.last_eliciting.max(now);
            times.eliciting += 1;
            let probes = &mut self.spaces[space as usize].probes;
            *probes = probes.saturating_sub(1);
        }
        let counted = sent.in_flight;
        let mut snapshot = Snapshot::default();
        if counted {
            let in_flight = self.bytes_in_flight;
            self.congestion.on_sent(&Departure {
                now,
                bytes: size,
                in_flight,
                app_limited: self.sampler.is_app_limited(),
                delivered: self.sampler.delivered(),
            });
            snapshot = self.sampler.on_sent(now, size, in_flight);
            self.bytes_in_flight += size;
            self.pacer.on_sent(size);
            if self.bytes_in_flight + u64::from(self.mtu.current()) > self.congestion.window() {
                self.app_limited = false;
            }
        }
        self.make_room(space);
        self.spaces[space as usize].sent.push(order, Packet { sent, snapshot, counted });
    }

    /// Keeps the list of sent packets within its bound: the oldest packet makes room.
    fn make_room(&mut self, space: SpaceId) {
        let space = &mut self.spaces[space as usize];
        if space.sent.is_full()
            && let Some((order, packet)) = space.sent.pop()
        {
            space.sent.settle(|_| ());
            if packet.sent.in_flight {
                space.evicted.push((order, packet));
            }
        }
    }

    /// An ACK frame arrived for packets of `space` on this path. `ranges` are descending and hold in-path orders.
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
        let mut largest = None;
        let mut tally = Tally::default();
        for range in ranges {
            let (low, high) = range.into_inner();
            if let Some(order) = self.spaces[space as usize].sent.unsent(low, high) {
                return Err(AckError::Unsent(order));
            }
            largest = largest.max(Some(high));
            self.take_acked(now, space, low, high, &mut tally, out);
        }
        let previous = self.spaces[space as usize].largest_acked;
        self.spaces[space as usize].largest_acked = previous.max(largest);
        if tally.newest.is_none() && tally.late_bytes == 0 {
            return Ok(());
        }
        if tally.mtu_raised {
            self.stats.mtu = self.mtu.current();
            out.mtu_changed = Some(self.mtu.current());
        }
        let rtt_sample = self.sample_rtt(now, space, largest, &ack, &tally);
        if largest > previous {
            self.judge_ecn(now, space, &ack, &tally, siblings, out);
        }
        self.sampler.on_delivered(now, tally.bytes + tally.late_bytes);
        self.bytes_since_loss += tally.bytes;
        self.forgive(now, &tally);
        self.detect_losses(now, space, siblings, out);
        if let Some((sent_time, snapshot)) = tally.snapshot {
            let sample = self.sampler.sample(sent_time, &snapshot, self.rtt.min());
            self.grow(now, &tally, sent_time, prior_in_flight, rtt_sample, sample, siblings);
        }
        // RFC 9002 §6.2.1: a client unsure whether the server validated its address keeps backing off.
        if tally.newest.is_some() && self.timer.progress.peer_validated_address {
            self.timer.pto_count = 0;
        }
        if tally.eliciting > 0 {
            self.spaces[space as usize].probes = 0;
        }
        Ok(())
    }

    /// Settles the packets of one acknowledged range.
    fn take_acked(
        &mut self,
        now: Time,
        id: SpaceId,
        low: u64,
        high: u64,
        tally: &mut Tally,
        out: &mut Outcome<T>,
    ) {
        let Self { spaces, times, mtu, epoch, stats, reordering, rtt, bytes_in_flight, .. } = self;
        let Space { sent, lost, largest_acked, run, .. } = &mut spaces[id as usize];
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
                if tally.snapshot.as_ref().is_none_or(|(newest, _)| sent.time >= *newest) {
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
            tally.late_bytes += size;
            tally.forgiven += u64::from(late.epoch != 0 && late.epoch == epoch.id);
            if late.epoch != 0 {
                reordering.on_spurious(now, largest.saturating_sub(late.order), rtt);
            }
            run.broken();
            out.spurious.push(late.order);
            out.acked.push((late.order, late.sent));
        });
    }

    /// RFC 9002 §5.1: only an acknowledgment that newly acknowledges its largest packet, and an ack-eliciting one
    /// among others, measures the path.
    fn sample_rtt(
        &mut self,
        now: Time,
        space: SpaceId,
        largest: Option<u64>,
        ack: &AckInfo,
        tally: &Tally,
    ) -> Option<Duration> {
        let measures =
            ack.sample_rtt && tally.eliciting > 0 && tally.newest == largest && tally.newest_counted;
        if !measures {
            return None;
        }
        let latest = now - tally.newest_time;
        // RFC 9002 §5.3: Initial packets are not delayed on purpose; max_ack_delay binds after the handshake.
        let delay = match space {
            SpaceId::Initial => Duration::ZERO,
            _ if self.timer.progress.handshake_confirmed => ack.delay.min(self.timer.peer_max_ack_delay),
            _ => ack.delay,
        };
        self.rtt.update(now, latest, delay);
        Some(latest)
    }

    /// Validates ECN and answers CE marks (RFC 9000 §13.4.2, RFC 9002 §7.1).
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

    /// Takes the last congestion response back if every loss behind it was spurious (RFC 9438 §4.9.2).
    fn forgive(&mut self, now: Time, tally: &Tally) {
        if tally.forgiven == 0 {
            return;
        }
        self.epoch.lost -= tally.forgiven;
        if self.epoch.lost == 0 && !self.epoch.ce {
            self.congestion.on_spurious(now);
            self.epoch.start = None;
            self.stats.undone_responses += 1;
        }
    }

    /// Finds the packets of `id` that are lost (RFC 9002 §6.1, Appendix A.10). Send times and orders rise together, so
    /// the lost ones are always the oldest.
    fn detect_losses(&mut self, now: Time, id: SpaceId, siblings: &[Sibling], out: &mut Outcome<T>) {
        let index = id as usize;
        self.spaces[index].lost.expire(now);
        self.times[index].loss_time = None;
        let delay = self.reordering.delay(&self.rtt);
        let threshold = self.reordering.packets();
        let mut burst = Burst::default();
        for (order, packet) in core::mem::take(&mut self.spaces[index].evicted) {
            self.lose(now, id, order, packet, siblings, &mut burst, out);
        }
        loop {
            let Space { sent, run, largest_acked, .. } = &mut self.spaces[index];
            sent.settle(|front| {
                if matches!(front, Front::Acked) {
                    run.broken();
                }
            });
            let Some(largest) = *largest_acked else { break };
            let Some((order, packet)) = sent.front() else { break };
            if order > largest {
                break;
            }
            let due = packet.sent.time + delay;
            if largest - order < threshold && due > now {
                self.times[index].loss_time = Some(due);
                break;
            }
            let Some((order, packet)) = sent.pop() else { break };
            self.lose(now, id, order, packet, siblings, &mut burst, out);
        }
        self.after_losses(now, &burst, out);
    }

    /// Declares one packet lost.
    #[expect(clippy::too_many_arguments, reason = "a step of detect_losses with its whole state")]
    fn lose(
        &mut self,
        now: Time,
        id: SpaceId,
        order: u64,
        packet: Packet<T>,
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
                    delivered: self.sampler.delivered(),
                    mtu: u64::from(self.mtu.current()),
                });
                burst.largest = burst.largest.max(sent.size);
                let run = &mut self.spaces[id as usize].run;
                burst.persistent |=
                    sent.ack_eliciting && run.lost(sent.time, &self.rtt, self.timer.peer_max_ack_delay);
            }
            burst.ecn_failed |= sent.ect && self.ecn.on_lost();
        }
        self.remember(now, id, order, &sent, epoch);
        out.lost.push((order, sent));
    }

    fn remember(&mut self, now: Time, id: SpaceId, order: u64, sent: &Sent<T>, epoch: u32) {
        let expires = now + self.timer.pto(&self.rtt, id);
        self.spaces[id as usize].lost.push(order, sent.clone(), epoch, expires);
    }

    /// What a burst of losses means beyond each one.
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
        if burst.largest > 0 && self.mtu.on_lost(now, burst.largest) {
            self.stats.mtu = self.mtu.current();
            out.mtu_changed = Some(self.mtu.current());
        }
    }

    /// Congestion is seen through a packet sent at `sent_time` (RFC 9002 §7.3.2, Appendix B.6).
    fn congestion_event(
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
            ce,
            in_flight: self.bytes_in_flight,
            mtu: u64::from(self.mtu.current()),
            own: self.sibling(),
        };
        self.congestion.on_congestion(&event, siblings);
    }

    /// Tells the controller what arrived.
    #[expect(clippy::too_many_arguments, reason = "the last step of on_ack with its whole state")]
    fn grow(
        &mut self,
        now: Time,
        tally: &Tally,
        sent_time: Time,
        prior_in_flight: u64,
        rtt_sample: Option<Duration>,
        sample: RateSample,
        siblings: &[Sibling],
    ) {
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
    }

    /// When [`Self::on_timeout`] wants to be called: the loss detection timer (RFC 9002 Appendix A.8).
    pub fn poll_timeout(&self) -> Option<Time> {
        match Timer::loss(&self.times) {
            Some((time, _)) => Some(time),
            None => self.timer.probe(&self.rtt, &self.times).map(|(time, _)| time),
        }
    }

    /// The loss detection timer may have run out (RFC 9002 Appendix A.9).
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
            // RFC 9002 §6.2.4: other spaces with packets under way may join the datagram.
            let eliciting = self.times[id as usize].eliciting;
            let probes =
                if id != space { 1.min(eliciting) } else { u64::from(PTO_PROBES).min(eliciting.max(1)) };
            self.spaces[id as usize].probes = u32::try_from(probes).unwrap_or(PTO_PROBES);
        }
        if self.mtu.on_pto(self.timer.pto_count) {
            self.stats.mtu = self.mtu.current();
            out.mtu_changed = Some(self.mtu.current());
        }
        if !self.spaces[space as usize].evicted.is_empty() {
            self.detect_losses(now, space, siblings, out);
        }
        Some(Expired::Pto { space })
    }

    /// Packets of `space` under way, oldest first: what a probe should carry.
    pub fn unacked(&self, space: SpaceId) -> impl Iterator<Item = &Sent<T>> {
        self.spaces[space as usize].sent.iter().map(|packet| &packet.sent)
    }

    /// The keys of `space` are dropped: its packets are neither acknowledged nor lost (RFC 9002 §6.4).
    pub fn discard_space(&mut self, space: SpaceId) {
        self.clear(space, |_, _, _| ());
        self.times[space as usize] = SpaceTimes::default();
        self.spaces[space as usize].probes = 0;
        self.spaces[space as usize].lost = LostPackets::new();
        self.timer.pto_count = 0;
    }

    /// Everything under way in `space` is to be sent again, for reasons other than congestion: Retry, rejected 0-RTT,
    /// an abandoned path.
    pub fn lose_all(&mut self, space: SpaceId, out: &mut Outcome<T>) {
        let now = self.timer.touched;
        self.clear(space, |this, order, sent| {
            this.remember(now, space, order, &sent, 0);
            out.lost.push((order, sent));
        });
        self.times[space as usize] = SpaceTimes::default();
        self.spaces[space as usize].probes = 0;
        self.timer.pto_count = 0;
    }

    /// Takes all packets of a space out, oldest first, and their bytes out of flight.
    fn clear(&mut self, id: SpaceId, mut each: impl FnMut(&mut Self, u64, Sent<T>)) {
        for (order, packet) in core::mem::take(&mut self.spaces[id as usize].evicted) {
            self.uncount(&packet);
            each(self, order, packet.sent);
        }
        loop {
            let sent = &mut self.spaces[id as usize].sent;
            sent.settle(|_| ());
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

    /// The path leads elsewhere now (RFC 9000 §9.4): everything learned is void, and packets sent before tell nothing
    /// about it, though what they owe is still settled.
    pub fn migrate(&mut self, now: Time) {
        for space in &mut self.spaces {
            let evicted = space.evicted.iter_mut().map(|(_, packet)| packet);
            space.sent.iter_mut().chain(evicted).for_each(|packet| packet.counted = false);
            space.run = LossRun::default();
        }
        self.bytes_in_flight = 0;
        self.rtt = Rtt::new(self.config.initial_rtt);
        self.mtu.migrate();
        self.stats.mtu = self.mtu.current();
        self.ecn.restart(self.config.ecn);
        self.congestion = start_congestion(&self.config, self.mtu.current(), now);
        // A new epoch number: late acknowledgments of earlier losses forgive nothing here.
        self.epoch = Epoch { id: self.epoch.id.wrapping_add(1).max(1), ..Epoch::default() };
        self.pacer = Pacer::new(self.config.pacing, now);
        self.sampler = Sampler::default();
        self.reordering = Reordering::new(self.config.packet_threshold, self.config.time_threshold);
        self.app_limited = false;
        self.bytes_since_loss = 0;
        self.bytes_between_losses = 0;
        self.timer.pto_count = 0;
        self.timer.touched = now;
    }

    /// Probe timeouts in a row without an acknowledgment.
    pub fn pto_count(&self) -> u32 {
        self.timer.pto_count
    }

    /// Current probe timeout of `space` without backoff (RFC 9002 §6.2.1).
    pub fn pto(&self, space: SpaceId) -> Duration {
        self.timer.pto(&self.rtt, space)
    }

    /// Size of the MTU probe to send now, if one is due. A sent probe has [`Sent::mtu_probe`] set.
    pub fn mtu_probe(&mut self, now: Time) -> Option<u16> {
        // Probes are of use only on a path that works: not before the handshake, and not while probing for life.
        if !self.timer.progress.handshake_confirmed || self.timer.pto_count > 0 {
            return None;
        }
        let size = self.mtu.probe(now)?;
        (self.bytes_in_flight + u64::from(size) <= self.congestion.window()).then_some(size)
    }

    /// Running totals.
    pub fn stats(&self) -> &Stats {
        &self.stats
    }
}

/// What one round of loss detection found.
#[derive(Default)]
struct Burst {
    /// Size of the largest lost packet that was no MTU probe.
    largest: u16,
    persistent: bool,
    ecn_failed: bool,
}

impl<T> Space<T> {
    fn new() -> Self {
        Self {
            sent: SentList::new(),
            lost: LostPackets::new(),
            largest_acked: None,
            probes: 0,
            run: LossRun::default(),
            evicted: Vec::new(),
        }
    }
}

fn start_congestion(config: &Config, mtu: u16, now: Time) -> Congestion {
    let mtu = u64::from(mtu);
    // RFC 9002 §7.2: ten packets, and no more than the larger of 14720 bytes and two packets.
    let window = mtu * u64::from(config.initial_window_packets.max(2));
    Congestion::new(
        config.congestion,
        &Start { now, window, mtu, rtt: config.initial_rtt, seed: config.seed },
    )
}
